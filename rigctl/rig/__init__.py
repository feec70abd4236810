"""The hardware, seen through narrow protocols."""
