"""What is played when a policy's decision cannot be used, without any model (faults 42 and 50).

Safe exploration; or, where the policy gave no answer at all, the last proposal it made, once more.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rigctl.core.asking import validate, with_cost
from rigctl.core.bounds.grid import sobol
from rigctl.core.costs.beliefs import believe, fitting, left_for_a_trial
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import Proposal
from rigctl.core.experiment.problem import Problem

NAME = "fallback"
REPEAT = "repeat"
"""The phase of a proposal that is played again."""


def fallback(problem: Problem, history: History, rng: np.random.Generator, reason: str) -> Proposal:
    """Return the control set with the fewest trials that fits the budget, at a random setting inside its range.

    The setting is one point of a scrambled Sobol sequence: a function of `rng` alone, so it can be recomputed.

    Raises:
        BudgetSpent: no control set fits the remaining budget.
    """
    beliefs = believe(problem, history, "hoeffding")
    playable = fitting(problem, history, beliefs)
    chosen = min(playable, key=lambda i: (history.trials_of(i), beliefs[i].assumed or 0.0, beliefs[i].upper, i))
    dimension = len(problem.space.control_sets[chosen].indices)
    setting = problem.space.evenly(chosen, sobol(dimension, 1, rng)[0])
    label = problem.space.shown(chosen)
    proposal = Proposal(
        trial=len(history) + 1,
        policy=NAME,
        phase="explore",
        control_set=chosen,
        setting=setting,
        reason=f"the policy did not choose this trial, so {label} is tried, which had the fewest trials",
        technical=f"{reason}; exploring the control set tried least",
        predicted_cost=to_units(beliefs[chosen].upper) or None,
    )
    return with_cost(proposal, problem, history)


def repeat(problem: Problem, history: History, last: Proposal, reason: str) -> Proposal | None:
    """Return the same control set and setting once more; None if it may not be played or does not fit the budget."""
    if validate(last, problem):
        return None
    upper = believe(problem, history, "hoeffding")[last.control_set].upper
    left = left_for_a_trial(problem, history)
    if left <= 0 or upper > left:
        return None
    return replace(
        last,
        trial=len(history) + 1,
        policy=NAME,
        phase=REPEAT,
        reason=f"the policy gave no answer, so trial {last.trial} is played again",
        technical=f"{reason}; playing the proposal of trial {last.trial} again",
        sets=(),
        threshold=None,
        predicted_cost=to_units(upper),
        notes=(),
    )
