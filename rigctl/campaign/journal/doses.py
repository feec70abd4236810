"""The dose protocol's memory (protocols, "Dose protocol"): intent before the command, settled once, never re-sent."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final, Literal

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.past import CampaignTime
from rigctl.campaign.journal.rows import DoseRow
from rigctl.campaign.journal.store import Book
from rigctl.errors import JournalError
from rigctl.rig.protocols import Unanswered
from rigctl.rig.spec import DAY_S
from rigctl.rig.values import OpenDose

_SINCE: Final = (
    "SELECT coalesce(sum(coalesce(dispensed_ml, volume_ml)), 0.0) FROM doses WHERE actuator = ? AND at_s >= ?"
)
_MOVING: Final = (
    "SELECT trial FROM trials WHERE state IN ('LOOKING', 'ARMED', 'RUNNING') "
    "OR state = 'PROPOSED' AND trial IN (SELECT trial FROM looks)"
)
_IN_TRIAL: Final = (
    "SELECT coalesce(sum(coalesce(dispensed_ml, volume_ml)), 0.0) "  # noqa: S608 - our own words
    f"FROM doses WHERE actuator = ? AND trial = ({_MOVING})"
)


class DoseBook(Book):
    """The doses of one open journal. Each call returns only after the record is on disk."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        super().__init__(connection, time)
        self._dearest: dict[str, tuple[int, float]] = {}
        """By pump: the last dose of trials that are over, and the most that one of these has dispensed."""

    def intend(self, actuator: str, volume_ml: float, total_before_ml: float) -> int:
        """Record an intent for the trial under way (if any), and return the dose's id."""
        with transaction(self._connection):
            values = {"actuator": actuator, "volume_ml": volume_ml, "total_before_ml": total_before_ml}
            return self._insert(DoseRow, {"trial": self._moving(), **values, "state": "INTENT", "note": ""})

    def _moving(self) -> int | None:
        """Return the trial that what happens now belongs to, if one is under way: it may have moved something."""
        found = self._connection.execute(_MOVING).fetchone()
        return None if found is None else int(found[0])

    def sent(self, dose: int) -> None:
        """Note that the command has left.

        Raises:
            JournalError: the dose is not an open intent.
        """
        with transaction(self._connection):
            changed = self._connection.execute(
                "UPDATE doses SET state = 'SENT' WHERE id = ? AND state = 'INTENT'", (dose,)
            ).rowcount
            _exactly_one(changed, dose, "sent")

    def settle(self, dose: int, state: Literal["DONE", "UNKNOWN"], volume_ml: float, note: str) -> None:
        """Close a dose: this volume is booked.

        Raises:
            JournalError: the dose is settled already, or does not exist.
        """
        with transaction(self._connection):
            changed = self._connection.execute(
                "UPDATE doses SET state = ?, dispensed_ml = ?, note = ?, settled_s = ? "
                "WHERE id = ? AND state IN ('INTENT', 'SENT')",
                (state, volume_ml, note, self._time.now_s(), dose),
            ).rowcount
            _exactly_one(changed, dose, state)

    def found(self, actuator: str, volume_ml: float, total_before_ml: float) -> None:
        """Book what a pump gave though nobody asked it to."""
        now_s = self._time.now_s()
        with transaction(self._connection):
            values = {"actuator": actuator, "volume_ml": volume_ml, "total_before_ml": total_before_ml, "at_s": now_s}
            ended = {"state": "FOUND", "dispensed_ml": volume_ml, "settled_s": now_s, "note": ""}
            self._insert(DoseRow, {"trial": self._moving(), **values, **ended})

    def volume_since_ml(self, actuator: str, since_s: float) -> float:
        """Return the volume of all doses since this rig time (of the present epoch); open ones count in full."""
        return self.given_ml([actuator], since_s)

    def given_ml(self, pumps: Sequence[str], since_s: float | None) -> float:
        """Return the volume of these pumps' doses since a rig time (None: in the trial under way); open ones in full.

        `-inf` is the whole campaign, across every boot.
        """
        when = (_IN_TRIAL, []) if since_s is None else (_SINCE, [since_s + self._time.offset_s])
        rows = [self._connection.execute(when[0], [pump, *when[1]]).fetchone() for pump in pumps]
        return float(sum(row[0] for row in rows))

    def dearest_trial_ml(self, actuator: str) -> float:
        """Return the most that one trial has dispensed with this pump so far.

        A trial that is over dispenses nothing more, so each is summed up once.
        """
        over, most_ml = self._dearest.get(actuator, (0, 0.0))
        rows = self._ask(
            "SELECT trial, sum(coalesce(dispensed_ml, volume_ml)) AS ml, max(id) AS last, "
            "max(state IN ('INTENT', 'SENT')) AS open FROM doses "
            "WHERE id > ? AND +actuator = ? AND trial IS NOT NULL GROUP BY trial ORDER BY trial",
            over,
            actuator,
        )
        settled = [row for row in rows[:-1] if not row["open"]]
        if settled and len(settled) == len(rows) - 1 and not self._connection.in_transaction:
            self._dearest[actuator] = settled[-1]["last"], max(most_ml, *(row["ml"] for row in settled))
        return max([most_ml, *(float(row["ml"]) for row in rows)])

    def room_at_s(self, pumps: Sequence[str], volume_ml: float, cap_ml: float, span_s: float = DAY_S) -> float:
        """Return the rig time from which so much more fits the pumps' cap of any such span; now, if it does already."""
        now_s = self._time.now_s()
        sql = "SELECT at_s, coalesce(dispensed_ml, volume_ml) AS ml FROM doses WHERE actuator = ? AND at_s >= ?"
        found = (dose for pump in pumps for dose in self._ask(sql, pump, now_s - span_s))
        doses = sorted(found, key=lambda dose: dose["at_s"])
        booked_ml, free_s = sum(d["ml"] for d in doses), now_s
        for dose in doses:
            if booked_ml + volume_ml <= cap_ml:
                break
            booked_ml, free_s = booked_ml - dose["ml"], dose["at_s"] + span_s
        return max(free_s, now_s) - self._time.offset_s

    def open(self) -> tuple[OpenDose, ...]:
        """Return the doses whose end is not known, in order."""
        sql = "SELECT *, id AS dose, state = 'SENT' AS sent FROM doses WHERE state IN ('INTENT', 'SENT') ORDER BY id"
        return self._fetch(OpenDose, sql)


class AnswerBook(Book):
    """Whether doses did anything: evidence over the whole campaign, until a person has looked (fault 63)."""

    def keep(self, actuator: str, probe: str, moved: float, expected: float, *, answered: bool) -> None:
        """Record what this pump's last dose did.

        Raises:
            JournalError: it has no settled dose, or the last one has its answer already.
        """
        with transaction(self._connection):
            changed = self._connection.execute(
                "INSERT INTO answers (dose, probe, moved, expected, answered) "
                "SELECT id, ?, ?, ?, ? FROM doses WHERE id = "
                "(SELECT id FROM doses WHERE +actuator = ? AND state <> 'FOUND' "
                "ORDER BY id DESC LIMIT 1) "  # from the end, not all of them
                "AND state IN ('DONE', 'UNKNOWN') AND id NOT IN (SELECT dose FROM answers)",
                (probe, moved, expected, answered, actuator),
            ).rowcount
            if changed != 1:
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


def _exactly_one(changed: int, dose: int, what: str) -> None:
    if changed != 1:
        raise JournalError(f"dose {dose}: cannot become {what}, it is settled already or unknown")
