"""What is kept beside the trials: what none of them used, pinned instruments, who decided."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Final

from rigctl.campaign.journal.database import Questions, ask, fetch
from rigctl.campaign.journal.rows import AwaitedRow, DeciderRow, IdleRow, Pin
from rigctl.campaign.trial import UNDER_WAY
from rigctl.core.money import Micros

OPERATE: Final = "operate"
"""Verb of the act by which a process was told to run batches for production, no trials of the campaign."""
OPERATED: Final = """EXISTS (
    SELECT 1 FROM events WHERE events.trial = {trial} AND event IN ('LOOK', 'PROPOSE')
    AND start IN (SELECT start FROM acts WHERE verb = 'operate'))"""
"""Whether a trial began as such a batch."""
IN_TRIAL: Final = f"""EXISTS (
    SELECT 1 FROM events WHERE events.trial = idle.before_trial AND events.at_s <= idle.at_s
    AND state NOT IN {tuple(map(str, UNDER_WAY))})"""  # noqa: S608 - only this package's own states
"""Whether an idle line was booked as its trial was closed: what no trial has used comes before it begins."""


class IdleRows(Questions):
    """Lines beside the trials' ledger, counted in what was spent."""

    def rows(self) -> tuple[IdleRow, ...]:
        return self._rows(IdleRow, "SELECT * FROM idle ORDER BY id")

    def spent(self) -> Micros:
        """Return what was used beside the campaign's trials."""
        return self.spent_and_operated()[0]

    def spent_and_operated(self) -> tuple[Micros, Micros]:
        """Return what was used beside the campaign's trials, and beside batches for production.

        What was used between a batch and a trial is production's, whichever was first: it is in no campaign's budget.
        What was used in a trial while nobody was in charge of it is that trial's side of the book.
        """
        this, last = (OPERATED.format(trial=f"(idle.before_trial - {back})") for back in (0, 1))
        which = f"{this} OR ({last} AND NOT {IN_TRIAL})"
        sql = (
            f"SELECT coalesce(sum(amount_micros) FILTER (WHERE NOT ({which})), 0) AS trials, "  # noqa: S608 - ours
            f"coalesce(sum(amount_micros) FILTER (WHERE {which}), 0) AS batches FROM idle"
        )
        (found,) = ask(self._connection, sql)
        return int(found["trials"]), int(found["batches"])

    def since_last_trial(self) -> tuple[IdleRow, ...]:
        """Return what has been booked since the last trial that was metered."""
        sql = "SELECT trial FROM meter_readings WHERE phase = 'before' ORDER BY trial DESC LIMIT 1"
        (last,) = self._connection.execute(sql).fetchone() or (0,)
        return self._rows(IdleRow, "SELECT * FROM idle WHERE before_trial > ? ORDER BY id", last)


class AwaitedRows(Questions):
    """Trials whose outcome came, or comes, later."""

    def rows(self, trial: int | None = None) -> Mapping[int, AwaitedRow]:
        """Return them by trial; of one, or of all."""
        which, of = ("", ()) if trial is None else ("WHERE trial = ?", (trial,))
        sql = f"SELECT * FROM awaited {which} ORDER BY trial"  # noqa: S608 - our own words
        return {row.trial: row for row in self._rows(AwaitedRow, sql, *of)}


class Charged(Questions):
    """The sums of the trials' ledger, kept: its lines come and are never changed, so each is summed up once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._last = 0
        """The last line that was summed up."""
        self._sums: tuple[Micros, Micros] = 0, 0

    def sums(self) -> tuple[Micros, Micros]:
        """Return what the campaign's trials were charged, and what batches for production were."""
        which = OPERATED.format(trial="ledger.trial")
        sql = f"""SELECT coalesce(max(id), ?1) AS last, coalesce(sum(amount_micros), 0) AS more,
            coalesce(sum(amount_micros) FILTER (WHERE {which}), 0) AS batches
            FROM ledger WHERE id > ?1"""  # noqa: S608 - our own words
        (found,) = ask(self._connection, sql, self._last)
        trials, batches = self._sums
        more, of_batches = int(found["more"]), int(found["batches"])
        sums = trials + more - of_batches, batches + of_batches
        if not self._connection.in_transaction:  # else it may never have been
            self._last, self._sums = int(found["last"]), sums
        return sums


class Beside(Questions):
    """Questions to one open journal."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__(connection)
        self._last = 0
        """The last event that was looked at for batches: none is ever changed, so each is looked at once."""
        self._told: dict[int, str] = {}

    def pins(self) -> dict[str, Pin]:
        """Return the pin that counts, by device."""
        return {pin.device: pin for pin in self._rows(Pin, "SELECT * FROM pins ORDER BY id")}

    def deciders(self) -> dict[int, DeciderRow]:
        """Return which code decided each trial that was not done by hand, by its number."""
        sql = "SELECT s.*, e.trial FROM events e JOIN starts s ON s.id = e.start WHERE e.event = 'PROPOSE'"
        return {row.trial: row for row in fetch(self._connection, DeciderRow, sql)}

    def operations(self) -> dict[int, str]:
        """Return what the processes that began batches for production were told, by trial."""
        told = ask(self._connection, "SELECT start, argument FROM acts WHERE verb = ?", OPERATE)
        if not told:
            return {}
        by_start = {row["start"]: row["argument"] for row in told}
        sql = "SELECT id, trial, start FROM events WHERE id > ? AND event IN ('LOOK', 'PROPOSE') ORDER BY id"
        rows = ask(self._connection, sql, self._last)
        found = self._told | {row["trial"]: by_start[row["start"]] for row in rows if row["start"] in by_start}
        if rows and not self._connection.in_transaction:  # else it may never have been
            self._last, self._told = rows[-1]["id"], found
        return dict(found)

    def cancelled(self) -> int:
        """Return how many trials of the campaign, batches apart, were closed before anything moved."""
        sql = (
            "SELECT count(*) AS cancelled FROM trials t WHERE state = 'ABANDONED' AND NOT EXISTS "  # noqa: S608 - ours
            "(SELECT 1 FROM events e WHERE e.trial = t.trial AND e.event IN ('LOOK', 'ARM')) "
            f"AND NOT {OPERATED.format(trial='t.trial')}"
        )
        return int(ask(self._connection, sql)[0]["cancelled"])

    def decider_of(self, suggestion: int) -> DeciderRow | None:
        """Return which code made a suggestion."""
        sql = "SELECT s.*, g.trial FROM suggestions g JOIN starts s ON s.id = g.start WHERE g.id = ?"
        rows = fetch(self._connection, DeciderRow, sql, suggestion)
        return rows[0] if rows else None
