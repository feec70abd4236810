"""Policies of published papers, which a campaign runs only where its configuration names them."""
