"""Rig time: monotonic, comparable between processes, faster than the wall beside a simulated rig."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from rigctl.rig.protocols import Clock


def _uptime_s() -> float:
    """Seconds since boot, suspend included where the system can say so; unaffected by changes of the wall clock."""
    boottime = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boottime is None else time.clock_gettime(boottime)


@dataclass(frozen=True, slots=True)
class RealClock:
    """Seconds since boot times `speedup`, so two processes with the same factor agree on the time.

    Raises:
        ValueError: the speedup is not positive.
    """

    speedup: float = 1.0

    def __post_init__(self) -> None:
        if not self.speedup > 0:
            raise ValueError(f"clock.speedup: got {self.speedup}, must be > 0")

    def now_s(self) -> float:
        """Rig time, seconds."""
        return _uptime_s() * self.speedup

    def suspended_s(self) -> float:
        """Rig seconds that the machine has been suspended since it was booted."""
        return max(0.0, _uptime_s() - time.monotonic()) * self.speedup

    def sleep(self, seconds: float) -> None:
        """Block this thread for `seconds` of rig time."""
        time.sleep(max(0.0, seconds) / self.speedup)


def boot_id() -> str:
    """Names this boot of the machine: rig times of one boot can be compared, those of two cannot.

    Where the system cannot say, every call is a boot of its own, which errs on the safe side.
    """
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return str(uuid4())


async def rest(clock: Clock, seconds: float) -> None:
    """Let `seconds` of rig time pass without blocking the event loop."""
    await asyncio.sleep(max(0.0, seconds) / clock.speedup)
