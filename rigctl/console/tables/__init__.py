"""Tables that people bring: their files, their columns, what is unclear in them, and what becomes of their rows."""
