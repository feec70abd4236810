"""The dose protocol's memory (protocols, "Dose protocol"): intent before the command, settled once, never re-sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.past import CampaignTime
from rigctl.campaign.journal.rows import AnswerRow, DoseRow
from rigctl.campaign.journal.store import Book
from rigctl.errors import JournalError
from rigctl.rig.dose_log import Unanswered
from rigctl.rig.values import OpenDose

_GIVEN: Final = "coalesce(dispensed_ml, volume_ml)"
"""What a dose counts as: in full while it is open."""
_MOVING: Final = (
    "SELECT trial FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING') "
    "OR state = 'PROPOSED' AND trial IN (SELECT trial FROM looks)"
)
_OF_TRIAL: Final = """WHERE actuator IN (
        WITH RECURSIVE pumps (pump) AS (
            SELECT min(actuator) FROM doses
            UNION ALL SELECT (SELECT min(actuator) FROM doses WHERE actuator > pump) FROM pumps WHERE pump IS NOT NULL)
        SELECT pump FROM pumps)
    AND at_s >= (SELECT min(at_s) FROM events WHERE trial = ?1) AND trial = ?1 ORDER BY id"""
"""By pump and time, of which there is an index: no dose is older than its trial."""


class DoseBook(Book):
    """Doses, and what they did to the readings that judge them."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime | None = None) -> None:
        super().__init__(connection, time)
        self._dearest: dict[str, tuple[int, float]] = {}
        """By pump: the last dose of trials that are over, and the most that one of these has dispensed."""

    def rows(self, trial: int | None = None) -> tuple[DoseRow, ...]:
        """Return every dose of one trial or of all, in order."""
        return self._rows(DoseRow) if trial is None else self._rows(DoseRow, _OF_TRIAL, trial)

    def open(self) -> tuple[OpenDose, ...]:
        """Return the doses whose end is not known, in order."""
        sql = "SELECT *, id AS dose FROM doses WHERE state IN ('INTENT', 'SENT') ORDER BY id"
        return self._fetch(OpenDose, sql)

    # The protocol -----------------------------------------------------------------------------------------------

    def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        """Record an intent for the trial under way (if any), and return the dose's id."""
        with transaction(self._connection):
            return self._add(actuator, volume_ml, total_before_ml, state="INTENT")

    def sent(self, dose: int) -> None:
        """Note that the command of a dose has left; raises JournalError if the dose is not an open intent."""
        self._change(dose, "state = 'SENT' WHERE id = ? AND state = 'INTENT'")

    def settle(self, dose: int, state: Literal["DONE", "UNKNOWN"], volume_ml: float, note: str) -> None:
        """Close a dose and book this volume; raises JournalError if it is settled already, or does not exist."""
        ended = "state = ?, dispensed_ml = ?, note = ?, settled_s = ? WHERE id = ? AND state IN ('INTENT', 'SENT')"
        self._change(dose, ended, state, volume_ml, note, self._time.now_s())

    def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        """Book what a pump gave though nobody asked it to."""
        now_s = self._time.now_s()
        ended = {"state": "FOUND", "dispensed_ml": volume_ml, "at_s": now_s, "settled_s": now_s}
        with transaction(self._connection):
            self._add(actuator, volume_ml, total_before_ml, **ended)

    def _add(self, actuator: str, volume_ml: float, total_before_ml: float, **more: object) -> int:
        """Insert a dose of the trial that what happens now belongs to, if one is under way that may have moved."""
        moving = self._connection.execute(_MOVING).fetchone()
        values = {"actuator": actuator, "volume_ml": volume_ml, "total_before_ml": total_before_ml, "note": ""}
        return self._insert(DoseRow, {"trial": None if moving is None else moving[0], **values, **more})

    def _change(self, dose: int, change: str, *of: object) -> None:
        sql = f"UPDATE doses SET {change}"  # noqa: S608 - our own words
        with transaction(self._connection):
            if self._connection.execute(sql, (*of, dose)).rowcount != 1:
                raise JournalError(f"dose {dose}: cannot be sent or settled, it is settled already or unknown")

    # What they come to ------------------------------------------------------------------------------------------

    def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:
        """Return the volume of these pumps' doses since a rig time (None: in the trial under way); open ones in full.

        `-inf` is the whole campaign, across every boot.
        """
        when, of = f"trial = ({_MOVING})", tuple[float, ...]()
        if since_s is not None:
            when, of = "at_s >= ?", (since_s + self._time.offset_s,)
        sql = f"SELECT coalesce(sum({_GIVEN}), 0.0) FROM doses WHERE actuator = ? AND {when}"  # noqa: S608 - ours
        return float(sum(self._connection.execute(sql, (pump, *of)).fetchone()[0] for pump in pumps))

    def by_pump_ml(self, since_s: float) -> Mapping[str, float]:
        """Return what each pump has given since a campaign time, mL; open doses in full."""
        sql = f"SELECT actuator, sum({_GIVEN}) AS ml FROM doses WHERE at_s >= ? GROUP BY actuator ORDER BY actuator"  # noqa: S608 - ours
        return {row["actuator"]: row["ml"] for row in self._ask(sql, since_s)}

    def of_pump(self, pump: str, since_s: float = 0.0) -> tuple[float, int]:
        """Return the volume of a pump's doses since a campaign time, mL, and how many they are; open ones in full."""
        sql = f"SELECT coalesce(sum({_GIVEN}), 0.0) AS ml, count(*) AS doses FROM doses "  # noqa: S608 - ours
        (row,) = self._ask(f"{sql} WHERE actuator = ? AND at_s >= ?", pump, since_s)
        return float(row["ml"]), int(row["doses"])

    def dearest_trial_ml(self, pump: str) -> float:
        """Return the most that one trial has dispensed with this pump so far.

        A trial that is over dispenses nothing more, so each is summed up once.
        """
        over, most_ml = self._dearest.get(pump, (0, 0.0))
        rows = self._ask(
            f"SELECT trial, sum({_GIVEN}) AS ml, max(id) AS last, max(state IN ('INTENT', 'SENT')) AS open FROM doses "  # noqa: S608 - ours
            "WHERE id > ? AND +actuator = ? AND trial IS NOT NULL GROUP BY trial ORDER BY trial",
            over,
            pump,
        )
        settled = [row for row in rows[:-1] if not row["open"]]
        if settled and len(settled) == len(rows) - 1 and not self._connection.in_transaction:
            self._dearest[pump] = settled[-1]["last"], max(most_ml, *(row["ml"] for row in settled))
        return max([most_ml, *(float(row["ml"]) for row in rows)])

    def dearest_of_last_ml(self, pump: str) -> float:
        """Return the most that one of the last 20 trials has dispensed with this pump."""
        (row,) = self._ask(
            f"SELECT coalesce(max(ml), 0.0) AS ml FROM (SELECT sum({_GIVEN}) AS ml FROM doses "  # noqa: S608 - ours
            "WHERE actuator = ? AND trial > (SELECT max(trial) - 20 FROM trials) GROUP BY trial)",
            pump,
        )
        return float(row["ml"])

    def room_at_s(self, pumps: Sequence[str], volume_ml: float, cap_ml: float, span_s: float) -> float:
        """Return the rig time from which so much more fits the pumps' cap of any such span; now, if it does already."""
        now_s = self._time.now_s()
        sql = f"SELECT at_s, {_GIVEN} AS ml FROM doses WHERE actuator = ? AND at_s >= ?"  # noqa: S608 - our own words
        found = (dose for pump in pumps for dose in self._ask(sql, pump, now_s - span_s))
        doses = sorted(found, key=lambda dose: dose["at_s"])
        booked_ml, free_s = sum(d["ml"] for d in doses), now_s
        for dose in doses:
            if booked_ml + volume_ml <= cap_ml:
                break
            booked_ml, free_s = booked_ml - dose["ml"], dose["at_s"] + span_s
        return max(free_s, now_s) - self._time.offset_s

    # What they did: evidence over the whole campaign, until a person has looked (fault 63) ------------------------

    def answered(self, actuator: str, probe: str, moved: float, expected: float, *, answered: bool) -> None:
        """Record what the last dose that this pump was asked for did.

        Raises:
            JournalError: it has no settled dose, or the last one has its answer already.
        """
        # from the end, not all of them
        last = "SELECT id, state FROM doses WHERE +actuator = ? AND state <> 'FOUND' ORDER BY id DESC LIMIT 1"
        with transaction(self._connection):
            for dose, state in self._connection.execute(last, (actuator,)):
                if state in ("DONE", "UNKNOWN") and self._row(AnswerRow, "WHERE dose = ?", dose) is None:
                    values = {"dose": dose, "probe": probe, "moved": moved, "expected": expected, "answered": answered}
                    self._insert(AnswerRow, values)
                    return
            raise JournalError(f"{actuator}: no settled dose waits for an answer of {probe}")

    def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """Return the doses since the last one that was answered; those forgiven do not count."""
        (row,) = self._ask(
            "SELECT count(*) AS doses, count(DISTINCT trial) AS trials FROM answers "
            "CROSS JOIN doses ON doses.id = dose "  # from the last answer on, not by pump
            "WHERE +actuator = ?1 AND probe = ?2 AND NOT forgiven AND dose > coalesce((SELECT dose FROM answers "
            "CROSS JOIN doses ON doses.id = dose WHERE +actuator = ?1 AND probe = ?2 AND answered "
            "ORDER BY dose DESC LIMIT 1), 0)",
            actuator,
            probe,
        )
        return Unanswered(row["doses"], row["trials"])
