"""Everything that is asked of the journal."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import takewhile
from math import isfinite, nan, sqrt
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from rigctl.campaign.journal.beside import OPERATED, AwaitedBook, BatchBook, IdleBook
from rigctl.campaign.journal.database import corrupt, decoder, guarded, open_for_reading, snapshot
from rigctl.campaign.journal.doses import DoseBook
from rigctl.campaign.journal.glance import Glance
from rigctl.campaign.journal.instruments import PinBook, TripBook, UpkeepBook
from rigctl.campaign.journal.integrity import log_of, unsealed
from rigctl.campaign.journal.past import CampaignTime
from rigctl.campaign.journal.people import AlarmBook, PeopleBook, by_trial, corrected
from rigctl.campaign.journal.rows import (
    AwaitedRow,
    CampaignRow,
    CorrectionRow,
    EventRow,
    ImportRow,
    LedgerRow,
    LookRow,
    MeasurementRow,
    MeterRow,
    Phase,
    StartRow,
    TrialRow,
)
from rigctl.campaign.journal.store import Book
from rigctl.campaign.trial import TRANSITIONS, UNDER_WAY, Looked, State, look_of
from rigctl.codec import parsed
from rigctl.core.experiment.history import ALONE, BEFOREHAND, History, Observation
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.space import Space
from rigctl.errors import UsageError
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.values import Measurement

T = TypeVar("T")

FILE_NAME = "journal.sqlite"
Stamp = tuple[tuple[int, int, int], ...]
"""Inode, size and time of the last change of the journal's file and of its log; empty files are left out."""
_OPEN = tuple(str(s) for s in TRANSITIONS if s is not None)
_UNDER_WAY = tuple(map(str, UNDER_WAY))
_NO_END = 2**62

_TRIALS = f"""
    SELECT t.*, {OPERATED.format(trial="t.trial")} AS operated,
        (SELECT value FROM measurements WHERE trial = t.trial AND outcome = 1 AND severity < 3) AS outcome,
        EXISTS (SELECT 1 FROM measurements WHERE trial = t.trial) AS whole,
        (SELECT coalesce(sum(amount_micros), 0) FROM ledger WHERE trial = t.trial) AS cost,
        (SELECT coalesce(max(estimated), 0) FROM ledger WHERE trial = t.trial) AS estimated,
        (SELECT utc FROM events WHERE trial = t.trial ORDER BY id LIMIT 1) AS started_utc,
        (SELECT utc FROM events WHERE trial = t.trial AND state NOT IN {_OPEN} ORDER BY id DESC LIMIT 1) AS ended_utc,
        e.detail AS because, e.utc AS changed_utc, e.at_s AS changed_s
    FROM (SELECT * FROM trials WHERE {{which}}) t
    LEFT JOIN events e ON e.id = (SELECT max(id) FROM events WHERE trial = t.trial) ORDER BY t.trial"""  # noqa: S608 - only the names of this package's own states

_BESIDE_THE_OUTCOME = """
    SELECT trial, name, value, outcome FROM measurements
    WHERE {which} AND outcome <> 1 AND severity < 3 ORDER BY trial, outcome, name"""
"""Variables (outcome = 0) and further outcomes (from 2 on)."""


@contextmanager
def open_reader(path: Path) -> Iterator[Reader]:
    """Open the journal at `path` (a file or a state directory) read-only, also while a daemon writes it.

    Raises:
        UsageError: there is none.
        JournalCorrupt, JournalVersion: it cannot be read.
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


@contextmanager
def at_one_instant(directory: Path) -> Iterator[Reader]:
    """Give the journal as it is at one instant, whoever writes meanwhile: for who looks again and again.

    It is not checked as a whole, which takes seconds after 20,000 trials; whoever runs the campaign has done that.
    Between two looks nothing is open, so that the campaign's own end still merges the log into the file.

    Raises:
        UsageError: there is none.
        JournalError: it cannot be read.
    """
    path = directory / FILE_NAME
    with closing(open_for_reading(path, whole=False)) as connection, guarded(path), snapshot(connection):
        yield Reader(connection)


def stamp(directory: Path) -> Stamp:
    """Return what is another value once somebody has written into the journal, or put another in its place."""
    path, found = directory / FILE_NAME, []
    for file in (path, log_of(path)):
        with suppress(OSError):
            found.append(file.stat())
    # an empty log says nothing; whoever reads makes one
    return tuple((there.st_ino, there.st_size, there.st_mtime_ns) for there in found if there.st_size)


def file_number(seen: Stamp) -> int:
    """Return which file the journal is, 0 where there is none: another one is another campaign's."""
    return seen[0][0] if seen else 0


def check_readable(connection: sqlite3.Connection, path: Path) -> None:
    """Raise `JournalCorrupt` if something in it is not what we write: for what no checksum vouches for."""
    reader = Reader(connection)
    questions = (reader.trials, reader.events, reader.measurements, reader.ledger, reader.starts, reader.policy_state)
    try:
        for question in (*questions, reader.doses.rows, reader.alarms.rows):
            question()
        if connection.execute("SELECT 1 FROM campaign").fetchone():
            reader.campaign()
        counting = (m.value for m in reader.measurements() if m.severity < Severity.INVALID and m.value is not None)
        endless = not all(map(isfinite, counting))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise corrupt(path, f"{type(error).__name__}: {error}") from error
    if endless:
        raise corrupt(path, "a measurement that counts is no finite number")


def observation(
    space: Space,
    row: TrialRow,
    further: Sequence[str] | None = None,
    imports: Mapping[int, ImportRow] = MappingProxyType({}),
) -> Observation:
    """Return a charged trial as a policy sees it: measured engineering values on the unit cube.

    Further outcomes are those of these names, up to the first that was not measured; None: all, as they were declared.

    A cost that was estimated, or of a trial that ended before it was measured, is charged but says nothing about what
    a whole trial costs: `cost_known` is False. So it is with one that was voided, which teaches nothing. An imported
    one is not charged, nor is a batch for production; the first is as noisy as `imports`, by number, say.
    """
    names = space.names
    complete = all(name in row.measured for name in names)
    x = tuple(float(u) for u in space.to_unit(np.array([row.measured[n] for n in names]))) if complete else None
    known = row.further if further is None else takewhile(row.further.__contains__, further)
    undecided = row.imported or not row.control_set  # it may have been lost while it looked
    number = set_of(space, row.control_set) if undecided else space.index_of(row.control_set)
    if row.voided:  # what it cost is spent all the same
        void = Observation(row.trial, number, None, None, row.cost, cost_known=False)
        return replace(void, charged=not (row.imported or row.operated))
    seen = Observation(
        trial=row.trial,
        control_set=number,
        x=x,
        y=row.outcome if row.state is State.RECORDED else None,
        cost=row.cost,
        cost_known=row.whole and not row.estimated,
        further=tuple(row.further[name] for name in known) if row.state is State.RECORDED else (),
        awaited=row.state is State.AWAITING,
        look=look_of(space, row.looks),
        charged=not row.operated,
    )
    if row.by_hand is None or row.by_hand.imported is None:
        return seen
    source, then = imports[row.by_hand.imported], row.by_hand.amount
    return replace(
        seen,
        cost=then or 0,
        cost_known=then is not None and row.whole,
        charged=False,
        noise_sd=source.noise_sd,
        noise_factor=source.noise_factor,
    )


def set_of(space: Space, members: Sequence[str]) -> int:
    """Return which control set a trial from before the campaign had; it may be none of those that there are."""
    if not members:
        return ALONE
    try:
        return space.index_of(members)
    except ValueError:
        return BEFOREHAND


class Reader(Book):
    """Typed questions to one open journal, and to each of its rooms; answers are frozen."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime | None = None) -> None:
        super().__init__(connection, time)
        self.connection = connection
        self.alarms = AlarmBook(connection, time)
        self.awaited = AwaitedBook(connection, time)
        self.batches = BatchBook(connection, time)
        self.doses = DoseBook(connection, time)
        self.glance = Glance(connection, time)
        self.idle = IdleBook(connection, time)
        self.people = PeopleBook(connection, time)
        self.pins = PinBook(connection, time)
        self.trips = TripBook(connection, time)
        self.upkeep = UpkeepBook(connection, time)

    @property
    def directory(self) -> Path | None:
        """Return where the journal is; None: in memory."""
        file = self._ask("PRAGMA database_list")[0]["file"]
        return Path(file).parent if file else None

    def campaign(self) -> CampaignRow:
        """Return what the journal is about; raises UsageError if no campaign has been started in it."""
        rows = self._fetch(
            CampaignRow,
            "SELECT *, "
            "coalesce((SELECT config FROM starts ORDER BY id DESC LIMIT 1), '') AS config_text, "
            "? AS spent, ? AS operated, ? AS batches FROM campaign",
            *spent_and_operated(self),
            len(self.batches.operations()),
        )
        if not rows:
            raise UsageError("no campaign has been started in this journal")
        return rows[0]

    def trials(self, corrections: int | None = None) -> tuple[TrialRow, ...]:
        """Return all trials in order, the one under way included.

        They are as corrected up to the correction of this number, which a decision knew; None: up to the last one.
        """
        return self._trials("TRUE", corrections=corrections)

    def trial(self, number: int) -> TrialRow:
        """Return one trial; raises UsageError if there is none with that number."""
        for row in self._trials("trial = ?", number):
            return row
        raise UsageError(f"trial {number}: not in this journal")

    def changed_trials(self, event: int, correction: int) -> tuple[TrialRow, ...]:
        """Return trials with a step, or a correction, after these; how they were decided is left out."""
        stepped, corrected = (f"SELECT trial FROM {table} WHERE id > ?" for table in ("events", "corrections"))  # noqa: S608 - ours
        return self._trials(f"trial IN ({stepped} UNION {corrected})", event, correction, decisions=False)

    def open_trial(self) -> TrialRow | None:
        """Return the trial that is under way (or was, when the process died); there is at most one."""
        rows = self._ask(f"SELECT trial FROM trials WHERE state IN {_UNDER_WAY}")  # noqa: S608 - our own states
        return self.trial(rows[0]["trial"]) if rows else None

    def history(self, space: Space, further: Sequence[str] | None = None, corrections: int | None = None) -> History:
        """Return all charged trials, as a policy sees them (see `observation`); corrected as `trials` are."""
        last = self.people.last_correction() if corrections is None else corrections
        imports = self.people.imports()
        rows = (row for row in self._trials("TRUE", corrections=last, decisions=False) if row.state.charged)
        return History.of((observation(space, row, further, imports) for row in rows), corrections=last)

    def policy_state(self, before: int | None = None) -> Mapping[str, Any] | None:
        """Return the policy's memory after its last decision (before trial `before`); None if it has made none."""
        rows = self._ask(
            "SELECT policy_state FROM trials WHERE policy_state IS NOT NULL AND trial < ? ORDER BY trial DESC LIMIT 1",
            _NO_END if before is None else before,
        )
        return parsed(rows[0]["policy_state"]) if rows else None

    def events(self, trial: int | None = None) -> tuple[EventRow, ...]:
        """Return every step of one trial or of all, in order."""
        return self._of_trial(EventRow, trial)

    def last(self, kind: type[T], most: int, trial: int | None = None) -> tuple[T, ...]:
        """Return the last so many rows of a numbered kind, of one trial or of all, the newest first."""
        which = "" if trial is None else "WHERE trial = ?1"
        return self._rows(kind, f"{which} ORDER BY id DESC LIMIT ?2", trial, most)

    def measurements(self, trial: int | None = None) -> tuple[MeasurementRow, ...]:
        """Return what was measured in one trial; None: in all."""
        return self._of_trial(MeasurementRow, trial, "trial, name")

    def looks(self, trial: int | None = None) -> tuple[LookRow, ...]:
        """Return what was read before one trial was decided, or before all, by trial and name."""
        return self._of_trial(LookRow, trial, "trial, name")

    def meter_readings(self, trial: int, phase: Phase) -> dict[str, Reading]:
        """Return the counters before or after a trial, by meter name; their times are campaign time."""
        rows = self._rows(MeterRow, "WHERE trial = ? AND phase = ?", trial, phase)
        value = {row.meter: nan if row.value is None else row.value for row in rows}
        return {row.meter: Reading(value[row.meter], row.unit, row.time_s, row.severity, row.detail) for row in rows}

    def ledger(self, trial: int | None = None) -> tuple[LedgerRow, ...]:
        """Return every ledger line of one trial or of all, in order."""
        return self._of_trial(LedgerRow, trial, "trial, id")

    def starts(self) -> tuple[StartRow, ...]:
        """Return every process that ran the campaign, in order."""
        return self._rows(StartRow)

    def deciders(self) -> dict[int, StartRow]:
        """Return the process that decided each trial, by its number; none of one that was done by hand."""
        starts = {row.start: row for row in self.starts()}
        steps = self._ask("SELECT trial, start FROM events WHERE event = 'PROPOSE' AND start IS NOT NULL")
        return {step["trial"]: starts[step["start"]] for step in steps}

    def decider_of(self, suggestion: int) -> StartRow | None:
        return self._row(StartRow, "WHERE id = (SELECT start FROM suggestions WHERE id = ?)", suggestion)

    def _trials(
        self, which: str, *of: int, corrections: int | None = None, decisions: bool = True
    ) -> tuple[TrialRow, ...]:
        """Return trials, as corrected up to this correction (None: the last one).

        `which` is a condition in SQL, `of` its parameters. Without `decisions`, proposals and memories of policies are
        left out, which take longest to read.
        """
        measured: dict[int, dict[str, float]] = {}
        further: dict[int, dict[str, float]] = {}
        looks: dict[int, dict[str, Looked]] = {}
        for trial, name, value, outcome in self._connection.execute(_BESIDE_THE_OUTCOME.format(which=which), of):
            (further if outcome else measured).setdefault(trial, {})[name] = value
        for look in self._rows(LookRow, f"WHERE {which} ORDER BY trial, name", *of):
            looks.setdefault(look.trial, {})[look.name] = looked(look)
        cursor = self._connection.execute(_TRIALS.format(which=which), of)
        decode = decoder(TrialRow, cursor)
        left_out = () if decisions else ("proposal", "policy_state")
        kept = [column[0] not in left_out for column in cursor.description]
        rows = {row[0]: [cell if keep else None for cell, keep in zip(row, kept, strict=True)] for row in cursor}
        return self._corrected(
            tuple(
                decode(r, measured=measured.get(n, {}), further=further.get(n, {}), looks=looks.get(n, {}))
                for n, r in rows.items()
            ),
            corrections,
            which,
            of,
        )

    def _corrected(
        self, rows: tuple[TrialRow, ...], last: int | None, which: str, of: tuple[int, ...]
    ) -> tuple[TrialRow, ...]:
        known = self.people.by_hand(which, *of)
        end = _NO_END if last is None else last
        corrections = by_trial(self._rows(CorrectionRow, f"WHERE {which} AND id <= ?", *of, end))
        awaited = {row.trial: row for row in self._rows(AwaitedRow, f"WHERE {which}", *of)}
        first = self.campaign().outcome if corrections or awaited else ""
        return tuple(
            corrected(row, known.get(row.trial), corrections.get(row.trial, ()), first, awaited.get(row.trial))
            if row.origin == "manual" or row.trial in corrections or row.trial in awaited
            else row
            for row in rows
        )


def looked(row: LookRow | Measurement) -> Looked:
    """Return a window of samples as decisions take it: its value, and the standard deviation of the window's mean."""
    if row.severity >= Severity.INVALID or row.value is None:
        return Looked(None)
    return Looked(row.value, (row.spread or 0.0) / sqrt(max(row.count, 1)))


def spent_and_operated(reader: Reader) -> tuple[Micros, Micros]:
    """Return what the campaign has spent, and what its batches for production have cost; as amended."""
    amended, batches = reader.people.adjustments(), reader.batches.operations().keys()
    own = sum(amount for trial, amount in amended.items() if trial not in batches)
    charged, idle = reader.batches.charged(), reader.idle.spent_and_operated()
    return charged[0] + idle[0] + own, charged[1] + idle[1] + sum(amended.values()) - own
