"""Everything that is written into the journal.

A change is one transaction: the row is updated where it still has the state the caller believes in, and the event is
inserted; if nothing matched, nothing is written and the caller is told. What a method returns from is on disk.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from rigctl.campaign.decision import Decision
from rigctl.campaign.journal.books import AnswerBook, AwaitedBook, Awaiting, IdleBook, PinBook, TripBook
from rigctl.campaign.journal.database import ask, close_in_good_order, guarded, open_for_writing, transaction
from rigctl.campaign.journal.doses import DoseBook
from rigctl.campaign.journal.inserts import Statements
from rigctl.campaign.journal.looks import LookBook, by_hand
from rigctl.campaign.journal.past import Past, SummedCosts
from rigctl.campaign.journal.people import PeopleBook
from rigctl.campaign.journal.reader import FILE_NAME, Reader, check_readable
from rigctl.campaign.journal.rows import ByHand, CampaignPhase, Source
from rigctl.campaign.journal.time import Wall, continued, utc_now
from rigctl.campaign.journal.upkeep import UpkeepBook
from rigctl.campaign.ledger import IdleLine, LedgerLine
from rigctl.campaign.plausibility import PastCosts
from rigctl.campaign.spec import CampaignSpec, check_resumable
from rigctl.campaign.trial import Event, State, advance
from rigctl.codec import fields_of
from rigctl.core.money import Micros
from rigctl.provenance import deciding_code
from rigctl.rig.protocols import ActuatorState, Clock, Reading
from rigctl.rig.values import Alarm, Measurement


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
    """What is known besides, if anything is."""


class Journal:
    """One campaign's journal, open for writing. Synchronous, and to be used from one thread at a time.

    Args:
        directory: the state directory; made if missing.
        clock: rig time.
        boot: names the boot; rig times of different boots cannot be compared.
        wall: the wall clock, for people.

    Raises:
        JournalCorrupt, JournalVersion, JournalUnwritable: see `database.open_for_writing`; so does every method.
    """

    def __init__(self, directory: Path, clock: Clock, boot: str, wall: Wall = utc_now) -> None:
        self.path = directory / FILE_NAME
        self._connection = open_for_writing(self.path, lambda found: check_readable(found, self.path))
        try:
            self.time = continued(self._connection, clock, boot, wall)
        except BaseException:
            close_in_good_order(self._connection, self.path)
            raise
        self.read = Reader(self._connection)
        self.past = Past(self._connection, self.time)
        self.doses = DoseBook(self._connection, self.time)
        self.trips = TripBook(self._connection, self.time)
        self.pins = PinBook(self._connection, self.time)
        self.answers = AnswerBook(self._connection)
        self.idle = IdleBook(self._connection, self.time)
        self.awaited = AwaitedBook(self._connection, self.time)
        self.looks = LookBook(self._connection, self.time)
        self.people = PeopleBook(self._connection, self.time)
        self.upkeep = UpkeepBook(self._connection, self.time)
        self._do = Statements(self._connection, self.time)
        self._costs = SummedCosts()
        self._start: int | None = None
        self._closed = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            close_in_good_order(self._connection, self.path)

    @contextmanager
    def _change(self) -> Iterator[None]:
        with guarded(self.path), transaction(self._connection):
            yield

    # Campaign ---------------------------------------------------------------------------------------------------

    def begin(self, spec: CampaignSpec, version: str) -> None:
        """Start or resume the campaign.

        Raises:
            UsageError: the journal's campaign was run with another configuration; names what changed.
        """
        now, budget = self.time.utc(), spec.problem.budget
        if ask(self._connection, "SELECT 1 FROM campaign"):
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
            "utc": now,
            "at_s": self.time.now_s(),
            "epoch": self.time.epoch,
            "offset_s": self.time.offset_s,
            "pid": os.getpid(),
            "version": version,
            "code": deciding_code(spec.policy),
            "config": spec.config_text,
            "budget": budget,
            "seen_utc": now,
            "seen_s": self.time.now_s(),
        }
        with self._change():
            raised = "(id) DO UPDATE SET budget_micros = excluded.budget_micros"
            self._do.insert("campaign", campaign, on_conflict=raised)
            self._start = self._do.insert("starts", start)
        with guarded(self.path):
            # The file itself now says that it is in use: should its log be lost, that will show (fault 79).
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()

    def beat(self, ended: str | None = None, *, safe: bool | None = None) -> None:
        """Note that this process is alive, or why it ends, and whether it leaves everything safe and settled."""
        with self._change():
            self._connection.execute(
                "UPDATE starts SET seen_utc = ?, seen_s = ?, ended = ?, safe = ? WHERE id = ?",
                (self.time.utc(), self.time.now_s(), ended, safe, self._start),
            )

    def alarm(self, alarm: Alarm) -> None:
        trial = self.read.open_trial()
        values = {
            "trial": None if trial is None else trial.trial,
            **fields_of(alarm),
            **self.time.stamp(),
        }
        with self._change():
            self._do.insert("alarms", values)

    def phase(self, phase: CampaignPhase, why: str, until_s: float | None = None, since_s: float | None = None) -> None:
        """Keep a change of the campaign's own state.

        Args:
            phase: what it is from now on.
            why: for people.
            until_s: rig time, where it is known how long it lasts.
            since_s: campaign time from which on it was so, where it could not be kept then.
        """
        values = {
            "phase": phase,
            "why": why,
            "until_s": None if until_s is None else until_s + self.time.offset_s,
            "utc": self.time.utc(),
            "at_s": self.time.now_s() if since_s is None else since_s,
            "start": self._start,
        }
        with self._change():
            self._do.insert("phases", values)

    def act(self, verb: str, who: str, argument: str = "", why: str = "", outcome: str = "") -> int:
        """Record in the audit what a person did, or tried to do, and what came of it; return the act's number."""
        with guarded(self.path):
            return self.people.act(verb, who, argument, why, outcome)

    # Trials -----------------------------------------------------------------------------------------------------

    def propose(self, decision: Decision) -> None:
        """Commit a decision before anything moves; of the trial that looks, if one does.

        Raises:
            JournalError: another trial is under way, or the number is not the next one.
        """
        with self._change():
            looking = self.read.open_trial()
            if looking is not None and (looking.trial, looking.state) == (decision.trial, State.LOOKING):
                self._do.decide(decision)
                self._do.step(decision.trial, State.LOOKING, Event.PROPOSE, decision.note)
                return
            self._do.nobody_under_way()
            self._do.add_trial(decision, advance(None, Event.PROPOSE))
            self._do.note(decision.trial, Event.PROPOSE, State.PROPOSED, decision.note)

    def arm(self, trial: int, before: Mapping[str, Reading], idle: Sequence[IdleLine] = ()) -> None:
        """Commit the meters' readings, and what was used before them; actuators may move from here on.

        A trial that has looked has had its readings taken before that: then there are none.
        """
        with self._change():
            self._do.step(trial, State.PROPOSED, Event.ARM)
            self._do.add_readings(trial, "before", before)
            self.idle.add(trial, idle)

    def run(self, trial: int, states: Mapping[str, ActuatorState]) -> None:
        """Commit what the actuators read back; the wait begins."""
        with self._change():
            self._do.step(trial, State.ARMED, Event.RUN)
            for variable, state in states.items():
                self._do.insert("states", {"trial": trial, "variable": variable, **fields_of(state)})

    def measure(
        self, trial: int, measurements: Mapping[str, Measurement], outcomes: Sequence[str], after: Mapping[str, Reading]
    ) -> None:
        """Commit everything the trial's record and cost are made from; `outcomes` are the outcomes' names, in order."""
        with self._change():
            self._do.step(trial, State.RUNNING, Event.MEASURE)
            self._do.add_measurements(trial, measurements, outcomes)
            self._do.add_readings(trial, "after", after)

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
        awaiting: Awaiting | None = None,
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
        with self._change():
            self._do.step(trial, expected, event, detail)
            self._do.add_readings(trial, "after", after or {})
            self._do.add_lines(trial, lines)
            self.idle.add(trial, idle)
            if awaiting is not None:
                self.awaited.add(trial, awaiting)

    def ingest(self, manuals: Sequence[ManualTrial], outcomes: Sequence[str], source: Source | None = None) -> None:
        """Record trials that a person did in one transaction: a list that was cut short can be given again.

        Those of a `source` are from before the campaign: their cost is evidence, and nobody is charged.
        """
        with self._change():
            imported = None if source is None else self.people.add_import(source, len(manuals))
            for manual in manuals:
                decision = manual.decision
                values = {**manual.values, **manual.further}
                if manual.outcome is not None:
                    values[outcomes[0]] = manual.outcome
                event = Event.INGEST if manual.outcome is not None else Event.INGEST_FAILED
                self._do.add_trial(decision, advance(None, event))
                self._do.note(decision.trial, event, advance(None, event), decision.note)
                measured = {name: Measurement(value, math.nan, 1) for name, value in values.items()}
                self._do.add_measurements(decision.trial, measured, outcomes)
                self._do.add_looks(decision.trial, by_hand(decision.looks))
                if manual.known is not None:
                    self.people.add_by_hand(decision.trial, replace(manual.known, imported=imported))
                if source is None:
                    line = LedgerLine("manual", "manual", None, "trial", manual.cost)
                    self._do.add_lines(decision.trial, [line])

    def costs(self) -> PastCosts:
        """Return what whole trials have cost, meter by meter, estimates left out; no line is ever changed.

        To be asked outside transactions: what has been summed up is kept.
        """
        self._costs.take_in(self._connection)
        return self._costs.sums
