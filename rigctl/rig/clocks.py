"""Rig time, and civil time carried on by it: what the clock on the wall shows when a rig's clock shows this.

Rig time is monotonic, comparable between processes, and faster than the wall beside a simulated rig. It is the master:
it is compared with the wall once, and from then on civil time goes on as rig time does. So a wall clock that is set
changes no wait, cap or rate; whoever trusts it again says so by another `set`.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from rigctl.flaws import require

T = TypeVar("T")

ROUNDING_S = 1e-3
"""Between campaign time, civil time and rig time."""
SLICE_S = 0.1
PEEK_S = 0.05
"""Wall seconds between two looks of a stepped clock at who is to go on next."""


@dataclass(slots=True)
class Civil:
    """One pair of times that belong together; mutable."""

    _pair: tuple[float, float] | None = None

    def set(self, rig_s: float, civil_s: float) -> None:
        """Say that at this rig time it is so many seconds since 1970, UTC."""
        self._pair = (rig_s, civil_s)

    def at(self, rig_s: float) -> float | None:
        """Return the seconds since 1970 at a rig time; None before anybody has said what it is."""
        return None if self._pair is None else self._pair[1] + (rig_s - self._pair[0])

    def rig_s(self, civil_s: float) -> float:
        """Return the rig time of an instant; raise `ValueError` before anybody has said what it is."""
        if self._pair is None:
            raise ValueError("civil time is not known yet")
        return self._pair[0] + (civil_s - self._pair[1])


class Clock(ABC):
    """Rig time: monotonic, comparable between processes of one boot, unaffected by changes of the wall clock.

    Beside a simulated rig it may be stepped: it moves only while everybody who works with the rig rests. Such a clock
    has to know who does, so whoever rests, and work that rests, is begun here.
    """

    speedup: float
    """Rig seconds per wall second."""
    civil: Civil | None = None
    """Civil time, where the clock carries it along."""
    stepped: bool = False
    """Whether it may stand still."""

    @abstractmethod
    def now_s(self) -> float:
        """Return rig time, seconds."""

    @abstractmethod
    def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds` of rig time."""

    def suspended_s(self) -> float | None:
        """Return the rig seconds that the machine has been suspended since it was booted; None: nobody can say."""
        return None

    def civil_s(self) -> float | None:
        """Return the seconds since 1970, UTC; None where nobody can say."""
        return None if self.civil is None else self.civil.at(self.now_s())

    async def rest(self, seconds: float) -> None:
        """Let so many seconds of rig time pass without blocking the event loop."""
        await asyncio.sleep(max(0.0, seconds) / self.speedup)

    def beside(self, work: Iterable[Coroutine[Any, Any, T]]) -> Sequence[Awaitable[T]]:
        """Return work that is done side by side, while who begins it waits for all of it at once."""
        return list(work)

    def enlist(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin work that goes on by itself."""
        return asyncio.create_task(work, name=name)

    async def meanwhile(self, event: Coroutine[Any, Any, T]) -> T:
        """Wait for something of this world while rig time goes on, `SLICE_S` wall seconds at a time if stepped."""
        return await event


def _uptime_s() -> float:
    """Return the seconds since boot, suspend included where the system can say so; changes of the wall clock not."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


@dataclass(frozen=True, slots=True)
class RealClock(Clock):
    """Tells seconds since boot times `speedup`, so two processes with the same factor agree on the time.

    Raises:
        ValueError: the speedup is not positive.
    """

    speedup: float = 1.0
    civil: Civil = field(default_factory=Civil, compare=False, repr=False)

    def __post_init__(self) -> None:
        require(self.speedup > 0, self.speedup, "must be > 0", where="clock.speedup")

    def now_s(self) -> float:
        return _uptime_s() * self.speedup

    def suspended_s(self) -> float:
        """Return the rig seconds that the machine has been suspended since it was booted."""
        return max(0.0, _uptime_s() - time.monotonic()) * self.speedup

    def sleep(self, seconds: float) -> None:
        time.sleep(max(0.0, seconds) / self.speedup)


class SteppedClock(Clock):
    """Lets rig time stand still while anybody who works with the rig computes, or waits for an answer.

    It begins at 0. Once all rest it goes to the instant at which the first of them is to go on, and takes the simulated
    rig along. So what happens depends on the order of rig times alone, never on how fast the computer is. `go_to` lets
    the simulated rig's time pass up to this one, rig seconds; at most `speedup` of them pass per wall second, for
    whoever looks on.
    """

    stepped = True

    def __init__(self, speedup: float, go_to: Callable[[float], Awaitable[None]]) -> None:
        self.speedup = speedup
        self.civil = Civil()
        self.boot = f"stepped {uuid4()}"
        """Its times can be compared with no other clock's."""
        self._go_to = go_to
        self._now_s = 0.0
        self._moved_at_s = time.monotonic()
        self._awake = 1
        """How many work with the rig and do not rest now; the campaign itself is the first of them."""
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._moving: asyncio.Task[None] | None = None

    def now_s(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Block this thread as long as `seconds` of rig time would take; an exchange takes no rig time."""
        time.sleep(max(0.0, seconds) / self.speedup)

    async def rest(self, seconds: float) -> None:
        """Let rig time pass; raise `RigctlError` if the simulated rig cannot be told of it."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + max(0.0, seconds), next(self._order), woken))
        self._leave()
        try:
            await woken
        finally:
            if woken.cancelled():  # it was not the clock that woke it
                self._awake += 1

    def beside(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[asyncio.Task[T]]:
        tasks = [asyncio.create_task(one) for one in work]
        left = len(tasks)
        self._awake += max(left - 1, 0)  # who waits for them does not work

        def over(_: object) -> None:
            nonlocal left
            left -= 1
            if left:
                self._leave()

        for task in tasks:
            task.add_done_callback(over)
        return tasks

    def enlist(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        self._awake += 1
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(lambda _: self._leave())
        return task

    async def meanwhile(self, event: Coroutine[Any, Any, T]) -> T:
        waiting = asyncio.ensure_future(event)
        try:
            while not waiting.done():
                await self.rest(SLICE_S * self.speedup)
        except BaseException:
            waiting.cancel()
            raise
        return waiting.result()

    def _leave(self) -> None:
        """Count one less who works; if that was the last one, rig time goes on."""
        self._awake -= 1
        if not self._awake and (self._moving is None or self._moving.done()):
            self._moving = asyncio.create_task(self._move(), name="rig time")

    async def _move(self) -> None:
        try:
            while not self._awake and (due_s := self._due_s()) is not None:
                pause_s = self._moved_at_s + (due_s - self._now_s) / self.speedup - time.monotonic()
                if pause_s > 0.0:
                    await asyncio.sleep(min(pause_s, PEEK_S))  # whoever it is for may be called off meanwhile
                    continue
                await self._go_to(due_s)
                self._now_s, self._moved_at_s = due_s, time.monotonic()
                self._wake(lambda woken: woken.set_result(None), due_s)
        except Exception as error:  # noqa: BLE001 - it belongs to those who rest
            failure = error
            self._wake(lambda woken: woken.set_exception(failure))

    def _due_s(self) -> float | None:
        while self._sleepers and self._sleepers[0][-1].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None

    def _wake(self, tell: Callable[[asyncio.Future[None]], None], until_s: float = math.inf) -> None:
        while self._sleepers and self._sleepers[0][0] <= until_s:
            *_, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                tell(woken)
                self._awake += 1


def epoch(clock: Clock) -> str:
    """Name the stretch of real or simulated life within which times of this clock can be compared."""
    return clock.boot if isinstance(clock, SteppedClock) else boot_id()


def boot_id() -> str:
    """Name this boot of the machine: rig times of one boot can be compared, those of two cannot.

    Where the system cannot say, every call is a boot of its own, which errs on the safe side.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(uuid4())
