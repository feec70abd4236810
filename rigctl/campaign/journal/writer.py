"""Everything that is written into the journal.

A change is one transaction: the row is updated where it still has the state the caller believes in, and the event is
inserted; if nothing matched, nothing is written and the caller is told. What a method returns from is on disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rigctl.campaign.journal.database import close_in_good_order, guarded, open_for_writing, transaction
from rigctl.campaign.journal.past import COSTS, Past, Wall, continued, utc_now
from rigctl.campaign.journal.reader import FILE_NAME, Reader, check_readable
from rigctl.campaign.journal.rows import (
    ByHand,
    CampaignPhase,
    CampaignRow,
    ImportRow,
    LedgerRow,
    LookRow,
    MeasurementRow,
    MeterRow,
    Phase,
    PhaseRow,
    StartRow,
    StateRow,
    TrialRecord,
)
from rigctl.campaign.journal.store import Book
from rigctl.campaign.journal.table import table_of
from rigctl.campaign.ledger.lines import IdleLine, LedgerLine
from rigctl.campaign.ledger.plausibility import PastCosts, PastLine
from rigctl.campaign.spec import CampaignSpec, check_resumable
from rigctl.campaign.trial import UNDER_WAY, Decision, Event, State, advance
from rigctl.codec import fields_of
from rigctl.core.experiment.money import Micros
from rigctl.errors import JournalError
from rigctl.provenance import deciding_code
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import ActuatorState, Reading
from rigctl.rig.spec import OutcomeSpec
from rigctl.rig.values import Measurement


@dataclass(frozen=True, slots=True)
class ManualTrial:
    """A trial that a person did, as `rigctl ingest` takes it."""

    decision: Decision
    """Its origin is `manual`."""
    values: Mapping[str, float]
    """What was measured, engineering units; variables that were not measured are left out."""
    outcome: float | None
    """None: the trial failed."""
    cost: Micros
    further: Mapping[str, float] = field(default_factory=dict)
    """Outcomes besides the first, own units; all of them unless the trial failed."""
    known: ByHand | None = None


class TrialBook(Book):
    """The statements that a trial's transactions are made of."""

    def _add_trial(self, decision: Decision, event: Event, detail: str = "") -> None:
        """Insert a trial and its first step; raises JournalError if its number is not the next one."""
        last, state = self._number("SELECT max(trial) FROM trials"), advance(None, event)
        if decision.trial != last + 1:
            raise JournalError(f"trial {decision.trial}: the next is {last + 1}; was it decided on an old history?")
        self._insert(TrialRecord, {**fields_of(decision), "state": state})
        self._note(decision.trial, event, state, detail)

    def _decide(self, decision: Decision) -> None:
        """Fill in what a trial was begun without; its state is another step's to change."""
        cells = table_of(TrialRecord).cells(fields_of(decision))
        assigned = ", ".join(f"{column} = ?" for column in cells)
        sql = f"UPDATE trials SET {assigned} WHERE trial = ?"  # noqa: S608 - our own columns
        self._connection.execute(sql, (*cells.values(), decision.trial))

    def _nobody_under_way(self) -> None:
        """Raise `JournalError` if a trial is."""
        sql = f"SELECT trial, state FROM trials WHERE state IN {tuple(map(str, UNDER_WAY))}"  # noqa: S608 - our states
        for trial, state in self._connection.execute(sql):
            raise JournalError(f"trial {trial} is under way ({state}); close it first")

    def _add_measurements(self, trial: int, measurements: Mapping[str, Measurement], outcomes: Sequence[str]) -> None:
        """Insert one row per sensor; NaN becomes NULL. An outcome's rank is 0 for variables, then 1, 2, ..."""
        ranks = {name: rank for rank, name in enumerate(outcomes, start=1)}
        for name, measured in measurements.items():
            which = {"trial": trial, "name": name, "is_outcome": ranks.get(name, 0)}
            self._insert(MeasurementRow, {**which, **fields_of(measured)})

    def _add_readings(self, trial: int, phase: Phase, readings: Mapping[str, Reading]) -> None:
        for meter, reading in readings.items():
            which = {"trial": trial, "meter": meter, "phase": phase}
            when = {"time_s": reading.time_s + self._time.offset_s}
            self._insert(MeterRow, {**which, **fields_of(reading), **when})

    def _add_looks(self, trial: int, found: Mapping[str, Measurement]) -> None:
        """Insert what each variable read before the decision; NaN becomes NULL."""
        for name, measured in found.items():
            self._insert(LookRow, {"trial": trial, "name": name, **fields_of(measured)})

    def _add_lines(self, trial: int, lines: Sequence[LedgerLine]) -> None:
        for line in lines:
            self._insert(LedgerRow, {"trial": trial, **fields_of(line)})


class Journal(TrialBook):
    """One campaign's journal, open for writing. Synchronous, and to be used from one thread at a time.

    The state directory is made if missing. `clock` is rig time; `boot` names the boot, as rig times of different boots
    cannot be compared; `wall` is the wall clock, for people.

    Raises:
        JournalCorrupt, JournalVersion, JournalUnwritable: see `database.open_for_writing`; so does every method.
    """

    def __init__(self, directory: Path, clock: Clock, boot: str, wall: Wall = utc_now) -> None:
        self.path = directory / FILE_NAME
        connection = open_for_writing(self.path, lambda found: check_readable(found, self.path))
        try:
            self.time = continued(connection, clock, boot, wall)
        except BaseException:
            close_in_good_order(connection, self.path)
            raise
        super().__init__(connection, self.time)
        self.read = Reader(connection, self.time)
        self.past = Past(connection, self.time)
        self.alarms, self.awaited, self.doses = self.read.alarms, self.read.awaited, self.read.doses
        self.idle, self.people, self.pins = self.read.idle, self.read.people, self.read.pins
        self.trips, self.upkeep = self.read.trips, self.read.upkeep
        self._costs, self._costed = PastCosts(), 0
        self._begun: int | None = None
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            close_in_good_order(self._connection, self.path)

    # Campaign ---------------------------------------------------------------------------------------------------

    def begin(self, spec: CampaignSpec, version: str) -> None:
        """Start or resume the campaign.

        Raises:
            UsageError: the journal's campaign was run with another configuration; names what changed.
        """
        now, budget = self.time.utc(), spec.problem.budget
        if self._ask("SELECT 1 FROM campaign"):
            was = self.read.campaign()
            check_resumable(was.identity, spec, was.budget)
        campaign = {
            "id": 1,
            "rig": spec.rig.name,
            "policy": spec.policy_name,
            "policy_options": spec.policy_options,
            "seed": spec.seed,
            "currency": spec.currency,
            "budget": budget,
            "outcome": spec.rig.outcome_name,
            "identity": spec.identity,
            "created_utc": now,
        }
        start = {
            "offset_s": self.time.offset_s,
            "pid": os.getpid(),
            "version": version,
            "code": deciding_code(spec.policy),
            "config": spec.config_text,
            "budget": budget,
            "seen_utc": now,
            "seen_s": self.time.now_s(),
        }
        with transaction(self._connection):
            raised = "(id) DO UPDATE SET budget_micros = excluded.budget_micros"
            self._insert(CampaignRow, campaign, on_conflict=raised)
            self._begun = self._insert(StartRow, start)
        with guarded(self.path):
            # The file itself now says that it is in use: should its log be lost, that will show (fault 79).
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def beat(self, ended: str | None = None, *, safe: bool | None = None) -> None:
        """Note that this process is alive, or why it ends, and whether it leaves everything safe and settled.

        A heartbeat that comes after the end, as the watch goes on while the campaign is told what came of it, takes
        neither back.
        """
        with transaction(self._connection):
            self._connection.execute(
                "UPDATE starts SET seen_utc = ?, seen_s = ?, ended = coalesce(?, ended), safe = coalesce(?, safe) "
                "WHERE id = ?",
                (self.time.utc(), self.time.now_s(), ended, safe, self._begun),
            )

    def phase(self, phase: CampaignPhase, why: str, until_s: float | None = None, since_s: float | None = None) -> None:
        """Keep a change of the campaign's own state.

        `until_s` is the rig time until which it lasts, where that is known. `since_s` is the campaign time from which
        on it was so, where it could not be kept then; None: it is so from now on.
        """
        until = None if until_s is None else until_s + self.time.offset_s
        since = {} if since_s is None else {"at_s": since_s}
        with transaction(self._connection):
            self._insert(PhaseRow, {"phase": phase, "why": why, "until_s": until, **since})

    # Trials -----------------------------------------------------------------------------------------------------

    def look(self, undecided: Decision, before: Mapping[str, Reading], idle: Sequence[IdleLine] = ()) -> None:
        """Commit that a trial begins with a look, and the meters' readings; the rig may be prepared from here on.

        Raises:
            JournalError: another trial is under way, or the number is not the next one.
        """
        with transaction(self._connection):
            self._nobody_under_way()
            self._add_trial(undecided, Event.LOOK)
            self._add_readings(undecided.trial, "before", before)
            self.idle.add(undecided.trial, idle)

    def keep_look(self, trial: int, found: Mapping[str, Measurement]) -> None:
        """Commit what the variables read, all of them at once; raises JournalError if the trial is not looking."""
        with transaction(self._connection):
            if not self._ask("SELECT 1 FROM trials WHERE trial = ? AND state = ?", trial, State.LOOKING):
                raise JournalError(f"trial {trial}: is not looking, so nothing can be kept of it")
            self._add_looks(trial, found)

    def propose(self, decision: Decision) -> None:
        """Commit a decision before anything moves; of the trial that looks, if one does.

        Raises:
            JournalError: another trial is under way, or the number is not the next one.
        """
        with transaction(self._connection):
            looking = self.read.open_trial()
            if looking is not None and (looking.trial, looking.state) == (decision.trial, State.LOOKING):
                self._decide(decision)
                self._step(decision.trial, State.LOOKING, Event.PROPOSE, decision.note)
                return
            self._nobody_under_way()
            self._add_trial(decision, Event.PROPOSE, decision.note)

    def arm(self, trial: int, before: Mapping[str, Reading], idle: Sequence[IdleLine] = ()) -> None:
        """Commit the meters' readings, and what was used before them; actuators may move from here on.

        A trial that has looked has had its readings taken before that: then there are none.
        """
        with transaction(self._connection):
            self._step(trial, State.PROPOSED, Event.ARM)
            self._add_readings(trial, "before", before)
            self.idle.add(trial, idle)

    def run(self, trial: int, states: Mapping[str, ActuatorState]) -> None:
        """Commit what the actuators read back; the wait begins."""
        with transaction(self._connection):
            self._step(trial, State.ARMED, Event.RUN)
            for variable, state in states.items():
                self._insert(StateRow, {"trial": trial, "variable": variable, **fields_of(state)})

    def measure(
        self, trial: int, measurements: Mapping[str, Measurement], outcomes: Sequence[str], after: Mapping[str, Reading]
    ) -> None:
        """Commit everything the trial's record and cost are made from; `outcomes` are the outcomes' names, in order."""
        with transaction(self._connection):
            self._step(trial, State.RUNNING, Event.MEASURE)
            self._add_measurements(trial, measurements, outcomes)
            self._add_readings(trial, "after", after)

    def finish(
        self,
        trial: int,
        expected: State,
        event: Event,
        lines: Sequence[LedgerLine],
        *,
        detail: str = "",
        after: Mapping[str, Reading] | None = None,
        idle: Sequence[IdleLine] = (),
        awaiting: OutcomeSpec | None = None,
    ) -> None:
        """Charge a trial and close it, in one transaction; or leave it open for an outcome that comes later.

        Args:
            trial: its number.
            expected: the state the caller believes it is in.
            event: RECORD, FAIL, ABANDON or LOSE; or AWAIT.
            lines: its cost.
            detail: why, for people.
            after: the meters' readings, where `measure` has not committed them.
            idle: what was used between its readings while nobody was in charge of it.
            awaiting: with AWAIT, what it waits for.
        """
        with transaction(self._connection):
            self._step(trial, expected, event, detail)
            self._add_readings(trial, "after", after or {})
            self._add_lines(trial, lines)
            self.idle.add(trial, idle)
            if awaiting is not None:
                self.awaited.add(trial, awaiting)

    def ingest(self, manuals: Sequence[ManualTrial], outcomes: Sequence[str], source: ImportRow | None = None) -> None:
        """Record trials that a person did in one transaction: a list that was cut short can be given again.

        Those of a `source` are from before the campaign: their cost is evidence, and nobody is charged.
        """
        with transaction(self._connection):
            file = {} if source is None else fields_of(source) | {"imported": None, "utc": self.time.utc()}
            imported = self._insert(ImportRow, file) if file else None
            for manual in manuals:
                decision = manual.decision
                values = {**manual.values, **manual.further}
                if manual.outcome is not None:
                    values[outcomes[0]] = manual.outcome
                event = Event.INGEST if manual.outcome is not None else Event.INGEST_FAILED
                self._add_trial(decision, event, decision.note)
                measured = {name: Measurement(value, math.nan, 1) for name, value in values.items()}
                self._add_measurements(decision.trial, measured, outcomes)
                looks = [(n, look.value, look.sd) for n, look in decision.looks.items() if look.value is not None]
                self._add_looks(decision.trial, {name: Measurement(value, sd, 1) for name, value, sd in looks})
                if manual.known is not None:
                    known = fields_of(manual.known) | {"trial": decision.trial, "imported": imported}
                    self._insert(ByHand, known)
                if source is None:
                    line = LedgerLine("manual", "manual", None, "trial", manual.cost)
                    self._add_lines(decision.trial, [line])

    def costs(self) -> PastCosts:
        """Return what whole trials have cost, meter by meter, estimates left out; no line is ever changed.

        To be asked outside transactions: what has been summed up is kept.
        """
        if self._connection.in_transaction:
            raise AssertionError("unreachable: what is not committed may never have been")
        for past in self._fetch(PastLine, COSTS, self._costed):
            self._costs.add(past)
            self._costed = past.line
        return self._costs
