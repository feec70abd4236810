"""Trials, one after the other, and what is done when one does not go well."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field

from rigctl.campaign.awaiting import had_to_wait
from rigctl.campaign.carry import TOO_DEAR, TrialRun, kept
from rigctl.campaign.closing import book_idle, close_open_trial, meter_alarms, unusable
from rigctl.campaign.corrections import void_misses
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import Ending, PhaseChanged
from rigctl.campaign.journal.reader import observation
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.patience import Patience, StopRequest
from rigctl.campaign.production import over
from rigctl.campaign.protocols import CampaignRig
from rigctl.campaign.safe_file import standing, until_confirmed
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.trial import MOVING, Event, State
from rigctl.campaign.watch import Finding
from rigctl.campaign.watchman import LASTING, Interrupted, Watchman
from rigctl.core.experiment.history import History
from rigctl.core.policy import BudgetSpent, Finished
from rigctl.errors import (
    CapReached,
    CapSpent,
    DeviceError,
    GuardRefused,
    JournalUnwritable,
    PolicyError,
    RigctlError,
    Tripped,
    counted,
)
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, AlarmMark, SafeReport

BY_A_PERSON = "pause"
"""What stands for the rule where it is a person who breaks off a trial."""
RETRY_UNWRITABLE_S = 10.0
"""Wall seconds between looks whether the journal can be written again."""


@dataclass(slots=True)
class Runner:
    """Runs trials until the budget is spent, as many are done as were asked for, or somebody stops it."""

    spec: CampaignSpec
    rig: CampaignRig
    journal: JournalThread
    desk: Desk
    stop: StopRequest
    watchman: Watchman
    patience: Patience
    trials: TrialRun
    _failures: int = 0
    """Failed trials in a row."""
    before: int = 0
    """Trials before the first one of this process that do not count: all if it operates, else those cancelled."""
    _let_down: frozenset[str] | None = None
    """Devices that have let down the last trial; None: it was measured, and its readings say which."""
    _held_by_the_watch: bool = False
    """Whether the last trial has failed because it was broken off for a hold."""
    report: SafeReport = field(default_factory=lambda: SafeReport(()))
    """What came of the last attempt to make everything safe before another trial may begin."""
    under_way: asyncio.Task[TrialRow | None] | None = None
    """The trial, from its decision to its end."""
    _demanded: Finding | None = None
    _at_once: asyncio.Task[SafeReport] | None = None
    """Going safe between trials, however long the journal or an instrument keeps the next step waiting."""

    async def run(self) -> tuple[Ending, str]:
        """Run trials; return how it ended, and why.

        Raises:
            DeviceError: too many trials in a row failed, though every instrument answers.
            PolicyError: too many decisions in a row could not be used.
            Tripped: the rig has tripped.
            asyncio.CancelledError: abandoned in mid-trial; whoever cancels makes safe and closes the trial.
        """
        self.watchman.demand, self.patience.make_safe = self.interrupt, self._make_safe
        self.trials.interrupt = self.interrupt
        history = await _read(self)
        cancelled = await self.journal.call(lambda j: j.read.beside.cancelled())
        self.before = cancelled if self.spec.operating is None else len(history)
        while True:
            try:
                history, ended = await self._turn(history)
            except JournalUnwritable as error:
                history = await self._wait_until_writable(error)
            else:
                if ended is not None:
                    return ended

    async def _turn(self, history: History) -> tuple[History, tuple[Ending, str] | None]:
        """Run a trial, or wait for what is in its way; return the history then, and how it all ended if it did."""
        row: TrialRow | None = None
        try:
            await self._until_ready()
            history = await _caught_up(self, history)
            if (ended := _ended(self, history)) is None:
                if await _not_yet(self):
                    return history, None
                self._let_down = None
                row = await self._one_trial(history)
        except Finished as finished:
            history, ended = await _known(history, self), _ending_of(finished, self.spec.currency)
            if await self.trials.waits_for_instruments(history):
                return history, None
        if ended is not None:
            waited = await had_to_wait(self.trials.awaiting, self.patience, ended[0])
            return history, None if waited else ended
        if row is None:
            known = await _read(self)
            if len(known) == len(history):  # nothing had moved: the same proposal goes on when all is well again
                return history, None
            # its record was on its way when the watch broke it off: what the journal says counts
            history, row = known, (await self.journal.call(lambda j: j.read.trials()))[-1]
        else:
            history = kept(history, self.trials.decider).append(observation(self.spec.problem.space, row))
        await self.desk.tell_of_end(row)
        await self._believe_meters(row)
        await self._count_failures(row, row.because)
        return history, None

    # One trial --------------------------------------------------------------------------------------------------

    async def _one_trial(self, history: History) -> TrialRow | None:
        """Run a trial from its proposal to its end, however that comes; None if it has not begun to move."""
        try:
            return await self._interruptible(history)
        except Interrupted as broken:
            return await self._broken_off(broken.finding)
        except Tripped as tripped:
            self.desk.latch(self.rig.tripped or tripped.reason)
            await self._fail(tripped)
            raise
        except CapReached as cap:
            return await self._until_room(cap)
        except (DeviceError, GuardRefused) as error:
            return await self._fail(error)
        except (PolicyError, Finished) as error:
            await _undecided(self, str(error))
            raise
        except RigctlError:
            raise
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake costs one trial, not the campaign
            return await self._fail(error)

    async def _interruptible(self, history: History) -> TrialRow | None:
        """Run the trial as a task of its own; raise `Interrupted` if the watch breaks it off."""
        self.under_way = asyncio.create_task(self.trials.carried_out(history))
        try:
            return await self.under_way
        except asyncio.CancelledError:
            task, finding = asyncio.current_task(), self._demanded
            if finding is None or (task is not None and task.cancelling()):
                raise
            raise Interrupted(finding) from None
        finally:
            self.under_way = self._demanded = None

    def interrupt(self, finding: Finding) -> None:
        """Break off the trial under way; between trials go safe at once, and the next one looks at what stands."""
        by_hand = bool(self.stop.pause and self.rig.hands.driven)  # then there is no trial that could fail
        if self.under_way is not None and not self.under_way.done():
            if self._demanded is None:
                self._demanded = finding
                self.under_way.cancel()
        elif (finding.then in LASTING or by_hand) and (self._at_once is None or self._at_once.done()):
            self._at_once = asyncio.create_task(self.rig.safe(), name="safe at once")

    # How it can end before its time ------------------------------------------------------------------------------

    async def _fail(self, error: Exception) -> TrialRow | None:
        """Make everything safe and charge the trial that an instrument or a plug-in has let down."""
        text, detail = str(error), ""
        self._let_down = error.devices if isinstance(error, RigctlError) else frozenset()
        if not isinstance(error, RigctlError):
            text = f"{type(error).__name__}: {error} (a mistake in a driver or plug-in)"
            detail = "".join(traceback.format_exception(error))
        report = await self.rig.safe()
        row = await close_open_trial(self.spec, self.rig, self.journal, Event.FAIL, text)
        source = next(iter(self._let_down)) if len(self._let_down) == 1 else "trial"
        message = f"trial{'' if row is None else f' {row.trial}'} failed: {text}"
        self.desk.alarm(Alarm(Severity.MAJOR, source, message, detail, kind="trial failed"))
        await self._hold(report)
        if row is None and not isinstance(error, Tripped):  # it let down what had not begun: a look, say
            await self._count_failures(None, text)
        return row

    async def _broken_off(self, finding: Finding) -> TrialRow | None:
        """Make everything safe first of all, then close and charge the trial that the watch ends."""
        tripping = finding.then == "trip"
        self._let_down = frozenset({self.spec.rig.device_of(finding.subject)} - {""})
        report = await (self.rig.trip(str(finding)) if tripping else self.rig.safe())
        if tripping:
            self.desk.latch(str(finding))
        trial = await self.journal.call(lambda j: j.read.open_trial())
        # what has looked was prepared, and is as good as begun
        moving = trial is not None and (trial.state in MOVING or (trial.state is State.PROPOSED and bool(trial.looks)))
        event = Event.FAIL if moving and finding.rule not in (BY_A_PERSON, TOO_DEAR) else Event.ABANDON
        row = await close_open_trial(self.spec, self.rig, self.journal, event, str(finding))
        await self._hold(report)
        if tripping:
            raise Tripped(str(finding))
        self._held_by_the_watch = event is Event.FAIL and finding.then == "hold"
        return row

    async def _make_safe(self) -> float:
        """Bring everything to a confirmed safe state (unless asked to stop); return when it was first tried."""
        report = await self.rig.safe()
        tried_s = await self.journal.call(lambda j: j.time.now_s())
        await self._hold(report)
        return tried_s

    async def _hold(self, report: SafeReport) -> None:
        """Let no trial begin before everything is confirmed safe."""
        self.trials.apart = self.trials.apart or not report.ok
        if not report.ok:
            self.desk.keep_phase("HOLDING", standing(report))
            self.desk.tell(PhaseChanged("HOLDING", standing(report)))
        self.report = report
        what, enough = "no trial starts, trying again", lambda: self.stop.finish is not None
        self.report = await until_confirmed(self.rig.safe, report, self.desk.alarm, enough, what=what)
        if not report.ok:
            self.desk.keep_phase("RUNNING", standing(self.report))
            self.desk.tell(PhaseChanged(self.patience.phase, standing(self.report)))

    async def _believe_meters(self, row: TrialRow) -> None:
        """Allow no further trial on a meter that cannot be believed any more (faults 41, 69)."""
        alarms = await self.journal.call(meter_alarms, self.spec.rig, row.trial)
        for alarm in alarms:
            self.desk.alarm(alarm)
        if any(alarm.severity is Severity.MAJOR for alarm in alarms):
            await self._make_safe()
            raise DeviceError("; ".join(f"{a.source}: {a.message}" for a in alarms))

    # Patience ----------------------------------------------------------------------------------------------------

    async def _until_ready(self) -> None:
        """Let no trial begin while the watch objects; raise `Tripped` if it demands the trip."""
        try:
            if self._at_once is not None:
                await asyncio.wait([self._at_once])
            if self.stop.pause and (cancelled := await self.trials.cancel_queued()) is not None:
                self.stop.corrected = True
                await self.desk.tell_of_end(cancelled)
            await self.patience.until_resumed()
            await self.patience.until_clear()
            await self.trials.until_reopened()
            care = self.trials.care
            await self.patience.until_playable(lambda: "" if care.over else care.nothing_left(), self.trials.look_again)
        except Tripped as tripped:
            await self.rig.trip(tripped.reason)
            self.desk.latch(tripped.reason)
            raise

    async def _until_room(self, cap: CapReached) -> TrialRow | None:
        """Close a trial that met a cap: no failure, but it cannot be finished; the next waits for the window."""
        report = await self.rig.safe()
        row = await close_open_trial(self.spec, self.rig, self.journal, Event.ABANDON, str(cap))
        await self._hold(report)
        if isinstance(cap, CapSpent):
            self.trials.care.exhausted.add(cap.actuator)
            self.trials.care.changed = True
        else:
            await self.trials.room.until({cap.actuator: cap.volume_ml})
        return row

    async def _count_failures(self, row: TrialRow | None, because: str) -> None:
        """Wait, after a failure, for what is missing, and a while; raise `DeviceError` if it is one too many."""
        if row is not None and row.state is not State.FAILED:
            self._failures = 0
            self.patience.blame(frozenset())
            return
        if self._held_by_the_watch:  # the hold is the answer to it; it is nobody's failure
            self._held_by_the_watch, self.trials.apart = False, True
            return
        self._failures += 1
        unreliable = self.patience.blame(await self._blamed(row))
        if await self.patience.until_good(self._wrong):
            self.trials.apart = True
            self._failures = 0
        elif unreliable:
            self.trials.apart = True
            await self.patience.until_steady(unreliable, self.rig.roll_call)
        elif self._failures >= self.spec.max_failures:
            await self._make_safe()
            last = "" if row is None else f", {row.trial}"
            raise DeviceError(
                f"{counted(self._failures, 'trial')} in a row failed, the last one{last}: {because}; "
                f"{standing(self.report)}; mend the rig, then run again"
            )
        await self.patience.back_off(max(self._failures, 1))

    async def _blamed(self, row: TrialRow | None) -> frozenset[str]:
        """Return the devices that have let down the last trial."""
        if self._let_down is not None or row is None:
            return self._let_down or frozenset()
        found = await self.journal.call(unusable, self.spec.rig, self.spec.problem, row.trial)
        return frozenset(map(self.spec.rig.device_of, found)) - {""}

    async def _wrong(self) -> Mapping[str, str]:
        """Say what is wrong with the instruments now: which do not answer, which frozen ones have not moved."""
        try:
            wrong = dict(await self.rig.roll_call())
            readings = await self.rig.snapshot() if self.trials.frozen else {}
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake is one more reason to wait
            return {"instruments": f"{type(error).__name__}: {error}"}
        if self.trials.frozen:
            still = {n: v for n, v in self.trials.frozen.items() if not readings[n].valid or readings[n].value == v}
            wrong |= {n: f"still reads {v!r}, as in the last trials: the sensor is frozen" for n, v in still.items()}
            self.trials.frozen = still
        return wrong

    # A journal that cannot be written ---------------------------------------------------------------------------

    async def _wait_until_writable(self, error: JournalUnwritable) -> History:
        """Hold, safe, until the journal can be written; charge what was in flight (fault 32); return the history."""
        self._journal_alarm(Severity.MAJOR, f"everything goes safe and waits: {error}", "stands")
        self.patience.phase = "HOLDING"
        self.desk.tell(PhaseChanged("HOLDING", str(error)))  # only told: it cannot be written yet
        ended_s, row = await self._make_safe(), None
        while self.stop.finish is None:
            try:
                await self.journal.call(lambda j: j.beat())
                closing = (self.spec, self.rig, self.journal, Event.ABANDON, str(error))
                row = await close_open_trial(*closing, ended_s=ended_s) or row
                history = await _read(self)
                if row is not None:
                    await self.desk.tell_of_end(row)
            except JournalUnwritable:
                await asyncio.sleep(RETRY_UNWRITABLE_S)
                continue
            self._journal_alarm(Severity.MINOR, "can be written again; the campaign goes on", "over")
            self.desk.keep_phase("HOLDING", str(error), since_s=ended_s)
            await self.patience.enter("RUNNING", "the journal can be written again")
            return history
        return await _read(self)

    def _journal_alarm(self, severity: Severity, message: str, state: AlarmMark) -> None:
        self.desk.alarm(Alarm(severity, "journal", message, kind="unwritable", state=state))


def trial_under_way(runner: Runner) -> bool:
    """Tell whether a trial is: from its decision to its end."""
    return runner.under_way is not None and not runner.under_way.done()


def _ended(runner: Runner, history: History) -> tuple[Ending, str] | None:
    if runner.stop.finish is not None:
        return "stopped", runner.stop.finish
    for finding in runner.watchman.demanding("safe"):
        return "interlock", str(finding)
    spec, trials = runner.spec, runner.trials
    return over(spec, history, trials.idle, trials.care.over, runner.before + trials.cancelled)


def _ending_of(finished: Finished, currency: str) -> tuple[Ending, str]:
    if isinstance(finished, BudgetSpent):
        return "budget", f"{finished} (amounts in {currency})"
    return "finished", f"the policy's stopping rule fired: {finished}"


async def _caught_up(runner: Runner, history: History) -> History:
    """Return the history as people, outcomes that came later and variables that do not follow have made it.

    What no trial has used is booked.
    """
    await runner.trials.awaiting.look()
    if await runner.journal.call(void_misses, runner.spec.rig):
        runner.stop.corrected = True
    if runner.stop.corrected:
        runner.stop.corrected = False  # before it is read: what is corrected meanwhile is read again
        history = await _read(runner)
    if _ended(runner, history) is None:
        runner.trials.idle = await book_idle(runner.spec, runner.rig, runner.journal)
    return history


async def _not_yet(runner: Runner) -> bool:
    """Tell whether something has to be looked at again before a trial may begin."""
    runner.trials.awaiting.refuse_blind(runner.spec.max_failures)
    if await had_to_wait(runner.trials.awaiting, runner.patience) or await runner.trials.had_to_wait():
        return True
    # found since it was ready: nobody would break off a trial for it, so nothing may be waited for after this
    return bool(runner.watchman.demanding("hold", "fail", "safe", "trip"))


async def _known(history: History, runner: Runner) -> History:
    """Return the history with a trial in it that had looked, and that nothing was decided for."""
    return history if runner.spec.rig.timing.look is None else await _read(runner)


async def _undecided(runner: Runner, why: str) -> None:
    """Close the trial that has looked, if one has, though nothing could be decided then; it is charged."""
    trial = await runner.journal.call(lambda j: j.read.open_trial())
    if trial is None or trial.state is not State.LOOKING or runner.patience.make_safe is None:
        return
    await runner.patience.make_safe()
    row = await close_open_trial(runner.spec, runner.rig, runner.journal, Event.ABANDON, f"not decided: {why}")
    if row is not None:
        await runner.desk.tell_of_end(row)


async def _read(runner: Runner) -> History:
    return await runner.journal.call(lambda j: j.read.history(runner.spec.problem.space))
