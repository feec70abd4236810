"""What was used while no trial was under way: lines beside the trials' ledger, counted in what was spent."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.schema import has_table
from rigctl.campaign.journal.time import CampaignTime
from rigctl.campaign.ledger import IdleLine
from rigctl.core.money import Micros


@dataclass(frozen=True, slots=True)
class IdleRow:
    """One line."""

    before_trial: int
    """The trial that came after it, or that it interrupted."""
    meter: str
    kind: str
    quantity: float | None
    unit: str
    amount: Micros
    note: str
    utc: str

    @property
    def line(self) -> IdleLine:
        """What was booked."""
        return IdleLine(self.meter, self.kind, self.quantity, self.unit, self.amount, self.note)


class IdleRows:
    """What one open journal has of it; nothing, if it was written before such lines were kept."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> tuple[IdleRow, ...]:
        """All lines, in order."""
        if not has_table(self._connection, "idle"):
            return ()
        sql = "SELECT before_trial, meter, kind, quantity, unit, amount_micros, note, utc FROM idle ORDER BY id"
        return tuple(IdleRow(*row) for row in self._connection.execute(sql))

    def spent(self) -> Micros:
        """Their sum."""
        if not has_table(self._connection, "idle"):
            return 0
        (spent,) = self._connection.execute("SELECT coalesce(sum(amount_micros), 0) FROM idle").fetchone()
        return int(spent)

    def since_last_trial(self) -> tuple[IdleRow, ...]:
        """What has been booked since the last trial that was metered."""
        sql = "SELECT trial FROM meter_readings WHERE phase = 'before' ORDER BY trial DESC LIMIT 1"
        (last,) = self._connection.execute(sql).fetchone() or (0,)
        return tuple(row for row in self.rows() if row.before_trial > last)


class IdleBook:
    """Books idle lines in one open journal."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time

    def add(self, before_trial: int, lines: Sequence[IdleLine]) -> None:
        """To be used inside the transaction that commits the readings they were made from."""
        utc, at_s = self._time.utc(), self._time.now_s()
        self._connection.executemany(
            "INSERT INTO idle (meter, kind, quantity, unit, amount_micros, before_trial, note, utc, at_s) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(i.meter, i.kind, i.quantity, i.unit, i.amount, before_trial, i.note, utc, at_s) for i in lines],
        )

    def book(self, lines: Sequence[IdleLine]) -> None:
        """Book what was used up to now, before it is known what comes next; on disk when this returns."""
        with transaction(self._connection):
            (following,) = self._connection.execute(
                # a proposal that a process left behind is the next trial: nothing of it has moved yet
                "SELECT coalesce((SELECT trial FROM trials WHERE state = 'PROPOSED'), "
                "(SELECT max(trial) + 1 FROM trials), 1)"
            ).fetchone()
            self.add(following, lines)
