"""What is believed about each control set's cost (algorithms, section 4.1; U Algorithm 1, lines 22 to 24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, log, sqrt
from typing import Literal

import numpy as np

from rigctl.core.costs.parts import assumed
from rigctl.core.costs.spread import CostSpread, spreads
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_micros, to_units
from rigctl.core.experiment.problem import Problem
from rigctl.text import in_full

CostBound = Literal["hoeffding", "empirical-bernstein"]


@dataclass(frozen=True, slots=True)
class CostBelief:
    """Hold what one control set's trials cost, currency units."""

    mean: float | None
    """Mean of the known costs, or of what trials were charged where none is known; None before the first."""
    lcb: float
    """Lower confidence bound of the mean, never negative; 0 before the first."""
    upper: Micros
    """What the next trial is predicted to cost at most: one in 44 costs more. Exact where costs never vary, so that a
    trial which costs exactly what is left still runs. Of a set never tried it is assumed by its variables."""
    spread: CostSpread | None = None
    """How the set's costs are spread; None: it was never tried, or costs are known."""
    assumed: float | None = None
    """What a trial of a set never tried is assumed to cost; None: it was tried, or there is nothing to go by."""


FREE_SHARE = 0.02
"""Of the dearest set's mean cost."""


def charges(history: History, control_set: int) -> FloatArray:
    """Return the known costs of a set's trials, (T_i,), currency units; where none is known, what they were charged."""
    known = history.costs(control_set)
    if known.size or not history.trials_of(control_set):
        return known
    return np.array([to_units(o.cost) for o in history.observations if o.control_set == control_set and o.charged])


def _seen(history: History, control_set: int, costs: FloatArray) -> FloatArray:
    """Return what a set's trials have cost, and those that ended early where they had cost more by then."""
    if history.costs(control_set).size == history.trials_of(control_set):
        return costs
    early = (o for o in history.observations if o.control_set == control_set and o.charged and o.x is None)
    at_least = np.array([to_units(o.cost) for o in early if not o.cost_known])
    return np.append(costs, at_least[at_least > costs.max()])


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
    costs = {i: c for i in sets if (c := charges(history, i)).size}
    dearest = max((float(c.max()) for c in costs.values()), default=0.0)
    log_horizon = log(max(2.0, horizon(problem, history)))
    found = [_untried(problem, *a) for a in assumed(problem, {i: float(c.mean()) for i, c in costs.items()})]
    found = found or [CostBelief(None, 0.0, to_micros(problem.cost_ceiling or 0.0)) for _ in sets]
    for (i, c), spread in zip(costs.items(), spreads([_seen(history, i, c) for i, c in costs.items()]), strict=True):
        belief = _belief(c, bound, problem.cost_ceiling or dearest, log_horizon, spread)
        # a charge by estimate may be of half a trial: a whole one costs at most no less than the dearest elsewhere
        vague = not history.costs(i).size
        found[i] = replace(belief, upper=max(belief.upper, to_micros(dearest))) if vague else belief
    return tuple(found)


def _untried(problem: Problem, mean: float, most: float) -> CostBelief:
    """Believe in what is assumed; a ceiling that is expected to hold makes sure that no trial costs more."""
    if problem.cost_ceiling is not None and mean <= problem.cost_ceiling:
        most = min(most, problem.cost_ceiling)
    return CostBelief(None, 0.0, to_micros(most), assumed=mean)


def left_for_a_trial(problem: Problem, history: History) -> Micros:
    """Return the most that the next trial may cost: what is left of the budget, or the ceiling if that is less."""
    left = problem.budget - history.spent
    return left if problem.cost_ceiling is None else min(left, to_micros(problem.cost_ceiling))


def too_dear(problem: Problem, history: History, least: Micros, what: str = " trial") -> str:
    """Say how much the next trial may cost, and what the cheapest takes."""
    most, left = left_for_a_trial(problem, history), problem.budget - history.spent
    told = f"{in_full(to_units(most), 6)} {'left' if most == left else 'allowed for a trial'}"
    return f"{told}; the cheapest{what} may cost {in_full(to_units(least), 6)}"


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


def _belief(costs: FloatArray, bound: CostBound, dearest: float, log_horizon: float, how: CostSpread) -> CostBelief:
    n, mean = costs.size, float(costs.mean())
    width = dearest * sqrt(2 * log_horizon / n)
    if bound == "empirical-bernstein" and n > 1:
        # The range of n uniform draws falls short of the true one by (n-1)/(n+1) on average.
        spread = float(np.ptp(costs)) * (n + 1) / (n - 1)
        width = min(width, sqrt(2 * float(costs.var()) * log_horizon / n) + 3 * spread * log_horizon / n)
    return CostBelief(mean, max(mean - width, 0.0), ceil(round(how.most * MICROS_PER_UNIT, 3)), how)
