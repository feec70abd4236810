"""Results drawn."""
