"""Running what a campaign has found, batch after batch."""
