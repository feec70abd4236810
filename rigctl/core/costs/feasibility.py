"""Where costs depend on the setting: the best that each control set can do for the money that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.grid import lattice
from rigctl.core.bounds.levels import snapped
from rigctl.core.experiment.problem import CostField, Problem
from rigctl.core.gp.surrogate import Posterior

SETTINGS = 256
"""Settings of the whole range that are priced, besides those on the way from each maximiser to the cheapest of them."""
STEPS = 33
MARGIN = 0.8
"""A setting that was moved to is predicted to cost no more than this share of what is left: of many that are just
predicted to fit, the one chosen is likely to be one whose cost is predicted too low."""


def margin(problem: Problem) -> float:
    """Return `MARGIN` where costs are learned, 1 where they are known."""
    return 1.0 if problem.known_cost_field is not None else MARGIN


def within(
    left: float,
    problem: Problem,
    posterior: Posterior,
    bounds: Sequence[SetBounds],
    field: CostField,
    *,
    rng: np.random.Generator,
) -> tuple[SetBounds, ...]:
    """Move the bounds' maximisers to where a trial is predicted to cost no more than what is left.

    A control set whose dear settings are out of reach would else count as out of reach altogether. Rarely needed: while
    little is known of costs, and at the end of a campaign. A set without any setting that fits is left as it is.

    Args:
        left: currency units.
        problem: variables, control sets, width of the bounds.
        posterior: of the value: larger is better.
        bounds: of every control set, own units.
        field: what every setting is believed to cost.
        rng: settings to price.
    """
    both = [np.array([b.upper_at, b.best_mean_at], dtype=float) for b in bounds]
    dear = [i for i, at in enumerate(both) if field.upper(i, at).max() > left]
    if not dear:
        return tuple(bounds)
    expectations = Expectations.of(posterior, problem.space)
    out, share = list(bounds), margin(problem)
    for i in dear:
        columns = list(problem.space.control_sets[i].indices)
        priced = snapped(_settings(both[i], field, i, rng), problem.space.steps[columns])
        fitting = priced[field.upper(i, priced) <= share * left]
        if len(fitting):
            out[i] = _best_of(fitting, problem, expectations, bounds[i])
    return tuple(out)


def _settings(maximisers: FloatArray, field: CostField, i: int, rng: np.random.Generator) -> FloatArray:
    """Return the whole range, and the ways from the maximisers to the cheapest setting, (b, k)."""
    everywhere = lattice(maximisers.shape[1], SETTINGS, rng)
    cheapest = everywhere[int(field.upper(i, everywhere).argmin())]
    share = np.linspace(0.0, 1.0, STEPS)[:, None]
    return np.concatenate([*(at + share * (cheapest - at) for at in maximisers), everywhere])


def _best_of(settings: FloatArray, problem: Problem, e: Expectations, b: SetBounds) -> SetBounds:
    """Find upper maximiser and best mean among these settings (b, k); the lower bound stays what it is."""
    mean, sd = e.values(problem.space.rows(b.control_set, settings), np.full(len(settings), b.control_set))
    upper, best = mean + problem.model.beta * sd, int(mean.argmax())
    top = int(upper.argmax())
    return replace(
        b,
        upper=float(upper[top]),
        upper_at=tuple(float(v) for v in settings[top]),
        mean_at_upper=float(mean[top]),
        sd_at_upper=float(sd[top]),
        best_mean=float(mean[best]),
        best_mean_at=tuple(float(v) for v in settings[best]),
        best_mean_sd=float(sd[best]),
    )
