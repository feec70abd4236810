"""Rig time, and civil time carried on by it: what the clock on the wall shows when a rig's clock shows this.

Rig time is the master: it is compared with the wall once, and from then on civil time goes on as rig time does. So a
wall clock that is set changes no wait, cap or rate; whoever trusts it again says so by another `set`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


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

    async def meanwhile(self, event: Coroutine[Any, Any, T], slice_s: float = 0.1) -> T:
        """Wait for something of this world while rig time goes on, `slice_s` wall seconds at a time if stepped."""
        del slice_s
        return await event
