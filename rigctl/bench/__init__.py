"""Measures the decision: latency, regret."""
