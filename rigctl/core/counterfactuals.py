"""What would change a decision: one quantity at a time is turned until the answer is another one.

Nothing is derived: every statement is found by deciding again, with all else as it was, also the policy's memory and
the randomness of that trial. Values are searched on a grid of round numbers, so that the number that is told is the one
that was tried: there the answer is another, and one step short of it it is not.

The quantities behind a decision that can be changed, one at a time, while all others stay as they were.

Where costs are turned, those of past trials are, and as much money is left as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from math import ceil, floor, isfinite, log10
from typing import Any, Final

import numpy as np

from rigctl.core.advice.flips import KINDS, Counterfactuals, Flip, Kind
from rigctl.core.advice.recommend import SURPRISE, Outstanding, Recommendation, recommend, weigh
from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.costs.beliefs import believe
from rigctl.core.experiment.history import History, Memo
from rigctl.core.experiment.money import Micros, to_micros, to_units
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.policy import Finished, Policy
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.gp.model import fit_known
from rigctl.errors import PolicyError
from rigctl.text import Names, in_full, set_label, set_members, shown_set

DEAREST: Final = 5.0
"""A cost or a budget is turned up to so many times what it is."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that an answer depends on."""

    policy: Policy
    state: JsonState | None
    """The policy's memory before the decision."""
    problem: Problem
    history: History
    seed: int
    tolerance: float | None = None
    """Of a recommendation; None: that of the policy, if it has one."""
    worth: float | None = None
    """Of one unit of outcome where what to run is asked for, currency units; None: nobody said."""

    @property
    def rng(self) -> np.random.Generator:
        """Return the randomness of that trial, from its beginning."""
        return trial_rng(self.seed, len(self.history) + 1)


@dataclass(frozen=True, slots=True)
class Price:
    """What a meter has cost: its price, and what each trial was charged for it."""

    meter: str
    now: float
    """Currency units per `per`."""
    per: str
    amounts: Mapping[int, Micros]
    """By trial."""


@dataclass(frozen=True, slots=True, eq=False)
class Lever:
    """One quantity that can be turned."""

    kind: Kind
    subject: str
    now: float
    ends: tuple[float, ...]
    """How far it is turned: one way, or both."""
    step: Decimal
    """Between the values tried."""
    large: float
    """A change that counts as 1."""
    turned: Callable[[float], Situation] = field(repr=False)
    per: str = ""


def levers(situation: Situation, answer: str, prices: Sequence[Price] = ()) -> Iterator[Lever]:
    """Return every quantity that can be turned, those first that mostly matter most."""
    yield from _tolerances(situation)
    yield from _costs(situation, answer)
    yield from _prices(situation, prices)
    yield from _budgets(situation)
    yield from _outcomes(situation)


def _costs(situation: Situation, answer: str) -> Iterator[Lever]:
    problem, history = situation.problem, situation.history
    if problem.known_cost_field is not None:
        return
    for i, belief in enumerate(believe(problem, history, "empirical-bernstein")):
        label, now = problem.space.control_sets[i].label, belief.mean
        if not now:
            continue
        end = DEAREST * now if label == answer else 0.0

        def turned(cost: float, i: int = i, now: float = now) -> Situation:
            if problem.known_costs is not None:
                known = tuple(cost if j == i else c for j, c in enumerate(problem.known_costs))
                return replace(situation, problem=replace(problem, known_costs=known))
            return _recharged(situation, {o.trial: cost / now for o in history.observations if o.control_set == i}, {})

        yield Lever("cost", label, now, (end,), _step(now), now, turned)


def _prices(situation: Situation, prices: Sequence[Price]) -> Iterator[Lever]:
    for price in prices:
        if price.now > 0 and any(price.amounts.values()) and situation.problem.known_costs is None:

            def turned(value: float, price: Price = price) -> Situation:
                share = value / price.now - 1
                return _recharged(situation, {}, {trial: round(share * m) for trial, m in price.amounts.items()})

            ends = (0.0, DEAREST * price.now)
            yield Lever("price", price.meter, price.now, ends, _step(price.now), price.now, turned, price.per)


def _recharged(situation: Situation, by: Mapping[int, float], more: Mapping[int, Micros]) -> Situation:
    """Charge past trials a factor, or so much more; as much money is left as before."""
    history, problem = situation.history, situation.problem
    charged = [
        replace(o, cost=max(0, round(o.cost * by.get(o.trial, 1.0)) + more.get(o.trial, 0)))
        for o in history.observations
    ]
    changed = replace(history, observations=tuple(charged))
    budget = problem.budget + changed.spent - history.spent
    return replace(situation, history=changed, problem=replace(problem, budget=budget))


def _budgets(situation: Situation) -> Iterator[Lever]:
    problem, spent = situation.problem, to_units(situation.history.spent)
    now = to_units(problem.budget)

    def turned(budget: float) -> Situation:
        return replace(situation, problem=replace(problem, budget=to_micros(budget)))

    if now > spent:
        yield Lever("budget", "", now, (spent, DEAREST * now), _step(now), now - spent, turned)


def _tolerances(situation: Situation) -> Iterator[Lever]:
    policy: Any = situation.policy
    named = is_dataclass(policy) and "tolerance" in {f.name for f in fields(policy)}
    now = situation.tolerance if situation.tolerance is not None else policy.tolerance if named else None

    def turned(tolerance: float) -> Situation:
        if situation.tolerance is not None:
            return replace(situation, tolerance=tolerance)
        return replace(situation, policy=replace(policy, tolerance=tolerance))

    if now is not None:
        yield Lever("tolerance", "", float(now), (0.0, 0.5), Decimal("0.001"), 0.1, turned)


def _outcomes(situation: Situation) -> Iterator[Lever]:
    """Turn the last outcome, as far beyond all seen as these are apart."""
    history = situation.history
    complete = [o for o in history.observations if o.y is not None and o.x is not None]
    seen = [float(o.y) for o in complete if o.y is not None]
    if len(seen) < 2 or max(seen) == min(seen) or history.observations[-1] is not complete[-1]:
        return
    span, last = max(seen) - min(seen), complete[-1]
    lowest = min(seen) - span
    if situation.problem.floor is not None and situation.problem.maximise:
        lowest = max(lowest, min(situation.problem.floor, *seen))

    def turned(y: float) -> Situation:
        rows = [replace(o, y=y) if o is last else o for o in history.observations]
        return replace(situation, history=replace(history, observations=tuple(rows)))

    ends, sd = (lowest, max(seen) + span), float(np.std(seen))
    yield Lever("outcome", "", seen[-1], ends, _step(span), sd, turned)


def _step(size: float) -> Decimal:
    """Return the third digit of a number of this size."""
    if not (isfinite(size) and size > 0):
        return Decimal(1)
    return Decimal(10) ** (floor(log10(size)) - 2)


NOTHING: Final = ""
"""The answer of a policy that proposes nothing more."""
NO_ANSWER: Final = None
"""Of a policy that cannot decide."""
OF_RECOMMENDATIONS: Final[tuple[Kind, ...]] = ("cost", "price", "tolerance")
"""The money left plays no part in them, and the last outcome alone seldom."""
MOST: Final = 60
"""Decisions that one question may take."""
SHOWN: Final = 2
"""Flips that are told."""
PROBES: Final = (0.125, 1.0)
"""Shares of the way to the end of a range at which an answer is sought, before the two sides are narrowed down."""


Ask = Callable[[Situation], str | None]
"""Which control set, by its label; `NOTHING`, or `NO_ANSWER`."""


def decided(situation: Situation) -> str | None:
    s = situation
    try:
        proposal, _ = next_proposal(s.policy, s.state, s.problem, s.history, s.rng)
    except Finished:
        return NOTHING
    except PolicyError:
        return NO_ANSWER
    return situation.problem.space.control_sets[proposal.control_set].label


def recommended(situation: Situation) -> str | None:
    """Ask what should be run from now on, at the situation's tolerance."""
    s = situation
    try:
        found = recommend(s.problem, s.history, s.rng, s.tolerance or 0.0, s.state, rule=False, price=s.worth)
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
    problem = present(s.problem, s.history)[0]
    fitted = fit_known(problem, s.history, s.state)
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
        asked = s.problem, History.of(rows), s.rng, s.tolerance or 0.0, s.state
        then = recommend(*asked, price=s.worth, rule=False).choice
        if then.control_set != found.choice.control_set:
            sets.append(set_label(then.control_set))
        else:
            setting = setting or then.setpoints != found.choice.setpoints
    return Outstanding(len(late), tuple(dict.fromkeys(sets)), setting)


def weighed(situation: Situation) -> Ask:
    """Return what gives the same answers at little cost, as long as only costs and the tolerance are turned."""
    s = situation
    problem, _ = present(s.problem, s.history)
    posterior = fit_known(problem, s.history, s.state).posterior
    weighing = weigh(problem, s.history, posterior, s.rng, s.worth)

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
    """Find what would change the answer to `ask`, one quantity at a time.

    By default it is asked which control set the policy chooses. Costs are turned in the direction that speaks against
    the answer: of what was chosen up, of all else down. `prices` are those of meters, `kinds` what is turned. The
    search is cut short after `most` answers.

    Raises:
        PolicyError: there is no answer to begin with.
    """
    search = _Search(ask, most)
    own = replace(situation, history=replace(situation.history, memo=Memo()))
    answer = search.ask(own)
    if answer is NO_ANSWER:
        raise PolicyError("what would change it: there is no decision to begin with")
    search.answer = answer
    sides = [_Side.of(lever, end) for lever in levers(own, answer, prices) if lever.kind in kinds for end in lever.ends]
    cut_short = False
    try:
        search.try_sides(sides)
    except _Enough:
        cut_short = True
    return Counterfactuals(answer, tuple(sorted(search.found, key=lambda f: f.effort)), search.asked, cut_short)


def changes_of_recommendation(
    situation: Situation, *, prices: Sequence[Price] = (), shown: int = SHOWN
) -> Counterfactuals:
    """Find what would change a recommendation; of the cheapest flips each side is recommended anew to verify it.

    Raises:
        PolicyError: nothing can be recommended.
    """
    answer = recommended(situation)
    if answer is NO_ANSWER:
        raise PolicyError("what would change it: nothing can be recommended yet")
    quick = counterfactuals(situation, weighed(situation), prices=prices, kinds=OF_RECOMMENDATIONS)
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

    def try_sides(self, sides: Sequence[_Side]) -> None:
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


def told(flip: Flip, *, currency: str, unit: str = "", names: Names | None = None) -> str:
    """Return a flip as one sentence; `unit` is the outcome's, as shown, `names` are the variables'."""
    after, subject = (shown_set(set_members(label), names) for label in (flip.after, flip.subject))
    then = f"{after} would be chosen" if after else "no trial would be chosen"
    at, now = in_full(flip.at), in_full(flip.now, 4)
    match flip.kind:
        case "cost":
            return f"At {at} {currency} a trial of {subject} (now {now}), {then}."
        case "price":
            return f"At {at} {currency} per {flip.per} of {flip.subject} (now {now}), {then}."
        case "budget":
            more = "more" if flip.at > flip.now else "less"
            return f"With {in_full(abs(flip.at - flip.now), 6)} {currency} {more} to spend, {then}."
        case "tolerance":
            return f"With a tolerance of {100 * flip.at:.4g} % (now {100 * flip.now:.4g} %), {then}."
        case "outcome":
            return f"Had the last trial given {at} {unit}".rstrip() + f" (it gave {now}), {then}."


def shown(found: Counterfactuals, *, currency: str, unit: str = "", names: Names | None = None) -> tuple[str, ...]:
    """Return the cheapest flips as sentences; where there is none, that."""
    if not found.flips:
        return (f"No single change that was tried would change the choice ({found.asked} decisions).",)
    return tuple(told(f, currency=currency, unit=unit, names=names) for f in found.flips[:SHOWN])
