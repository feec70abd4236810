"""One decision: a pure function of the journal's contents, and the thread it runs in."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from rigctl.campaign.journal.inserts import Decision
from rigctl.campaign.journal.rows import Origin, proposal_from_json, proposal_to_json
from rigctl.core.fallback import fallback
from rigctl.core.history import History
from rigctl.core.nature.naturals import initial_state, propose
from rigctl.core.policy import Finished, Policy, Problem, Proposal, trial_rng, validate
from rigctl.errors import PolicyError

T = TypeVar("T")
FRUITLESS = 3
"""Trials of one control set in a row that gave no outcome, before something else is tried."""


@dataclass(frozen=True, slots=True)
class Question:
    """Everything a decision depends on; all of it is in the journal."""

    policy: Policy
    problem: Problem
    seed: int
    history: History
    state: Mapping[str, Any] | None
    """The policy's, after its last decision; None before the first."""

    @property
    def trial(self) -> int:
        """Number of the trial to be decided."""
        return len(self.history) + 1


def decide(question: Question) -> Decision:
    """What the policy proposes; or safe exploration, where that cannot be played (fault 42).

    Trials without an outcome teach a policy nothing, so it asks for the same setting again: after a few of one control
    set in a row something else is tried, before as many failures in a row end the campaign.

    Raises:
        BudgetSpent: nothing fits the remaining budget.
        Finished: the policy's own stopping rule fired.
    """
    fruitless = _fruitless(question.history)
    if fruitless is not None:
        label = question.problem.space.control_sets[fruitless].label
        return explore(question, "rejected", f"the last {FRUITLESS} trials, of {label}, gave no outcome")
    try:
        proposal, state = _ask_policy(question)
    except Finished:
        raise
    except Exception as error:  # noqa: BLE001 - policies are plug-ins: whatever they raise, the rig goes on
        return explore(question, "rejected", f"{type(error).__name__}: {error}")
    return _decision(question, proposal, state, "policy", "")


def explore(question: Question, origin: Origin, why: str) -> Decision:
    """Safe exploration in the policy's place; the policy's memory stays as it was.

    Raises:
        BudgetSpent: nothing fits the remaining budget.
    """
    rng = trial_rng(question.seed, question.trial)
    return _decision(question, fallback(question.problem, question.history, rng, why), None, origin, why)


def _fruitless(history: History) -> int | None:
    """The control set that the last few trials were all of, if none of them gave an outcome."""
    last = history.observations[-FRUITLESS:]
    sets = {o.control_set for o in last}
    if len(last) < FRUITLESS or len(sets) > 1 or any(o.y is not None for o in last):
        return None
    return sets.pop()


def _ask_policy(question: Question) -> tuple[Proposal, Mapping[str, Any]]:
    policy, problem = question.policy, question.problem
    before = initial_state(policy, problem) if question.state is None else question.state
    rng = trial_rng(question.seed, question.trial)
    proposal, after = propose(policy, before, problem, question.history, rng)
    wrong = validate(proposal, problem)
    if wrong:
        raise PolicyError("; ".join(wrong))
    # The journal's form is the one that counts, so that a resumed process continues from exactly the same values.
    kept: Mapping[str, Any] = json.loads(json.dumps(dict(after)))
    return proposal_from_json(proposal_to_json(replace(proposal, trial=question.trial))), kept


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
        note=note,
    )


class DecisionThread:
    """Runs one decision at a time beside the event loop.

    A thread cannot be stopped: one that is late is left behind (it dies with the process), and until its work has come
    to its end the next call is late at once.
    """

    def __init__(self) -> None:
        self._working = threading.Lock()
        """Taken by a call, released by its thread before the answer is on its way: who has the answer may ask again,
        however long the thread itself takes to end."""

    async def call(self, work: Callable[[], T], limit_s: float | None) -> T:
        """What `work` returns or raises.

        Raises:
            TimeoutError: it took longer than the limit (None: there is none), or the last one still runs.
        """
        if not self._working.acquire(blocking=False):
            raise TimeoutError("the last decision still runs")
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()

        def deliver(result: T | None, error: BaseException | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(result)  # type: ignore[arg-type]  # no error, so there is a result

        def body() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:  # noqa: BLE001 - handed to the caller
                error = raised
            self._working.release()
            if not loop.is_closed():
                loop.call_soon_threadsafe(deliver, result, error)

        try:
            threading.Thread(target=body, name="decide", daemon=True).start()
        except RuntimeError:  # no more threads: nothing runs that could release it
            self._working.release()
            raise
        async with asyncio.timeout(limit_s):
            return await answer
