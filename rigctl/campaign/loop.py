"""Trials, one after the other, and what is done when one does not go well; and what is left when a process died.

When a process died in mid-trial, everything goes safe first. Then, by the state the journal left the trial in:

- PROPOSED: nothing has moved; the same proposal is carried out, unchanged, unless a pause has cancelled it. Not if it
  was decided for something else than what this process runs, trials or batches by a certain wish: it is closed.
- LOOKING, ARMED, RUNNING: something may have moved; LOST, charged by the counters' rise across the crash and the time
  up to the process's last sign of life, never repeated.
- MEASURED: recorded from what is on disk.

Open doses are settled from the pump's own counter, and never sent again. A crash meanwhile changes nothing: each step
either is in the journal or will be taken again by the next start.
"""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf

from rigctl.campaign.acts import void_misses
from rigctl.campaign.caretaker import opening
from rigctl.campaign.carry import TOO_DEAR, TrialRun, kept
from rigctl.campaign.closing import book_idle, cancel, close_open_trial, meter_doubts, unusable
from rigctl.campaign.decider import Decider
from rigctl.campaign.desk import CampaignPart
from rigctl.campaign.events import Ending, PhaseChanged
from rigctl.campaign.journal.reader import observation
from rigctl.campaign.journal.rows import TrialRow
from rigctl.campaign.obstacles import Scene, Wait, obstacles
from rigctl.campaign.production import over, said
from rigctl.campaign.safe_file import standing, until_confirmed
from rigctl.campaign.trial import MOVING, Event, State
from rigctl.campaign.waiting import Failures, Waiting
from rigctl.campaign.watch import Finding
from rigctl.campaign.watchman import LASTING, Breakable, Interrupted, Watchman
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import BudgetSpent, Finished
from rigctl.errors import (
    CapReached,
    CapSpent,
    DeviceError,
    GuardRefused,
    JournalUnwritable,
    PolicyError,
    RigctlError,
    TrialsStopped,
    Tripped,
    counted,
)
from rigctl.rig.spec import Action
from rigctl.rig.values import SafeReport

BY_A_PERSON = "pause"
"""What stands for the rule where it is a person who breaks off a trial."""


@dataclass(slots=True)
class Runner(CampaignPart):
    """Runs trials until the budget is spent, as many are done as were asked for, or somebody stops it."""

    watchman: Watchman
    decider: Decider
    trials: TrialRun = field(init=False)
    waiting: Waiting = field(init=False)
    failures: Failures = field(init=False)
    history: History = field(default_factory=History)
    """All trials, or their end, if whoever decides knows the others."""
    before: int = 0
    """Trials before the first one of this process that do not count: all if it operates, else those cancelled."""
    let_down: frozenset[str] | None = None
    """Devices that failed in the last trial; None: the trial was measured, and its readings name the devices."""
    _held_by_the_watch: bool = False
    """Whether the last trial has failed because it was broken off for a hold."""
    report: SafeReport = field(default_factory=lambda: SafeReport(()))
    """What came of the last attempt to make everything safe before another trial may begin."""
    _under_way: Breakable = field(default_factory=Breakable)
    """The trial, from its decision to its end."""
    _over: tuple[Ending, str] | None = None
    """How all trials have ended; None: one may follow."""
    unwritable: str = ""
    """Why the journal cannot be written; empty: it can."""
    _held_s: float = -inf
    """Wall time until which what the watch has found must stay away."""
    _at_once: asyncio.Task[SafeReport] | None = None
    """Going safe between trials, however long the journal or an instrument keeps the next step waiting."""

    def __post_init__(self) -> None:
        self.trials = self.part(TrialRun, self.decider, self)
        self.waiting = Waiting(self.clock, self.desk, self.watchman)
        self.failures = Failures(self.clock, self.spec.rig.watch.clear_for_s)

    async def run(self) -> tuple[Ending, str]:
        """Run trials; return how it ended, and why.

        Raises:
            DeviceError: too many trials in a row failed, though every instrument answers.
            PolicyError: too many decisions in a row could not be used.
            Tripped: the rig has tripped.
            asyncio.CancelledError: abandoned in mid-trial; whoever cancels makes safe and closes the trial.
        """
        self.watchman.demand = self.interrupt
        await self.read()
        cancelled = await self.journal.call(lambda j: j.read.batches.cancelled())
        self.before = cancelled if self.spec.operating is None else len(self.history)
        while True:
            try:
                ended = await self._until_free()
                if ended is not None:
                    return ended
                await self._turn()
            except JournalUnwritable as error:
                self.unwritable = str(error)

    async def _turn(self) -> None:
        """Run a trial, unless all are over or something has come up."""
        await self._catch_up()
        # found since nothing was in the way: nobody would break off a trial for it, so nothing is awaited after this
        if self._over is not None or self.watchman.demanding("hold", "fail", "safe", "trip"):
            return
        known, self.let_down = len(self.history), None
        try:
            row = await self._one_trial()
        except Finished as finished:
            if self.spec.rig.timing.look is not None:  # a trial that had looked is closed by now
                await self.read()
            if not await self.trials.waits_for_instruments(self.history):
                self._over = "finished", f"the policy's stopping rule fired: {finished}"
                if isinstance(finished, BudgetSpent):
                    self._over = "budget", f"{finished} (amounts in {self.spec.currency})"
            return
        if row is None:
            await self.read()
            if len(self.history) == known:  # nothing had moved: the same proposal goes on when all is well again
                return
            # its record was on its way when the watch broke it off: what the journal says counts
            row = (await self.journal.call(lambda j: j.read.trials()))[-1]
        else:
            self.history = kept(self.history, self.trials.decider).append(observation(self.spec.problem.space, row))
        await self.desk.tell_of_end(row)
        await _believe_meters(self, row)
        await self._count_failures(row, row.because)

    async def _catch_up(self) -> None:
        """Take in what people, outcomes that came later and variables that do not follow have made of past trials.

        What no trial has used is booked.
        """
        if await self.journal.call(void_misses, self.spec.rig):
            self.stop.corrected = True
        if self.stop.corrected:
            self.stop.corrected = False  # before it is read: what is corrected meanwhile is read again
            await self.read()
        if _all_done(self) is None:
            self.trials.idle = await book_idle(self)
        self._over = _all_done(self)

    async def read(self) -> None:
        self.history = await self.journal.call(lambda j: j.read.history(self.spec.problem.space))

    # One trial --------------------------------------------------------------------------------------------------

    async def _one_trial(self) -> TrialRow | None:
        """Run a trial from its proposal to its end, however that comes; None if it has not begun to move."""
        try:
            return await self._under_way.run(self.trials.carried_out(self.history))
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

    def interrupt(self, finding: Finding) -> None:
        """Break off the trial under way; between trials go safe at once, and the next one looks at what stands."""
        by_hand = bool(self.stop.pause and self.rig.driven)  # then there is no trial that could fail
        if self._under_way.break_off(finding):
            return
        if (finding.then in LASTING or by_hand) and (self._at_once is None or self._at_once.done()):
            self._at_once = asyncio.create_task(self.rig.safe(), name="safe at once")

    def break_off(self, rule: str, why: str, then: Action = "fail") -> None:
        self.interrupt(Finding(rule, "", then, why))

    @property
    def runs_a_trial(self) -> bool:
        return self._under_way.busy

    # How it can end before its time ------------------------------------------------------------------------------

    async def _fail(self, error: Exception) -> TrialRow | None:
        """Make everything safe and charge the trial in which an instrument or a plug-in failed."""
        text, detail = str(error), ""
        self.let_down = error.devices if isinstance(error, RigctlError) else frozenset()
        if not isinstance(error, RigctlError):
            text = f"{type(error).__name__}: {error} (a mistake in a driver or plug-in)"
            detail = "".join(traceback.format_exception(error))
        report = await self.rig.safe()
        row = await close_open_trial(self, Event.FAIL, text)
        source = next(iter(self.let_down)) if len(self.let_down) == 1 else "trial"
        message = f"trial{'' if row is None else f' {row.trial}'} failed: {text}"
        self.desk.major(source, message, detail, kind="trial failed")
        await self.hold(report)
        if row is None and not isinstance(error, Tripped):  # it let down what had not begun: a look, say
            await self._count_failures(None, text)
        return row

    async def _broken_off(self, finding: Finding) -> TrialRow | None:
        """Make everything safe first of all, then close and charge the trial that the watch ends."""
        tripping = finding.then == "trip"
        self.let_down = frozenset({self.spec.rig.device_of(finding.subject)} - {""})
        report = await (self.rig.trip(str(finding)) if tripping else self.rig.safe())
        if tripping:
            self.desk.latch(str(finding))
        trial = await self.journal.call(lambda j: j.read.open_trial())
        # what has looked was prepared, and is as good as begun
        moving = trial is not None and (trial.state in MOVING or (trial.state is State.PROPOSED and bool(trial.looks)))
        event = Event.FAIL if moving and finding.rule not in (BY_A_PERSON, TOO_DEAR) else Event.ABANDON
        row = await close_open_trial(self, event, str(finding))
        await self.hold(report)
        if tripping:
            raise Tripped(str(finding))
        self._held_by_the_watch = event is Event.FAIL and finding.then == "hold"
        return row

    async def make_safe(self) -> float:
        """Bring everything to a confirmed safe state (unless asked to stop); return when it was first tried."""
        report = await self.rig.safe()
        tried_s = await self.journal.call(lambda j: j.time.now_s())
        await self.hold(report)
        return tried_s

    async def hold(self, report: SafeReport) -> None:
        """Let no trial begin before everything is confirmed safe."""
        self.trials.apart = self.trials.apart or not report.ok
        if not report.ok:
            self.desk.keep_phase("HOLDING", standing(report))
            self.desk.tell(PhaseChanged("HOLDING", standing(report)))
        self.report = report
        what, enough = "no trial starts, trying again", lambda: self.stop.finish is not None
        self.report = await until_confirmed(self.rig.safe, report, self.desk, enough, what=what)
        if not report.ok:
            self.desk.keep_phase("RUNNING", standing(self.report))
            self.desk.tell(PhaseChanged(self.waiting.phase, standing(self.report)))

    # What is in the way of the next trial ----------------------------------------------------------------------------

    async def _until_free(self) -> tuple[Ending, str] | None:
        """Let no trial begin while something is in the way; return how it all ends, if it does.

        Raises:
            Tripped: the watch demands it.
        """
        if self._at_once is not None:
            await asyncio.wait([self._at_once])
        while True:
            scene = await self._see()
            trips = scene.demanding("trip")
            if trips and self.rig.tripped is None:  # at once, whatever else is in the way
                await self.rig.trip(str(trips[0]))
            found = obstacles(scene)
            if not found:
                break
            first = found[0]
            if first.kind == "trip":
                self.desk.latch(first.why)
                raise Tripped(first.why)
            if first.ending is not None:
                return first.ending, first.why
            await self.waiting.enter(found, self.make_safe)
            if self.waiting.is_for("watch"):
                self.watchman.heeded("hold")
            await self.waiting.moment(first)
        await self.waiting.enter((), self.make_safe)
        return None

    async def obstructed(self) -> bool:
        return bool(obstacles(await self._scene()))

    async def _see(self) -> Scene:
        """Do what is due between two trials, then return what there is to see."""
        entered = self.waiting.is_for("unwritable")  # everything is made safe before it is tried again
        if self.unwritable and not (entered and await _writable_again(self)):
            return self._seen()
        await self.trials.awaiting.attend()
        changed = await self.trials.care.judge_again() or self.stop.pause
        cancelled = await self.trials.cancel_queued() if changed else None
        if cancelled is not None:
            self.stop.corrected = True
            await self.desk.tell_of_end(cancelled)
        if self.stop.corrected:
            await self._catch_up()
        self._over = self._over or _all_done(self)
        await self.failures.ask_again(lambda: _wrong(self), self.rig.roll_call)
        self.trials.awaiting.refuse_blind(self.spec.max_failures)
        return await self._scene()

    def _seen(self) -> Scene:
        """Return what can be seen without a journal."""
        demanded = self.watchman.demanding("hold", "fail", "safe", "trip")
        standing, now_s = self.watchman.standing, time.monotonic()
        if any(finding.then in ("hold", "fail") for finding in demanded) or (
            standing.unjudged and now_s < self._held_s
        ):
            self._held_s = now_s + self.spec.rig.watch.clear_for_s / self.clock.speedup
        return Scene(
            finish=self.stop.finish,
            paused=self.stop.pause,
            findings=demanded,
            unjudged=bool(standing.unjudged),
            lingers=now_s < self._held_s,
            unwritable=self.unwritable,
        )

    async def _scene(self) -> Scene:
        trials, care, awaiting, clock = self.trials, self.trials.care, self.trials.awaiting, self.clock
        civil = clock.civil
        awaited = await (awaiting.in_the_way() if self._over is None else awaiting.outstanding())
        waits = [
            Wait("hours", *opening(self.spec.rig, clock)),
            *(Wait("room", free_s, why) for free_s, why in await trials.room()),
            Wait("rest", self.failures.rests_until_s(), f"{self.failures.in_a_row} failed in a row"),
        ]
        return replace(
            self._seen(),
            now_s=clock.now_s(),  # what fits already fits since the journal was asked
            missing=self.failures.missing,
            unsteady=self.failures.unsteady,
            over=self._over,
            unplayable="" if care.over else care.nothing_left(),
            reopens_s=care.reopens_s if civil is None or care.reopens_s == inf else civil.rig_s(care.reopens_s),
            awaited=awaited,
            due_s=await awaiting.next_s() if awaited else inf,
            waits=tuple(waits),
        )

    async def _until_room(self, cap: CapReached) -> TrialRow | None:
        """Close a trial that met a cap: no failure, but it cannot be finished; the next waits for the window."""
        report = await self.rig.safe()
        row = await close_open_trial(self, Event.ABANDON, str(cap))
        await self.hold(report)
        if isinstance(cap, CapSpent):
            self.trials.care.exhausted.add(cap.actuator)
            self.trials.care.changed = True
        else:
            self.trials.needs_ml = {cap.actuator: cap.volume_ml}
        return row

    async def _count_failures(self, row: TrialRow | None, because: str) -> None:
        """Hold, after a failure, for what is missing, and a while; raise `DeviceError` if it is one too many."""
        failures = self.failures
        if row is not None and row.state is not State.FAILED:
            failures.in_a_row = 0
            failures.blame(frozenset())
            return
        if self._held_by_the_watch:  # the hold is the answer to it; it is nobody's failure
            self._held_by_the_watch, self.trials.apart = False, True
            return
        failures.in_a_row += 1
        unreliable, suspicious = failures.blame(await _blamed(self, row))
        for device, message in suspicious.items():
            self.desk.major(device, message, kind="fails often")
        wrong = await _wrong(self)
        if not (wrong or unreliable) and failures.in_a_row >= self.spec.max_failures:
            await self.make_safe()
            last = "" if row is None else f", {row.trial}"
            what = f"{counted(failures.in_a_row, 'trial')} in a row failed, the last one{last}: {because}"
            raise TrialsStopped(what, standing(self.report), "mend the rig, then run again")
        if wrong or unreliable:
            self.trials.apart = True
            failures.hold_for(wrong, unreliable)
        failures.in_a_row = 0 if wrong else failures.in_a_row
        failures.back_off()


async def _undecided(runner: Runner, why: str) -> None:
    """Close the trial that has looked, if one has, though nothing could be decided then; it is charged."""
    trial = await runner.journal.call(lambda j: j.read.open_trial())
    if trial is None or trial.state is not State.LOOKING:
        return
    await runner.make_safe()
    await abandon_open_trial(runner, f"not decided: {why}")


async def abandon_open_trial(campaign: CampaignPart, why: str) -> None:
    """Close the trial under way, if there is one, and tell of its end; everything must be safe already."""
    row = await close_open_trial(campaign, Event.ABANDON, why)
    if row is not None:
        await campaign.desk.tell_of_end(row)


async def _writable_again(runner: Runner) -> bool:
    """Try whether the journal can be written; then charge what was in flight (fault 32) and read the history."""
    why, safe_s = runner.unwritable, runner.waiting.safe_s
    try:
        await runner.journal.call(lambda j: j.beat())
        row = await close_open_trial(runner, Event.ABANDON, why, ended_s=safe_s)
        await runner.read()
    except JournalUnwritable:
        return False
    runner.unwritable = ""
    if row is not None:
        await runner.desk.tell_of_end(row)
    runner.desk.keep_phase("HOLDING", why, since_s=safe_s)
    return True


def _all_done(runner: Runner) -> tuple[Ending, str] | None:
    trials = runner.trials
    return over(runner.spec, runner.history, trials.idle, trials.care.over, runner.before + trials.cancelled)


async def _believe_meters(runner: Runner, row: TrialRow) -> None:
    """Allow no further trial on a meter that cannot be believed any more (faults 41, 69)."""
    doubted, zeros = await runner.journal.call(meter_doubts, runner.spec.rig, row.trial)
    for name, why in doubted.items():
        runner.desk.major(f"meter {name}", why, kind="meter doubted")
    for name, note in zeros.items():
        runner.desk.minor(f"meter {name}", note, kind="not estimated")
    if doubted:
        await runner.make_safe()
        raise DeviceError("; ".join(f"meter {name}: {why}" for name, why in doubted.items()))


async def _blamed(runner: Runner, row: TrialRow | None) -> frozenset[str]:
    """Return the devices that failed in the last trial."""
    if runner.let_down is not None or row is None:
        return runner.let_down or frozenset()
    found = await runner.journal.call(unusable, runner.spec.rig, runner.spec.problem, row.trial)
    return frozenset(map(runner.spec.rig.device_of, found)) - {""}


async def _wrong(runner: Runner) -> Mapping[str, str]:
    """Say what is wrong with the instruments now: which do not answer, which frozen ones have not moved."""
    try:
        wrong = dict(await runner.rig.roll_call())
        readings = await runner.rig.snapshot() if runner.trials.frozen else {}
    except Exception as error:  # noqa: BLE001 - a plug-in's mistake is one more reason to wait
        return {"instruments": f"{type(error).__name__}: {error}"}
    if runner.trials.frozen:
        still = {n: v for n, v in runner.trials.frozen.items() if not readings[n].valid or readings[n].value == v}
        wrong |= {n: f"still reads {v!r}, as in the last trials: the sensor is frozen" for n, v in still.items()}
        runner.trials.frozen = still
    return wrong


# What a dead process left ---------------------------------------------------------------------------------------------


async def recover(campaign: CampaignPart) -> int | None:
    """Settle what was in flight, everything safe; return the number of the trial that is lost, if one is."""
    closed = await close_open_trial(campaign, Event.LOSE, "the process died in mid-trial")
    if closed is None:
        await _cancel_another(campaign)
    return closed.trial if closed is not None and closed.state is State.LOST else None


async def _cancel_another(campaign: CampaignPart) -> None:
    """Close a trial that waits to be run if it is none of those that this process was told to run.

    A trial of the campaign explores, which production may not; nor may what was told or allowed before.
    """
    trial = await campaign.journal.call(lambda j: j.read.open_trial())
    if trial is None:
        return
    wish = campaign.spec.operating
    was = await campaign.journal.call(lambda j: j.read.batches.operations().get(trial.trial, ""))
    if was != ("" if wish is None else said(wish)):
        await cancel(campaign, trial, f"it was decided for {f'production, {was}' if was else 'the campaign'}")
