"""What a control set that was never tried is assumed to cost: by its variables, where other sets have paid for them.

Control adds up, so a set's cost is what every trial costs and a part for each of its variables. Parts are alike
beforehand and may be zero or twice as much; the sets that were tried teach those that share variables with them, which
is linear regression with normal priors (MacKay 2003, chapter 28), in the form that needs the sets' covariance only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from rigctl.core.experiment.problem import Problem

TOLD: Final = 0.5
"""Standard deviation of a part that the configuration forecasts, as a share of it; of one that nobody forecasts: 1."""
APART: Final = 0.2
"""Standard deviation of a set's cost from the sum of its parts, as a share of it."""
LEAST: Final = 0.1
"""A set is assumed to cost at least this share of what its size suggests."""


def assumed(problem: Problem, paid: Mapping[int, float]) -> Sequence[tuple[float, float]]:
    """Return what every control set is assumed to cost and that at most, (m,), from the mean costs of those tried.

    At most: two standard deviations up, of a log-normal. Costs nobody has met are not negative, and rather too dear.
    Empty where nothing is known: no set was tried, and the configuration forecasts no cost.
    """
    members = np.array([[c in s.indices for c in range(problem.space.dimension)] for s in problem.space.control_sets])
    sizes, tried, costs = members.sum(axis=1), list(paid), np.array(list(paid.values()))
    told = problem.forecast_costs is not None
    shape = np.array(problem.forecast_costs) if told else sizes.astype(float)
    if not shape.max() > 0 or not (told or tried) or (tried and not costs.max() > 0):
        return ()
    # how costs compare is forecast, what they amount to is metered
    shape = np.maximum(shape, 1e-3 * shape.max())
    prior = shape * (float(np.mean(costs / shape[tried])) if tried else 1.0)
    part = (TOLD if told else 1.0) * float(np.mean(prior / sizes))
    # one part for each shared variable, and one for what every trial costs
    covariance = part**2 * (1.0 + members.astype(float) @ members.T)
    seen = covariance[np.ix_(tried, tried)] + np.diag(np.square(APART * np.maximum(costs, LEAST * part)))
    gain = np.linalg.solve(seen, covariance[tried]).T if tried else np.zeros((len(sizes), 0))
    mean = np.maximum(prior + gain @ (costs - prior[tried]), LEAST * prior)
    variance = np.maximum(covariance.diagonal() - np.sum(gain * covariance[:, tried], axis=1), 0.0)
    apart = np.sqrt(np.log1p((variance + np.square(APART * mean)) / np.square(mean)))
    return list(zip(mean.tolist(), (mean * np.exp(2 * apart)).tolist(), strict=True))
