"""What the papers found, asked of results."""
