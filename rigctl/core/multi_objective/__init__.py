"""Several outcomes: their models, trade-offs and Pareto fronts."""
