"""Outcomes that come later, as from a laboratory: to policies, which are asked with what is known by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from rigctl.core.asking import Played
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem


@dataclass(slots=True)
class Post:
    """Brings outcomes later, as a laboratory does: so many trials after their own, or never; mutable."""

    delay: Callable[[int], int | None]
    """Of a trial's outcome, by the trial's number, in trials; 0: known to the next decision; None: it never comes."""
    pending: int = 16
    """Outcomes at most that are under way when a trial is decided: else time passes without one."""
    patience: int = 20
    """Trials after which one that has not come is given up."""
    _now: int = 0
    _under_way: dict[int, tuple[int, float | None, tuple[float, ...]]] = field(default_factory=dict)
    """By place in the history: when it comes, and what."""

    def delivered(self, history: History) -> History:
        """Return the history as it is known when the next trial is decided; its last outcome has just been sent."""
        place, last = len(history) - 1, history.observations[-1]
        delay = self.delay(last.trial)
        came = (None, ()) if delay is None else (last.y, last.further)
        self._under_way[place] = (self._now + (self.patience if delay is None else delay), *came)
        history = _with(history, {place: replace(last, y=None, further=(), awaited=True)})
        while True:
            history = self._opened(history, self._now)
            self._now += 1
            if len(self._under_way) < self.pending:
                return history

    def all_of(self, history: History) -> History:
        """Return the history once everything has come that comes."""
        return self._opened(history, None)

    def _opened(self, history: History, now: int | None) -> History:
        due = {p: found for p, found in self._under_way.items() if now is None or found[0] <= now}
        for place in due:
            del self._under_way[place]
        rows = history.observations
        return _with(
            history, {p: replace(rows[p], y=y, further=more, awaited=False) for p, (_, y, more) in due.items()}
        )


def _with(history: History, changed: Mapping[int, Observation]) -> History:
    if not changed:
        return history
    rows = (changed.get(place, o) for place, o in enumerate(history.observations))
    return History.of(rows, history.memo, history.corrections)


@dataclass(slots=True)
class Awaiting:
    """Ask a policy of one campaign with what has come by then; mutable."""

    policy: Policy
    post: Post
    _known: History | None = None

    @property
    def name(self) -> str:
        return self.policy.name

    def initial_state(self, problem: Problem) -> JsonState:
        return self.policy.initial_state(problem)

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """Ask it; before the first trial all is known that there is."""
        self._known = history if self._known is None else self._sent(self._known, history)
        return self.policy.propose(state, problem, self._known, rng)

    def told(self, played: Played) -> Played:
        """Return the campaign once everything has come that comes."""
        known = played.history if self._known is None else self._sent(self._known, played.history)
        return replace(played, history=self.post.all_of(known))

    def _sent(self, known: History, history: History) -> History:
        """Send the outcome of the trial since, if there was one."""
        for observation in history.observations[len(known) :]:
            known = self.post.delivered(known.append(observation))
        return known
