"""What trials cost, and what is believed about it."""
