"""What every room of the journal reads and writes with: rows of the declared kinds, steps of trials, acts of people.

A public method that writes returns once the record is on disk, or says that it is called inside a transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import TypeVar

from rigctl.campaign.journal.database import ask, fetch
from rigctl.campaign.journal.past import CampaignTime
from rigctl.campaign.journal.rows import ActRow, EventRow
from rigctl.campaign.journal.table import table_of
from rigctl.campaign.trial import Event, State, advance
from rigctl.errors import JournalError

T = TypeVar("T")


class Book:
    """Rows of one open journal; `time` is campaign time, None where the journal is only read."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime | None = None) -> None:
        self._connection = connection
        self._given_time = time

    @property
    def _time(self) -> CampaignTime:
        if self._given_time is None:
            raise AssertionError("unreachable: this journal is only read")
        return self._given_time

    # Reading ----------------------------------------------------------------------------------------------------

    def _ask(self, sql: str, *of: object) -> list[sqlite3.Row]:
        return ask(self._connection, sql, *of)

    def _number(self, sql: str, *of: object) -> int:
        """Return the one whole number that a query finds; 0 where it finds none."""
        return int(self._connection.execute(sql, of).fetchone()[0] or 0)

    def _fetch(self, kind: type[T], sql: str, *of: object) -> tuple[T, ...]:
        return fetch(self._connection, kind, sql, *of)

    def _rows(self, kind: type[T], which: str = "", *of: object) -> tuple[T, ...]:
        """Return rows of one kind in the order of their keys; `which` says which alone, or in which other order."""
        table = table_of(kind)
        order = "" if "ORDER BY" in which else f"ORDER BY {', '.join(table.key)}"
        return self._fetch(kind, f"SELECT * FROM {table.name} {which} {order}", *of)  # noqa: S608 - our own words

    def _row(self, kind: type[T], which: str, *of: object) -> T | None:
        """Return the first of these rows; None: there is none."""
        return next(iter(self._rows(kind, which, *of)), None)

    def _of_trial(self, kind: type[T], trial: int | None, order: str = "id") -> tuple[T, ...]:
        """Return the rows of one trial, by its index, or of all."""
        which, of = ("", ()) if trial is None else ("WHERE trial = ?", (trial,))
        return self._rows(kind, f"{which} ORDER BY {order}", *of)

    # Writing, inside a transaction --------------------------------------------------------------------------------

    def _insert(self, kind: type, values: Mapping[str, object], on_conflict: str = "") -> int:
        """Insert a row of values by field, and return its number.

        Where its kind has columns for it the row says when it was written, and by which process.
        """
        table = table_of(kind)
        cells = table.cells(values)
        time = self._time
        stamps: Mapping[str, Callable[[], object]] = {
            "utc": time.utc,
            "at_s": time.now_s,
            "epoch": lambda: time.epoch,
            "start": self._start,
        }
        cells |= {name: now() for name, now in stamps.items() if name in table.columns and name not in cells}
        marks = ", ".join("?" * len(cells))
        conflict = f" ON CONFLICT {on_conflict}" if on_conflict else ""
        sql = f"INSERT INTO {table.name} ({', '.join(cells)}) VALUES ({marks}){conflict}"  # noqa: S608 - ours
        return self._connection.execute(sql, tuple(cells.values())).lastrowid or 0

    def _step(self, trial: int, expected: State, event: Event, detail: str = "") -> None:
        """Move a trial on; raises JournalError if it is not in the state that the caller expects."""
        state = advance(expected, event)
        changed = self._connection.execute(
            "UPDATE trials SET state = ? WHERE trial = ? AND state = ?", (state, trial, expected)
        ).rowcount
        if changed != 1:
            found = self._connection.execute("SELECT state FROM trials WHERE trial = ?", (trial,)).fetchone()
            actual = "not there" if found is None else found[0]
            raise JournalError(f"trial {trial}: {event} expects {expected}, but it is {actual}")
        self._note(trial, event, state, detail)

    def _note(self, trial: int, event: Event, state: State, detail: str) -> None:
        self._insert(EventRow, {"trial": trial, "event": event, "state": state, "detail": detail})

    def _act(
        self, verb: str, who: str, argument: str = "", why: str = "", outcome: str = "", **about: float | None
    ) -> int:
        """Insert what a person did (`about`: to which `alarm`, for how many `seconds`); return its number."""
        said: dict[str, object] = {"verb": verb, "argument": argument, "who": who, "why": why, "outcome": outcome}
        return self._insert(ActRow, said | about)

    def _start(self) -> int | None:
        """Return the process that writes, by its number: the state directory's lock sees to it that it began last."""
        (start,) = self._connection.execute("SELECT max(id) FROM starts").fetchone()
        return None if start is None else int(start)
