"""A PLC's communication watchdog: outputs drop to safe when its register is not written in time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from sim_rig.clock import PlannedCall, Timer
from sim_rig.faces.registers import Bank

HEARTBEAT, TIMEOUT = 100, 101
"""Holding registers: any number, written again and again; the time in tenths of a wall second, 0 when off."""
TENTHS: Final = 10.0


class Watchdog:
    """Watches over the coils of a bank, and lets everything go (`drop`); asleep until the first heartbeat."""

    def __init__(self, timer: Timer, bank: Bank, drop: Callable[[], None], timeout_s: float = 4.0) -> None:
        self.drops: list[float] = []
        """When outputs were dropped, simulated seconds."""
        self._timer = timer
        self._drop = drop
        self._timeout_s = timeout_s
        self._held = 0.0
        self._planned: PlannedCall | None = None
        bank.number("holding", HEARTBEAT, lambda: self._held, self._beat, kind="uint16")
        bank.number("holding", TIMEOUT, lambda: self._timeout_s, self._set, kind="uint16", scale=1 / TENTHS)

    def _beat(self, count: float) -> None:
        self._held = count
        if self._planned is not None:
            self._planned.cancel()
            self._planned = None
        if self._timeout_s > 0:
            self._planned = self._timer.after(self._timer.at_least_s(self._timeout_s), self._expire)

    def _set(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s

    def _expire(self) -> None:
        self._planned = None
        self.drops.append(self._timer.now_s())
        self._drop()
