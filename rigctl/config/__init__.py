"""One YAML file becomes typed values; every error at once."""
