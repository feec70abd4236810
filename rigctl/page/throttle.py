"""Slows those who guess: after each wrong token the next wrong one is heard only later, whoever sends it.

A token is looked up before the throttle is asked, so the right one gets in at once while somebody guesses, also from
the address of a proxy that everybody shares. A wrong one that comes too early is refused: it is neither logged nor
kept, and nothing waits, so nobody can fill the server with waiting requests. Pure but for the clock it is handed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FIRST_S = 1.0
LONGEST_S = 300.0
"""Seconds after the first and after many wrong tokens; they double from one to the other."""
FORGOTTEN_S = 3600.0
"""After so long without a wrong token it begins anew."""


@dataclass(slots=True)
class Throttle:
    """Remembers how many were wrong; mutable, used in the event loop only."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    _wrong: int = 0
    _last_s: float = 0.0
    _next_s: float = 0.0

    def wait_s(self) -> float:
        """Return the seconds until another wrong token is heard; 0: now."""
        return max(0.0, self._next_s - self.clock())

    def wrong(self) -> None:
        """Note a wrong token."""
        now_s = self.clock()
        self._wrong = 1 if now_s - self._last_s > FORGOTTEN_S else self._wrong + 1
        self._last_s = now_s
        # 2**63 is long beyond every limit, and a float
        self._next_s = now_s + min(FIRST_S * 2.0 ** min(self._wrong - 1, 63), LONGEST_S)

    def right(self) -> None:
        """Note a right token: whoever has one may mistype it."""
        self._wrong, self._next_s = 0, 0.0
