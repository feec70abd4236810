"""Everything that is asked of the journal."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from rigctl.campaign.decision import proposal_from_json
from rigctl.campaign.journal.beside import Beside
from rigctl.campaign.journal.database import ask, guarded, open_for_reading, recovery_advice
from rigctl.campaign.journal.idle import IdleRows
from rigctl.campaign.journal.rows import (
    AlarmRow,
    CampaignRow,
    DoseRow,
    EventRow,
    LedgerRow,
    MeasurementRow,
    Phase,
    StartRow,
    StateRow,
    TrialRow,
)
from rigctl.campaign.journal.seals import unsealed
from rigctl.campaign.trial import TRANSITIONS, Event, State
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.space import Space
from rigctl.errors import JournalCorrupt, UsageError
from rigctl.rig.protocols import Reading, Severity

FILE_NAME = "journal.sqlite"
_OPEN = tuple(str(s) for s in TRANSITIONS if s is not None)
_ALL_TRIALS = 2**62

_TRIALS = f"""
    SELECT t.*,
        (SELECT value FROM measurements WHERE trial = t.trial AND outcome = 1 AND severity < 3) AS y,
        EXISTS (SELECT 1 FROM measurements WHERE trial = t.trial) AS whole,
        (SELECT coalesce(sum(amount_micros), 0) FROM ledger WHERE trial = t.trial) AS cost,
        (SELECT coalesce(max(estimated), 0) FROM ledger WHERE trial = t.trial) AS estimated,
        (SELECT utc FROM events WHERE trial = t.trial ORDER BY id LIMIT 1) AS started,
        (SELECT utc FROM events WHERE trial = t.trial AND state NOT IN {_OPEN} ORDER BY id DESC LIMIT 1) AS ended,
        (SELECT detail FROM events WHERE trial = t.trial ORDER BY id DESC LIMIT 1) AS because
    FROM trials t"""  # noqa: S608 - only the names of this package's own states

_BESIDE_THE_OUTCOME = """
    SELECT trial, name, value, outcome FROM measurements
    WHERE trial = coalesce(?, trial) AND outcome <> 1 AND severity < 3 ORDER BY trial, outcome, name"""
"""Variables (outcome = 0) and further outcomes (from 2 on)."""


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """The journal at `path` (a file or a state directory), read-only, also while a daemon writes it.

    Raises:
        UsageError: there is none.
        JournalCorrupt, JournalNewer: it cannot be read.
    """
    file = path / FILE_NAME if path.is_dir() else path
    connection = open_for_reading(file)
    try:
        with guarded(file):
            if unsealed(connection):
                check_readable(connection, file)
            yield Reader(connection)
    finally:
        connection.close()


def check_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `JournalCorrupt` if something in it is not what we write: for what no checksum vouches for."""
    reader = Reader(connection)
    questions = (reader.trials, reader.events, reader.measurements, reader.ledger, reader.doses, reader.alarms)
    try:
        for question in (*questions, reader.starts, reader.policy_state):
            question()
        if ask(connection, "SELECT 1 FROM campaign"):
            reader.campaign()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise JournalCorrupt(recovery_advice(path, f"{type(error).__name__}: {error}")) from error


def observation(space: Space, row: TrialRow, further: Sequence[str] | None = None) -> Observation:
    """A charged trial as a policy sees it: measured engineering values on the unit cube.

    Further outcomes are those of these names, up to the first that was not measured; None: all, as they were declared.

    A cost that was estimated, or of a trial that ended before it was measured, is charged but says nothing about what
    a whole trial costs: `cost_known` is False.
    """
    names = space.names
    complete = all(name in row.measured for name in names)
    x = tuple(float(u) for u in space.to_unit(np.array([row.measured[n] for n in names]))) if complete else None
    return Observation(
        trial=row.trial,
        control_set=space.index_of(row.control_set),
        x=x,
        y=row.outcome if row.state is State.RECORDED else None,
        cost=row.cost,
        cost_known=row.whole and not row.estimated,
        further=_further(row, further) if row.state is State.RECORDED else (),
    )


def _further(row: TrialRow, names: Sequence[str] | None) -> tuple[float, ...]:
    wanted = row.further if names is None else takewhile(row.further.__contains__, names)
    return tuple(row.further[name] for name in wanted)


class Reader:
    """Typed questions to one open journal; answers are frozen."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.beside = Beside(connection)
        self.idle = IdleRows(connection)

    def campaign(self) -> CampaignRow:
        """What the journal is about.

        Raises:
            UsageError: no campaign has been started in it.
        """
        rows = ask(
            self._connection,
            "SELECT *, (SELECT count(*) FROM starts) AS starts, "
            "(SELECT config FROM starts ORDER BY id DESC LIMIT 1) AS config, "
            "(SELECT coalesce(sum(amount_micros), 0) FROM ledger) AS spent FROM campaign",
        )
        if not rows:
            raise UsageError("no campaign has been started in this journal")
        r = rows[0]
        return CampaignRow(
            rig=r["rig"],
            policy=r["policy"],
            policy_options=json.loads(r["policy_options"]),
            seed=r["seed"],
            currency=r["currency"],
            budget=r["budget_micros"],
            spent=r["spent"] + self.idle.spent(),
            outcome=r["outcome"],
            fingerprint=r["fingerprint"],
            identity=json.loads(r["identity"]),
            created_utc=r["created_utc"],
            config_text=r["config"] or "",
            starts=r["starts"],
        )

    def trials(self) -> tuple[TrialRow, ...]:
        """All trials in order, the one under way included."""
        measured: dict[int, list[sqlite3.Row]] = {}
        for r in ask(self._connection, _BESIDE_THE_OUTCOME, None):
            measured.setdefault(r["trial"], []).append(r)
        rows = ask(self._connection, f"{_TRIALS} ORDER BY trial")
        return tuple(_trial(r, measured.get(r["trial"], ())) for r in rows)

    def trial(self, number: int) -> TrialRow:
        """One trial.

        Raises:
            UsageError: there is none with that number.
        """
        rows = ask(self._connection, f"{_TRIALS} WHERE t.trial = ?", number)
        if not rows:
            raise UsageError(f"trial {number}: not in this journal")
        return _trial(rows[0], ask(self._connection, _BESIDE_THE_OUTCOME, number))

    def open_trial(self) -> TrialRow | None:
        """The trial that is under way (or was, when the process died); there is at most one."""
        rows = ask(self._connection, f"{_TRIALS} WHERE t.state IN {_OPEN}")
        return self.trial(rows[0]["trial"]) if rows else None

    def history(self, space: Space, further: Sequence[str] | None = None) -> History:
        """All charged trials, as a policy sees them; see `observation`."""
        return History.of(observation(space, row, further) for row in self.trials() if row.state.final)

    def policy_state(self, before: int | None = None) -> Mapping[str, Any] | None:
        """The policy's memory after its last decision (of those before trial `before`); None if it has made none."""
        rows = ask(
            self._connection,
            "SELECT policy_state FROM trials WHERE policy_state IS NOT NULL AND trial < ? ORDER BY trial DESC LIMIT 1",
            _ALL_TRIALS if before is None else before,
        )
        state: Mapping[str, Any] | None = json.loads(rows[0]["policy_state"]) if rows else None
        return state

    def events(self, trial: int | None = None) -> tuple[EventRow, ...]:
        """Every step of one trial or of all, in order."""
        rows = ask(self._connection, "SELECT * FROM events WHERE trial = coalesce(?, trial) ORDER BY id", trial)
        return tuple(
            EventRow(r["trial"], Event(r["event"]), State(r["state"]), r["utc"], r["at_s"], r["detail"]) for r in rows
        )

    def measurements(self, trial: int | None = None) -> tuple[MeasurementRow, ...]:
        """What was measured in one trial or in all."""
        sql = "SELECT * FROM measurements WHERE trial = coalesce(?, trial) ORDER BY trial, name"
        return tuple(
            MeasurementRow(
                trial=r["trial"],
                name=r["name"],
                is_outcome=bool(r["outcome"]),
                value=r["value"],
                spread=r["spread"],
                count=r["count"],
                invalid=r["invalid"],
                severity=Severity(r["severity"]),
                detail=r["detail"],
            )
            for r in ask(self._connection, sql, trial)
        )

    def states(self, trial: int) -> tuple[StateRow, ...]:
        """What the actuators read back in one trial."""
        rows = ask(self._connection, "SELECT * FROM states WHERE trial = ? ORDER BY variable", trial)
        return tuple(StateRow(r["trial"], r["variable"], bool(r["controlled"]), r["setpoint"]) for r in rows)

    def meter_readings(self, trial: int, phase: Phase) -> dict[str, Reading]:
        """Counters before or after a trial, by meter name."""
        rows = ask(self._connection, "SELECT * FROM meter_readings WHERE trial = ? AND phase = ?", trial, phase)
        return {
            r["meter"]: Reading(_number(r["value"]), r["unit"], r["at_s"], Severity(r["severity"]), r["detail"])
            for r in rows
        }

    def ledger(self, trial: int | None = None) -> tuple[LedgerRow, ...]:
        """Every ledger line of one trial or of all, in order."""
        sql = "SELECT * FROM ledger WHERE trial = coalesce(?, trial) ORDER BY trial, id"
        return tuple(
            LedgerRow(
                trial=r["trial"],
                meter=r["meter"],
                kind=r["kind"],
                quantity=r["quantity"],
                unit=r["unit"],
                amount=r["amount_micros"],
                estimated=bool(r["estimated"]),
                note=r["note"],
            )
            for r in ask(self._connection, sql, trial)
        )

    def doses(self, trial: int | None = None) -> tuple[DoseRow, ...]:
        """Every dose of one trial or of all, in order."""
        sql = "SELECT * FROM doses WHERE ?1 IS NULL OR trial = ?1 ORDER BY id"
        return tuple(
            DoseRow(
                dose=r["id"],
                trial=r["trial"],
                actuator=r["actuator"],
                volume_ml=r["volume_ml"],
                total_before_ml=r["total_before_ml"],
                state=r["state"],
                dispensed_ml=r["dispensed_ml"],
                utc=r["utc"],
                at_s=r["at_s"],
                settled_s=r["settled_s"],
                note=r["note"],
            )
            for r in ask(self._connection, sql, trial)
        )

    def alarms(self) -> tuple[AlarmRow, ...]:
        """Every alarm, in order."""
        rows = ask(self._connection, "SELECT * FROM alarms ORDER BY id")
        return tuple(
            AlarmRow(
                trial=r["trial"],
                severity=Severity(r["severity"]),
                source=r["source"],
                message=r["message"],
                utc=r["utc"],
                at_s=r["at_s"],
                detail=r["detail"] if "detail" in r.keys() else "",  # noqa: SIM118 - an older version's has none
            )
            for r in rows
        )

    def starts(self) -> tuple[StartRow, ...]:
        """Every process that ran the campaign, in order."""
        rows = ask(self._connection, "SELECT * FROM starts ORDER BY id")
        return tuple(
            StartRow(
                start=r["id"],
                utc=r["utc"],
                at_s=r["at_s"],
                pid=r["pid"],
                version=r["version"],
                seen_utc=r["seen_utc"],
                seen_s=r["seen_s"],
                ended=r["ended"],
                safe=None if r["safe"] is None else bool(r["safe"]),
            )
            for r in rows
        )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _trial(r: sqlite3.Row, measured: Sequence[sqlite3.Row]) -> TrialRow:
    return TrialRow(
        trial=r["trial"],
        state=State(r["state"]),
        control_set=tuple(json.loads(r["control_set"])),
        setpoints=json.loads(r["setpoints"]),
        origin=r["origin"],
        proposal=None if r["proposal"] is None else proposal_from_json(r["proposal"]),
        policy_state=None if r["policy_state"] is None else json.loads(r["policy_state"]),
        seed=r["seed"],
        history_length=r["history_length"],
        budget=r["budget_micros"],
        note=r["note"],
        measured={m["name"]: m["value"] for m in measured if m["outcome"] == 0},
        outcome=r["y"],
        whole=bool(r["whole"]),
        cost=r["cost"],
        estimated=bool(r["estimated"]),
        started_utc=r["started"],
        ended_utc=r["ended"],
        because=r["because"],
        further={m["name"]: m["value"] for m in measured if m["outcome"] > 0},
    )
