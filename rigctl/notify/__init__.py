"""Tells people and other programs what a campaign does, from a process of its own."""
