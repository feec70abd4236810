"""Value of information per cost (algorithms, section 4.6): the trial that is worth most for its money.

A discrete knowledge gradient over the settings of all control sets (Frazier, Powell and Dayanik 2009, equation 4.3),
averaged over what the uncontrolled variables will do, divided by the control set's expected cost as Snoek, Larochelle
and Adams (2012, section 3.2) divide expected improvement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.acquisition.valuing import Valuing
from rigctl.core.costs.beliefs import booked
from rigctl.core.experiment.problem import JsonState
from rigctl.flaws import require

WIDELY = 8
"""Alternatives everywhere, beside those near the peaks; per control set."""


@dataclass(frozen=True, slots=True)
class ValuePerCost(OutlookPolicy):
    """Play the policy `value-per-cost`; its fields are its options."""

    name = "value-per-cost"

    explore: float = 0.3
    """Share of the budget first spent evenly over the control sets, at their upper-bound maximisers: on a flat model no
    single trial is worth anything."""
    attain: float = 1.0
    """Weight of what a trial is expected to achieve beyond the best setting played, against what it teaches."""

    def __post_init__(self) -> None:
        require(0 <= self.explore <= 1, self.explore, "must be between 0 and 1", where="explore")
        require(0 <= self.attain < np.inf, self.attain, "must be finite and >= 0", where="attain")

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        """Spend evenly at first, then weigh."""
        history, sets = outlook.history, outlook.problem.space.control_sets
        spent, fitting = booked(history, outlook.costs), outlook.fitting()
        if sum(spent) < self.explore * outlook.problem.budget:
            chosen = min(fitting, key=lambda i: (spent[i], history.trials_of(i), len(sets[i].indices), i))
            label = outlook.label(chosen)
            least = "has had the least" if outlook.has_had_least_money(chosen, fitting) else "is next"
            reason = f"money is spread evenly at first, and {label} {least}"
            technical = f"exploring: least has been spent on {label}; at its upper-bound maximiser"
            return Choice(chosen, "explore", reason, fitting, technical=technical)
        best = Valuing.of(outlook, rng, widely=WIDELY).gain_per_cost(fitting, self.attain)
        label = outlook.label(best.control_set)
        reason = f"this setting of {label} should improve the recommendation most for its money"
        technical = (
            f"weighing: this setting of {label} is expected to raise what can be "
            f"recommended, and what has been achieved, most for its money"
        )
        return Choice(best.control_set, "value", reason, fitting, setting=best.setting, technical=technical)
