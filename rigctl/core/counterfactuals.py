"""What would change a decision: one quantity at a time is turned until the answer is another one.

Nothing is derived: every statement is found by deciding again, with all else as it was, also the policy's memory and
the randomness of that trial. Values are searched on a grid of round numbers, so that the number that is told is the one
that was tried: there the answer is another, and one step short of it it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from math import ceil, floor
from typing import Final

import numpy as np

from rigctl.core.advice.flips import KINDS, Counterfactuals, Flip, Kind
from rigctl.core.advice.levers import Lever, Price, Situation, levers
from rigctl.core.advice.recommend import SURPRISE, Outstanding, Recommendation, recommend, weigh
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.history import History
from rigctl.core.experiment.memo import Memo
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.policy import Finished
from rigctl.core.experiment.problem import sign
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_history
from rigctl.errors import PolicyError
from rigctl.text import in_full, set_label

NOTHING: Final = ""
"""The answer of a policy that proposes nothing more."""
NO_ANSWER: Final = None
"""Of a policy that cannot decide."""
OF_RECOMMENDATIONS: Final[tuple[Kind, ...]] = ("cost", "price", "tolerance")
"""The money left plays no part in them, and the last outcome alone seldom."""
MOST: Final = 60
"""Decisions that one question may take."""
PROBES: Final = (0.125, 1.0)
"""Shares of the way to the end of a range at which an answer is sought, before the two sides are narrowed down."""


Ask = Callable[[Situation], str | None]
"""Which control set, by its label; `NOTHING`, or `NO_ANSWER`."""


def decided(situation: Situation) -> str | None:
    """Ask the policy."""
    rng = trial_rng(situation.seed, situation.trial)
    try:
        proposal, _ = next_proposal(situation.policy, situation.state, situation.problem, situation.history, rng)
    except Finished:
        return NOTHING
    except PolicyError:
        return NO_ANSWER
    return situation.problem.space.control_sets[proposal.control_set].label


def recommended(situation: Situation) -> str | None:
    """Ask what should be run from now on, at the situation's tolerance."""
    s = situation
    try:
        found = recommend(
            s.problem,
            s.history,
            trial_rng(s.seed, s.trial),
            s.tolerance or 0.0,
            Hyperparameters.remembered(s.state),
            rule=False,
        )
    except PolicyError:
        return NO_ANSWER
    return set_label(found.choice.control_set)


def outstanding(situation: Situation, found: Recommendation) -> Outstanding | None:
    """Say what outcomes could make of a recommendation that are still to come; None if none is.

    Believed are two extremes: those of the recommended set come `SURPRISE` standard deviations worse than expected and
    all others as much better, and all come so much better.
    """
    s = situation
    late = [o for o in s.history.observations if o.awaited and o.x is not None]
    if not late:
        return None
    problem, known = present(s.problem, s.history)[0], Hyperparameters.remembered(s.state)
    fitted = fit_history(problem, s.history, known, under_way=False)
    x, h = s.history.awaited, fitted.hyperparameters
    mean = fitted.posterior.mean(x)
    off = SURPRISE * np.hypot(fitted.posterior.sd(x), h.y_scale * h.noise_sd)
    chosen = problem.space.index_of(found.choice.control_set)
    against = np.where([o.control_set == chosen for o in late], -1.0, 1.0)
    sets: list[str] = []
    setting = False
    for direction in (against, np.ones(len(late))):
        values = dict(zip((o.trial for o in late), (sign(problem) * (mean + direction * off)).tolist(), strict=True))
        rows = [
            replace(o, y=values[o.trial], awaited=False) if o.trial in values else o for o in s.history.observations
        ]
        rng = trial_rng(s.seed, s.trial)
        then = recommend(s.problem, History.of(rows), rng, s.tolerance or 0.0, known).choice
        if then.control_set != found.choice.control_set:
            sets.append(set_label(then.control_set))
        else:
            setting = setting or then.setpoints != found.choice.setpoints
    return Outstanding(len(late), tuple(dict.fromkeys(sets)), setting)


def weighed(situation: Situation) -> Ask:
    """Return what gives the same answers at little cost, as long as only costs and the tolerance are turned."""
    s = situation
    problem, _ = present(s.problem, s.history)
    posterior = fit_history(problem, s.history, Hyperparameters.remembered(s.state), under_way=False).posterior
    weighing = weigh(problem, s.history, posterior, trial_rng(s.seed, s.trial))

    def ask(turned: Situation) -> str | None:
        chosen = weighing.chosen(turned.problem, turned.history, turned.tolerance or 0.0)
        return problem.space.control_sets[chosen].label

    return ask


def counterfactuals(
    situation: Situation,
    ask: Ask = decided,
    *,
    prices: Sequence[Price] = (),
    kinds: Sequence[Kind] = KINDS,
    most: int = MOST,
) -> Counterfactuals:
    """Find what would change an answer, one quantity at a time.

    Costs are turned in the direction that speaks against the answer: of what was chosen up, of all else down.

    Args:
        situation: of the answer.
        ask: what is asked; by default which control set the policy chooses.
        prices: of meters.
        kinds: what is turned.
        most: answers at most; past that the search is cut short.

    Raises:
        PolicyError: there is no answer to begin with.
    """
    search = _Search(ask, most)
    own = replace(situation, history=History.of(situation.history.observations, Memo()))
    answer = search.ask(own)
    if answer is NO_ANSWER:
        raise PolicyError("what would change it: there is no decision to begin with")
    search.answer = answer
    sides = [_Side.of(lever, end) for lever in levers(own, answer, prices) if lever.kind in kinds for end in lever.ends]
    cut_short = False
    try:
        search.look(sides)
    except _Enough:
        cut_short = True
    return Counterfactuals(answer, tuple(sorted(search.found, key=lambda f: f.effort)), search.asked, cut_short)


def changes_of_recommendation(
    situation: Situation, *, prices: Sequence[Price] = (), most: int = MOST, shown: int = 2
) -> Counterfactuals:
    """Find what would change a recommendation; of the cheapest flips each side is recommended anew to verify it.

    Args:
        situation: with the tolerance that is recommended at.
        prices: of meters.
        most: answers at most in the search.
        shown: flips that are verified and returned.

    Raises:
        PolicyError: nothing can be recommended.
    """
    answer = recommended(situation)
    if answer is NO_ANSWER:
        raise PolicyError("what would change it: nothing can be recommended yet")
    quick = counterfactuals(situation, weighed(situation), prices=prices, kinds=OF_RECOMMENDATIONS, most=most)
    kept: list[Flip] = []
    asked, by_lever = 1, {(v.kind, v.subject): v for v in levers(situation, answer, prices)}
    for flip in quick.flips:
        if len(kept) == shown or quick.answer != answer:
            break
        turned = by_lever[flip.kind, flip.subject].turned
        asked += 2
        if recommended(turned(flip.at)) == flip.after and recommended(turned(flip.short)) == answer:
            kept.append(flip)
    return Counterfactuals(answer, tuple(kept), asked + quick.asked, quick.cut_short)


class _Enough(Exception):
    """Says that as many answers as allowed have been had."""


class _Search:
    """Asks, and counts."""

    def __init__(self, ask: Ask, most: int) -> None:
        self._ask, self._most = ask, most
        self.asked = 0
        self.answer = NOTHING
        self.found: list[Flip] = []

    def ask(self, situation: Situation) -> str | None:
        if self.asked >= self._most:
            raise _Enough
        self.asked += 1
        return self._ask(situation)

    def look(self, sides: Sequence[_Side]) -> None:
        """Find flips, at most one on each side: first of all quantities near what is, then far from it."""
        inside = dict.fromkeys(range(len(sides)), 0)
        for share in PROBES:
            for i, side in enumerate(sides):
                number = max(1, round(share * side.count))
                if i not in inside or not inside[i] < number <= side.count:
                    continue
                after = self.ask(side.turned(number))
                if after == self.answer:
                    inside[i] = number
                elif after is not NO_ANSWER:
                    found = self._narrowed(side, inside.pop(i), number, after)
                    self.found += [] if found is None else [found]

    def _narrowed(self, side: _Side, inside: int, outside: int, after: str) -> Flip | None:
        """Halve the way between a value that changes nothing and one that does, until they are neighbours."""
        while outside - inside > 1:
            middle = (inside + outside) // 2
            answer = self.ask(side.turned(middle))
            if answer is NO_ANSWER:
                return None
            if answer == self.answer:
                inside = middle
            else:
                outside, after = middle, answer
        lever, at = side.lever, side.value(outside)
        effort = abs(at - lever.now) / lever.large
        both = (at, side.value(inside), self.answer, after)
        return Flip(lever.kind, lever.subject, lever.now, *both, lever.per, effort)


@dataclass(frozen=True, slots=True)
class _Side:
    """Numbers the round values on one side of what is: 1 is the nearest, and 0 is what is."""

    lever: Lever
    first: int
    way: int
    count: int

    @classmethod
    def of(cls, lever: Lever, end: float) -> _Side:
        here, there = Decimal(lever.now) / lever.step, Decimal(end) / lever.step
        if end > lever.now:
            return cls(lever, floor(here) + 1, 1, floor(there) - floor(here))
        return cls(lever, ceil(here) - 1, -1, ceil(here) - ceil(there))

    def value(self, number: int) -> float:
        return float((self.first + self.way * (number - 1)) * self.lever.step) if number else self.lever.now

    def turned(self, number: int) -> Situation:
        return self.lever.turned(self.value(number))


# in words ----------------------------------------------------------------------------------------------------------


def told(flip: Flip, *, currency: str, unit: str = "") -> str:
    """Return a flip as one sentence; `unit` is the outcome's, as shown."""
    then = f"{flip.after} would be chosen" if flip.after else "no trial would be chosen"
    at, now = f"{flip.at:.6g}", f"{flip.now:.4g}"
    match flip.kind:
        case "cost":
            return f"At {at} {currency} a trial of {flip.subject} (now {now}), {then}."
        case "price":
            return f"At {at} {currency} per {flip.per} of {flip.subject} (now {now}), {then}."
        case "budget":
            more = "more" if flip.at > flip.now else "less"
            return f"With {in_full(abs(flip.at - flip.now), 6)} {currency} {more} to spend, {then}."
        case "tolerance":
            return f"With a tolerance of {100 * flip.at:.4g} % (now {100 * flip.now:.4g} %), {then}."
        case "outcome":
            return f"Had the last trial given {at} {unit}".rstrip() + f" (it gave {now}), {then}."


def shown(found: Counterfactuals, *, currency: str, unit: str = "", most: int = 2) -> tuple[str, ...]:
    """Return the cheapest flips as sentences; where there is none, that."""
    if not found.flips:
        return (f"No single change that was tried would change the choice ({found.asked} decisions).",)
    return tuple(told(f, currency=currency, unit=unit) for f in found.flips[:most])
