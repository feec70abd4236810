"""Has the supply or the response changed since what is run was learned? By the detectors that campaigns have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.drift import Scan, scan
from rigctl.core.experiment.natural import left_alone
from rigctl.core.experiment.problem import Problem, sign, values
from rigctl.core.gp.hyperparameters import Hyperparameters, Term, told
from rigctl.core.gp.model import Fitted
from rigctl.core.gp.noticing import OutcomeRecord, noticed, still_off
from rigctl.core.operating.playing import Drift, Memory

RESPONSE = "response"
SOON = 30
"""Trials after one change of the response was noticed within which another is taken for more of the same."""
SCANS = "production's supplies"
"""Of a history's memo: by variable, its readings and what they gave away."""


def drifted(problem: Problem, history: History, memory: Memory, fitted: Fitted | None) -> tuple[Drift, ...]:
    """Return the changes that were noticed since the first batch; each as it was told first.

    A response that creeps for a while is taken for a step, then for a ramp, and, once it stays, for others that make up
    for those. While a person is told of the first, those that follow soon are it; it shows as long as any of them does.
    """
    found = [*_supplies(problem, history)]
    if fitted is not None:
        found += _response(problem, history, fitted, memory)
    ever, standing = list(memory.drifts), set(memory.standing)
    for drift in sorted(found, key=lambda d: d.noticed):
        if drift.noticed >= memory.begun and not any(_same(e, drift, stands=e in standing) for e in ever):
            ever.append(replace(drift, batch=len(history) + 1))
            standing.add(ever[-1])
    return tuple(e for e in ever if any(_same(e, drift, stands=e in standing) for drift in found))


def _same(known: Drift, drift: Drift, *, stands: bool) -> bool:
    """Tell whether a person who was told of the one was told of the other; `stands`: is still told of it."""
    soon = SOON if stands and drift.source == RESPONSE else 0
    return known.source == drift.source and known.noticed <= drift.noticed <= known.noticed + soon


def not_taken_in(problem: Problem, history: History, memory: Memory, fitted: Fitted) -> tuple[Drift, ...]:
    """Return the changes found before what is run is made anew; those that it does not know of are as of this batch.

    A model with fixed hyper-parameters takes a change of the response for noise, and expects the mean of what was and
    what is until there is enough of the latter.
    """
    unknown = {d for d in memory.standing if d.by_errors}
    if not unknown or problem.model.hyperparameters == "learned":
        return memory.drifts
    times = np.array([o.trial for o in history.complete], dtype=float)
    record = OutcomeRecord(history.x, values(problem, history), times, float(len(history)), history.noise)
    if not still_off(record, fitted.hyperparameters):
        return memory.drifts
    return tuple(replace(d, batch=len(history) + 1) if d in unknown else d for d in memory.drifts)


def _supplies(problem: Problem, history: History) -> Iterator[Drift]:
    """Find changes in what the variables read before trials; where nobody looks, in trials that left them alone."""
    known: Mapping[str, tuple[FloatArray, Scan]] = history.memo.get(SCANS) or {}
    found: dict[str, tuple[FloatArray, Scan]] = {}
    for column, variable in enumerate(problem.space.variables):
        trials, readings = _looked(history, column) if problem.looks else left_alone(problem.space, history, column)
        earlier, before = known.get(variable.name, (readings, None))
        goes_on = before is not None and np.array_equal(earlier, readings[: len(earlier)])
        found[variable.name] = readings, scan(readings, before if goes_on else None)
        for change in found[variable.name][1].changes[-1:]:
            began, at = int(trials[change.begins]), int(trials[change.noticed])
            yield Drift(variable.name, at, f"the supply has changed at trial {began} (noticed at trial {at})")
    history.memo.keep(SCANS, found)


def _looked(history: History, column: int) -> tuple[NDArray[np.int64], FloatArray]:
    """Return trial numbers and readings before them, (n,) each, unit interval."""
    rows = [(o.trial, o.look.x[column]) for o in history.observations if o.look is not None]
    known = [(trial, x) for trial, x in rows if x is not None]
    return np.array([t for t, _ in known], dtype=np.int64), np.array([x for _, x in known], dtype=float)


def _response(problem: Problem, history: History, fitted: Fitted, memory: Memory) -> Iterator[Drift]:
    """Find changes by the terms of a model that goes on learning, or by the errors of one that does not.

    The latter is a model with fixed hyper-parameters. And one that knew of a drift when what is run was made: all that
    follows passes for that drift, while what is run stays where it was.
    """
    h, learned = fitted.hyperparameters, problem.model.hyperparameters == "learned"
    for term in h.ageing:
        yield Drift(RESPONSE, term.noticed, told(term, sign(problem)))
    standing = any(term.noticed > memory.since for term in h.ageing)
    terms: tuple[Term, ...] = ()
    if learned:
        h = Hyperparameters.remembered(memory.model) or h
        terms = h.ageing
        if all(term.kind == "step" for term in terms):
            return
    before = [d for d in memory.drifts if d.source == RESPONSE and (d.by_errors or not learned)]
    yield from before
    if standing or any(d in memory.standing for d in before):
        return
    # what had begun by then is the same change: made anew, the rule takes it in, and the model goes on erring
    taken_in = max((d.noticed for d in before), default=memory.since if learned else 0)
    yield from _by_errors(problem, history, h, terms, since=memory.since if learned else None, taken_in=taken_in)


def _by_errors(
    problem: Problem, history: History, h: Hyperparameters, terms: Sequence[Term], *, since: int | None, taken_in: int
) -> Iterator[Drift]:
    """Find the change that a model's errors show, if it began after `taken_in`.

    Args:
        problem: what it is about.
        history: all trials.
        h: of the model.
        terms: changes that the model knows of.
        since: the trial by which what has drifted is taken to stay; None: the last.
        taken_in: the last trial whose changes are known already.
    """
    times, now = np.array([o.trial for o in history.complete], dtype=float), float(len(history))
    times = np.maximum.accumulate(times)
    stopped = now if since is None else min(now, float(since))
    record = OutcomeRecord(history.x, values(problem, history), np.minimum(times, stopped), stopped, history.noise)
    found = noticed(record, h, terms, every=False)
    if found is not None and times[found.begins] > taken_in:
        began, at = int(times[found.begins]), int(times[found.noticed])
        changed = f"the response has changed at trial {began} (noticed at trial {at})"
        yield Drift(RESPONSE, at, changed, by_errors=True)
