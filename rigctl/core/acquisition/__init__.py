"""What policies choose by."""
