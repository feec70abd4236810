"""What the model says beyond the last decision: worked out once per trial, in a process that nobody waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.campaign.journal import Reader
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.replay import came_of_row, flips_of, prices, situation_before
from rigctl.config.load import LoadedConfig
from rigctl.core.advice.aftermath import told
from rigctl.core.advice.explain import sentence
from rigctl.core.advice.flips import Counterfactuals
from rigctl.core.advice.recommend import Option, Outstanding, Recommendation, recommend_again
from rigctl.core.advice.response import told_of_response
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.counterfactuals import Price, Situation, changes_of_recommendation, outstanding, shown
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.marginals.drift import scan
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.natural import Learned, present
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.experiment.space import Space
from rigctl.core.gp.model import fit_known
from rigctl.core.gp.surrogate import Posterior
from rigctl.page.campaign import campaign_spec
from rigctl.page.facts import normal_band
from rigctl.page.shown import Slice, Study, Supply
from rigctl.text import shown_unit

PLACES = 33
"""Points along a slice."""
NEAR = 0.05
"""A trial this near on the unit interval counts as tried there."""
TWO_SIDED = 1.959964
"""Standard deviations of the 95 % interval."""
DECISIONS = 40
"""Decisions that it may take to find what would change one."""
MOST_TRIALS = 1000
"""With more, each of those decisions takes seconds."""


@dataclass(frozen=True, slots=True)
class StudyPast:
    """What a study may know besides the history."""

    least: float | None = None
    """What a trial costs whatever it controls, currency units; None: not known."""
    last: TrialRow | None = None
    """The last trial with a decision."""
    before: Situation | None = None
    """What that choice depended on."""
    prices: tuple[Price, ...] = ()


def past(reader: Reader, loaded: LoadedConfig) -> StudyPast:
    """Read it in a moment, so that the journal need not be kept open while a study is worked out.

    Raises:
        JournalError: it cannot be read.
    """
    micros, number = reader.glance.least_cost(), reader.glance.last_decided()
    least, last = None if micros is None else to_units(micros), None if number is None else reader.trial(number)
    if last is None or last.trial > MOST_TRIALS:
        return StudyPast(least)
    spec = campaign_spec(loaded)
    return StudyPast(least, last, situation_before(reader, spec, last), prices(reader, spec))


def study_of(loaded: LoadedConfig, history: History, state: JsonState, known: StudyPast | None = None) -> Study:
    """Work out all but flips of a history and the policy's memory; without `known` nothing of the last choice."""
    problem, notes = present(loaded.problem, history)
    bands, supplies = {v.name: normal_band(v) for v in problem.space.variables}, _supplies(loaded.problem, history)
    before = known or StudyPast()
    came = _came(loaded, before, state)
    decision = 0 if before.last is None else before.last.trial
    if not history.complete:
        return Study(len(history), decision, None, (), bands, supplies, came=came, notes=notes)
    found = recommended(loaded, history, state, before.least)
    posterior = fit_known(problem, history, state).posterior
    aged = posterior.hyperparameters.ageing
    lines = told_of_response(
        problem, history, aged, outcome=loaded.rig.outcome_label, unit=shown_unit(loaded.outcome_unit)
    )
    response = tuple(sentence(line, problem.space.names) for line in lines)
    slices = tuple(_slice(problem, history, posterior, found.choice, i) for i in range(problem.space.dimension))
    return Study(len(history), decision, found, slices, bands, supplies, came=came, response=response, notes=notes)


def with_flips(found: Study, loaded: LoadedConfig, known: StudyPast) -> Study:
    """Say besides what would have changed the last choice: decides some forty times again, and may take longest.

    That is of the last choice now; if there was another since the study, what came of that one is left out.
    """
    if known.last is None:
        return found
    decision = known.last.trial
    came = found.came if decision == found.decision else ()
    return replace(found, decision=decision, flips=_flips(loaded, known), flips_of=decision, came=came)


def recommended(
    loaded: LoadedConfig, history: History, state: JsonState, least: float | None = None, now: Look | None = None
) -> Recommendation:
    """Recommend by any history, with the models that the policy remembers (if it does).

    `state` is the policy's. `least` is what a trial costs whatever it controls, currency units, if known; `now` is what
    was read just now, if it is asked what is best at that.

    Raises:
        PolicyError: no trial has given an outcome yet.
    """
    # on a bench by hand nothing declares a look: that readings were told before trials says so
    read = not loaded.wired and any(o.look is not None for o in history.observations)
    return recommend_again(
        replace(loaded.problem, looks=True) if read else loaded.problem,
        history,
        trial_rng(loaded.seed, len(history) + 1),
        tolerance=loaded.tolerance,
        state=state,
        today=loaded.today,
        price=loaded.worth,
        floor_cost=least,
        now=None if now is None else now.x,
    )


def changes(loaded: LoadedConfig, history: History, state: JsonState, priced: Sequence[Price] = ()) -> Counterfactuals:
    """Find what would change the recommendation, by deciding again; raises PolicyError if there is none."""
    return changes_of_recommendation(_situation(loaded, history, state), prices=priced)


def awaited(loaded: LoadedConfig, history: History, state: JsonState, found: Recommendation) -> Outstanding | None:
    """Say what outcomes could make of a recommendation that are still to come; None if none is."""
    return outstanding(_situation(loaded, history, state), found)


def _situation(loaded: LoadedConfig, history: History, state: JsonState) -> Situation:
    return Situation(loaded.policy, state, loaded.problem, history, loaded.seed, loaded.tolerance, loaded.worth)


def _flips(loaded: LoadedConfig, known: StudyPast) -> tuple[str, ...]:
    """Return the cheapest changes that would have flipped the last choice, each found by deciding again."""
    if known.last is None or known.before is None:
        return ()
    found = flips_of(known.before, known.last, known.prices, DECISIONS)
    if found is None:
        return ()
    return shown(
        found, currency=loaded.currency, unit=shown_unit(loaded.outcome_unit), names=loaded.problem.space.units
    )


def _came(loaded: LoadedConfig, known: StudyPast, state: JsonState) -> tuple[str, ...]:
    """Return what came of the last chosen trial against what was expected of it; empty while it is under way."""
    row, before = known.last, known.before
    if row is None or before is None or row.voided:
        return ()
    came = came_of_row(before, row, state)
    return (
        ()
        if came is None
        else told(
            came, outcome=loaded.rig.outcome_label, unit=shown_unit(loaded.outcome_unit), currency=loaded.currency
        )
    )


def _supplies(problem: Problem, history: History) -> tuple[Supply, ...]:
    """Return the stretches of every variable whose marginal is learned and whose supply has changed."""
    space, rows = problem.space, [o for o in history.observations if o.x is not None and o.control_set >= 0]
    found: list[Supply] = []
    for column, variable in enumerate(space.variables):
        alone = [o for o in rows if column not in space.control_sets[o.control_set].indices]
        values = np.array([(o.x or ())[column] for o in alone], dtype=float)
        changes = scan(values).changes if isinstance(variable.marginal, Learned) and len(values) else ()
        if not changes:
            continue
        begins = [0, *(change.begins for change in changes)]
        for begin, end in zip(begins, [*begins[1:], len(values)], strict=True):
            mean = variable.low + (variable.high - variable.low) * float(values[begin:end].mean())
            found.append(Supply(variable.name, alone[begin].trial, alone[end - 1].trial, mean))
    return tuple(found)


def _slice(problem: Problem, history: History, posterior: Posterior, choice: Option, index: int) -> Slice:
    """Return what is expected along one variable, those of the recommendation at their setpoints, the rest left alone.

    A variable that the recommendation leaves alone is looked at as if it were controlled besides.
    """
    space, variable = problem.space, problem.space.variables[index]
    names = {*choice.control_set, variable.name}
    members = tuple(i for i, v in enumerate(space.variables) if v.name in names)
    wider = Space.of(space.variables, [[space.variables[i].name for i in members]])
    u = np.linspace(0.0, 1.0, len(variable.levels) or PLACES)
    points = np.full((len(u), space.dimension), 0.5)
    for i in members:
        v = space.variables[i]
        points[:, i] = u if i == index else (choice.setpoints[v.name] - v.low) / (v.high - v.low)
    mean, sd = Expectations.of(posterior, wider).values(points, np.zeros(len(u), dtype=np.int64))
    outcome, half = sign(problem) * mean, TWO_SIDED * sd
    return Slice(
        variable=variable.name,
        unit=shown_unit(variable.unit),
        at=_numbers(variable.low + (variable.high - variable.low) * u),
        mean=_numbers(outcome),
        low=_numbers(outcome - half),
        high=_numbers(outcome + half),
        tried=tuple(bool(t) for t in _tried(history, index, u)),
        chosen=choice.setpoints.get(variable.name),
    )


def _tried(history: History, index: int, u: FloatArray) -> FloatArray:
    """(n,), whether a trial with an outcome was near each place."""
    seen = history.x[:, index]
    return np.asarray((np.abs(seen[None, :] - u[:, None]) <= NEAR).any(axis=1))


def _numbers(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))
