"""What is kept beside the trials: what none of them used, pinned instruments, who decided.

A journal that an older version wrote has none of it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import TypeVar

from rigctl.campaign.journal.database import ask, fetch
from rigctl.campaign.journal.rows import AwaitedRow, DeciderRow, IdleRow, Pin
from rigctl.campaign.journal.schema import has_table
from rigctl.core.money import Micros

T = TypeVar("T")


class IdleRows:
    """Lines beside the trials' ledger, counted in what was spent."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self) -> tuple[IdleRow, ...]:
        return _all(self._connection, IdleRow, "idle")

    def spent(self) -> Micros:
        if not has_table(self._connection, "idle"):
            return 0
        return int(ask(self._connection, "SELECT coalesce(sum(amount_micros), 0) AS spent FROM idle")[0]["spent"])

    def since_last_trial(self) -> tuple[IdleRow, ...]:
        """Return what has been booked since the last trial that was metered."""
        sql = "SELECT trial FROM meter_readings WHERE phase = 'before' ORDER BY trial DESC LIMIT 1"
        (last,) = self._connection.execute(sql).fetchone() or (0,)
        return _all(self._connection, IdleRow, "idle", "WHERE before_trial > ?", last)


class AwaitedRows:
    """Trials whose outcome came, or comes, later."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, trial: int | None = None) -> Mapping[int, AwaitedRow]:
        """Return them by trial; of one, or of all."""
        if not has_table(self._connection, "awaited"):
            return {}
        which, of = ("", ()) if trial is None else ("WHERE trial = ?", (trial,))
        sql = f"SELECT * FROM awaited {which} ORDER BY trial"  # noqa: S608 - our own words
        return {row.trial: row for row in fetch(self._connection, AwaitedRow, sql, *of)}


class Charged:
    """The sum of the trials' ledger, kept: its lines come and are never changed, so each is summed up once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._last = 0
        """The last line that was summed up."""
        self._sum: Micros = 0

    def sum(self) -> Micros:
        sql = "SELECT coalesce(max(id), ?1) AS last, coalesce(sum(amount_micros), 0) AS more FROM ledger WHERE id > ?1"
        (found,) = ask(self._connection, sql, self._last)
        charged = self._sum + int(found["more"])
        if not self._connection.in_transaction:  # else it may never have been
            self._last, self._sum = int(found["last"]), charged
        return charged


class Beside:
    """Questions to one open journal."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def pins(self) -> dict[str, Pin]:
        """Return the pin that counts, by device."""
        return {pin.device: pin for pin in _all(self._connection, Pin, "pins")}

    def deciders(self) -> dict[int, DeciderRow]:
        """Return which code decided each trial that was not done by hand, by its number."""
        sql = "SELECT s.*, e.trial FROM events e JOIN starts s ON s.id = e.start WHERE e.event = 'PROPOSE'"
        return {row.trial: row for row in fetch(self._connection, DeciderRow, sql)}

    def decider_of(self, suggestion: int) -> DeciderRow | None:
        """Return which code made a suggestion."""
        sql = "SELECT s.*, g.trial FROM suggestions g JOIN starts s ON s.id = g.start WHERE g.id = ?"
        rows = fetch(self._connection, DeciderRow, sql, suggestion)
        return rows[0] if rows else None


def _all(
    connection: sqlite3.Connection, kind: type[T], table: str, which: str = "", *parameters: object
) -> tuple[T, ...]:
    if not has_table(connection, table):
        return ()
    sql = f"SELECT * FROM {table} {which} ORDER BY id"  # noqa: S608 - our own words
    return fetch(connection, kind, sql, *parameters)
