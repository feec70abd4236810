"""The quantities behind a decision that can be changed, one at a time, while all others stay as they were.

Where costs are turned, those of past trials are, and as much money is left as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from decimal import Decimal
from math import floor, isfinite, log10
from typing import Any, Final

import numpy as np

from rigctl.core.advice.flips import Kind
from rigctl.core.costs.beliefs import believe
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import Micros, to_micros, to_units
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import JsonState, Problem

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

    @property
    def trial(self) -> int:
        return len(self.history) + 1


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
    changed = History.of(charged, history.memo)
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
        return replace(situation, history=History.of(rows, history.memo))

    ends, sd = (lowest, max(seen) + span), float(np.std(seen))
    yield Lever("outcome", "", seen[-1], ends, _step(span), sd, turned)


def _step(size: float) -> Decimal:
    """Return the third digit of a number of this size."""
    if not (isfinite(size) and size > 0):
        return Decimal(1)
    return Decimal(10) ** (floor(log10(size)) - 2)
