"""Mutants: small mistakes drawn by chance, to see whether simulation and tests find what they were not built for."""
