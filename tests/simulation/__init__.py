"""The whole controller beside the simulated rig, in one process and in virtual time; one number decides everything."""
