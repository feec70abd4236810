"""The page a person sees: a journal as HTML with drawings, which needs no script to be read."""
