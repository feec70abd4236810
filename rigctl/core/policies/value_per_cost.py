"""Value of information per cost (algorithms, section 4.6): the trial that is worth most for its money.

A discrete knowledge gradient over the settings of all control sets (Frazier, Powell and Dayanik 2009, equation 4.3),
averaged over what the uncontrolled variables will do, divided by the control set's expected cost as Snoek, Larochelle
and Adams (2012, section 3.2) divide expected improvement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.acquisition.outlook import Outlook, look, remember
from rigctl.core.acquisition.proposing import Choice, fitting_sets, label_of, proposal_of
from rigctl.core.acquisition.valuing import Valuing
from rigctl.core.costs.beliefs import booked
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.policy import Proposal

WIDELY = 8
"""Alternatives everywhere, beside those near the peaks; per control set."""


@dataclass(frozen=True, slots=True)
class ValuePerCost:
    """The policy `value-per-cost`; its fields are its options.

    Raises:
        ValueError: an option is out of its range.
    """

    name = "value-per-cost"

    explore: float = 0.3
    """Share of the budget first spent evenly over the control sets, at their upper-bound maximisers: on a flat model no
    single trial is worth anything."""
    attain: float = 1.0
    """Weight of what a trial is expected to achieve beyond the best setting played, against what it teaches."""

    def __post_init__(self) -> None:
        if not 0 <= self.explore <= 1:
            raise ValueError(f"explore: got {self.explore}, must be between 0 and 1")
        if not (np.isfinite(self.attain) and self.attain >= 0):
            raise ValueError(f"attain: got {self.attain}, must be finite and >= 0")

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002  # the Policy protocol's signature
        """Nothing fitted."""
        return {}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
        """
        sobol_seed = int(state.get("sobol_seed", rng.integers(2**31)))
        outlook = look(problem, history, state, "empirical-bernstein", rng)
        exploring = sum(booked(history, outlook.costs)) < self.explore * problem.budget
        choice = self._explore(outlook) if exploring else self._weigh(outlook, rng)
        return proposal_of(self.name, outlook, choice, sobol_seed), {**remember(outlook), "sobol_seed": sobol_seed}

    @staticmethod
    def _explore(outlook: Outlook) -> Choice:
        """The set that least was spent on, where it promises most."""
        fitting = fitting_sets(outlook)
        sets, history = outlook.problem.space.control_sets, outlook.history
        spent = booked(history, outlook.costs)
        chosen = min(fitting, key=lambda i: (spent[i], history.trials_of(i), len(sets[i].indices), i))
        reason = f"exploring: least has been spent on {label_of(outlook, chosen)}; at its upper-bound maximiser"
        return Choice(chosen, "explore", reason, fitting)

    def _weigh(self, outlook: Outlook, rng: np.random.Generator) -> Choice:
        fitting = fitting_sets(outlook)
        play = Valuing.of(outlook, rng, widely=WIDELY).gain_per_cost(fitting, self.attain)
        reason = (
            f"weighing: this setting of {label_of(outlook, play.control_set)} is expected to raise what can be "
            f"recommended, and what has been achieved, most for its money"
        )
        return Choice(play.control_set, "value", reason, fitting, setting=play.setting)
