"""Where costs depend on the setting: the best that each control set can do for the money that is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.bounds.ascent import snapped
from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.grid import lattice
from rigctl.core.bounds.limits import Limits
from rigctl.core.costs.beliefs import left_for_a_trial, too_dear
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import Micros, to_micros
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


def nothing_fits(problem: Problem, history: History) -> str:
    """Say why no trial fits what is left, whatever is read before it; empty if one may.

    Costs are believed by what was metered, never by a reading, so this is known before anybody looks. Where they depend
    on the setting, the cheapest is sought from `SETTINGS` of the whole range, and on to the ends of each variable.
    """
    left, least = left_for_a_trial(problem, history), _least_costs(problem, history)
    if not least or 0 < left >= min(least.values()):
        return ""
    cheapest = min(least, key=lambda i: least[i])
    label = problem.space.control_sets[cheapest].label
    return too_dear(problem, history, least[cheapest], f"a trial of {label}, the cheapest,")


def everything_fits(problem: Problem, history: History) -> bool:
    """Tell whether what is left buys a trial of any control set, at its cheapest setting at least."""
    return max(_least_costs(problem, history).values(), default=0) <= left_for_a_trial(problem, history)


def _least_costs(problem: Problem, history: History) -> dict[int, Micros]:
    field = cost_field(problem, history)
    playable = [i for i in range(len(problem.space.control_sets)) if i not in problem.unavailable]
    return {i: to_micros(_least(problem, field, i)) for i in playable}


def _least(problem: Problem, field: CostField, i: int) -> float:
    """Return what the cheapest setting of a control set is predicted to cost at most, currency units."""
    columns = list(problem.space.control_sets[i].indices)
    settings = snapped(lattice(len(columns), SETTINGS, np.random.default_rng(0)), problem.space.steps[columns])
    prices = field.upper(i, settings)
    at, least = settings[int(prices.argmin())], float(prices.min())
    for column in range(len(columns)):
        for end in (0.0, 1.0):
            moved = np.where(np.arange(len(columns)) == column, end, at)
            price = float(field.upper(i, moved[None, :])[0])
            if price < least:
                at, least = moved, price
    return least


def within(
    left: float,
    problem: Problem,
    posterior: Posterior,
    bounds: Sequence[SetBounds],
    field: CostField,
    *,
    rng: np.random.Generator,
    limits: Limits | None = None,
) -> tuple[SetBounds, ...]:
    """Move the bounds' maximisers to where a trial is predicted to cost no more than what is left.

    A control set whose dear settings are out of reach would else count as out of reach altogether. Rarely needed: while
    little is known of costs, and at the end of a campaign. A set without any setting that fits is left as it is.
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
        if limits is not None and len(fitting):
            fitting = fitting[limits.margins(i, fitting, [problem.model.beta])[0] >= 0]
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
