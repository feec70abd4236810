"""Letting rig time pass without blocking the event loop.

Beside a simulated rig the clock may be stepped: it moves only while everybody who works with the rig rests. Such a
clock has to know who does, so work that rests is begun here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from rigctl.rig.protocols import Clock

T = TypeVar("T")

Rest = Callable[[float], Awaitable[None]]
"""Lets so many seconds of rig time pass without blocking the event loop."""


@runtime_checkable
class Stepped(Protocol):
    """A clock that stands still unless everybody rests."""

    async def rest(self, seconds: float) -> None:
        """Let rig time pass."""

    def beside(self, work: Iterable[Coroutine[Any, Any, T]]) -> list[asyncio.Task[T]]:
        """Begin work that is done side by side, while who begins it waits for all of it."""

    def enlist(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Begin work that goes on by itself; the clock waits for it, too."""


async def rest(clock: Clock, seconds: float) -> None:
    if isinstance(clock, Stepped):
        await clock.rest(seconds)
    else:
        await asyncio.sleep(max(0.0, seconds) / clock.speedup)


def resting(clock: Clock) -> Rest:
    return partial(rest, clock)


def beside(clock: Clock, work: Iterable[Coroutine[Any, Any, T]]) -> Sequence[Awaitable[T]]:
    """Return work that is to be done side by side and awaited at once, known to the clock."""
    return clock.beside(work) if isinstance(clock, Stepped) else list(work)


def enlisted(clock: Clock, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    return clock.enlist(work, name) if isinstance(clock, Stepped) else asyncio.create_task(work, name=name)


async def meanwhile(clock: Clock, event: Coroutine[Any, Any, T], slice_s: float = 0.1) -> T:
    """Wait for something of this world while rig time goes on; `slice_s`: wall seconds that it goes on at a time."""
    if not isinstance(clock, Stepped):
        return await event
    waiting = asyncio.ensure_future(event)
    try:
        while not waiting.done():
            await clock.rest(slice_s * clock.speedup)
    except BaseException:
        waiting.cancel()
        raise
    return waiting.result()
