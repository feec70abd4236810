"""Trials, one after the other, each from proposal to record."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field, replace

from rigctl.campaign.clock import rest
from rigctl.campaign.closing import arm, book_idle, close_open_trial, meter_alarms, record
from rigctl.campaign.decide import DecisionThread, Question, decide, explore
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import Ending, TrialEnded, TrialProposed, TrialStep
from rigctl.campaign.journal.inserts import Decision
from rigctl.campaign.journal.reader import observation
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.ledger import COUNTED
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.safe_state import standing, until_confirmed
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import Event, State
from rigctl.core.history import History
from rigctl.core.money import Micros
from rigctl.core.policy import BudgetSpent, Finished
from rigctl.errors import DeviceError, GuardRefused, JournalUnwritable, PolicyError, Tripped
from rigctl.rig.protocols import Clock, Reading, Severity
from rigctl.rig.values import Alarm, SafeReport

RETRY_UNWRITABLE_S = 10.0
"""Wall seconds between looks whether the journal can be written again."""


@dataclass(slots=True)
class StopRequest:
    """What a person or the service manager has asked for; mutable, shared by the runner and who asks."""

    finish: str | None = None
    """End after the trial under way; why."""
    abandon: str | None = None
    """End now, in mid-trial; why."""


@dataclass(slots=True)
class _Strikes:
    """What has gone wrong in a row."""

    failures: int = 0
    unusable: int = 0


@dataclass(slots=True)
class Runner:
    """Runs trials until the budget is spent, as many are done as were asked for, or somebody stops it."""

    spec: CampaignSpec
    rig: CampaignRig
    journal: JournalThread
    clock: Clock
    desk: Desk
    stop: StopRequest
    _decisions: DecisionThread = field(default_factory=DecisionThread)
    _strikes: _Strikes = field(default_factory=_Strikes)
    _noted: tuple[str, ...] = ()
    """By the last decision: what holds for many trials is an alarm once."""
    _idle: Micros = 0
    """What was used beside trials so far."""
    _held: bool = False
    _report: SafeReport = field(default_factory=lambda: SafeReport(()))

    async def run(self) -> tuple[Ending, str]:
        """Run trials; returns how it ended, and why.

        Raises:
            DeviceError: too many trials in a row failed.
            PolicyError: too many decisions in a row could not be used.
            Tripped: the rig has tripped.
            asyncio.CancelledError: abandoned in mid-trial; whoever cancels makes safe and closes the trial.
        """
        space = self.spec.problem.space
        history = await self.journal.call(lambda j: j.read.history(space))
        while True:
            ended = self._ended(history)
            if ended is not None:
                return ended
            try:
                self._idle = await book_idle(self.spec, self.rig, self.journal)
                ended = self._ended(history)
                if ended is not None:
                    return ended
                row = await self._one_trial(history)
            except BudgetSpent as spent:
                return "budget", str(spent)
            except Finished as finished:
                return "finished", f"the policy's stopping rule fired: {finished}"
            except JournalUnwritable as error:
                await self._wait_until_writable(error)
                history = await self.journal.call(lambda j: j.read.history(space))
                continue
            history = history.append(observation(space, row))
            campaign = await self.journal.call(lambda j: j.read.campaign())
            self.desk.tell(TrialEnded(row, campaign.spent, self.spec.problem.budget))
            await self._believe_meters(row)
            await self._count_failures(row)

    def _ended(self, history: History) -> tuple[Ending, str] | None:
        limit = self.spec.max_trials
        if self.stop.finish is not None:
            return "stopped", self.stop.finish
        if history.spent + self._idle >= self.spec.problem.budget:
            return "budget", "all of it is spent"
        if limit is not None and len(history) >= limit:
            return "trials", f"{len(history)} of {limit} trials done"
        return None

    # One trial --------------------------------------------------------------------------------------------------

    async def _one_trial(self, history: History) -> TrialRow:
        trial = await self._propose(history)
        try:
            return await self._carry_out(trial)
        except (DeviceError, GuardRefused) as error:
            return await self._fail(trial, error)
        except Tripped as tripped:
            reason = self.rig.tripped or str(tripped)
            self.desk.keep("trip", lambda j: j.trips.latch(reason))  # first of all: it must outlive this process
            await self._fail(trial, tripped)
            raise

    async def _propose(self, history: History) -> TrialRow:
        """The proposal that a process left behind before anything moved, else a new decision, committed."""
        waiting = await self.journal.call(lambda j: j.read.open_trial())
        started = time.monotonic()
        if waiting is None:
            decision = await self._decide(history)
            await self.journal.call(lambda j: j.propose(decision))
            trial = await self.journal.call(lambda j: j.read.trial(decision.trial))
        else:
            trial = waiting
        if trial.proposal is None:
            raise PolicyError(f"trial {trial.trial}: waits to be run, but the journal has no proposal for it")
        self.desk.tell(
            TrialProposed(
                trial=trial.trial,
                proposal=trial.proposal,
                control_set=trial.control_set,
                setpoints=trial.setpoints,
                origin=trial.origin,
                resumed=waiting is not None,
                decision_s=time.monotonic() - started,
            )
        )
        return trial

    async def _decide(self, history: History) -> Decision:
        spec = self.spec
        state = await self.journal.call(lambda j: j.read.policy_state())
        problem = replace(spec.problem, budget=spec.problem.budget - self._idle)  # what is left for trials
        question = Question(spec.policy, problem, spec.seed, history, state)
        try:
            decision = await self._decisions.call(lambda: decide(question), spec.decision_limit_s)
        except TimeoutError:
            late = f"no decision within {spec.decision_limit_s:g} s"
            # Not a plug-in's code, and nothing is left to fall back on: it may take as long as it takes.
            decision = await DecisionThread().call(lambda: explore(question, "timed-out", late), None)
        if decision.origin == "policy":
            self._strikes.unusable = 0
            notes = () if decision.proposal is None else decision.proposal.notes
            for note in (n for n in notes if n not in self._noted):
                self.desk.alarm(Alarm(Severity.MINOR, f"policy {spec.policy_name}", f"trial {decision.trial}: {note}"))
            self._noted = notes
            return decision
        self._strikes.unusable += 1
        message = f"trial {decision.trial}: {decision.note}; exploring safely instead"
        self.desk.alarm(Alarm(Severity.MAJOR, f"policy {spec.policy_name}", message))
        if self._strikes.unusable >= spec.max_failures:
            raise PolicyError(
                f"{self._strikes.unusable} decisions in a row could not be used; the last: {decision.note}"
            )
        return decision

    async def _carry_out(self, trial: TrialRow) -> TrialRow:
        number, spec = trial.trial, self.spec
        before = await self._before()
        unread = [f"{name}: {r.detail or 'INVALID'}" for name, r in before.items() if not r.valid]
        if unread:
            raise DeviceError(f"not started, its cost could not be metered: {'; '.join(unread)}")
        await self.journal.call(arm, spec.rig, number, before)
        self.desk.tell(TrialStep(number, State.ARMED))
        states = await self.rig.control(trial.setpoints)
        await self.journal.call(lambda j: j.run(number, states))
        self.desk.tell(TrialStep(number, State.RUNNING))
        await rest(self.clock, spec.rig.timing.settle_s)
        measurements = await self.rig.measure()
        after = await self.rig.meters()
        await self.journal.call(lambda j: j.measure(number, measurements, spec.rig.outcome_names, after))
        self.desk.tell(TrialStep(number, State.MEASURED))
        return await self.journal.call(record, spec.rig, spec.problem, number)

    async def _before(self) -> dict[str, Reading]:
        """Where the meters stand: as the last trial left them, so that none misses what was used since.

        Read afresh if something lies between that is no trial's: what was used in it is booked by itself.
        """
        before = {} if self._held else await self.journal.call(lambda j: j.past.meters())
        self._held = False
        if all(m.name in before for m in self.spec.rig.meters if m.kind in COUNTED):
            return before
        return {**await self.rig.meters(), **before}

    async def _fail(self, trial: TrialRow, error: Exception) -> TrialRow:
        """An instrument let the trial down: everything safe, the trial charged."""
        self.desk.alarm(Alarm(Severity.MAJOR, f"trial {trial.trial}", f"failed: {error}"))
        report = await self.rig.safe()
        row = await close_open_trial(self.spec, self.rig, self.journal, Event.FAIL, str(error))
        await self._hold(report)
        return await self.journal.call(lambda j: j.read.trial(trial.trial)) if row is None else row

    async def _make_safe(self) -> float:
        """Everything safe, and confirmed, before this returns (unless asked to stop); when it was first tried."""
        report = await self.rig.safe()
        tried_s = await self.journal.call(lambda j: j.time.now_s())
        await self._hold(report)
        return tried_s

    async def _hold(self, report: SafeReport) -> None:
        """No trial before everything is confirmed safe."""
        self._held = self._held or not report.ok
        self._report = await until_confirmed(self.rig, self.desk, report, lambda: self.stop.finish is not None)

    async def _believe_meters(self, row: TrialRow) -> None:
        """No further trial on a meter that cannot be believed any more (faults 41, 69)."""
        alarms = await self.journal.call(meter_alarms, self.spec.rig, row.trial)
        for alarm in alarms:
            self.desk.alarm(alarm)
        if any(alarm.severity is Severity.MAJOR for alarm in alarms):
            await self._make_safe()
            raise DeviceError("; ".join(f"{a.source}: {a.message}" for a in alarms))

    async def _count_failures(self, row: TrialRow) -> None:
        self._strikes.failures = self._strikes.failures + 1 if row.state is State.FAILED else 0
        if self._strikes.failures >= self.spec.max_failures:
            await self._make_safe()
            raise DeviceError(
                f"{self._strikes.failures} trials in a row failed, the last one, {row.trial}: {row.because}; "
                f"{standing(self._report)}; mend the rig, then run again"
            )

    # A journal that cannot be written ---------------------------------------------------------------------------

    async def _wait_until_writable(self, error: JournalUnwritable) -> None:
        """Hold everything safe until the journal can be written again; then charge what was in flight (fault 32)."""
        self.desk.alarm(Alarm(Severity.MAJOR, "journal", f"everything goes safe and waits: {error}"))
        ended_s = await self._make_safe()
        while self.stop.finish is None:
            try:
                await self.journal.call(lambda j: j.beat())
                row = await close_open_trial(
                    self.spec, self.rig, self.journal, Event.ABANDON, str(error), ended_s=ended_s
                )
            except JournalUnwritable:
                await asyncio.sleep(RETRY_UNWRITABLE_S)
                continue
            self.desk.alarm(Alarm(Severity.MINOR, "journal", "can be written again; the campaign goes on"))
            if row is not None:
                campaign = await self.journal.call(lambda j: j.read.campaign())
                self.desk.tell(TrialEnded(row, campaign.spent, campaign.budget))
            return
