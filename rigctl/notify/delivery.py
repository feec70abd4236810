"""Brings messages to one receiver: in order, again after a failure with growing pauses, and never too many (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from rigctl.errors import counted
from rigctl.notify.texts import Message

MOST: Final = 50
"""Messages that wait for one receiver; beyond, the oldest is lost, and that is told."""
FIRST_PAUSE_S: Final = 10.0
LONGEST_PAUSE_S: Final = 900.0
"""Wall seconds between two attempts."""
HANGS_S: Final = 60.0
"""Wall seconds after which an attempt is taken for failed, whether it returns or not."""
WORRYING_S: Final = 900.0
"""Wall seconds without success after which it is an alarm that people cannot be told."""


@dataclass(slots=True)
class Delivery:
    """Knows what one receiver is still to be brought, and when. Mutable; times are given, wall seconds, monotonic."""

    waiting: deque[Message] = field(default_factory=deque)
    lost: int = 0
    failing_since_s: float | None = None
    under_way_s: float | None = None
    """When the attempt that is under way began."""
    _told: int = 0
    """Of those lost, how many the attempt under way tells of."""
    _pause_s: float = 0.0
    _next_s: float = 0.0

    def put(self, message: Message) -> None:
        """Have a message delivered."""
        if len(self.waiting) >= MOST:
            del self.waiting[0 if self.under_way_s is None else 1]  # the one under way may well arrive
            self.lost += 1
        self.waiting.append(message)

    def attempt(self, now_s: float) -> Message | None:
        """Return what is to be sent now, and take it for under way; None: nothing is."""
        if self.under_way_s is not None or not self.waiting or now_s < self._next_s:
            return None
        self.under_way_s, self._told = now_s, self.lost
        first = self.waiting[0]
        if not self.lost:
            return first
        return replace(first, body=f"({counted(self.lost, 'earlier message')} could not be delivered.)\n\n{first.body}")

    def done(self, now_s: float, *, well: bool) -> None:
        """Note how the attempt has ended."""
        began_s, self.under_way_s = self.under_way_s, None
        if well:
            self.waiting.popleft()
            self.lost -= self._told
            self.failing_since_s, self._pause_s, self._next_s = None, 0.0, 0.0
            return
        if self.failing_since_s is None:
            self.failing_since_s = now_s if began_s is None else began_s
        self._pause_s = min(LONGEST_PAUSE_S, 2.0 * self._pause_s or FIRST_PAUSE_S)
        self._next_s = now_s + self._pause_s

    def hangs(self, now_s: float) -> bool:
        """Tell whether the attempt under way has taken too long to be waited for."""
        return self.under_way_s is not None and now_s - self.under_way_s >= HANGS_S

    def worrying(self, now_s: float) -> bool:
        """Tell whether nothing could be delivered for so long that somebody should know."""
        return self.failing_since_s is not None and now_s - self.failing_since_s >= WORRYING_S
