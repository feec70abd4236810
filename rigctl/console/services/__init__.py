"""Units for service managers, and what of a campaign runs under them."""
