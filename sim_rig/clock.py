"""Simulated time, running by itself or stepped by whoever drives the rig.

Running, it is seconds since boot times a factor, so that controller and rig agree without talking. Stepped, it stands
still until it is told on the control socket how far to go: what happens then depends on nothing but simulated time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from sim_rig.errors import CommandError, ControlError

EVENT_LOOP_RESOLUTION_S = 1e-3
"""epoll sleeps whole milliseconds (asyncio rounds up): a shorter wall delay cannot be told from none."""


class PlannedCall(Protocol):
    """Stands for a call that is planned and may still be called off."""

    def cancel(self) -> None: ...


@dataclass(slots=True)
class Timer:
    """Runs simulated time `speed` times as fast as the wall, and plans calls on the running asyncio loop.

    Raises:
        UsageError: the speed is not positive.
    """

    speed: float = 1.0
    sync: Callable[[], None] = field(default=lambda: None)
    """Brings the plant up to now; done before each call."""

    def __post_init__(self) -> None:
        if not 0 < self.speed < math.inf:
            raise CommandError(f"--speed: got {self.speed}, must be > 0")

    def now_s(self) -> float:
        """Return simulated seconds since boot, unaffected by changes of the wall clock."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        uptime_s = time.monotonic() if boottime is None else time.clock_gettime(boottime)
        return uptime_s * self.speed

    def after(self, simulated_s: float, call: Callable[[], None]) -> PlannedCall:
        """Call it after `simulated_s`, never at once."""
        return asyncio.get_running_loop().call_later(simulated_s / self.speed, self._fire, call)

    def soon(self, simulated_s: float, call: Callable[[], None]) -> None:
        """Call it after `simulated_s`, or at once if that is below the loop's resolution."""
        if simulated_s / self.speed < EVENT_LOOP_RESOLUTION_S:
            call()
        else:
            self.after(simulated_s, call)

    def at_least_s(self, wall_s: float) -> float:
        """Convert a stretch of wall time to simulated seconds."""
        return wall_s * self.speed

    def go_to(self, simulated_s: float) -> None:
        """Refuse: nobody moves a clock that runs by itself."""
        raise ControlError(f"go_to: got {simulated_s}, but the clock runs by itself; --stepped makes one that is told")

    def _fire(self, call: Callable[[], None]) -> None:
        self.sync()
        call()


@dataclass(slots=True)
class _Planned:
    call: Callable[[], None] | None

    def cancel(self) -> None:
        self.call = None


@dataclass(slots=True)
class SteppedTimer(Timer):
    """Begins at 0 and moves only when told; instruments answer at once, in no time."""

    _now_s: float = 0.0
    _plans: list[tuple[float, int, _Planned]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)

    def now_s(self) -> float:
        return self._now_s

    def after(self, simulated_s: float, call: Callable[[], None]) -> PlannedCall:
        """Call it on the way to a time that is later by `simulated_s`."""
        planned = _Planned(call)
        heapq.heappush(self._plans, (self._now_s + simulated_s, next(self._order), planned))
        return planned

    def soon(self, simulated_s: float, call: Callable[[], None]) -> None:  # noqa: ARG002 - as of any timer
        """Call it at once: whoever waits for it holds the clock."""
        call()

    def go_to(self, simulated_s: float) -> None:
        """Let time pass until then; whatever is due happens on the way, in order.

        Raises:
            ControlError: that time is over, or no time.
        """
        if not self._now_s <= simulated_s < math.inf:
            raise ControlError(f"go_to: got {simulated_s}, must be {self._now_s} or later")
        while self._plans and self._plans[0][0] <= simulated_s:
            due_s, _, planned = heapq.heappop(self._plans)
            if planned.call is not None:
                self._now_s = max(self._now_s, due_s)
                self._fire(planned.call)
        self._now_s = simulated_s
        self.sync()
