"""What is run at a reading: the line of the rule that holds, else the best fixed setting that can be played.

What is run for production is kept in the journal: made once, and the same until it is to be made anew.

Exploring while producing, within a loss budget.

A conservative bandit (Wu, Shariff, Lattimore, Szepesvari 2016): the optimistic choice is played while what all batches
are expected to lose by exploring stays within a share of what the rule is expected to gain. An outcome's zero may be
arbitrary, so the share is of the gain over controlling nothing, at the same readings.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rigctl.codec import plain, typed
from rigctl.core.advice.answer import answer_of
from rigctl.core.advice.recommend import recommend
from rigctl.core.advice.rule import RuleLine, line_for
from rigctl.core.advice.rules.planner import Planner
from rigctl.core.advice.rules.saying import when
from rigctl.core.bounds.best import best_bounds
from rigctl.core.bounds.expectations import factors_outside, value_at
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import PRODUCTION, NotWorthIt
from rigctl.core.experiment.problem import JsonState, Problem, value_floor
from rigctl.core.experiment.space import Space
from rigctl.core.gp.model import fit_again
from rigctl.core.gp.surrogate import Posterior
from rigctl.errors import PolicyError
from rigctl.text import set_label


@dataclass(frozen=True, slots=True)
class Way:
    """One control set at one setting, for any reading."""

    control_set: tuple[str, ...]
    at: Mapping[str, float]
    """Engineering units."""
    cost: float | None = None
    """Of a batch, currency units; None: nobody knows."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One change of supply or response since what is run was learned."""

    source: str
    """A variable, or `response`."""
    noticed: int
    """The trial at which the evidence sufficed."""
    told: str
    """In a sentence, without the last full stop; as it was told first."""
    batch: int = 0
    """The batch at whose decision that was, or the last one for which what is run was made anew and still does not
    know of it: what is run was made before it was known, or anew since."""
    by_errors: bool = False
    """Whether the errors of what was expected gave it away, and not a term of the model that goes on learning."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What a batch was expected to gain and to lose, until it is known whether it has given an outcome."""

    trial: int
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Hold what is run, and what has been seen while it was. Values are in outcome units, larger is better."""

    begun: int
    """The first batch, by its trial number."""
    since: int
    """Trials that it was made of: the first so many."""
    outcomes: int
    """How many of them had given one."""
    asked: str
    """What it was made for; with another wish it is made anew."""
    ways: tuple[Way, ...]
    """Run where no line holds, or cannot be played: the first of these that can."""
    lines: tuple[RuleLine, ...] = ()
    """Of the rule; empty where no reading calls for anything else than the first of `ways`."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Of the fit that expectations are of (`Fitted.to_state`)."""
    watch: Mapping[str, Any] = field(default_factory=dict)
    """The same of the fit to all outcomes, by which a change of the response shows."""
    drifts: tuple[Drift, ...] = ()
    """All since the first batch that still show."""
    gained: float = 0.0
    """Over controlling nothing, by the rule, expected; of batches with an outcome."""
    lost: float = 0.0
    """By exploring, against the rule, expected."""
    pending: Pending | None = None
    """The last batch."""
    owed: tuple[Pending, ...] = ()
    """Earlier batches whose outcome is awaited; their losses count."""

    @property
    def standing(self) -> tuple[Drift, ...]:
        """Return the changes that what is run does not know of."""
        return tuple(d for d in self.drifts if d.batch > self.since)


def remembered(state: JsonState | None) -> Memory | None:
    """Return what is run by a policy's state; None where nothing is, or another version has written it."""
    if state is None or PRODUCTION not in state:
        return None
    try:
        return typed(Memory, state[PRODUCTION])
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def kept(memory: Memory, state: JsonState) -> dict[str, Any]:
    """Return a policy's state with it; what a campaign's own policy remembers stays."""
    return {**state, PRODUCTION: plain(memory)}


WORTH_LEARNING = 0.01
"""Of the signal's spread: an upper bound that is higher by less promises nothing."""


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
    memory: Memory,
    believed: tuple[Problem, History, Posterior],
    rule: ProductionChoice,
    share: float,
    rng: np.random.Generator,
) -> tuple[ProductionChoice | None, Pending]:
    """Return what is tried instead of the rule, if anything is, and what this batch is expected to gain and to lose.

    It costs no more than what it stands in for, and its upper confidence bound is the highest of those whose loss is
    within the budget. `believed` after the reading are the problem, all trials, and the value.
    """
    problem, history, posterior = believed
    mean, sd = value_at(posterior, problem.space, rule.control_set, rule.setting)
    gain = max(0.0, mean - left_alone(posterior, problem.space))
    within = share * memory.gained - memory.lost  # whether this batch gains anything is not known yet
    trial = len(history) + 1
    prices = Prices.of(problem, history)
    most = prices.at(rule.control_set, np.array([rule.setting]))
    # what trials that were broken off were charged does not say what a whole one costs
    priced = {i for i in range(len(problem.space.control_sets)) if problem.costs_told or history.costs(i).size}
    beta, h = problem.model.beta, posterior.hyperparameters
    to_beat = mean + beta * sd + WORTH_LEARNING * h.y_scale * h.signal_sd
    best = None
    for found in best_bounds(posterior, problem.space, problem.model, rng):
        if found.control_set in problem.unavailable or problem.limited:  # to learn could break a limit
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


@dataclass(frozen=True, slots=True)
class ProductionChoice:
    """Say what is run, and why."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    why: str
    """Plain sentences, without the last full stop."""


def made(
    problem: Problem, history: History, state: JsonState, rng: np.random.Generator, wish: tuple[float, float | None]
) -> tuple[tuple[Way, ...], tuple[RuleLine, ...]]:
    """Return the fixed settings, best first, and the lines of the rule where that is the answer.

    `wish` is the tolerance, and what one unit of outcome is worth, currency units.

    Raises:
        PolicyError: no trial has given an outcome yet, or no setting is likely enough to keep the limits.
    """
    usual = at_any_reading(problem)
    asked = usual if problem.limited else replace(usual, further=())
    found = recommend(asked, history, rng, wish[0], state, price=wish[1])
    if not found.choice.within:
        kept = "; ".join(f"{k.outcome} {k.probability:.0%}, needed {k.needed:.0%}" for k in found.choice.kept)
        raise PolicyError(f"operate: no setting is likely enough to keep the limits; the likeliest one: {kept}")
    seen = {problem.space.control_sets[o.control_set].names for o in history.complete if o.control_set >= 0}
    options = [found.choice, *(o for o in found.alternatives if o.control_set in seen and o.within)]
    ways = tuple(Way(o.control_set, o.setpoints, o.cost_per_trial) for o in options)
    return ways, found.rule.lines if found.rule is not None and answer_of(found).run.kind == "rule" else ()


def at_any_reading(problem: Problem) -> Problem:
    """Return the problem as it is believed over all readings."""
    whole = problem.look is None or None not in problem.look.x  # what was not read is not trusted this once
    space = problem.space if problem.usual is None else problem.usual
    return replace(problem, space=space, usual=None, look=None, persistence=problem.persistence if whole else None)


def asked_for(memory: Memory, problem: Problem) -> ProductionChoice:
    """Return what the remembered rule runs at what was read; raises NotWorthIt if nothing of it can be played now."""
    read = readings(problem)
    line = line_for(memory.lines, read)
    if line is None:
        return _fixed(memory, problem, missing=bool(memory.lines))
    space, number = problem.space, memory.lines.index(line) + 1
    index = space.index_of(line.control_set)
    if index in problem.unavailable:
        return _fixed(memory, problem, instead_of=line.control_set)
    count = len(memory.lines)
    which = f"line {number} of {count} of the rule holds" if count > 1 else "the rule is run"
    conditions = " and ".join(when(c, space.units) for c in line.when)
    return ProductionChoice(
        index, _unit(space, index, line.setpoints(read)), f"{which}{f'. It is for {conditions}' if conditions else ''}"
    )


def in_full(
    memory: Memory, problem: Problem, history: History, posterior: Posterior, tolerance: float
) -> ProductionChoice | None:
    """Return what the full rule runs at what was read; None: nothing that was read tells of the batch.

    The full rule is by the trials that what is run was made of. Of control sets that cannot be played it takes the best
    that can.
    """
    usual, then, space = at_any_reading(problem), _then(history, memory), problem.space
    ways = ((space.index_of(way.control_set), way.at) for way in memory.ways)
    settings = {i: _unit(space, i, at) for i, at in ways if i not in problem.unavailable}
    if not settings or problem.look is None:
        return None
    worst = value_floor(usual, then, posterior.left_out)
    found = Planner.of(usual, then, posterior, settings, worst=worst, tolerance=tolerance).on(problem.look.x)
    if found is None:
        return None
    why = "it is best at just these readings, of what trials speak for: the full rule is run"
    return ProductionChoice(found.control_set, found.setting, why)


def readings(problem: Problem) -> dict[str, float]:
    """Return what was read before this batch, engineering units; what could not be read is left out."""
    if problem.look is None:
        return {}
    variables = zip(problem.space.variables, problem.look.x, strict=True)
    return {v.name: v.value(x) for v, x in variables if x is not None}


def _fixed(
    memory: Memory, problem: Problem, *, missing: bool = False, instead_of: tuple[str, ...] = ()
) -> ProductionChoice:
    space = problem.space
    indices = [space.index_of(way.control_set) for way in memory.ways]
    playable = [(i, way) for i, way in zip(indices, memory.ways, strict=True) if i not in problem.unavailable]
    if not playable:
        raise NotWorthIt("none of the settings that may be run can be played now")
    index, way = playable[0]
    barred = instead_of or (() if index == indices[0] else memory.ways[0].control_set)
    if barred:
        why = f"{set_label(barred)} is asked for, but cannot be played now. The best fixed setting that can is run"
    elif missing:
        why = "a reading that the rule takes is missing, so the best fixed setting is run"
    else:
        why = "the fixed setting is run"
    return ProductionChoice(index, _unit(space, index, way.at), why)


def _unit(space: Space, control_set: int, setpoints: Mapping[str, float]) -> tuple[float, ...]:
    """Return setpoints, engineering units, as a setting (k,) of the unit cube."""
    held = (space.variables[i] for i in space.control_sets[control_set].indices)
    return tuple(min(max(v.share(setpoints[v.name]), 0.0), 1.0) for v in held)


# What is expected of it ----------------------------------------------------------------------------------------------


def known_then(problem: Problem, history: History, memory: Memory) -> Posterior | None:
    """Return the posterior of the value given the trials that what is run was made of; None: none had an outcome."""
    then = _then(history, memory)
    if not then.complete:
        return None
    return fit_again(at_any_reading(problem), then, memory.model, under_way=False).posterior


def _then(history: History, memory: Memory) -> History:
    return History.of(o for o in history.observations if o.trial <= memory.since)


def left_alone(posterior: Posterior, space: Space) -> float:
    """Return the mean of the value of controlling nothing, outcome units, larger is better."""
    h = posterior.hyperparameters
    outside = factors_outside(h.product_kernel, space, np.zeros((1, space.dimension)), posterior.x)
    mean = h.mean + h.signal_variance * float(outside[0] @ posterior.alpha)
    return float(h.y_shift + h.y_scale * mean)
