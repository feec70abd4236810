"""rigctl: a controller that chooses which variables of an experiment rig are worth controlling."""
