"""What is believed about each control set's cost (algorithms, section 4.1; U Algorithm 1, lines 22 to 24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log, sqrt
from typing import Literal

import numpy as np

from rigctl.core.history import History
from rigctl.core.money import MICROS_PER_UNIT, Micros, to_micros, to_units
from rigctl.core.policy import Problem, remaining

CostBound = Literal["hoeffding", "empirical-bernstein"]


@dataclass(frozen=True, slots=True)
class CostBelief:
    """The cost of one control set's trials, currency units."""

    trials: int
    mean: float | None
    """Mean of the known costs; None before the first."""
    lcb: float
    """Lower confidence bound of the mean, never negative; 0 before the first."""
    upper: Micros
    """What the next trial is predicted to cost at most: two standard deviations above the mean, exact where costs
    never vary, so that a trial which costs exactly what is left still runs."""


def believe(problem: Problem, history: History, bound: CostBound) -> tuple[CostBelief, ...]:
    """One belief per control set.

    `hoeffding` (U line 23): width R sqrt(2 ln T / T_i) with R the cost range (`cost_ceiling`, else the dearest trial
    so far) and T the horizon. `empirical-bernstein` (Audibert, Munos and Szepesvari 2009, UCB-V, eq. 2 with zeta = 1,
    c = 1) replaces R by what the set's own costs have shown, so that cheap sets separate when costs hardly vary.
    """
    sets = range(len(problem.space.control_sets))
    if problem.known_costs is not None:
        return tuple(
            CostBelief(history.trials_of(i), c, c, to_micros(c)) for i, c in zip(sets, problem.known_costs, strict=True)
        )
    costs = [history.costs(i) for i in sets]
    dearest = problem.cost_ceiling or max((float(c.max()) for c in costs if c.size), default=0.0)
    log_horizon = log(max(2.0, horizon(problem, history)))
    return tuple(_belief(c, bound, dearest, log_horizon) for c in costs)


def horizon(problem: Problem, history: History) -> float:
    """T: trials so far plus what the remaining budget buys at the mean cost. Points known beforehand are no trials."""
    trials = sum(history.trials_of(i) for i in range(len(problem.space.control_sets)))
    mean = to_units(history.spent) / trials if trials else 0.0
    return trials + (max(0.0, remaining(problem, history)) / mean if mean > 0 else 0.0)


def _belief(costs: np.ndarray, bound: CostBound, dearest: float, log_horizon: float) -> CostBelief:
    n = costs.size
    if n == 0:
        return CostBelief(0, None, 0.0, to_micros(dearest))
    mean = float(costs.mean())
    width = dearest * sqrt(2 * log_horizon / n)
    if bound == "empirical-bernstein" and n > 1:
        # The range of n uniform draws falls short of the true one by (n-1)/(n+1) on average.
        spread = float(np.ptp(costs)) * (n + 1) / (n - 1)
        width = min(width, sqrt(2 * float(costs.var()) * log_horizon / n) + 3 * spread * log_horizon / n)
    return CostBelief(n, mean, max(mean - width, 0.0), _upper(costs))


def _upper(costs: np.ndarray) -> Micros:
    """Mean + 2 sd in micro-units; whole numbers throughout, so that equal costs give back exactly themselves."""
    micros: Sequence[int] = [round(float(c) * MICROS_PER_UNIT) for c in costs]
    n, total = len(micros), sum(micros)
    if min(micros) == max(micros):
        return micros[0]
    scatter = sqrt(sum((m - total / n) ** 2 for m in micros) / (n - 1))
    return ceil(total / n + 2 * scatter)
