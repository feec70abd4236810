"""Rules: what to control, and where, depending on what was read before the trial."""
