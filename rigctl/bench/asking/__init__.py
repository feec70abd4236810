"""What a bench is asked to run: grids, labels, the papers' experiments."""
