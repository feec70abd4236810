"""What is run at a reading: the line of the rule that holds, else the best fixed setting that can be played."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.advice.recommend import recommend
from rigctl.core.advice.rule import Between, RuleLine, line_for
from rigctl.core.advice.rules.planner import Planner
from rigctl.core.bounds.expectations import factors_outside
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import NotWorthIt
from rigctl.core.experiment.problem import JsonState, Problem, value_floor
from rigctl.core.experiment.space import Space
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_again
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.operating.memory import Memory, Way
from rigctl.text import set_label, shown_unit


@dataclass(frozen=True, slots=True)
class ProductionChoice:
    """Say what is run, and why."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    why: str
    """Plain sentences, without the last full stop."""


def made(
    problem: Problem, history: History, state: JsonState, rng: np.random.Generator, tolerance: float
) -> tuple[tuple[Way, ...], tuple[RuleLine, ...]]:
    """Return the fixed settings, best first, and the lines of the rule that would be recommended.

    Args:
        problem: as believed now; what was read before this one batch is left aside.
        history: all trials that it is made of.
        state: the policy's, for what it remembers of the model.
        rng: as a recommendation after these trials has it.
        tolerance: how much worse than the best is good enough, as a share.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    usual, known = at_any_reading(problem), Hyperparameters.remembered(state)
    found = recommend(replace(usual, further=()), history, rng, tolerance, known)
    seen = {problem.space.control_sets[o.control_set].names for o in history.complete if o.control_set >= 0}
    options = [found.choice, *(o for o in found.alternatives if o.control_set in seen)]
    ways = tuple(Way(o.control_set, o.setpoints, o.cost_per_trial) for o in options)
    return ways, found.rule.lines if found.rule is not None and found.rule.follows else ()


def at_any_reading(problem: Problem) -> Problem:
    """Return the problem as it is believed over all readings."""
    whole = problem.look is None or None not in problem.look.x  # what was not read is not trusted this once
    space = problem.space if problem.usual is None else problem.usual
    return replace(problem, space=space, usual=None, look=None, persistence=problem.persistence if whole else None)


def asked_for(memory: Memory, problem: Problem) -> ProductionChoice:
    """Return what is to be run at what was read.

    Raises:
        NotWorthIt: nothing of it can be played now.
    """
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
    conditions = " and ".join(_condition(c, space) for c in line.when)
    return ProductionChoice(
        index, _unit(space, index, line.setpoints(read)), f"{which}{f'. It is for {conditions}' if conditions else ''}"
    )


def in_full(
    memory: Memory, problem: Problem, history: History, posterior: Posterior, tolerance: float
) -> ProductionChoice | None:
    """Return what the full rule runs at what was read; None: nothing that was read tells of the batch.

    The full rule is by the trials that what is run was made of. Of control sets that cannot be played it takes the best
    that can.

    Args:
        memory: what is run.
        problem: as believed after the reading.
        history: all trials.
        posterior: of the value, as `known_then` has it.
        tolerance: how much worse than the best is good enough, as a share.
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
    return {v.name: v.low + (v.high - v.low) * x for v, x in variables if x is not None}


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
    return tuple(min(max((setpoints[v.name] - v.low) / (v.high - v.low), 0.0), 1.0) for v in held)


def _condition(condition: Between, space: Space) -> str:
    name, low, high = condition.reading, condition.low, condition.high
    unit = space.variables[space.names.index(name)].unit
    own = f" {shown_unit(unit)}".rstrip()
    if low is None:
        return f"{name} below {high:g}{own}"
    return f"{name} from {low:g}{own}" if high is None else f"{name} from {low:g} to {high:g}{own}"


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
