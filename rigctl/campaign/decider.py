"""Who is asked for decisions; and the thread that decides policies which are known to return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Protocol, TypeVar

from rigctl.campaign.decide import Question, decide
from rigctl.campaign.journal.inserts import Decision
from rigctl.core.policy import Policy, Problem
from rigctl.errors import NoAnswer

T = TypeVar("T")


class Decider(Protocol):
    """Answers one question at a time."""

    async def start(self, policy: Policy, problem: Problem) -> None:
        """Begin to get ready for questions about these; does not wait until that is so.

        Raises:
            PolicyError: they cannot be handed on.
        """
        ...

    async def decide(self, question: Question, limit_s: float) -> Decision:
        """See `decide.decide`.

        Raises:
            NoAnswer: it took longer than the limit, or whoever was to answer has ended.
            PolicyError: the policy cannot be asked at all.
            BudgetSpent: nothing fits the remaining budget.
            Finished: the policy's own stopping rule fired.
        """
        ...

    async def close(self) -> None:
        """End what decides, whatever it is at."""
        ...


def late(limit_s: float) -> str:
    """Why there is no decision, if it was not made in time."""
    return f"no decision within {limit_s:g} s"


class ThreadDecider:
    """Decides beside the event loop, in its process: for policies that are known to return."""

    def __init__(self) -> None:
        self._thread = DecisionThread()

    async def start(self, policy: Policy, problem: Problem) -> None:
        """Nothing to be done."""

    async def decide(self, question: Question, limit_s: float) -> Decision:
        """See `Decider`."""
        try:
            return await self._thread.call(lambda: decide(question), limit_s)
        except TimeoutError:
            raise NoAnswer(late(limit_s)) from None

    async def close(self) -> None:
        """Nothing to be done: a thread that still runs dies with this process."""


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
