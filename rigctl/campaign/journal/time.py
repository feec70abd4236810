"""Campaign time: rig time made continuous, so that a campaign's records can be compared across boots."""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from rigctl.rig.protocols import Clock

Wall = Callable[[], datetime]


def utc_now() -> datetime:
    """Return the wall clock: for people; computed with only where a boot lies between."""
    return datetime.now(UTC)


UNSYNCHRONISED = 5
"""What adjtimex(2) returns while nothing keeps the clock right: TIME_ERROR."""


def synchronised() -> bool:
    """Tell whether the system says that its clock is kept right; False where it cannot say."""
    try:
        asked: int = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(1024))  # all zero: a question
    except (OSError, AttributeError):
        return False
    return 0 <= asked < UNSYNCHRONISED


DATED: Final = (
    *("events", "doses", "alarms", "trips", "phases", "idle", "acts", "acknowledgements", "suggestions"),
    *("imports", "corrections", "upkeep", "calibrations", "looks", "meter_readings"),
)
"""Tables whose rows say when they were written: in a new boot time goes on from the latest of all."""


@dataclass(frozen=True, slots=True)
class CampaignTime:
    """Rig seconds plus an offset.

    The rig's clock starts anew with every boot. Campaign time goes on from the last record instead; the time the
    machine was off counts as none, so that a dose looks younger than it is and the caps err on the safe side.
    """

    clock: Clock
    epoch: str
    """Within one epoch (a boot, at one clock factor) rig times can be compared."""
    offset_s: float
    wall: Wall = utc_now

    def now_s(self) -> float:
        return self.clock.now_s() + self.offset_s

    def utc(self) -> str:
        """Return the wall clock in ISO 8601, for people."""
        return self.wall().isoformat(timespec="milliseconds")

    def stamp(self) -> dict[str, object]:
        """Return the columns of a row that is written now."""
        return {"utc": self.utc(), "at_s": self.now_s()}


def continued(connection: sqlite3.Connection, clock: Clock, boot: str, wall: Wall) -> CampaignTime:
    """Return campaign time as the journal's last start left it, or going on from the last record in a new epoch."""
    epoch = f"{boot} x{clock.speedup:g}"
    last = connection.execute("SELECT epoch, offset_s FROM starts ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        return CampaignTime(clock, epoch, 0.0, wall)
    if last[0] == epoch:
        return CampaignTime(clock, epoch, float(last[1]), wall)
    seen = (("starts", "seen_s"), ("doses", "settled_s"), *((table, "at_s") for table in DATED))
    parts = " UNION ALL ".join(f"SELECT max({column}) AS at_s FROM {table}" for table, column in seen)  # noqa: S608 - ours
    (latest,) = connection.execute(f"SELECT max(at_s) FROM ({parts})").fetchone()  # noqa: S608 - our own names
    return CampaignTime(clock, epoch, float(latest) - clock.now_s(), wall)
