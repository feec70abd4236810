"""Where a campaign's civil time comes from, and what is done when somebody sets the wall clock.

On a real rig it is the wall clock's, compared once when a process begins. What the system's clock is corrected by
little by little is followed. A jump is an alarm; it is followed only once the system says that its clock is
synchronised, because a wrong clock is set right as often as a right one is set wrong. Beside a simulated rig a
campaign begins at an instant of its own, and rig time goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.time import synchronised
from rigctl.errors import UsageError
from rigctl.rig.civil import Civil, civil_of
from rigctl.rig.protocols import Clock
from rigctl.rig.spec import RigSpec

FOLLOWED_S = 5.0
"""A difference of at most so many seconds between two looks is a correction, not a jump."""


async def begin_civil(journal: JournalThread, rig: RigSpec, clock: Clock) -> Wall | None:
    """Say what civil time it is by this clock, once the process has begun; return what compares the wall with it.

    Raises:
        UsageError: hours or tariffs are to be kept by a clock that cannot carry civil time.
    """
    civil = civil_of(clock)
    if civil is None:
        if rig.calendar:
            raise UsageError("`allowed` and tariffs need civil time, and this clock carries none")
        return None
    time, first = await journal.call(lambda j: (j.time, j.read.starts()[0]))
    if clock.speedup == 1:
        civil.set(clock.now_s(), time.wall().timestamp())
    else:
        begins_s = datetime.fromisoformat(first.utc).timestamp() if rig.begins_s is None else rig.begins_s
        civil.set(first.at_s - time.offset_s, begins_s)
    return Wall(civil, clock, lambda: time.wall().timestamp())


@dataclass(frozen=True, slots=True)
class Wall:
    """Compares the wall clock with the civil time that rig time has carried on."""

    civil: Civil
    clock: Clock
    now: Callable[[], float]
    """Seconds since 1970 by the wall clock."""
    right: Callable[[], bool] = synchronised

    def look(self) -> str:
        """Return what is wrong with the wall clock; follow it where that is plausible."""
        rig_s, wall_s = self.clock.now_s(), self.now()
        known_s = self.civil.at(rig_s)
        if known_s is None or self.clock.speedup != 1:
            return ""
        jump_s = wall_s - known_s
        followed = abs(jump_s) <= FOLLOWED_S or self.right()
        if followed:
            self.civil.set(rig_s, wall_s)
        if abs(jump_s) <= FOLLOWED_S:
            return ""
        then = "it is synchronised, so hours and tariffs follow it"
        if not followed:
            then = "hours and tariffs do not follow it before it is synchronised, or this program is started anew"
        return f"the wall clock was set by {jump_s:+.0f} s; waits, caps and rates are not affected; {then}"
