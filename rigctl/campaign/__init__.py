"""Runs trials and remembers them."""
