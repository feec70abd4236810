"""The campaign loop, without a rig: decide, observe, charge, remember; until the policy has finished."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rigctl.core.asking import next_proposal, trial_rng
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.policy import Finished, Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem

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


def play(
    policy: Policy,
    problem: Problem,
    observe: Callable[[Proposal], Observation],
    seed: int,
    *,
    look: Callable[[], Look] | None = None,
    known: History | None = None,
    most: int | None = None,
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
    return Played(problem, history, tuple(decisions), finished, seed)
