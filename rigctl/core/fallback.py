"""What is played when a policy's decision cannot be used: safe exploration, without any model (faults 42 and 50)."""

from __future__ import annotations

import numpy as np

from rigctl.core.costs import believe
from rigctl.core.history import History
from rigctl.core.money import to_units
from rigctl.core.policy import BudgetSpent, Problem, Proposal

NAME = "fallback"


def fallback(problem: Problem, history: History, rng: np.random.Generator, reason: str) -> Proposal:
    """The control set with the fewest trials that fits the budget, at a random setting inside its range.

    The setting is one point of a scrambled Sobol sequence: a function of `rng` alone, so it can be recomputed.

    Raises:
        BudgetSpent: no control set fits the remaining budget.
    """
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import, and hardly ever needed

    beliefs = believe(problem, history, "hoeffding")
    left = problem.budget - history.spent
    fitting = [i for i, belief in enumerate(beliefs) if belief.upper <= left]
    if not fitting or left <= 0:
        cheapest = min(range(len(beliefs)), key=lambda i: beliefs[i].upper)
        label = problem.space.control_sets[cheapest].label
        raise BudgetSpent(
            f"{to_units(left):g} left; the cheapest, {label}, takes {to_units(beliefs[cheapest].upper):g}"
        )
    chosen = min(fitting, key=lambda i: (history.trials_of(i), beliefs[i].upper, i))
    dimension = len(problem.space.control_sets[chosen].indices)
    setting = qmc.Sobol(dimension, seed=rng).random(1)[0]
    return Proposal(
        trial=len(history) + 1,
        policy=NAME,
        phase="explore",
        control_set=chosen,
        setting=tuple(float(u) for u in setting),
        reason=f"{reason}; exploring the control set tried least",
        predicted_cost=to_units(beliefs[chosen].upper),
    )
