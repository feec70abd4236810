"""The campaign loop, without a rig: decide, observe, charge, remember; until the policy has finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.policy import Finished, Policy, Proposal, next_proposal, trial_rng

BUDGET_SPENT = "the budget is spent"


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision of a campaign, and what the policy remembers from it on."""

    proposal: Proposal
    state: JsonState
    decision_s: float = 0.0
    """By the timer that `play` was given."""


@dataclass(frozen=True, slots=True)
class Played:
    """A whole campaign."""

    problem: Problem
    history: History
    """What was known beforehand, and every trial."""
    decisions: tuple[Decided, ...]
    """One per trial."""
    finished: str
    """Why it ended."""
    seed: int


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


def play(
    policy: Policy,
    problem: Problem,
    observe: Callable[[Proposal], Observation],
    seed: int,
    *,
    look: Callable[[], Look] | None = None,
    known: History | None = None,
    most: int | None = None,
    post: Post | None = None,
    timer: Callable[[], float] = lambda: 0.0,
) -> Played:
    """Play a policy until it has finished, the budget is spent, or `most` trials are over.

    Decisions are those of a campaign on a rig (`next_proposal`), and their randomness depends on nothing but `seed` and
    the trial's number.

    Args:
        policy: who decides.
        problem: what is decided.
        observe: carries out a proposal; what it returns is charged.
        seed: of all decisions.
        look: reads the variables before a trial is decided; the decision and the history have what it returns.
        known: what was observed before the first trial; its costs count.
        most: trials at most.
        post: brings outcomes later; None: each is known at once.
        timer: seconds that a decision is timed by, e.g. `time.thread_time`.

    Raises:
        PolicyError: the policy proposed what cannot be played.
    """
    history = known or History()
    state: JsonState | None = None
    decisions: list[Decided] = []
    finished = BUDGET_SPENT
    while history.spent < problem.budget:
        trial = len(decisions) + 1
        if most is not None and trial > most:
            finished = f"{most} trials are over"
            break
        asked = problem if look is None else replace(problem, looks=True, look=look())
        began = timer()
        try:
            proposal, state = next_proposal(policy, state, asked, history, trial_rng(seed, trial))
        except Finished as reason:
            finished = str(reason)
            break
        decisions.append(Decided(proposal, state, timer() - began))
        history = history.append(replace(observe(proposal), look=asked.look))
        history = history if post is None else post.delivered(history)
    history = history if post is None else post.all_of(history)
    return Played(problem, history, tuple(decisions), finished, seed)
