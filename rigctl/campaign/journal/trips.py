"""The trip latch on disk: what tripped stays tripped, also for the next process, until a person resets it."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from rigctl.campaign.journal.database import ask, transaction
from rigctl.campaign.journal.time import CampaignTime


@dataclass(frozen=True, slots=True)
class TripRow:
    """A trip that nobody has reset yet."""

    reason: str
    utc: str


class TripBook:
    """The trips of one open journal. Each call returns only after the record is on disk."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time

    def latch(self, reason: str) -> None:
        """Record a trip; while one is latched, the first reason stays."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO trips (reason, utc, at_s) SELECT ?, ?, ? "
                "WHERE NOT EXISTS (SELECT 1 FROM trips WHERE reset_utc IS NULL)",
                (reason, self._time.utc(), self._time.now_s()),
            )

    def latched(self) -> TripRow | None:
        """The trip that is latched."""
        rows = ask(self._connection, "SELECT reason, utc FROM trips WHERE reset_utc IS NULL")
        return TripRow(rows[0]["reason"], rows[0]["utc"]) if rows else None

    def reset(self) -> TripRow | None:
        """Let go of the latch, and record when; returns what it was, None if nothing was latched.

        Doses without an answer are forgiven: whoever has found the cause has looked at pumps and probes too.
        """
        was = self.latched()
        with transaction(self._connection):
            self._connection.execute("UPDATE trips SET reset_utc = ? WHERE reset_utc IS NULL", (self._time.utc(),))
            if was is not None:
                self._connection.execute("UPDATE answers SET forgiven = 1 WHERE NOT answered AND NOT forgiven")
        return was
