"""The policy of production: it plays what a recommendation says, and watches whether that still holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rigctl.core.advice.rule import RuleLine
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import value_at
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.drift import Scan, scan
from rigctl.core.experiment.natural import left_alone
from rigctl.core.experiment.policy import UNCHANGED, Policy, Proposal, SetReport
from rigctl.core.experiment.problem import JsonState, Problem, sign, values
from rigctl.core.gp.hyperparameters import Hyperparameters, Term, told
from rigctl.core.gp.model import Fitted, fit_again
from rigctl.core.gp.noticing import OutcomeRecord, noticed, still_off
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.operating.playing import (
    Drift,
    Memory,
    ProductionChoice,
    Way,
    asked_for,
    at_any_reading,
    explored,
    in_full,
    kept,
    known_then,
    made,
    remembered,
    settled,
)
from rigctl.core.policies.fallback import NAME as FALLBACK
from rigctl.errors import PolicyError

NAME = "operate"
PHASE = "operate"
EXPLORING = "learn"
"""Phases of a batch that the rule has decided, and of one that tries something else."""
GROWTH = 20
"""The rule is learned anew when there are a twentieth more outcomes than it was made of, at least one."""


@dataclass(frozen=True, slots=True)
class Operating:
    """Plays the rule, or the best fixed setting, as it was when operating began."""

    policy: Policy
    """The campaign's: what it remembers is kept for a campaign that goes on."""
    tolerance: float
    """How much worse than the best is good enough, as a share."""
    seed: int
    """The campaign's."""
    learn: float | None = None
    """Share of what is gained that may be lost by exploring; None: nothing is learned."""
    fixed: tuple[tuple[str, float], ...] = ()
    """Setpoints that are run instead of a recommendation, engineering units."""
    at_least: int = 0
    """Trials that what is run must be made of; with fewer it is made anew."""
    full: bool = False
    """Whether what is best at just these readings is run, and not the line of the short rule that holds."""
    worth: float | None = None
    """Of one unit of outcome, currency units; None: nobody said."""
    name: str = NAME

    def initial_state(self, problem: Problem) -> JsonState:
        return self.policy.initial_state(problem)

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Return the next batch, and the state with what is run.

        Raises:
            NotWorthIt: nothing of what may be run can be played now.
            PolicyError: no trial has given an outcome, and no setting was told.
        """
        memory = self._memory(state, problem, history)
        usual, learns = at_any_reading(problem), self.learn is not None
        watched = fit_again(usual, history, memory.watch, under_way=learns) if history.complete else None
        memory = replace(memory, watch=memory.watch if watched is None else watched.to_state())
        memory = replace(memory, drifts=drifted(usual, history, memory, watched))
        then = known_then(usual, history, memory) if self.full or not learns or watched is None else None
        rule = None if then is None or not self.full else in_full(memory, problem, history, then, self.tolerance)
        rule = played = rule or asked_for(memory, problem)
        # expectations are of all outcomes if they are learned from, else of those that the rule was made of
        posterior = watched.posterior if learns and watched is not None else then
        if self.learn is not None and posterior is not None:
            tried, pending = explored(memory, (problem, history, posterior), rule, self.learn, rng)
            memory, played = replace(memory, pending=pending), tried or rule
        phase = PHASE if played is rule else EXPLORING
        proposal = Proposal(
            trial=len(history) + 1,
            policy=self.name,
            phase=phase,
            control_set=played.control_set,
            setting=played.setting,
            reason=played.why,
            technical=f"made of {memory.since} trials; lost {memory.lost:.4g} of {memory.gained:.4g} gained",
            sets=(_report(problem, history, posterior, played),),
        )
        return proposal, kept(memory, state)

    def otherwise(self, state: JsonState | None, problem: Problem, history: History, why: str) -> Proposal:
        """Return what was run so far: it takes the readings, and no model.

        Raises:
            NotWorthIt: nothing of what may be run can be played now.
            PolicyError: nothing was decided yet for what was asked, and no setting was told.
        """
        memory = remembered(state)
        if self.fixed:
            memory = Memory(0, 0, 0, self._wish(), (self._told(),))
        elif memory is None or memory.asked != self._wish() or memory.since < self.at_least:
            raise PolicyError(f"{self.name}: what to run was not decided yet, and cannot be now: {why}")
        played = asked_for(memory, problem)
        return Proposal(
            trial=len(history) + 1,
            policy=FALLBACK,
            phase=UNCHANGED,
            control_set=played.control_set,
            setting=played.setting,
            reason=f"no decision was made, so what was run before is run again: {played.why}",
            technical=f"{why}; made of {memory.since} trials",
        )

    def _memory(self, state: JsonState, problem: Problem, history: History) -> Memory:
        """Return what is run: as it is kept, or made anew."""
        found, wish = remembered(state), self._wish()
        if found is not None:
            found = settled(found, history)
        if found is not None and found.asked == wish and found.since >= self.at_least:
            due = found.outcomes + max(1, found.outcomes // GROWTH)
            if self.learn is None or self.fixed or len(history.complete) < due:
                return found
        trials, model = len(history), {k: state[k] for k in ("hyperparameters", "fitted_at") if k in state}
        if found is not None:  # the model goes on from what it was
            model = dict(found.watch) or model
        ways, lines = self._made(problem, history, model)
        usual = at_any_reading(problem)
        fitted = fit_again(usual, history, model, under_way=False) if history.complete else None
        model = {} if fitted is None else dict(fitted.to_state())
        if found is None:
            return Memory(trials + 1, trials, len(history.complete), wish, ways, lines, model, model)
        drifts = found.drifts if fitted is None else not_taken_in(usual, history, found, fitted)
        changed = replace(found, since=trials, outcomes=len(history.complete), asked=wish, drifts=drifts)
        return replace(changed, ways=ways, lines=lines, model=model)

    def _made(
        self, problem: Problem, history: History, model: JsonState
    ) -> tuple[tuple[Way, ...], tuple[RuleLine, ...]]:
        if self.fixed:
            return (self._told(),), ()
        return made(problem, history, model, trial_rng(self.seed, len(history) + 1), (self.tolerance, self.worth))

    def _told(self) -> Way:
        return Way(tuple(name for name, _ in self.fixed), dict(self.fixed))

    def _wish(self) -> str:
        return f"{self.tolerance!r} {dict(self.fixed)!r}{'' if self.worth is None else f' {self.worth!r}'}"


def _report(problem: Problem, history: History, posterior: Posterior | None, played: ProductionChoice) -> SetReport:
    index, at = played.control_set, played.setting
    cost = Prices.of(problem, history).at(index, np.array([at]))
    believed = None if posterior is None else value_at(posterior, problem.space, index, at)
    paid = None if cost is None else float(cost[0])
    return SetReport.of(problem, history, index, at, believed, cost_mean=paid, cost_lcb=0.0, eligible=True)


# Has the supply or the response changed since what is run was learned? By the detectors that campaigns have. ---------

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
    """Find the change that a model's errors show, if it began after the trial `taken_in` and is none of the terms.

    What has drifted is taken to stay by the trial `since`; None: by the last one.
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
