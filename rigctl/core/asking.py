"""How a policy is asked for the next trial: everybody who asks one, asks here.

The campaign loop, without a rig: decide, observe, charge, remember; until the policy has finished.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition import stopping
from rigctl.core.advice.response import kept, reference_proposal
from rigctl.core.costs.beliefs import believe
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.natural import belief, present
from rigctl.core.experiment.policy import Finished, Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.experiment.space import OFF_GRID
from rigctl.errors import PolicyError
from rigctl.threads import one_thread

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


@one_thread()
def next_proposal(
    policy: Policy, state: JsonState | None, problem: Problem, history: History, rng: np.random.Generator
) -> tuple[Proposal, JsonState]:
    """Ask a policy for the next trial, as a campaign does; everybody who asks one asks here.

    It is asked about the problem as it is believed now, with a concrete marginal for every variable; what was learned
    goes into the proposal's notes. Its answer can be played, and its state is as a journal gives it back.

    Args:
        policy: the one that is asked.
        state: the policy's after its last decision; None before the first.
        problem: with declared marginals, or marginals that are learned.
        history: all trials so far.
        rng: `trial_rng` of the trial.

    Raises:
        Finished: nothing more is proposed; `BudgetSpent`, or `NotWorthIt` by the policy's rule or `Problem.stop_worth`.
        PolicyError: it cannot decide, or its proposal cannot be played.
    """
    now = belief(problem, history)
    before = first_state(policy, problem) if state is None else state
    stands = stopping.standing(now.problem, history, before)
    found = reference_proposal(policy.name, now.problem, history, before, rng)
    proposal, after = policy.propose(before, now.problem, history, rng) if found is None else found
    wrong = validate(proposal, problem)
    if wrong:
        raise PolicyError(f"{policy.name}: {'; '.join(wrong)}")
    proposal = on_grid(proposal, problem)
    notes = (*proposal.notes, *now.notes)
    proposal = with_cost(replace(proposal, notes=notes, read=now.read), problem, history)
    after = kept(after, before)
    if stands is not None:
        reason = ". ".join(said for said in (proposal.reason, stands.warning) if said)
        technical = f"{proposal.technical or proposal.reason}; {stands.technical}"
        proposal = replace(proposal, reason=reason, technical=technical)
        after = {**after, stopping.KEPT: stands.state}
    return proposal, json.loads(json.dumps(after))


def with_cost(proposal: Proposal, problem: Problem, history: History) -> Proposal:
    """Return a proposal that says what is assumed of its cost, if that is not known."""
    if problem.costs_told or history.trials_of(proposal.control_set):
        return proposal
    untried = believe(problem, history, "empirical-bernstein")[proposal.control_set]
    return replace(proposal, cost_known=False, assumed_cost=untried.assumed)


def on_grid(proposal: Proposal, problem: Problem) -> Proposal:
    """Return a proposal with every stepped variable on a level, and a note where a policy knew nothing of steps."""
    space = problem.space
    if not space.steps.any():
        return proposal
    setting, notes = [], []
    for i, u in zip(space.control_sets[proposal.control_set].indices, proposal.setting, strict=True):
        v = space.variables[i]
        level = round(u * v.steps) / v.steps if v.steps else u
        if abs(level - u) > OFF_GRID:
            notes.append(f"{v.name}: {v.value(u):.6g} is between two steps; the nearest, {v.setpoint(level):g}, is set")
        setting.append(level)
    return replace(proposal, setting=tuple(setting), notes=(*proposal.notes, *notes))


def first_state(policy: Policy, problem: Problem) -> JsonState:
    """Return the policy's state before the first trial, when nothing has been learned yet."""
    return policy.initial_state(present(replace(problem, look=None), History())[0])


def trial_rng(seed: int, trial: int) -> np.random.Generator:
    """Return the one source of randomness of a trial's decision: depends on nothing but seed and trial number."""
    return np.random.default_rng([seed, trial])


def validate(proposal: Proposal, problem: Problem) -> Sequence[str]:
    """Return what is wrong with a proposal; empty if it may be played (fault 42)."""
    space = problem.space
    if not 0 <= proposal.control_set < len(space.control_sets):
        return [f"control set {proposal.control_set} does not exist"]
    if proposal.control_set in problem.unavailable:
        label = space.control_sets[proposal.control_set].label
        return [f"{label} cannot be played now: {problem.unavailable[proposal.control_set]}"]
    indices = space.control_sets[proposal.control_set].indices
    if len(proposal.setting) != len(indices):
        return [f"{len(proposal.setting)} values for {len(indices)} controlled variables"]
    return [
        f"{space.variables[i].name}: got {u!r} on the unit cube, must be in [0, 1]"
        for i, u in zip(indices, proposal.setting, strict=True)
        if not (np.isfinite(u) and 0.0 <= u <= 1.0)
    ]
