"""Decides in a process of its own (`campaign.deciding`), started once and kept warm.

A policy is somebody else's code. There it cannot delay the event loop, whatever it does with the interpreter lock; if
it does not return it is ended, and if it crashes it takes nothing with it. Questions and answers go by value; of the
history only what is new.
"""

from __future__ import annotations

import asyncio
import hashlib
import marshal
import os
import pickle
import signal
import sys
from abc import ABC, abstractmethod
from asyncio.subprocess import PIPE, Process
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any

from rigctl import system
from rigctl.campaign.decide import FRUITLESS, TRACEBACK_CHARS, Question
from rigctl.campaign.deciding import HEAD, framed
from rigctl.campaign.trial import Decision
from rigctl.core.experiment.history import History, Look, Observation, end_of
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import Problem
from rigctl.errors import NoAnswer, PolicyError, reason


class Decider(ABC):
    """Answers one question at a time."""

    @abstractmethod
    async def start(self, policy: Policy, problem: Problem) -> None:
        """Begin to get ready for questions about these; does not wait until that is so.

        Raises:
            PolicyError: they cannot be handed on.
        """

    @abstractmethod
    async def decide(self, question: Question, limit_s: float) -> Decision:
        """Do as `rigctl.campaign.decide.decide` does.

        Raises:
            NoAnswer: it took longer than the limit, or whoever was to answer has ended.
            PolicyError: the policy cannot be asked at all.
            BudgetSpent: nothing fits the remaining budget.
            Finished: the policy's own stopping rule fired.
        """

    @abstractmethod
    async def close(self) -> None:
        """End what decides, whatever it is at."""

    def known(self, history: History) -> int | None:
        """Return how many of these trials it has been told of; None: of too few to be asked with this end alone.

        One that keeps the history itself spares whoever asks all but its end; by default it keeps none.
        """
        del history
        return None


MODULE = "rigctl.campaign.deciding"
READY_S = 60.0
"""Wall seconds within which the process has started and imported what it needs."""
LAST_WORDS_S = 0.5
"""A process that is ended for being late has so long to say where it stood."""
END_S = 5.0
"""Within which the kernel ends a process, unless that waits for a disk."""
CHUNK_BYTES = 4096
TOLD = ("budget", "unavailable", "look", "looks")
"""Parts of a problem that are others with each question."""
SENT = ("policy", "problem", "history")
"""Parts of a question that are sent beforehand, or as far as they are new."""


class ProcessDecider(Decider):
    """Replaces whoever gave no answer; the next one gets ready while the trial runs."""

    def __init__(self) -> None:
        self._subject: tuple[Policy, Problem] | None = None
        self._ready: asyncio.Task[_Child] | None = None

    async def start(self, policy: Policy, problem: Problem) -> None:
        self._subject = policy, problem
        try:
            subject = pickle.dumps(self._subject, pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            raise PolicyError(
                f"policy {policy.name}: cannot be handed to a process of its own ({type(error).__name__}: {error}); "
                "its class must stand in a module, and its fields be plain values"
            ) from error
        self._ready = asyncio.create_task(_Child.ready(policy.name, subject), name="decider")

    async def decide(self, question: Question, limit_s: float) -> Decision:
        if self._ready is None or not self._is_about(question):
            await self.close()
            await self.start(question.policy, question.problem)
        try:
            return await self._ask(question, limit_s)
        except NoAnswer:
            await self.start(question.policy, question.problem)
            raise
        except asyncio.CancelledError:
            await self.close()  # its answer to this question must not be taken for one to the next
            raise

    def known(self, history: History) -> int | None:
        ready = self._ready
        if ready is None or not ready.done() or ready.cancelled() or ready.exception() is not None:
            return None if history.before else 0
        return ready.result().known(history)

    async def close(self) -> None:
        ready, self._ready = self._ready, None
        if ready is None:
            return
        ready.cancel()
        await asyncio.wait({ready})
        if not ready.cancelled() and ready.exception() is None:
            await ready.result().end()

    def _is_about(self, question: Question) -> bool:
        """Tell whether it knows this policy and problem, but for what is told with each question."""
        if self._subject is None or self._subject[0] is not question.policy:
            return False
        parts = (f.name for f in fields(Problem) if f.name not in TOLD)
        return all(getattr(self._subject[1], part) is getattr(question.problem, part) for part in parts)

    async def _ask(self, question: Question, limit_s: float) -> Decision:
        if self._ready is None:
            raise AssertionError("unreachable: started by who calls")
        child = await self._ready
        try:
            async with asyncio.timeout(limit_s):
                return await child.ask(question)
        except TimeoutError:
            told = await child.end(signal.SIGABRT)
            raise NoAnswer(f"no decision within {limit_s:g} s", told) from None


class _Child:
    def __init__(self, process: Process) -> None:
        self._process = process
        self._told = History()
        """The end of the history that it has been told of."""
        self._digest = hashlib.blake2b()
        """Of all that it has been told of."""
        self._asked = 0
        """Number of the last question."""
        self._said = b""
        self._listening = asyncio.create_task(self._listen())

    @classmethod
    async def ready(cls, policy: str, subject: bytes) -> _Child:
        """Start one and wait until it can be asked about this policy and problem, which are `subject`.

        Raises:
            NoAnswer: it does not start, or does not get ready.
            PolicyError: it cannot load the policy.
        """
        command = [sys.executable, "-P", "-u", "-m", MODULE, str(os.getpid())]
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=system.environment(), start_new_session=True
            )
        except OSError as error:
            raise NoAnswer(f"the policy's process cannot be started: {reason(error)}") from error
        child = cls(process)
        try:
            async with asyncio.timeout(READY_S):
                refused = await child._exchange(subject)
        except TimeoutError:
            told = await child.end(signal.SIGABRT)
            raise NoAnswer(f"the policy's process was not ready within {READY_S:g} s", told) from None
        except BaseException:
            await child.end()
            raise
        if refused is not None:
            await child.end()
            raise PolicyError(
                f"policy {policy}: cannot be loaded in a process of its own ({refused}); its module must be one that "
                "can be imported there, and may need nothing else of this process"
            )
        return child

    async def ask(self, question: Question) -> Decision:
        history = question.history
        known = self.known(history)
        if known is None:
            raise AssertionError(f"unreachable: asked with an end of {len(history)} trials before being told of them")
        fresh = history.observations[known - history.before :]
        if known == 0:
            self._digest = hashlib.blake2b()
        self._digest.update(_bytes(fresh))
        self._told = end_of(history, FRUITLESS)
        asked = {f.name: getattr(question, f.name) for f in fields(question) if f.name not in SENT}
        now = {part: getattr(question.problem, part) for part in TOLD}
        answer = await self._exchange((asked, now, (known, fresh)))
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, Decision):
            raise NoAnswer(f"the policy's process answered {answer!r:.80}, which is no decision", await self.end())
        return replace(answer, corrections=history.corrections)

    def known(self, history: History) -> int | None:
        """Return how many of these trials it has been told of, if they are the first of them; None: see `Decider`.

        A whole history is compared by digest. An end is one of what this was told of, longer by a few trials, unless
        there was a correction; where they overlap they are compared.
        """
        count = len(self._told)
        both = history.observations[: max(count - history.before, 0)]
        if not history.before:
            return count if hashlib.blake2b(_bytes(both)).digest() == self._digest.digest() else 0
        overlap = min(len(both), len(self._told.observations))
        same = history.corrections == self._told.corrections and both[-overlap:] == self._told.observations[-overlap:]
        return count if overlap and same else None

    async def _exchange(self, value: object) -> Any:
        to, back = self._process.stdin, self._process.stdout
        if to is None or back is None:
            raise AssertionError("unreachable: started with pipes")
        self._asked += 1
        try:
            to.write(framed(self._asked, value))
            await to.drain()
            while True:
                number, size = HEAD.unpack(await back.readexactly(HEAD.size))
                answer = await back.readexactly(size)
                if number == self._asked:
                    break  # any other was given already, or answers an older question: a policy may do anything
        except (asyncio.IncompleteReadError, ConnectionError):
            await self._ended_within(END_S)  # by itself, so that how is known
            told, code = await self.end(), self._process.returncode
            how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}, {signal.strsignal(-code)}"
            raise NoAnswer(f"the policy's process ended ({how})", told) from None
        try:
            return pickle.loads(answer)  # noqa: S301 - made by `decide`, of our own types
        except Exception as error:
            why = f"the policy's process sent what is no answer ({type(error).__name__}: {error})"
            raise NoAnswer(why, await self.end()) from error

    async def end(self, first: signal.Signals = system.KILL) -> str:
        """End it and all it has started, by this signal or in the end by SIGKILL; return what it has said last."""
        for number, within_s in ((first, LAST_WORDS_S), (system.KILL, END_S)):
            if self._process.returncode is None:
                system.end_group(self._process.pid, number)
                await self._ended_within(within_s)
        await asyncio.wait({self._listening}, timeout=LAST_WORDS_S)
        self._listening.cancel()
        return self._said.decode(errors="replace").strip()

    async def _ended_within(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), seconds)

    async def _listen(self) -> None:
        """Read what it prints, so that it never waits for a reader; kept are its beginning and its end.

        An exception says last where it was raised, a crash says it first.
        """
        stderr = self._process.stderr
        while stderr is not None and (chunk := await stderr.read(CHUNK_BYTES)):
            said = self._said + chunk
            self._said = said if len(said) <= 2 * TRACEBACK_CHARS else said[:TRACEBACK_CHARS] + said[-TRACEBACK_CHARS:]


def _bytes(observations: Iterable[Observation]) -> bytes:
    """Return what is in them, to the last bit; what is equal there may differ here, for a type's sake."""
    plain = attrgetter(*(f.name for f in fields(Observation) if f.name != "look"))
    look = attrgetter(*(f.name for f in fields(Look)))  # not `astuple`: 20 times as long, and the loop waits for it
    values = ((plain(o), None if o.look is None else look(o.look)) for o in observations)
    return b"".join(marshal.dumps(of_one, 2) for of_one in values)  # 2: no references, which depend on identity
