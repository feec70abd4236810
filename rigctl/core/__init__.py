"""Decides: pure, deterministic given a seed, no I/O."""
