"""Simulated time: seconds since boot times a factor, so that controller and rig agree without talking."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sim_rig.errors import UsageError

EVENT_LOOP_RESOLUTION_S = 1e-3
"""epoll sleeps whole milliseconds (asyncio rounds up): a shorter wall delay cannot be told from none."""


@dataclass(frozen=True, slots=True)
class SimClock:
    """Simulated seconds, monotonic and unaffected by changes of the wall clock.

    Raises:
        UsageError: the speed is not positive.
    """

    speed: float = 1.0

    def __post_init__(self) -> None:
        if not self.speed > 0:
            raise UsageError(f"--speed: got {self.speed}, must be > 0")

    def now_s(self) -> float:
        """Simulated seconds since boot."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        uptime_s = time.monotonic() if boottime is None else time.clock_gettime(boottime)
        return uptime_s * self.speed

    def wall_s(self, simulated_s: float) -> float:
        """How long that takes beside the rig."""
        return simulated_s / self.speed


class Handle(Protocol):
    """Something planned that may still be called off."""

    def cancel(self) -> None:
        """Do not do it."""
        ...


class Timer(Protocol):
    """Calls back after a while of simulated time; all that the protocol faces know of time."""

    def now_s(self) -> float:
        """Simulated seconds."""
        ...

    def after(self, simulated_s: float, call: Callable[[], None]) -> Handle:
        """Call it then, never at once."""
        ...

    def soon(self, simulated_s: float, call: Callable[[], None]) -> None:
        """Call it then, or at once if the delay is too short to be noticed beside the rig."""
        ...

    def at_least_s(self, wall_s: float) -> float:
        """A stretch of wall time in simulated seconds: what a line's own speed allows at most."""
        ...


@dataclass(slots=True)
class LoopTimer:
    """A timer on the running asyncio loop; the plant is brought up to now before each call."""

    clock: SimClock
    sync: Callable[[], None] = field(default=lambda: None)

    def now_s(self) -> float:
        """Simulated seconds."""
        return self.clock.now_s()

    def after(self, simulated_s: float, call: Callable[[], None]) -> Handle:
        """Call it after `simulated_s`, never at once."""
        return asyncio.get_running_loop().call_later(self.clock.wall_s(simulated_s), self._fire, call)

    def soon(self, simulated_s: float, call: Callable[[], None]) -> None:
        """Call it after `simulated_s`, or at once if that is below the loop's resolution."""
        if self.clock.wall_s(simulated_s) < EVENT_LOOP_RESOLUTION_S:
            call()
        else:
            self.after(simulated_s, call)

    def at_least_s(self, wall_s: float) -> float:
        """A stretch of wall time in simulated seconds."""
        return wall_s * self.clock.speed

    def _fire(self, call: Callable[[], None]) -> None:
        self.sync()
        call()
