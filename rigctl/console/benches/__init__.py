"""Benches without instruments: what to do by hand, and what came of it."""
