"""Random search: a control set and a setting, uniform over those that can be paid. What every policy has to beat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.costs.beliefs import left_for_a_trial, too_dear
from rigctl.core.costs.fields import cost_field, predicted_upper
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.policy import BudgetSpent, Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem

TRIES = 256
"""Pairs of a set and a setting that are drawn until one fits what is left of the budget."""


@dataclass(frozen=True, slots=True)
class RandomSearch(Policy):
    """Play the policy `random`; it has no options."""

    name = "random"
    keeps_limits = True

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Draw until a trial fits."""
        space, field, left = problem.space, cost_field(problem, history), left_for_a_trial(problem, history)
        each = sorted(range(len(space.control_sets)), key=lambda i: space.control_sets[i].names)
        sets = [i for i in each if i not in problem.unavailable]  # whatever order they are listed in
        prices = []
        for _ in range(TRIES if sets and left > 0 else 0):
            chosen = int(rng.choice(sets))
            setting = space.evenly(chosen, rng.random(len(space.control_sets[chosen].indices)).tolist())
            prices.append(predicted_upper(problem, history, chosen, setting, field))
            if prices[-1] <= left:
                reason = f"{space.shown(chosen)} and its setting were drawn at random"
                price = to_units(prices[-1]) or None
                drawn = Proposal(len(history) + 1, self.name, "random", chosen, setting, reason, predicted_cost=price)
                return drawn, state
        raise BudgetSpent(too_dear(problem, history, min(prices, default=0), "the cheapest trial drawn"))
