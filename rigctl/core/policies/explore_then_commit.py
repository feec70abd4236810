"""Explore-then-commit with unknown random costs (U Algorithm 1; algorithms, section 4.1).

Exploration plays every control set at its upper-bound maximiser. Commitment plays, among the sets that may still be
good enough, the one that may be cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isclose
from typing import Literal

import numpy as np

from rigctl.core.acquisition.outlook import Choice, Outlook, OutlookPolicy
from rigctl.core.costs.beliefs import CostBound, booked
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import JsonState
from rigctl.flaws import require
from rigctl.text import in_full


@dataclass(frozen=True, slots=True)
class Intersection:
    """Intersect confidence bounds as trials go by (U Algorithm 1, lines 10 to 20).

    Valid for one fit and one estimate of the marginals: begun anew when `Outlook.changed`.
    """

    lcb: float
    """Largest lower bound seen."""
    ucb: tuple[float, ...]
    """Per set, smallest upper bound seen."""

    @classmethod
    def of(cls, state: JsonState, count: int) -> Intersection:
        """Return what is kept in the state; unbounded where nothing was ever seen."""
        lcb = state.get("lcb")
        ucb: Mapping[str, float] = state.get("ucb", {})
        return cls(-inf if lcb is None else lcb, tuple(ucb.get(str(i), inf) for i in range(count)))

    def narrowed(self, lower: float, upper: Mapping[int, float]) -> Intersection:
        """Return it with today's largest lower bound and the upper bounds of some sets."""
        return Intersection(max(self.lcb, lower), tuple(min(u, upper.get(i, inf)) for i, u in enumerate(self.ucb)))

    def to_state(self) -> dict[str, object]:
        return {
            "lcb": None if self.lcb == -inf else self.lcb,
            "ucb": {str(i): u for i, u in enumerate(self.ucb) if u != inf},
        }


@dataclass(frozen=True, slots=True)
class Exploration:
    """Say how exploration goes round, and ends: at `plays` of each set or `share` of the budget, whichever is first."""

    plays: int | None = None
    """Plays of each control set (tau of U); None: until the share is spent."""
    share: float | None = 0.5
    """Share of the budget to spend on exploration; None: until the plays are done."""
    by: Literal["plays", "spend"] = "plays"
    """Balance the sets by number of plays (round robin) or by money spent on each."""

    def __post_init__(self) -> None:
        if self.plays is None and self.share is None:
            raise ValueError("explore: give plays, share or both; with neither, exploration never ends")
        require(self.plays is None or self.plays >= 1, self.plays, "must be >= 1", where="explore.plays")
        share = self.share
        require(share is None or 0 <= share <= 1, share, "must be between 0 and 1", where="explore.share")


@dataclass(frozen=True, slots=True)
class ExploreThenCommit(OutlookPolicy):
    """Play the policy `explore-then-commit`; its fields are its options."""

    name = "explore-then-commit"
    keeps_limits = True

    tolerance: float = 0.1
    """alpha: a set is good enough if its best value is within this share of the best there is."""
    tolerance_decay: Literal["none", "budget", "halving"] = "none"
    """`budget`: alpha * remaining / budget (U, practical advice);
    `halving`: after every d commit trials (U, Experiments)."""
    explore: Exploration = field(default_factory=Exploration)
    cost_bound: CostBound = "empirical-bernstein"
    """How far a control set's mean cost may be from what it has cost so far."""

    def __post_init__(self) -> None:
        require(0 <= self.tolerance < 1, self.tolerance, "must be at least 0 and below 1", where="tolerance")

    def choose(self, outlook: Outlook, state: JsonState, rng: np.random.Generator) -> Choice:  # noqa: ARG002
        """Choose the next trial (U Algorithm 1, lines 3 to 9 or 13 to 28)."""
        count, played = len(outlook.bounds), int(state.get("commit_trials", 0))
        seen = Intersection.of({} if outlook.changed else state, count)
        if self._exploring(outlook):
            return self._explore(outlook, seen, played)
        return self._commit(outlook, seen, played)

    def _exploring(self, outlook: Outlook) -> bool:
        """Tell whether it still explores; plays are only asked of sets that fit, else it might never end."""
        problem, history, share = outlook.problem, outlook.history, self.explore.share
        fitting = [i for i in range(len(outlook.bounds)) if outlook.fits(i)]
        played = self.explore.plays is not None and all(history.trials_of(i) >= self.explore.plays for i in fitting)
        spent = share is not None and to_units(history.spent) >= share * to_units(problem.budget)
        return not (played or spent)

    def _explore(self, outlook: Outlook, seen: Intersection, commit_trials: int) -> Choice:
        """Take the set that has had least, at its upper maximiser; Sobol points until hyper-parameters are learned."""
        history, sets = outlook.history, range(len(outlook.bounds))
        by_spend, fitting = self.explore.by == "spend", outlook.fitting()
        had = booked(history, outlook.costs) if by_spend else tuple(history.trials_of(i) for i in sets)
        chosen = min(fitting, key=lambda i: (had[i], history.trials_of(i), i))
        seen = seen.narrowed(outlook.lower, {i: outlook.upper[i] for i in {chosen} - outlook.moved})
        where = "" if outlook.too_few_outcomes else "; at its upper-bound maximiser"
        label, remembered = outlook.label(chosen), {**seen.to_state(), "commit_trials": commit_trials}
        least = f"and {label} has had the {'least money' if by_spend else 'fewest trials'}"
        if by_spend and not outlook.has_had_least_money(chosen, fitting):  # free trials count, but cost nothing
            least = f"and {label} is next"
        why, technical = f"all control sets take turns, {least}", "spend" if by_spend else "plays"
        technical = f"exploring: {label} has had the least {technical}{where}"
        return Choice(chosen, "explore", why, sets, remembered=remembered, technical=technical)

    def _commit(self, outlook: Outlook, seen: Intersection, commit_trials: int) -> Choice:
        """Take the cheapest-looking of the sets that may be good enough (lines 14 to 26)."""
        count, tolerance = len(outlook.bounds), self._tolerance_now(outlook, commit_trials)
        today = {i: u for i, u in enumerate(outlook.upper) if i not in outlook.moved}
        seen = seen.narrowed(outlook.lower, today)
        good = outlook.within(_good_enough(seen, outlook.floor, tolerance))
        if not good:
            seen = Intersection.of({}, count).narrowed(outlook.lower, today)
            # the best is always good enough, also where its value is below the floor
            within = outlook.within(range(count)) or list(range(count))
            good = [i for i in _good_enough(seen, outlook.floor, tolerance) if i in within]
            good = good or [outlook.most_promising(within)]
        fitting = outlook.fitting(good)
        cheapest = min(outlook.costs[i].lcb for i in fitting)
        tied = [i for i in fitting if isclose(outlook.costs[i].lcb, cheapest, rel_tol=1e-12, abs_tol=1e-12)]
        chosen = outlook.most_promising(tied)
        label, least = outlook.label(chosen), outlook.costs[chosen].lcb
        technical = (
            f"committing: {len(good)} of {count} sets may be within {tolerance:.3g} of the best, "
            f"and {label} may be the cheapest of them (cost at least {in_full(least, 4)})"
        )
        threshold = outlook.floor + (1 - tolerance) * (seen.lcb - outlook.floor)
        remembered = {**seen.to_state(), "commit_trials": commit_trials + 1}
        reason = _why(label, (len(good), count), len(fitting), len(tied), certain=least > 0)
        kept = outlook.limits is not None and outlook.bounds[chosen].within
        setting = outlook.bounds[chosen].best_mean_at if kept else None
        return Choice(
            chosen, "commit", reason, good, threshold, setting, first=False, remembered=remembered, technical=technical
        )

    def _tolerance_now(self, outlook: Outlook, commit_trials: int) -> float:
        if self.tolerance_decay == "budget":
            return self.tolerance * max(0.0, 1.0 - outlook.history.spent / outlook.problem.budget)
        if self.tolerance_decay == "halving":
            return self.tolerance * 0.5 ** (commit_trials // outlook.problem.space.dimension)
        return self.tolerance


def _why(label: str, good: tuple[int, int], fitting: int, tied: int, *, certain: bool) -> str:
    """Say in plain words why this set, of so many: good enough of all, fitting, and tied for the lowest cost bound."""
    if good[0] == 1:
        return f"only {label} may still be good enough"
    among = f"{good[0]} of {good[1]} control sets may be good enough"
    if fitting == 1:
        return f"{among}, and of these only {label} fits the rest of the budget"
    if certain:
        best = f"{label} could turn out best of the cheapest" if tied > 1 else f"{label} may be the cheapest of them"
        return f"{among}, and {best}"
    if tied == fitting:
        return f"{among}. Too few trials say what they cost, and {label} could turn out best"
    if tied > 1:
        return f"{among}. Of those whose cost is still uncertain, {label} could turn out best"
    return f"{among}. Of these only {label} still has an uncertain cost"


def _good_enough(seen: Intersection, floor: float, tolerance: float) -> list[int]:
    """Return S1 of line 16, above the floor."""
    return [i for i, u in enumerate(seen.ucb) if u - floor > (1 - tolerance) * (seen.lcb - floor)]
