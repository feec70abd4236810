"""The policy of production: it plays what a recommendation says, and watches whether that still holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.advice.rule import RuleLine
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import value_at
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import UNCHANGED, Policy, Proposal, SetReport
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import fit_again
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.operating.drifts import drifted, not_taken_in
from rigctl.core.operating.playing import (
    Batch,
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
            batch = Batch(problem, history, posterior)
            tried, pending = explored(memory, batch, rule, self.learn, rng)
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
    """Say what is expected of a batch."""
    index, at = played.control_set, played.setting
    cost = Prices.of(problem, history).at(index, np.array([at]))
    believed = None if posterior is None else value_at(posterior, problem.space, index, at)
    paid = None if cost is None else float(cost[0])
    return SetReport.of(problem, history, index, at, believed, cost_mean=paid, cost_lcb=0.0, eligible=True)
