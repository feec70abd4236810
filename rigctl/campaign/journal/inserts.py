"""The single statements that the journal's transactions are made of."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence

from rigctl.campaign.decision import Decision, proposal_to_json
from rigctl.campaign.journal.rows import Phase
from rigctl.campaign.journal.time import CampaignTime
from rigctl.campaign.ledger import LedgerLine
from rigctl.campaign.trial import Event, State, advance
from rigctl.errors import JournalError
from rigctl.rig.protocols import Reading
from rigctl.rig.values import Measurement


class Statements:
    """Statements of one open journal, to be used inside a transaction."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime) -> None:
        self._connection = connection
        self._time = time

    def insert(self, table: str, values: Mapping[str, object], on_conflict: str = "") -> int:
        """Insert one row; returns its id. Table, columns and clause are this package's own words, never input."""
        marks = ", ".join("?" * len(values))
        conflict = f" ON CONFLICT {on_conflict}" if on_conflict else ""
        sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks}){conflict}"  # noqa: S608
        return self._connection.execute(sql, tuple(values.values())).lastrowid or 0

    def add_trial(self, decision: Decision, state: State) -> None:
        """The trial's row; raises `JournalError` if its number is not the next one."""
        (last,) = self._connection.execute("SELECT coalesce(max(trial), 0) FROM trials").fetchone()
        if decision.trial != last + 1:
            raise JournalError(f"trial {decision.trial}: the next is {last + 1}; was it decided on an old history?")
        self.insert(
            "trials",
            {
                "trial": decision.trial,
                "state": state,
                "control_set": json.dumps(decision.control_set),
                "setpoints": json.dumps(dict(decision.setpoints)),
                "origin": decision.origin,
                "proposal": None if decision.proposal is None else proposal_to_json(decision.proposal),
                "policy_state": None if decision.policy_state is None else json.dumps(dict(decision.policy_state)),
                "seed": decision.seed,
                "history_length": decision.history_length,
                "budget_micros": decision.budget,
                "note": decision.note,
            },
        )

    def step(self, trial: int, expected: State, event: Event, detail: str = "") -> None:
        """Move a trial on, if it is where the caller believes it is; raises `JournalError` if it is not."""
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
        """The event's row."""
        values = {
            "trial": trial,
            "event": event,
            "state": state,
            "utc": self._time.utc(),
            "at_s": self._time.now_s(),
            "detail": detail,
            # whoever writes has begun last: the state directory's lock sees to that
            "start": self._connection.execute("SELECT max(id) FROM starts").fetchone()[0],
        }
        self.insert("events", values)

    def add_measurements(self, trial: int, measurements: Mapping[str, Measurement], outcomes: Sequence[str]) -> None:
        """One row per sensor; NaN becomes NULL. `outcome` is 0 for variables, then 1, 2, ... in order."""
        ranks = {name: rank for rank, name in enumerate(outcomes, start=1)}
        for name, m in measurements.items():
            self.insert(
                "measurements",
                {
                    "trial": trial,
                    "name": name,
                    "outcome": ranks.get(name, 0),
                    "value": m.value,
                    "spread": m.spread,
                    "count": m.count,
                    "invalid": m.invalid,
                    "severity": int(m.severity),
                    "detail": m.detail,
                },
            )

    def add_readings(self, trial: int, phase: Phase, readings: Mapping[str, Reading]) -> None:
        """One row per meter."""
        for meter, r in readings.items():
            self.insert(
                "meter_readings",
                {
                    "trial": trial,
                    "meter": meter,
                    "phase": phase,
                    "value": r.value,
                    "unit": r.unit,
                    "at_s": r.time_s + self._time.offset_s,
                    "severity": int(r.severity),
                    "detail": r.detail,
                },
            )

    def add_lines(self, trial: int, lines: Sequence[LedgerLine]) -> None:
        """The trial's cost."""
        for line in lines:
            self.insert(
                "ledger",
                {
                    "trial": trial,
                    "meter": line.meter,
                    "kind": line.kind,
                    "quantity": line.quantity,
                    "unit": line.unit,
                    "amount_micros": line.amount,
                    "estimated": line.estimated,
                    "note": line.note,
                },
            )
