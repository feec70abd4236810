"""Campaign time, and what trials and processes before left behind: a safe rig or not, and where the meters stood.

Campaign time is rig time made continuous, so that a campaign's records can be compared across boots.
"""

from __future__ import annotations

import ctypes
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from math import inf

from rigctl.campaign.journal.database import ask
from rigctl.campaign.journal.rows import TABLES
from rigctl.campaign.ledger.plausibility import LITTLE_SLEEP_S
from rigctl.rig.clocks import Clock
from rigctl.rig.metering import ASLEEP, AT, is_own
from rigctl.rig.protocols import Reading, Severity

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


def wall_since_s(utc: str, now: datetime, speedup: float) -> float:
    """Return the rig seconds since an instant by the wall clock."""
    return (now - datetime.fromisoformat(utc)).total_seconds() * speedup


OFF_MOST_S = 86_400.0
"""Rig seconds for which a clock that nobody keeps right may say that the machine was off."""


@dataclass(frozen=True, slots=True)
class Since:
    """How long ago an instant was, in rig seconds; negative: it is yet to come."""

    rig_s: float
    """By campaign time, for which time that the machine was off counts as none: across a boot, the least it can be."""
    wall_s: float | None
    """By the wall clock, where a boot lies between; None within one boot, where campaign time is exact."""

    @property
    def longest_s(self) -> float:
        """Return the longer of both: how old something is, and how long it was waited for."""
        return self.rig_s if self.wall_s is None else max(self.rig_s, self.wall_s)

    @property
    def certain_s(self) -> float:
        """Return what no clock can make too short: infinity across a boot, as a clock may stand still meanwhile."""
        return self.rig_s if self.wall_s is None else inf

    @property
    def charged_s(self) -> tuple[float, bool]:
        """Return what is paid for, and whether it is known.

        It is not where a boot lies between, and a clock that nobody keeps right says that the machine was off for
        less than no time, or for more than a day: then a day is taken for it.
        """
        if self.wall_s is None or 0.0 <= self.wall_s - self.rig_s <= OFF_MOST_S or synchronised():
            return max(0.0, self.longest_s), True
        return self.rig_s + OFF_MOST_S, False


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

    def since(self, at_s: float, utc: str, epoch: str | None) -> Since:
        """Return how long ago an instant was that was noted in campaign time, by the wall clock and in an epoch."""
        own = epoch == self.epoch
        return Since(self.now_s() - at_s, None if own else wall_since_s(utc, self.wall(), self.clock.speedup))


def continued(connection: sqlite3.Connection, clock: Clock, boot: str, wall: Wall) -> CampaignTime:
    """Return campaign time as the journal's last start left it, or going on from the last record in a new epoch."""
    epoch = f"{boot} x{clock.speedup:g}"
    last = connection.execute("SELECT epoch, offset_s FROM starts ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        return CampaignTime(clock, epoch, 0.0, wall)
    if last[0] == epoch:
        return CampaignTime(clock, epoch, float(last[1]), wall)
    dated = [(table.name, "at_s") for table in TABLES.values() if "at_s" in table.columns]
    seen = (("starts", "seen_s"), ("doses", "settled_s"), *dated)
    parts = " UNION ALL ".join(f"SELECT max({column}) AS at_s FROM {table}" for table, column in seen)  # noqa: S608 - ours
    (latest,) = connection.execute(f"SELECT max(at_s) FROM ({parts})").fetchone()  # noqa: S608 - our own names
    return CampaignTime(clock, epoch, float(latest) - clock.now_s(), wall)


# What was before ------------------------------------------------------------------------------------------------------

_LAST_METERED = """
    SELECT e.trial, e.at_s, e.utc, s.epoch, e.start = (SELECT max(id) FROM starts) AS ours
    FROM events e LEFT JOIN starts s ON s.id = e.start
    WHERE e.trial = (SELECT trial FROM meter_readings WHERE phase = 'before' ORDER BY trial DESC LIMIT 1)
    AND e.state NOT IN ('LOOKING', 'PROPOSED', 'ARMED', 'RUNNING') ORDER BY e.id LIMIT 1"""
"""The event that came with the last trial's readings `after`."""


COSTS = """
    SELECT l.id AS line, t.control_set, l.meter, l.amount_micros, coalesce(a.at_s - b.at_s, 0.0) AS elapsed_s
    FROM ledger l JOIN trials t USING (trial)
    LEFT JOIN meter_readings b ON b.trial = l.trial AND b.meter = l.meter AND b.phase = 'before'
    LEFT JOIN meter_readings a ON a.trial = l.trial AND a.meter = l.meter AND a.phase = 'after'
    WHERE l.id > ? AND NOT l.estimated AND EXISTS (SELECT 1 FROM measurements WHERE trial = l.trial) ORDER BY l.id"""
"""Lines of whole trials, estimates left out, from which the next one can be judged and estimated."""


@dataclass(frozen=True, slots=True)
class Past:
    """Questions about everything before now, to the journal of the process that runs the campaign."""

    connection: sqlite3.Connection
    time: CampaignTime

    def was_left_safe(self) -> bool:
        """Tell whether nothing can be out of its safe state: the last process said so, or there was none.

        To be asked before this process has begun. Processes that ended without having had the rig (`ingest`) do not
        count.
        """
        if ask(self.connection, "SELECT 1 FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING')"):
            return False
        rows = ask(
            self.connection, "SELECT safe FROM starts WHERE ended IS NULL OR safe IS NOT NULL ORDER BY id DESC LIMIT 1"
        )
        return not rows or bool(rows[0]["safe"])

    # Meters -----------------------------------------------------------------------------------------------------

    def meters(self) -> dict[str, Reading]:
        """Return the counters as the last metered trial left them, from which the next one goes on; rig time.

        None if something lies between: another process, a hold, a suspended machine. What was used meanwhile belongs
        to no trial. Left out, too, are those that could not be read.
        """
        last = self._last()
        if last is None or not last["ours"] or self._waited_s() > 0:
            return {}
        left = {name: reading for name, (reading, _) in self._left().items() if AT not in name}
        return {} if self._slept_s(left) > LITTLE_SLEEP_S else left

    def last_meters(self) -> dict[str, tuple[Reading, float]]:
        """Return where the meters stood after the last trial that was metered (rig time), and the rig seconds since."""
        return {name: known for name, known in self._left().items() if not is_own(name)}

    def unread_meters(self) -> tuple[int, dict[str, tuple[Reading, float]]]:
        """Return that trial's number (0: none), and where meters that could not be read after it stood before it."""
        last, left = self._last(), self.last_meters()
        if last is None:
            return 0, {}
        before = self._read(last, "before")
        return last["trial"], {n: known for n, known in before.items() if n not in left and not is_own(n)}

    def metered_trials(self, last: int, count: int) -> list[int]:
        """Return the last so many trials up to this one that were measured and metered, in order."""
        rows = ask(
            self.connection,
            "SELECT DISTINCT trial FROM meter_readings r WHERE phase = 'after' AND trial <= ? "
            "AND EXISTS (SELECT 1 FROM measurements WHERE trial = r.trial) ORDER BY trial DESC LIMIT ?",
            last,
            count,
        )
        return [row["trial"] for row in reversed(rows)]

    def rested_s(self) -> float:
        """Return the rig seconds since that trial in which the campaign had the rig and ran no trial.

        It held or waited, the machine slept, or the process had died and nobody had ended it. After a clean end
        nobody is kept waiting, and between two trials that follow each other nothing counts.
        """
        last = self._last()
        if last is None:
            return 0.0
        slept_s = self._slept_s({name: reading for name, (reading, _) in self._left().items()})
        rested_s = self._waited_s() + self._dead_s() + (slept_s if slept_s > LITTLE_SLEEP_S else 0.0)
        return min(rested_s, max(0.0, self.time.since(last["at_s"], last["utc"], last["epoch"]).longest_s))

    def looked_since(self, trial: int) -> Since:
        """Return how long ago the variables were read before a trial was decided."""
        rows = ask(
            self.connection,
            "SELECT l.at_s, e.utc, s.epoch FROM looks l JOIN events e ON e.trial = l.trial AND e.event = 'LOOK' "
            "LEFT JOIN starts s ON s.id = e.start WHERE l.trial = ? LIMIT 1",
            trial,
        )
        return self.time.since(*rows[0]) if rows else Since(0.0, None)

    def _last(self) -> sqlite3.Row | None:
        rows = ask(self.connection, _LAST_METERED)
        return rows[0] if rows else None

    def _left(self) -> dict[str, tuple[Reading, float]]:
        last = self._last()
        return {} if last is None else self._read(last, "after")

    def _read(self, last: sqlite3.Row, phase: str) -> dict[str, tuple[Reading, float]]:
        rows = ask(
            self.connection,
            "SELECT * FROM meter_readings WHERE phase = ? AND severity < ? AND value IS NOT NULL "
            "AND trial = (SELECT trial FROM meter_readings WHERE phase = 'before' ORDER BY trial DESC LIMIT 1)",
            phase,
            int(Severity.INVALID),
        )
        return {
            r["meter"]: (
                Reading(r["value"], r["unit"], r["at_s"] - self.time.offset_s, Severity(r["severity"]), r["detail"]),
                self.time.since(r["at_s"], last["utc"], last["epoch"]).charged_s[0],
            )
            for r in rows
        }

    def _slept_s(self, left: dict[str, Reading]) -> float:
        """Return the rig seconds of suspend since these readings; only within one boot can that be said."""
        clock, last = self.time.clock, self._last()
        suspended_s = clock.suspended_s()
        if ASLEEP not in left or last is None or last["epoch"] != self.time.epoch or suspended_s is None:
            return 0.0
        return max(0.0, suspended_s - left[ASLEEP].value)

    def _waited_s(self) -> float:
        """Return the rig seconds in which this campaign held or waited since the last metered trial."""
        last = self._last()
        rows = ask(
            self.connection,
            "SELECT p.phase, p.at_s, p.start, (SELECT max(seen_s) FROM starts WHERE id = p.start) AS seen_s, "
            "(SELECT max(id) FROM starts) AS now FROM phases p "
            # what was over before that trial was is none of it
            "WHERE p.id >= coalesce((SELECT id FROM phases WHERE at_s <= ? ORDER BY id DESC LIMIT 1), 0) ORDER BY p.id",
            0.0 if last is None else last["at_s"],
        )
        waited_s = 0.0
        for row, after in pairwise([*rows, None]):
            if last is None or row is None or row["phase"] == "RUNNING":
                continue
            until_s = self.time.now_s() if row["start"] == row["now"] else row["seen_s"]
            if after is not None and after["start"] == row["start"]:
                until_s = after["at_s"]
            waited_s += max(0.0, until_s - max(row["at_s"], last["at_s"]))
        return waited_s

    def _dead_s(self) -> float:
        """Return the rig seconds between a process that died and the next, since the last metered trial."""
        last = self._last()
        starts = ask(self.connection, "SELECT at_s, seen_s, ended FROM starts ORDER BY id")
        dead = [(a["seen_s"], b["at_s"]) for a, b in pairwise(starts) if a["ended"] is None]
        return sum(max(0.0, until_s - max(from_s, last["at_s"])) for from_s, until_s in dead) if last else 0.0


def off_s(past: Past, start: int, heir: int) -> tuple[float, bool]:
    """Return the rig seconds of being off between two processes, by their numbers, and whether they are known.

    The later one is of this boot, unless it is of the earlier one's: then there are none.
    """
    sql = "SELECT s.* FROM starts s JOIN starts h ON h.id = ? WHERE s.id = ? AND s.epoch <> h.epoch"
    for last in ask(past.connection, sql, heir, start):
        since = past.time.since(last["seen_s"], last["seen_utc"], last["epoch"])
        away_s, known = since.charged_s
        return away_s - since.rig_s, known
    return 0.0, True


def booked_ago_s(past: Past) -> dict[str, float]:
    """Return the rig seconds since something that no trial used was last booked, by meter."""
    rows = ask(
        past.connection,
        "SELECT meter, at_s, utc, max(id), (SELECT epoch FROM starts s WHERE s.at_s < idle.at_s "
        "ORDER BY s.id DESC LIMIT 1) AS epoch FROM idle GROUP BY meter",
    )
    return {row["meter"]: past.time.since(row["at_s"], row["utc"], row["epoch"]).charged_s[0] for row in rows}
