"""Tables of results, summarised."""
