"""One decision: a pure function of the journal's contents."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.campaign.trial import Decision, Origin, look_of, undecided
from rigctl.codec import from_json, to_json
from rigctl.core.asking import next_proposal, on_grid, trial_rng
from rigctl.core.bounds.grid import lattice
from rigctl.core.costs.feasibility import everything_fits, nothing_fits
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.natural import belief
from rigctl.core.experiment.policy import UNCHANGED, BudgetSpent, Finished, Policy, Proposal, Steadfast
from rigctl.core.experiment.problem import Problem
from rigctl.core.policies.fallback import REPEAT, fallback, repeat
from rigctl.errors import PolicyError

if TYPE_CHECKING:
    from rigctl.campaign.journal.rows import TrialRow

READINGS = 16
"""At so many readings a policy is asked, once money is short, whether it would have any use for a look."""
FRUITLESS = 3
"""Trials of one control set in a row that gave no outcome, before something else is tried."""
TRACEBACK_CHARS = 10_000
"""Of a plug-in's traceback that long an end is kept."""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a decision depends on; all of it is in the journal."""

    policy: Policy
    problem: Problem
    seed: int
    history: History
    """All of it, but for a decider that says it knows the rest."""
    state: Mapping[str, Any] | None
    """The policy's, after its last decision; None before the first."""
    looks: bool = False
    """Whether it is asked before the look, and only if any trial could be played after it."""

    @property
    def trial(self) -> int:
        return len(self.history) + 1


def decide(question: Question) -> Decision:
    """Return what the policy proposes; or safe exploration, where that cannot be played (fault 42).

    Trials without an outcome teach a policy nothing, so it asks for the same setting again: after a few of one control
    set in a row something else is tried, before as many failures in a row end the campaign.

    Asked before a look it returns what stands for the decision until then: a look is paid only if something may fit.

    Raises:
        BudgetSpent: nothing fits the remaining budget.
        Finished: the policy's own stopping rule fired.
    """
    if question.looks:
        return _to_look(question)
    fruitless = _fruitless(question.history)
    if fruitless is not None and fruitless not in question.problem.unavailable:  # else it cannot ask for that again
        label = question.problem.space.control_sets[fruitless].label
        with suppress(PolicyError):  # production that has nothing to run yet asks what it is
            return explore(question, "rejected", f"the last {FRUITLESS} trials, of {label}, gave no outcome")
    try:
        proposal, state = _ask_policy(question)
    except Finished:
        raise
    except Exception as error:  # noqa: BLE001 - policies are plug-ins: whatever they raise, the rig goes on
        told = "".join(traceback.format_exception(error))[-TRACEBACK_CHARS:]
        return replace(explore(question, "rejected", f"{type(error).__name__}: {error}"), traceback=told)
    return _decision(question, proposal, state, "policy", "")


def _to_look(question: Question) -> Decision:
    """Return that the trial begins with a look; raise `BudgetSpent` if nothing fits, whatever is read."""
    problem, history = question.problem, question.history
    why = nothing_fits(problem, history)
    if not why and not everything_fits(problem, history):
        why = _refused(question)
    if why:
        raise BudgetSpent(why)
    return undecided(question.trial, question.seed, question.problem.budget, question.history)


def _refused(question: Question) -> str:
    """Say why the policy has no use for the money that is left at any of the readings that may come; empty: it may.

    A policy may want only such control sets as are too dear by now. Its state stays as it is.
    """
    why, problem = "", question.problem
    rng = np.random.default_rng([question.seed, question.trial, READINGS])
    usual = [v.marginal for v in belief(replace(problem, looks=False), question.history).problem.space.variables]
    for shares in lattice(len(usual), READINGS, rng):
        x = [float(m.quantile(np.array([u]))[0]) for m, u in zip(usual, shares, strict=True)]
        look = Look(tuple(x), (0.0,) * len(x))
        try:
            _ask_policy(replace(question, problem=replace(problem, look=look, looks=True)))
        except BudgetSpent as spent:
            why = str(spent)
        except Exception:  # noqa: BLE001 - whatever else it says, it says again after the look, and is heard then
            return ""
        else:
            return ""
    return why


def explore(question: Question, origin: Origin, why: str) -> Decision:
    """Explore safely in the policy's place, or do what it keeps to; its memory stays as it was.

    Raises:
        BudgetSpent: nothing fits the remaining budget.
        NotWorthIt: nothing that it keeps to can be played now.
        PolicyError: it has not decided what to keep to.
    """
    policy, problem, history = question.policy, question.problem, question.history
    if isinstance(policy, Steadfast):
        instead = on_grid(policy.otherwise(question.state, problem, history, why), problem)
    else:
        instead = fallback(problem, history, trial_rng(question.seed, question.trial), why)
    return _decision(question, instead, None, origin, why)


def without_answer(question: Question, last: Proposal | None, why: str) -> Decision:
    """Return what is played when the policy gave no answer (faults 50 and 60); its memory stays as it was.

    `last` (see `last_that_worked`) is played again if it can be, else see `explore`; `why` says why no answer came.

    Raises:
        BudgetSpent: nothing fits the remaining budget.
        NotWorthIt: nothing that the policy keeps to can be played now.
        PolicyError: it has not decided what to keep to.
    """
    again = None
    steadfast = isinstance(question.policy, Steadfast)  # its last proposal may have been one to learn from
    if not steadfast and last is not None and last.control_set != _fruitless(question.history):
        again = repeat(question.problem, question.history, last, why)
    return explore(question, "timed-out", why) if again is None else _decision(question, again, None, "timed-out", why)


def done_instead(decision: Decision) -> str:
    """Say in a few words what is done where the policy did not decide."""
    if runs_what_stands(decision):
        return "running what stands"
    repeated = decision.proposal is not None and decision.proposal.phase == REPEAT
    return "playing its last good proposal again" if repeated else "exploring safely"


def runs_what_stands(decision: Decision) -> bool:
    """Tell whether this is what a steadfast policy keeps to."""
    return decision.proposal is not None and decision.proposal.phase == UNCHANGED


def last_that_worked(trials: Iterable[TrialRow]) -> Proposal | None:
    """Return the policy's own last proposal whose trial gave an outcome."""
    own = [t.proposal for t in trials if t.origin == "policy" and t.outcome is not None and not t.voided]
    return own[-1] if own else None


def as_decided(problem: Problem, decision: Decision) -> Problem:
    """Return the problem as a past decision knew it: what was left, what could not be played, what was read."""
    labels = {c.label: i for i, c in enumerate(problem.space.control_sets)}
    unavailable = {labels[label]: why for label, why in decision.unavailable.items() if label in labels}
    look = look_of(problem.space, decision.looks)
    known = replace(problem, budget=decision.budget, unavailable=unavailable, look=look)
    return known if look is None else replace(known, looks=True)


def _fruitless(history: History) -> int | None:
    """Return the control set that the last few trials were all of, if none of them gave an outcome."""
    last = history.observations[-FRUITLESS:]
    sets = {o.control_set for o in last}
    gave = any(o.y is not None or o.awaited or not o.charged for o in last)
    # of a trial that ended before it was decided nothing was controlled
    if len(last) < FRUITLESS or len(sets) > 1 or min(sets) < 0 or gave:
        return None
    return sets.pop()


def _ask_policy(question: Question) -> tuple[Proposal, Mapping[str, Any]]:
    policy, problem = question.policy, question.problem
    rng = trial_rng(question.seed, question.trial)
    proposal, after = next_proposal(policy, question.state, problem, question.history, rng)
    # The journal's form is the one that counts, so that a resumed process continues from exactly the same values.
    return from_json(Proposal, to_json(replace(proposal, trial=question.trial))), after


def _decision(
    question: Question, proposal: Proposal, state: Mapping[str, Any] | None, origin: Origin, note: str
) -> Decision:
    space = question.problem.space
    return Decision(
        trial=question.trial,
        control_set=space.control_sets[proposal.control_set].names,
        setpoints=space.setpoints(proposal.control_set, proposal.setting),
        origin=origin,
        proposal=proposal,
        policy_state=state,
        seed=question.seed,
        history_length=len(question.history),
        budget=question.problem.budget,
        corrections=question.history.corrections,
        unavailable={space.control_sets[i].label: why for i, why in sorted(question.problem.unavailable.items())},
        note=note,
    )
