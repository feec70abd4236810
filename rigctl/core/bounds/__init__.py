"""Confidence bounds on the value of control sets, and the settings with the best ones."""
