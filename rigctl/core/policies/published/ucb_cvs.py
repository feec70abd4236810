"""UCB-CVS and its explore-then-commit variants by cost group (algorithms, section 4.2).

Tay, Foo, Urano, Leong, Low: Bayesian Optimization with Cost-varying Variable Subsets, NeurIPS 2023; numbers of
algorithms and sections below are that paper's. Cheap control sets explore, dear ones exploit.

Where a chosen set no longer fits the remaining budget the paper stops; here the rule goes on among the sets that fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import floor
from typing import Literal

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.costs.groups import CostGroup, cost_groups, estimates, size_groups
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.flaws import require


@dataclass(frozen=True, slots=True)
class Epsilon:
    """Follow the eps schedule (Tay et al., NeurIPS 2023, section 4.1): never negative; 0 ignores all costs."""

    schedule: Literal["constant", "linear", "list"] = "linear"
    """How it shrinks: not at all, in a line to 0, or as listed."""
    start: float = 1.0
    """The constant, or where the line starts."""
    unit: Literal["spread", "outcome"] = "spread"
    """What `start` and `values` are counted in: the spread of the outcome as the model is told (`signal_sd`) or, where
    it learns, as the standard deviation of the outcomes at its last fit; or outcome units."""
    trials: int | None = None
    """The line reaches 0 after this many trials; None: with the last of the budget."""
    values: tuple[float, ...] = ()
    """The list, one per trial; 0 after its end."""

    def __post_init__(self) -> None:
        require(0 <= self.start < np.inf, self.start, "must be finite and >= 0", where="epsilon.start")
        require(self.trials is None or self.trials >= 1, self.trials, "must be >= 1", where="epsilon.trials")
        if self.trials is not None and self.schedule != "linear":
            raise ValueError(f"epsilon.trials: got {self.trials} for the schedule {self.schedule!r}, is for 'linear'")
        if (self.schedule == "list") != bool(self.values):
            raise ValueError(f"epsilon.values: got {len(self.values)} of them for the schedule {self.schedule!r}")
        finite = all(0 <= v < np.inf for v in self.values)
        require(finite, list(self.values), "must all be finite and >= 0", where="epsilon.values")

    def now(self, problem: Problem, history: History, spread: float) -> float:
        """Return eps_t of the next trial, outcome units; points known before the campaign are no trials."""
        played = sum(o.control_set >= 0 for o in history.observations)
        if self.schedule == "list":
            amount = self.values[played] if played < len(self.values) else 0.0
        elif self.schedule == "constant":
            amount = self.start
        elif self.trials is not None:
            amount = self.start * max(0.0, 1.0 - played / self.trials)
        else:
            amount = self.start * max(0.0, 1.0 - history.spent / problem.budget)
        return amount * (spread if self.unit == "spread" else 1.0)


@dataclass(frozen=True, slots=True)
class UcbCvs(OutlookPolicy):
    """Play the policy `ucb-cvs` (Algorithm 1); its fields are its options.

    Costs are the known ones, else estimated from the meters: then "equally cheap" are the sets of one cost group, as
    means of metered costs never tie exactly. A set that was never tried may be the cheapest, and counts as that.
    Where costs depend on the setting, they are compared at the settings that would be played.
    """

    name = "ucb-cvs"

    epsilon: Epsilon = field(default_factory=Epsilon)

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        """Choose by Algorithm 1, lines 3 to 6."""
        problem, h = outlook.problem, outlook.fitted.hyperparameters
        spread = h.signal_sd if problem.model.hyperparameters == "fixed" else h.y_scale
        return relaxed_choice(outlook, self.epsilon.now(problem, outlook.history, spread))


def relaxed_choice(outlook: Outlook, epsilon: float) -> Choice:
    """Choose the best of the cheapest of the sets that fit and are within epsilon of the best bound (lines 3 to 6).

    Raises:
        BudgetSpent: nothing fits the remaining budget.
    """
    fitting, upper = outlook.fitting(), outlook.upper
    best = max(upper[i] for i in fitting)
    near = [i for i in fitting if upper[i] + epsilon >= best]
    groups = cost_groups(outlook.costs_now())
    unknown = [i for g in groups for i in g.members if g.cost is None and i in near]
    near_by_group = ([i for i in g.members if i in near] for g in groups)
    cheapest = next(members for members in near_by_group if members)
    chosen = outlook.first_to_meter(unknown) if unknown else outlook.most_promising(cheapest)
    label = outlook.label(chosen)
    share = f"{len(near)} of {len(fitting)} sets that fit the budget are within {epsilon:.4g} of the best upper bound"
    why = "has never been tried, so it may be the cheapest" if unknown else "is the most promising of their cheapest"
    plain = f"{len(near)} of {len(fitting)} control sets could come close enough to the best"
    if unknown:
        plain = f"{plain}. Of these {label} has never been tried"
    elif outlook.too_few_outcomes:
        plain = f"{plain}, and {label} is among their cheapest"
    else:
        plain = f"{plain}. {label} could turn out best of the cheapest among them"
    return Choice(
        chosen,
        "explore" if epsilon > 0 else "commit",
        plain,
        near,
        threshold=best - epsilon,
        technical=f"{share}; {label} {why}",
    )


@dataclass(frozen=True, slots=True)
class CostGroupEtc(OutlookPolicy):
    """Play the policy `ucb-cvs-etc` (section 4.2): ETC-50, ETC-100 and ETC-Ada; its fields are its options.

    Every group below the dearest is played a number of times, cheapest group first, each time the member with the
    largest upper bound; then always the set with the largest upper bound of all.

    Where costs are not known, each set is played once first, as nothing else tells which group it belongs to or
    what the dearest costs: sets of few variables first. Groups are then formed anew before every trial from all costs
    metered so far, and what a group has had is counted from the history, so plays are never lost to a regrouping. Where
    costs depend on the setting, a set's cost is what its trials have cost on average.
    """

    name = "ucb-cvs-etc"

    plays: int | Literal["adaptive"] = "adaptive"
    """Of each group; `adaptive` gives a group `adaptive_spend` divided by its cost, where the dearest set's cost is 1,
    rounded down: no group then spends more than that."""
    adaptive_spend: float = 4.0
    """In costs of the dearest group; the paper's 4."""
    groups: Literal["cost", "size"] = "cost"
    """Sets of equal cost (section 4.2), or of equally many variables, as Hoang et al. group where costs are unknown."""

    def __post_init__(self) -> None:
        plays, spend = self.plays, self.adaptive_spend
        require(plays == "adaptive" or plays >= 0, plays, "must be >= 0 or 'adaptive'", where="plays")
        require(0 < spend < np.inf, spend, "must be finite and > 0", where="adaptive_spend")

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        """Meter, explore or commit."""
        problem, history, fitting = outlook.problem, outlook.history, outlook.fitting()
        costs = estimates(problem, history)
        unmetered = [i for i in fitting if costs[i] is None]
        if unmetered and (self.groups == "cost" or self.plays == "adaptive"):
            return self._meter(outlook, unmetered)
        groups = size_groups(problem, costs) if self.groups == "size" else cost_groups(costs)
        for number, group in enumerate(groups[:-1], start=1):
            members = [i for i in group.members if i in fitting]
            due, had = self._due(group, groups[-1]), group.plays(history)
            if members and had < due:
                chosen = outlook.most_promising(members)
                label, members_told = outlook.label(chosen), ", ".join(map(outlook.label, group.members))
                promise = "is of" if outlook.too_few_outcomes else "could turn out best of"
                return Choice(
                    chosen,
                    "explore",
                    f"{label} {promise} {self.groups} group {number} of {len(groups)}, with {had} of {due} trials",
                    members,
                    technical=(
                        f"exploring: {label} is the most promising of group {number} of {len(groups)} "
                        f"by {self.groups} ({members_told}), which has had {had} of {due} plays"
                    ),
                    left_out=f"not its turn, but that of {self.groups} group {number}",
                )
        chosen = outlook.most_promising(fitting)
        label = outlook.label(chosen)
        reason = f"{label} has its turn" if outlook.too_few_outcomes else f"{label} could turn out best"
        technical = f"committing: {label} has the largest upper bound of the sets that fit the budget"
        return Choice(chosen, "commit", reason, fitting, technical=technical)

    def _due(self, group: CostGroup, dearest: CostGroup) -> int:
        """Return a group's plays; one where no cost divides: never metered, or free, which would never end."""
        if self.plays != "adaptive":
            return self.plays
        if not group.cost or dearest.cost is None:
            return 1
        return max(1, floor(self.adaptive_spend * dearest.cost / group.cost + 1e-9))

    @staticmethod
    def _meter(outlook: Outlook, unmetered: Sequence[int]) -> Choice:
        chosen = outlook.first_to_meter(unmetered)
        reason = f"{outlook.label(chosen)} has never been tried, and its cost must be known first"
        technical = f"metering: {outlook.label(chosen)} has never been tried, and groups of equal cost need its cost"
        return Choice(chosen, "explore", reason, unmetered, technical=technical, left_out="has a known cost already")
