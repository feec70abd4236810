"""The safety tick: once a second, whatever the trial, the decision and the disk are doing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

PERIOD_S = 1.0
BEATS_EVERY_S = 30.0


@dataclass(slots=True)
class SafetyTick:
    """Tells the service manager's watchdog that the loop is alive, and measures how late it comes. Wall seconds."""

    alive: Callable[[], object]
    """Pats the watchdog; every tick."""
    beat: Callable[[], None]
    """Has a heartbeat written, without waiting for it; at a low rate, since each is an fsync."""
    period_s: float = PERIOD_S
    beats_every_s: float = BEATS_EVERY_S
    worst_delay_s: float = 0.0

    async def run(self) -> None:
        """Tick until cancelled; a late tick is not made up for."""
        loop = asyncio.get_running_loop()
        next_beat = loop.time()
        while True:
            due = loop.time() + self.period_s
            await asyncio.sleep(self.period_s)
            now = loop.time()
            self.worst_delay_s = max(self.worst_delay_s, now - due)
            self.alive()
            if now >= next_beat:
                next_beat = now + self.beats_every_s
                self.beat()
