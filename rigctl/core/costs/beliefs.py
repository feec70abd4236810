"""What is believed about each control set's cost (algorithms, section 4.1; U Algorithm 1, lines 22 to 24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, fsum, log, sqrt
from typing import Literal

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import Problem
from rigctl.core.money import MICROS_PER_UNIT, Micros, to_micros, to_units

CostBound = Literal["hoeffding", "empirical-bernstein"]


@dataclass(frozen=True, slots=True)
class CostBelief:
    """Hold what one control set's trials cost, currency units."""

    mean: float | None
    """Mean of the known costs, or of what trials were charged where none is known; None before the first."""
    lcb: float
    """Lower confidence bound of the mean, never negative; 0 before the first."""
    upper: Micros
    """What the next trial is predicted to cost at most: two standard deviations above the mean, exact where costs
    never vary, so that a trial which costs exactly what is left still runs. A set with few trials is taken to vary as
    the others do."""


OWN_SCATTER = 4
"""From so many trials on a set's costs alone say how much they vary."""
SHARED_WORTH = 2
"""Degrees of freedom that what all sets have shown together is worth before that."""
FREE_SHARE = 0.02
"""Of the dearest set's mean cost."""


def charges(history: History, control_set: int) -> FloatArray:
    """Return the known costs of a set's trials, (T_i,), currency units; where none is known, what they were charged."""
    known = history.costs(control_set)
    if known.size or not history.trials_of(control_set):
        return known
    return np.array([to_units(o.cost) for o in history.observations if o.control_set == control_set and o.charged])


def booked_when_free(beliefs: Sequence[CostBelief]) -> Micros:
    """Return what a free trial counts as where control sets or purposes take turns by what was spent on them.

    A free set would else have its turn for ever. The budget counts what was charged.
    """
    return ceil(FREE_SHARE * MICROS_PER_UNIT * max((b.mean or 0.0 for b in beliefs), default=0.0))


def booked(history: History, beliefs: Sequence[CostBelief]) -> tuple[Micros, ...]:
    """Return the sum of each set's trials, so counted, (m,)."""
    free, total = booked_when_free(beliefs), [0] * len(beliefs)
    for o in history.observations:
        if o.control_set >= 0 and o.charged:
            total[o.control_set] += o.cost or free
    return tuple(total)


def believe(problem: Problem, history: History, bound: CostBound) -> tuple[CostBelief, ...]:
    """Form one belief per control set.

    `hoeffding` (U line 23): width R sqrt(2 ln T / T_i) with R the cost range (`cost_ceiling`, else the dearest trial
    so far) and T the horizon. `empirical-bernstein` (Audibert, Munos and Szepesvari 2009, UCB-V, eq. 2 with zeta = 1,
    c = 1) replaces R by what the set's own costs have shown, so that cheap sets separate when costs hardly vary.

    Where none of a set's trials could be metered, what they were charged by estimate stands in: the set would else pass
    for free.
    """
    sets = range(len(problem.space.control_sets))
    if problem.known_costs is not None:
        return tuple(CostBelief(c, c, to_micros(c)) for _, c in zip(sets, problem.known_costs, strict=True))
    costs = [charges(history, i) for i in sets]
    dearest = problem.cost_ceiling or max((float(c.max()) for c in costs if c.size), default=0.0)
    log_horizon = log(max(2.0, horizon(problem, history)))
    scatter = _relative_scatter(costs)
    beliefs = (_belief(c, bound, dearest, log_horizon, scatter) for c in costs)
    # a charge by estimate may be of half a trial: what a whole one costs at most is no less than the dearest elsewhere
    vague = [c.size > 0 and not history.costs(i).size for i, c in enumerate(costs)]
    most = to_micros(dearest)
    return tuple(replace(b, upper=max(b.upper, most)) if v else b for b, v in zip(beliefs, vague, strict=True))


def horizon(problem: Problem, history: History) -> float:
    """Return T: trials so far (not points known beforehand) plus what the remaining budget buys at the mean cost.

    Where all trials are from before the campaign, it is the mean of what they cost then.
    """
    sets = range(len(problem.space.control_sets))
    trials = sum(history.trials_of(i) for i in sets)
    charged = trials if not history.uncharged else sum(o.charged and o.control_set >= 0 for o in history.observations)
    mean = to_units(history.spent) / charged if charged else 0.0
    if history.uncharged and not charged:
        costs = np.concatenate([history.costs(i) for i in sets])
        mean = float(costs.mean()) if costs.size else 0.0
    left = to_units(max(0, problem.budget - history.spent))
    return trials + (left / mean if mean > 0 else 0.0)


def _relative_scatter(costs: Sequence[FloatArray]) -> float:
    """Return the variance of repeated trials' costs around their set's mean, as a share of its square, or 0."""
    repeated = [c for c in costs if c.size > 1 and c.mean() > 0]
    freedom = sum(c.size - 1 for c in repeated)
    varying = [c for c in repeated if np.ptp(c) > 0]  # of equal costs `var` may be the rounding of their mean
    return fsum(float(c.var() * c.size / c.mean() ** 2) for c in varying) / freedom if freedom else 0.0


def _belief(costs: FloatArray, bound: CostBound, dearest: float, log_horizon: float, scatter: float) -> CostBelief:
    n = costs.size
    if n == 0:
        return CostBelief(None, 0.0, to_micros(dearest))
    mean = float(costs.mean())
    width = dearest * sqrt(2 * log_horizon / n)
    if bound == "empirical-bernstein" and n > 1:
        # The range of n uniform draws falls short of the true one by (n-1)/(n+1) on average.
        spread = float(np.ptp(costs)) * (n + 1) / (n - 1)
        width = min(width, sqrt(2 * float(costs.var()) * log_horizon / n) + 3 * spread * log_horizon / n)
    return CostBelief(mean, max(mean - width, 0.0), _upper(costs, scatter))


def _upper(costs: FloatArray, scatter: float) -> Micros:
    """Return mean + 2 sd in micro-units; whole numbers throughout, so that equal costs give back exactly themselves."""
    micros: Sequence[int] = [round(float(c) * MICROS_PER_UNIT) for c in costs]
    n, total = len(micros), sum(micros)
    worth = SHARED_WORTH if n < OWN_SCATTER and scatter > 0 else 0
    if min(micros) == max(micros) and not worth:
        return micros[0]
    squares = sum((m - total / n) ** 2 for m in micros) + worth * scatter * (total / n) ** 2
    return ceil(total / n + 2 * sqrt(squares / (n - 1 + worth)))
