"""Slows those who guess: after each wrong token the next may be tried only later, by address and for all together.

A try that comes too early is refused at once and not looked at: nothing waits, so nobody can fill the server with
waiting requests. Pure but for the clock it is handed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

FIRST_S = 1.0
LONGEST_S = 300.0
"""Seconds after the first and after many wrong tokens of one address; they double from one to the other."""
FIRST_FOR_ALL_S = 0.05
LONGEST_FOR_ALL_S = 2.0
"""The same for all addresses together; short, so that who has the right token still gets in."""
FORGOTTEN_S = 3600.0
"""An address that has not tried for so long begins anew."""
MOST_ADDRESSES = 1000
"""As many are remembered; the one seen longest ago goes first."""


@dataclass(slots=True)
class _Tries:
    wrong: int = 0
    last_s: float = 0.0
    next_s: float = 0.0

    def left_s(self, now_s: float) -> float:
        return max(0.0, self.next_s - now_s)

    def fail(self, now_s: float, first_s: float, longest_s: float) -> None:
        self.wrong = 1 if now_s - self.last_s > FORGOTTEN_S else self.wrong + 1
        self.last_s = now_s
        # 2**63 is long beyond every limit, and a float
        self.next_s = now_s + min(first_s * 2.0 ** min(self.wrong - 1, 63), longest_s)


@dataclass(slots=True)
class Throttle:
    """Remembers who was wrong how often; mutable, used in the event loop only."""

    clock: Callable[[], float]
    """Monotonic seconds."""
    _by_address: OrderedDict[str, _Tries] = field(default_factory=OrderedDict)
    _all: _Tries = field(default_factory=_Tries)

    def wait_s(self, address: str) -> float:
        """Return the seconds until this address may try again; 0: now."""
        now_s, known = self.clock(), self._by_address.get(address)
        return max(self._all.left_s(now_s), 0.0 if known is None else known.left_s(now_s))

    def wrong(self, address: str) -> None:
        """Note a wrong token."""
        now_s = self.clock()
        self._by_address.setdefault(address, _Tries()).fail(now_s, FIRST_S, LONGEST_S)
        self._by_address.move_to_end(address)
        while len(self._by_address) > MOST_ADDRESSES:
            self._by_address.popitem(last=False)
        self._all.fail(now_s, FIRST_FOR_ALL_S, LONGEST_FOR_ALL_S)

    def right(self, address: str) -> None:
        """Note a right token: the address begins anew."""
        self._by_address.pop(address, None)
        self._all = _Tries()
