"""A new configuration: questions, and the file that answers make."""
