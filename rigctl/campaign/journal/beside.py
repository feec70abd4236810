"""What is kept beside the trials: the campaign's phases, pinned instruments, what doses did."""

from __future__ import annotations

import sqlite3

from rigctl.campaign.journal.database import ask
from rigctl.campaign.journal.rows import AnswerRow, PhaseRow, PinRow
from rigctl.campaign.journal.schema import has_table


class Beside:
    """Questions to one open journal; a journal that an older version wrote has none of it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def phases(self) -> tuple[PhaseRow, ...]:
        """Every change of the campaign's own state, in order."""
        return tuple(
            PhaseRow(r["phase"], r["why"], r["until_s"], r["utc"], r["at_s"], r["start"])
            for r in self._all("phases", "id")
        )

    def pins(self) -> dict[str, PinRow]:
        """By device: the pin that counts."""
        return {row.device: row for row in self.all_pins()}

    def all_pins(self) -> tuple[PinRow, ...]:
        """Every pin there ever was, in order."""
        return tuple(
            PinRow(r["device"], r["model"], r["serial"], r["place"], r["utc"], bool(r["accepted"]), r["who"])
            for r in self._all("pins", "id")
        )

    def answers(self) -> tuple[AnswerRow, ...]:
        """What each dose did to the reading that judges it, in order."""
        return tuple(
            AnswerRow(r["dose"], r["probe"], r["moved"], r["expected"], bool(r["answered"]), bool(r["forgiven"]))
            for r in self._all("answers", "dose")
        )

    def _all(self, table: str, order: str) -> list[sqlite3.Row]:
        if not has_table(self._connection, table):
            return []
        return ask(self._connection, f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - our own words
