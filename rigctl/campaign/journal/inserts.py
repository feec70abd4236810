"""The single statements that the journal's transactions are made of."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from rigctl.campaign.decision import Decision
from rigctl.campaign.journal.rows import Phase
from rigctl.campaign.journal.time import CampaignTime
from rigctl.campaign.ledger import IdleLine, LedgerLine
from rigctl.campaign.trial import UNDER_WAY, Event, State, advance
from rigctl.codec import fields_of, row
from rigctl.errors import JournalError
from rigctl.rig.protocols import Reading
from rigctl.rig.values import Measurement


class Statements:
    """Statements of one open journal, to be used inside a transaction."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time

    def insert(self, table: str, values: Mapping[str, object], on_conflict: str = "") -> int:
        """Insert one row of values by field and return its id; table and clause are this package's own words."""
        cells = row(values)
        marks = ", ".join("?" * len(cells))
        conflict = f" ON CONFLICT {on_conflict}" if on_conflict else ""
        sql = f"INSERT INTO {table} ({', '.join(cells)}) VALUES ({marks}){conflict}"  # noqa: S608 - ours
        return self._connection.execute(sql, tuple(cells.values())).lastrowid or 0

    def add_trial(self, decision: Decision, state: State) -> None:
        """Insert the trial's row.

        Raises:
            JournalError: its number is not the next one.
        """
        (last,) = self._connection.execute("SELECT coalesce(max(trial), 0) FROM trials").fetchone()
        if decision.trial != last + 1:
            raise JournalError(f"trial {decision.trial}: the next is {last + 1}; was it decided on an old history?")
        self.insert("trials", {**_columns(decision), "state": state})

    def decide(self, decision: Decision) -> None:
        """Fill in what a trial was begun without; its state is another step's to change."""
        cells = row(_columns(decision))
        assigned = ", ".join(f"{column} = ?" for column in cells)
        sql = f"UPDATE trials SET {assigned} WHERE trial = ?"  # noqa: S608 - our own columns
        self._connection.execute(sql, (*cells.values(), decision.trial))

    def nobody_under_way(self) -> None:
        """Raise `JournalError` if a trial is."""
        sql = f"SELECT trial, state FROM trials WHERE state IN {tuple(map(str, UNDER_WAY))}"  # noqa: S608 - our states
        for trial, state in self._connection.execute(sql):
            raise JournalError(f"trial {trial} is under way ({state}); close it first")

    def step(self, trial: int, expected: State, event: Event, detail: str = "") -> None:
        """Move a trial on.

        Raises:
            JournalError: it is not where the caller believes it is.
        """
        state = advance(expected, event)
        changed = self._connection.execute(
            "UPDATE trials SET state = ? WHERE trial = ? AND state = ?", (state, trial, expected)
        ).rowcount
        if changed != 1:
            found = self._connection.execute("SELECT state FROM trials WHERE trial = ?", (trial,)).fetchone()
            actual = "not there" if found is None else found[0]
            raise JournalError(f"trial {trial}: {event} expects {expected}, but it is {actual}")
        self.note(trial, event, state, detail)

    def note(self, trial: int, event: Event, state: State, detail: str) -> None:
        values = {
            "trial": trial,
            "event": event,
            "state": state,
            **self._time.stamp(),
            "detail": detail,
            "start": self.last_start(),
        }
        self.insert("events", values)

    def add_act(
        self, verb: str, who: str, argument: str = "", why: str = "", outcome: str = "", **about: float | None
    ) -> int:
        """Insert what a person did (`about`: to which `alarm`, for how many `seconds`); return its number."""
        said = {"verb": verb, "argument": argument, "who": who, "why": why, "outcome": outcome, **about}
        return self.insert("acts", {**said, **self._time.stamp(), "start": self.last_start()})

    def last_start(self) -> int | None:
        """Return the process that writes, by its number: the state directory's lock sees to it that it began last."""
        (start,) = self._connection.execute("SELECT max(id) FROM starts").fetchone()
        return None if start is None else int(start)

    def add_measurements(self, trial: int, measurements: Mapping[str, Measurement], outcomes: Sequence[str]) -> None:
        """Insert one row per sensor; NaN becomes NULL. `outcome` is 0 for variables, then 1, 2, ... in order."""
        ranks = {name: rank for rank, name in enumerate(outcomes, start=1)}
        for name, measured in measurements.items():
            which = {"trial": trial, "name": name, "outcome": ranks.get(name, 0)}
            self.insert("measurements", {**which, **fields_of(measured)})

    def add_readings(self, trial: int, phase: Phase, readings: Mapping[str, Reading]) -> None:
        for meter, reading in readings.items():
            values = fields_of(reading)
            at_s = values.pop("time_s") + self._time.offset_s
            self.insert("meter_readings", {"trial": trial, "meter": meter, "phase": phase, "at_s": at_s, **values})

    def add_looks(self, trial: int, found: Mapping[str, Measurement]) -> None:
        """Insert what each variable read before the decision; NaN becomes NULL."""
        when = self._time.stamp()
        for name, measured in found.items():
            self.insert("looks", {"trial": trial, "name": name, **fields_of(measured), **when})

    def add_idle(self, before_trial: int, lines: Sequence[IdleLine]) -> None:
        """Insert lines of what no trial used, in the transaction that commits the readings they were made from."""
        when = self._time.stamp()
        for line in lines:
            self.insert("idle", {**fields_of(line), "before_trial": before_trial, **when})

    def add_lines(self, trial: int, lines: Sequence[LedgerLine]) -> None:
        for line in lines:
            self.insert("ledger", {"trial": trial, **fields_of(line)})


class Book:
    """Writes into one open journal. Each call returns only after the record is on disk."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time
        self._do = Statements(connection, time)


def _columns(decision: Decision) -> dict[str, object]:
    """Return what stands in a trial's own row."""
    values = fields_of(decision)
    del values["traceback"], values["looks"]  # these go into the alarm, and into a table of their own
    return values
