"""Exploring while producing, within a loss budget.

A conservative bandit (Wu, Shariff, Lattimore, Szepesvari 2016): the optimistic choice is played while what all batches
are expected to lose by exploring stays within a share of what the rule is expected to gain. An outcome's zero may be
arbitrary, so the share is of the gain over controlling nothing, at the same readings.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.bounds.best import best_bounds
from rigctl.core.bounds.expectations import value_at
from rigctl.core.costs.prices import Prices
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import Problem
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.operating.memory import Memory, Pending
from rigctl.core.operating.playing import ProductionChoice, left_alone

WORTH_LEARNING = 0.01
"""Of the signal's spread: an upper bound that is higher by less promises nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Hold what a batch is decided on."""

    problem: Problem
    """As believed after the reading."""
    history: History
    posterior: Posterior
    """Of the value."""


def settled(memory: Memory, history: History) -> Memory:
    """Count the last batch's loss, and the gains of those whose outcome has come; one that gives none gains none."""
    known = history.observations if memory.owed or memory.pending is not None else ()
    return counted(memory, {o.trial for o in known if o.y is not None}, {o.trial for o in known if o.awaited})


def counted(memory: Memory, came: Container[int], awaited: Container[int]) -> Memory:
    """Count as `settled`, by the trials that have an outcome and those that await theirs."""
    last = () if memory.pending is None else (memory.pending,)
    owed = (*memory.owed, *last)
    return replace(
        memory,
        pending=None,
        owed=tuple(p for p in owed if p.trial in awaited),
        gained=memory.gained + sum(p.gain for p in owed if p.trial in came),
        lost=memory.lost + sum(p.loss for p in last),
    )


def explored(
    memory: Memory, batch: Batch, rule: ProductionChoice, share: float, rng: np.random.Generator
) -> tuple[ProductionChoice | None, Pending]:
    """Return what is tried instead of the rule, if anything is, and what this batch is expected to gain and to lose.

    It costs no more than what it stands in for, and its upper confidence bound is the highest of those whose loss is
    within the budget.

    Args:
        memory: with all batches before this one counted.
        batch: what is known.
        rule: what is run without exploring.
        share: of what is gained that may be lost.
        rng: starts of the search.
    """
    problem, posterior = batch.problem, batch.posterior
    mean, sd = value_at(posterior, problem.space, rule.control_set, rule.setting)
    gain = max(0.0, mean - left_alone(posterior, problem.space))
    within = share * memory.gained - memory.lost  # whether this batch gains anything is not known yet
    trial = len(batch.history) + 1
    prices = Prices.of(problem, batch.history)
    most = prices.at(rule.control_set, np.array([rule.setting]))
    # what trials that were broken off were charged does not say what a whole one costs
    priced = {i for i in range(len(problem.space.control_sets)) if problem.costs_told or batch.history.costs(i).size}
    beta, h = problem.model.beta, posterior.hyperparameters
    to_beat = mean + beta * sd + WORTH_LEARNING * h.y_scale * h.signal_sd
    best = None
    for found in best_bounds(posterior, problem.space, problem.model, rng):
        if found.control_set in problem.unavailable:
            continue
        own, own_sd = value_at(posterior, problem.space, found.control_set, found.upper_at)
        cost = prices.at(found.control_set, np.array([found.upper_at])) if found.control_set in priced else None
        affordable = most is not None and cost is not None and cost[0] <= most[0]
        upper, loss = own + beta * own_sd, max(0.0, mean - own)
        if affordable and loss <= within and upper > to_beat:
            best, to_beat = (found.control_set, found.upper_at, loss), upper
    if best is None:
        return None, Pending(trial, gain, 0.0)
    control_set, setting, loss = best
    label = problem.space.control_sets[control_set].label
    why = f"to learn, {label} is set elsewhere than the rule says. It may be better, and stays within the loss budget"
    return ProductionChoice(control_set, setting, why), Pending(trial, gain, loss)
