"""Campaigns simulated: one, or many at once, each kept in a file."""
