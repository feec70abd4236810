"""Explore-then-commit with unknown random costs (U Algorithm 1; algorithms, section 4.1).

Exploration plays every control set at its upper-bound maximiser. Commitment plays, among the sets that may still be
good enough, the one that may be cheapest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isclose
from typing import Literal

import numpy as np

from rigctl.core.acquisition.outlook import Intersection, Outlook, first_point, look, remember
from rigctl.core.costs.beliefs import CostBound, booked
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.money import to_units
from rigctl.core.policy import Proposal


@dataclass(frozen=True, slots=True)
class Exploration:
    """How exploration goes round, and when it ends: at `plays` of each set or `share` of the budget, whichever first.

    Raises:
        ValueError: a number is out of its range, or nothing would end exploration.
    """

    plays: int | None = None
    """Plays of each control set (tau of U); None: until the share is spent."""
    share: float | None = 0.5
    """Share of the budget to spend on exploration; None: until the plays are done."""
    by: Literal["plays", "spend"] = "plays"
    """Balance the sets by number of plays (round robin) or by money spent on each."""

    def __post_init__(self) -> None:
        if self.plays is None and self.share is None:
            raise ValueError("explore: give plays, share or both; with neither, exploration never ends")
        if self.plays is not None and self.plays < 1:
            raise ValueError(f"explore.plays: got {self.plays}, must be >= 1")
        if self.share is not None and not 0 <= self.share <= 1:
            raise ValueError(f"explore.share: got {self.share}, must be between 0 and 1")


@dataclass(frozen=True, slots=True)
class ExploreThenCommit:
    """The policy `explore-then-commit`; its fields are its options.

    Raises:
        ValueError: an option is out of its range.
    """

    name = "explore-then-commit"

    tolerance: float = 0.1
    """alpha: a set is good enough if its best value is within this share of the best there is."""
    tolerance_decay: Literal["none", "budget", "halving"] = "none"
    """`budget`: alpha * remaining / budget (U, practical advice);
    `halving`: after every d commit trials (U, Experiments)."""
    explore: Exploration = field(default_factory=Exploration)
    cost_bound: CostBound = "empirical-bernstein"

    def __post_init__(self) -> None:
        if not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance: got {self.tolerance}, must be at least 0 and below 1")

    def initial_state(self, problem: Problem) -> JsonState:  # noqa: ARG002  # the Policy protocol's signature
        """Nothing fitted, nothing intersected."""
        return {"commit_trials": 0}

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial (U Algorithm 1, lines 3 to 9 or 13 to 28).

        Raises:
            BudgetSpent: nothing useful fits the remaining budget.
        """
        sobol_seed = int(state.get("sobol_seed", rng.integers(2**31)))
        outlook = look(problem, history, state, self.cost_bound, rng)
        count = len(problem.space.control_sets)
        seen = Intersection.restarted(count) if outlook.changed else Intersection.of(state, count)
        exploring = self._exploring(outlook)
        if exploring:
            proposal, seen = self._explore(outlook, seen, sobol_seed)
        else:
            proposal, seen = self._commit(outlook, seen, self._tolerance_now(state, problem, history))
        commit_trials = int(state.get("commit_trials", 0)) + (not exploring)
        kept = {**remember(outlook), **seen.to_state(), "sobol_seed": sobol_seed, "commit_trials": commit_trials}
        return proposal, kept

    def _exploring(self, outlook: Outlook) -> bool:
        """Plays are only asked of sets that still fit: one too dear for what is left would keep it from ending."""
        problem, history, share = outlook.problem, outlook.history, self.explore.share
        fitting = [i for i in range(len(problem.space.control_sets)) if outlook.fits(i)]
        played = self.explore.plays is not None and all(history.trials_of(i) >= self.explore.plays for i in fitting)
        spent = share is not None and to_units(history.spent) >= share * to_units(problem.budget)
        return not (played or spent)

    def _tolerance_now(self, state: JsonState, problem: Problem, history: History) -> float:
        if self.tolerance_decay == "budget":
            return self.tolerance * max(0.0, 1.0 - history.spent / problem.budget)
        if self.tolerance_decay == "halving":
            return self.tolerance * 0.5 ** (int(state.get("commit_trials", 0)) // problem.space.dimension)
        return self.tolerance

    def _explore(self, outlook: Outlook, seen: Intersection, sobol_seed: int) -> tuple[Proposal, Intersection]:
        """The set that has had least, at its upper maximiser; scrambled Sobol points until a model can be fitted."""
        history, space = outlook.history, outlook.problem.space
        sets = range(len(space.control_sets))
        if self.explore.by == "spend":
            had = booked(history, outlook.costs)
        else:
            had = tuple(history.trials_of(i) for i in sets)
        chosen = min(outlook.affordable(sets), key=lambda i: (had[i], history.trials_of(i), i))
        seen = seen.narrowed(outlook.lower, {i: outlook.upper[i] for i in {chosen} - outlook.moved})
        bounds = outlook.bounds[chosen]
        setting = tuple(float(v) for v in bounds.upper_at)
        where = "at its upper-bound maximiser"
        if len(history.complete) < space.dimension + 1:
            point = first_point(len(setting), history.trials_of(chosen), sobol_seed)
            # where costs depend on the setting the point may be too dear for what is left; the upper maximiser fits
            setting, where = (point, "Sobol point") if outlook.fits(chosen, point) else (setting, "setting that fits")
            where = f"at a {where}: too few outcomes for a model"
        unit = "spend" if self.explore.by == "spend" else "plays"
        reason = f"exploring: {space.control_sets[chosen].label} has had the least {unit}; {where}"
        return _proposal(self.name, "explore", outlook, chosen, setting, reason=reason, eligible=sets), seen

    def _commit(self, outlook: Outlook, seen: Intersection, tolerance: float) -> tuple[Proposal, Intersection]:
        """Lines 14 to 26: the cheapest-looking of the sets that may be good enough."""
        sets = range(len(outlook.bounds))
        today = {i: u for i, u in enumerate(outlook.upper) if i not in outlook.moved}
        seen = seen.narrowed(outlook.lower, today)
        good = _good_enough(seen, outlook.floor, tolerance)
        if not good:
            seen = Intersection.restarted(len(sets)).narrowed(outlook.lower, today)
            # the best is always good enough, also where its value is below the floor
            good = _good_enough(seen, outlook.floor, tolerance) or [outlook.upper.index(max(outlook.upper))]
        fitting = outlook.affordable(good)
        cheapest = min(outlook.costs[i].lcb for i in fitting)
        tied = [i for i in fitting if isclose(outlook.costs[i].lcb, cheapest, rel_tol=1e-12, abs_tol=1e-12)]
        chosen = max(tied, key=lambda i: (outlook.upper[i], -i))
        threshold = outlook.floor + (1 - tolerance) * (seen.lcb - outlook.floor)
        label = outlook.problem.space.control_sets[chosen].label
        reason = (
            f"committing: {len(good)} of {len(sets)} sets may be within {tolerance:.3g} of the best, "
            f"and {label} may be the cheapest of them (cost at least {outlook.costs[chosen].lcb:.4g})"
        )
        setting = tuple(float(v) for v in outlook.bounds[chosen].upper_at)
        return _proposal(
            self.name, "commit", outlook, chosen, setting, reason=reason, eligible=good, threshold=threshold
        ), seen


def _good_enough(seen: Intersection, floor: float, tolerance: float) -> list[int]:
    """S1 of line 16, above the floor."""
    return [i for i, u in enumerate(seen.ucb) if u - floor > (1 - tolerance) * (seen.lcb - floor)]


def _proposal(
    policy: str,
    phase: str,
    outlook: Outlook,
    chosen: int,
    setting: tuple[float, ...],
    *,
    reason: str,
    eligible: Sequence[int],
    threshold: float | None = None,
) -> Proposal:
    return Proposal(
        trial=len(outlook.history) + 1,
        policy=policy,
        phase=phase,
        control_set=chosen,
        setting=setting,
        reason=reason,
        sets=outlook.reports(eligible),
        threshold=None if threshold is None else sign(outlook.problem) * threshold,
        predicted_cost=to_units(outlook.predicted(chosen, setting)) or None,
        notes=outlook.fitted.posterior.notes,
    )
