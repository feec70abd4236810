"""What policies choose by: acquisitions, and the search for their best settings."""
