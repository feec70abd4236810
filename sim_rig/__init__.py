"""A simulated rig: physics and real protocols in a process of its own."""
