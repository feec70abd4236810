"""A campaign as a process: one event loop, the trials in it, the watch beside them, signals and a control socket.

Threads: the event loop's, the journal's, and one per bus (the rig's). Decisions are made by a process of its own. The
watch waits for none of them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rigctl.campaign.control import Verbs, serving
from rigctl.campaign.decider import Decider, ProcessDecider
from rigctl.campaign.desk import CampaignPart, Desk, ServiceManager, StopRequest
from rigctl.campaign.events import CampaignEvent, CampaignResult, Dosed, Ending, Listener, PhaseChanged
from rigctl.campaign.journal import Journal, JournalDoseLog, JournalThread
from rigctl.campaign.journal.reader import spent_and_operated
from rigctl.campaign.lock import bus_locks, state_lock
from rigctl.campaign.loop import BY_A_PERSON, Runner, abandon_open_trial, recover
from rigctl.campaign.production import begin, started
from rigctl.campaign.requests import Manual, Requests
from rigctl.campaign.safe_file import SOURCE, STAYS, standing, tell_confirmed, until_confirmed
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.starts import Starts, Word
from rigctl.campaign.status import ActiveFinding, Status, StatusFold
from rigctl.campaign.trial import State
from rigctl.campaign.watch import hours_rule, rules_of
from rigctl.campaign.watchman import Surroundings, Watchman, begin_civil
from rigctl.errors import DeviceError, IdentityMismatch, JournalError, RigctlError, TrialsStopped, Tripped, in_words
from rigctl.logs import logger
from rigctl.rig.clocks import Clock, epoch
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.protocols import Identity
from rigctl.rig.rig import Rig
from rigctl.rig.values import News, SafeReport
from rigctl.signals import INTERRUPTED_EXIT, NO_SECOND, Signals

RigFactory = Callable[[DoseLog, News], Rig]
"""Makes the rig from the dose log and the desk that the campaign keeps."""
JOURNAL_GIVEN_UP_S = 20.0
"""Wall seconds that the end of a process waits for a call of the journal; all has been sent to safety by then."""
SAFE_WITHIN_S = 10.0
"""Wall seconds within which a rig is safe or says what is not; who asks twice to be let go waits no longer."""


async def run_campaign(
    spec: CampaignSpec,
    state_dir: Path,
    rig_factory: RigFactory,
    clock: Clock,
    listener: Listener,
    *,
    open_journal: Callable[[Path, Clock], Journal] | None = None,
    signals: Signals | None = None,
    decider: Decider | None = None,
    untold: Callable[[], str] = lambda: "",
    person: Person | None = None,
) -> CampaignResult:
    """Start the campaign, or resume it where the journal says it was; return when it has ended and all is safe.

    While that cannot be confirmed it is tried again and again, until a second signal comes.

    Args:
        spec: what to run.
        state_dir: where journal, lock and control socket live; made if missing.
        rig_factory: makes the rig from the dose log and the desk kept here.
        clock: rig time.
        listener: is told what happens, in the event loop.
        open_journal: opens the journal in a directory; None: `Journal`.
        signals: what is caught already, and what came before; None: signals are caught while the campaign runs.
        decider: is asked for decisions; None: a process of its own.
        untold: says why people cannot be told of anything; empty: they can.
        person: drives single instruments by hand; no trial begins, and the process ends when they are done.

    Raises:
        Locked: another process runs it, or drives one of its buses.
        UsageError: the configuration is not the one it was started with.
        JournalError: the journal cannot be used; nothing has moved.
        DeviceError: the rig cannot be opened, or trials keep failing.
        Tripped: the rig has tripped.
    """
    make = open_journal or (lambda directory, clock: Journal(directory, clock, epoch(clock)))
    urls = [device.url for device in spec.rig.devices.values()]
    with state_lock(state_dir) as lock, bus_locks(urls), JournalThread(lambda: make(state_dir, clock)) as journal:
        status = StatusFold.of(spec.rig.name, spec.currency, clock.speedup)

        def tell(event: CampaignEvent) -> None:
            status.follow(event)
            listener(event)

        desk = Desk(journal, tell, urls)
        doses = JournalDoseLog(journal, lambda *told: desk.tell(Dosed(*told)))
        rig = rig_factory(doses, desk)
        around = Surroundings(state_dir, lambda: journal.still_there() or lock.trouble())
        shared = CampaignPart(spec, rig, journal, clock, desk, StopRequest())
        session = Session(shared, decider=decider or ProcessDecider(), surroundings=around)
        session.describe = lambda: replace(status.told(clock.now_s()), **session.acts.manual.status())
        session.watchman.untold = untold
        if person is not None:
            session.stop.pause = "driven by hand"
        return await _supervise(session, state_dir, signals or Signals(), person)


async def _supervise(session: Session, state_dir: Path, signals: Signals, person: Person | None) -> CampaignResult:
    verbs: Verbs = {"status": lambda _: session.status().to_json(), **session.acts.verbs()}
    try:
        async with serving(state_dir, verbs), asyncio.TaskGroup() as group:
            ticking = group.create_task(session.watchman.run())
            campaign = group.create_task(session.run())
            session.task = campaign
            campaign.add_done_callback(lambda _: ticking.cancel())
            if person is not None:
                acting = group.create_task(person(session))
                campaign.add_done_callback(lambda _: acting.cancel())
            with signals.caught(), signals.told(session.obey, asyncio.get_running_loop().call_soon_threadsafe):
                await asyncio.wait([campaign])
    except BaseExceptionGroup as group_error:
        # One error ends a campaign; the group is only how the event loop hands it over.
        raise group_error.exceptions[0] from None
    return campaign.result()


async def until_at_hand(session: Session) -> None:
    """Wait until single instruments can be driven."""
    while _no_hands(session):
        await session.watchman.next_round()


class Session:
    """Does one process's part of a campaign."""

    def __init__(self, shared: CampaignPart, *, decider: Decider, surroundings: Surroundings) -> None:
        self.shared = shared
        self.spec, self.rig, self.stop = shared.spec, shared.rig, shared.stop
        self.journal, self.desk = shared.journal, shared.desk
        spec, journal, desk, clock = shared.spec, shared.journal, shared.desk, shared.clock
        self.watchman = Watchman(
            rules=(*rules_of(spec.rig.watch), hours_rule(spec.rig)),
            clock=clock,
            desk=desk,
            surroundings=surroundings,
            journal_s=journal.oldest_call_s,
            alive=self._alive,
            beat=lambda: desk.keep("heartbeat", lambda j: j.beat()),
            period_s=spec.rig.watch.every_s,
        )
        self.task: asyncio.Task[CampaignResult] | None = None
        self.describe: Callable[[], Status] = Status
        self._manager = ServiceManager(spec.rig.watch.every_s)
        self._word = Word(spec.rig, journal)
        self.starts = Starts(spec.rig.starts, journal, desk)
        self._decider = decider
        self.runner = shared.part(Runner, self.watchman, decider)
        self.care = self.runner.trials.care
        manual = shared.part(Manual, self.care, lambda: _no_hands(self), lambda: _objections(self))
        ends = self.stop_after_trial, self.go_safe, lambda why: self.runner.break_off(BY_A_PERSON, why, "hold")
        self.acts = shared.part(Requests, *ends, manual, self.runner.trials.awaiting.tell)
        self._log = logger("rigctl.campaign")
        self._asked_s = 0.0
        self._may_be_cut_short = True
        self._was_left_safe = self._untouched = self.past_is_settled = False
        self._report, self._tried_s = SafeReport(()), 0.0
        self.safe_was_tried, self._sooner = asyncio.Event(), asyncio.Event()
        self._staying: asyncio.Task[None] | None = None
        self._given_up: asyncio.TimerHandle | None = None
        self._signalled = self._enough = False

    def status(self) -> Status:
        """Return how the campaign stands, with what the watch finds wrong now."""
        status, watchman = self.describe(), self.watchman
        active = tuple(
            ActiveFinding("MINOR" if f.then == "warn" else "MAJOR", f.subject or f.rule, str(f))
            for f in watchman.standing.found.values()
        )
        watch = {**status.watch, **watchman.lateness.to_json()}
        return replace(status, paused=self.stop.pause, active=active, watch=watch)

    def stop_after_trial(self, why: str) -> Mapping[str, Any]:
        """End after the trial under way; the answer names what is not confirmed safe, if there is anything."""
        self.stop.finish = self.stop.finish or why
        failed = (self._report if self.safe_was_tried.is_set() else self.runner.report).failed
        return {"stopping": self.stop.finish, **({"failed": dict(failed)} if failed else {})}

    def abandon(self, why: str) -> dict[str, str]:
        """End now: everything safe, the trial under way abandoned and charged."""
        if self.stop.abandon is None and self.task is not None and self._may_be_cut_short:
            self.stop.abandon, self._asked_s = why, time.monotonic()
            self.task.cancel()
        return {"stopping": self.stop.abandon or why}

    async def go_safe(self, why: str) -> Mapping[str, Any]:
        """Do as `abandon` does, and return what is confirmed safe once that has been tried; again, if it was before."""
        self.abandon(why)
        before = self._report
        if self.stays:
            self._sooner.set()
        while self.stays and self._report is before:
            await self.watchman.next_round()
        await self.safe_was_tried.wait()
        return {"reached": list(self._report.reached), "failed": dict(self._report.failed)}

    def obey(self, signal: str) -> None:
        """Abandon the campaign at any signal, everything safe; at a second one stay no longer for what is unconfirmed.

        At a second SIGINT before that leave as soon as everything is confirmed safe.
        """
        second, self._signalled = self._signalled and signal != NO_SECOND, True
        self._enough = self._enough or second
        if self.stays:
            self._sooner.set()
            self._log.error(f"{signal}: {'leaving' if second else STAYS}", standing=standing(self._report))
        elif second and signal == "SIGINT":
            self._leave()
        else:
            self.abandon(signal)

    def _leave(self) -> None:
        """End the process for a person who waits no longer, but not before the safe commands are out.

        The journal is good at any instant; the next start settles what was in flight.
        """
        if self.safe_was_tried.is_set():
            os._exit(INTERRUPTED_EXIT if self._report.ok else 1)
        if self._given_up is None:
            self._log.warning(f"going safe, at most {SAFE_WITHIN_S:g} s")
            self._given_up = asyncio.get_running_loop().call_later(SAFE_WITHIN_S, os._exit, INTERRUPTED_EXIT)

    async def run(self) -> CampaignResult:
        """Open the rig, settle the past, run trials, leave everything safe."""
        try:
            ending, reason = await self._until_confirmed()
            safe_after_s = self._tried_s - self._asked_s if ending == "abandoned" else None
        except RigctlError as error:
            if isinstance(error, Tripped):
                self.desk.latch(error.reason)
            told = error.standing if isinstance(error, TrialsStopped) else None
            besides = f"; {'in the end ' * self._report.ok}{standing(self._report)}"
            unsafe = self._staying is not None or not self._report.ok
            if unsafe and standing(self._report) != told and besides not in error.added:
                error.extend(besides)
            await self._last_words(str(error), well=isinstance(error, Tripped))
            raise
        finally:
            self._manager.stopping()
            self.watchman.rig = self.watchman.demand = None
            await self._decider.close()
            await self.rig.close()
        await self._last_words(ending, well=ending != "interlock")
        return await self._result(ending, reason, safe_after_s)

    async def _until_confirmed(self) -> tuple[Ending, str]:
        """Run trials, close the one under way, and stay until everything is confirmed safe."""
        try:
            ending, reason = await self._until_safe()
            # What an earlier process left in flight is the next start's to settle; what has looked waits for none.
            if self.past_is_settled:
                await abandon_open_trial(self.shared, reason)
            return ending, reason
        finally:
            if self._staying is not None:
                if self.past_is_settled:
                    self.desk.keep_phase("HOLDING", standing(self._report))
                await self._staying

    async def _until_safe(self) -> tuple[Ending, str]:
        """Run trials until they end or are abandoned; either way, send everything to its safe state."""
        why = ""
        try:
            ending, why = await self._trials()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.stop.abandon is None or task is None:
                raise
            task.uncancel()  # it is `abandon`'s, so there is still everything to put in order
            ending, why = "abandoned", self.stop.abandon
        except Exception as error:
            why = in_words(error)
            raise
        finally:
            self._may_be_cut_short = False  # a signal must not break off the way to the safe state
            await self._make_safe(why)
        return ending, why

    async def _make_safe(self, why: str) -> None:
        """Make everything safe for the last time, opened or not, unless the rig is as safe as it was found."""
        self._tried_s = time.monotonic()
        if not self._untouched:
            await self._safe()
        self.safe_was_tried.set()
        if self._given_up is not None:
            self._given_up.cancel()
            if self._report.ok:
                os._exit(INTERRUPTED_EXIT)
        if self._report.ok:
            if not self.runner.report.ok:  # broken off while it held for that
                tell_confirmed(self.desk)
            await self._word.take_back()
        else:
            self._staying = asyncio.create_task(self._stay(why))  # waits neither for the journal nor for a meter
        if self.rig.tripped is not None:
            self.desk.latch(self.rig.tripped)

    async def _safe(self) -> SafeReport:
        self._report = await self.rig.safe()
        self._tried_s = time.monotonic()
        if not self._report.ok:
            self._manager.stopping()  # it may ask for more time as long as it tries
        return self._report

    async def _stay(self, why: str) -> None:
        """Try again until everything is confirmed safe or a second signal comes; nothing moves, all locks are held."""
        self.watchman.rig = self.watchman.demand = None  # so no device's own watchdog is fed either
        what = f"the campaign ends ({why}); {STAYS}"
        self.desk.tell(PhaseChanged("HOLDING", f"{what}: {standing(self._report)}"))
        await until_confirmed(self._safe, self._report, self.desk, lambda: self._enough, what=what, sooner=self._sooner)
        if self._report.ok:
            await self._word.take_back()
        else:
            left = f"the process ends: {standing(self._report)}"
            self.desk.major(SOURCE, left, kind="left unsafe")

    @property
    def stays(self) -> bool:
        """Tell whether all that is left to do is to make everything safe."""
        return self._staying is not None and not self._staying.done()

    async def _trials(self) -> tuple[Ending, str]:
        self._untouched = self._was_left_safe = await self.journal.call(lambda j: j.past.was_left_safe())
        await self.journal.call(begin, self.spec)
        # whoever has paused it did not mean this process only; one that asked since is not overruled
        self.stop.pause = self.stop.pause or await self.journal.call(lambda j: j.read.people.pause())
        self.watchman.wall = await begin_civil(self.journal, self.spec.rig, self.watchman.clock)
        trip = await self.journal.call(lambda j: j.trips.latched())
        if trip is not None:
            raise Tripped(f"tripped on {trip.utc}: {trip.reason}. Nothing may move")
        await self._decider.start(self.spec.decides, self.spec.problem)
        await self.care.begin()
        seen = await self.care.recognise(await self._opened())
        held = await self.starts.begin()
        self.stop.pause = "; ".join(filter(None, (self.stop.pause, held)))
        await self._word.leave(seen)
        self.watchman.rig = self.rig.glance
        self._untouched = False
        await self._begin_safe()
        lost = await recover(self.shared)
        self.past_is_settled = True
        self.desk.tell(await started(self.journal, self.spec, lost))
        self.desk.keep_phase("RUNNING", "started")
        self._manager.ready()
        return await self.runner.run()

    async def _opened(self) -> Mapping[str, Identity]:
        """Open the rig; after a crash once more when everything is safe, for what did not answer at first."""
        try:
            return await self.rig.open()
        except DeviceError as error:
            if self._untouched or isinstance(error, IdentityMismatch):
                raise
            await self._begin_safe()
            return await self.rig.open()

    async def _begin_safe(self) -> None:
        """Make everything safe before the past is settled; hold until that is confirmed, however long it takes."""
        report = await self.rig.safe()
        if not report.ok:
            self._manager.ready()  # the start has come to its end, and holds
        await self.runner.hold(report)

    async def _result(self, ending: Ending, reason: str, safe_after_s: float | None) -> CampaignResult:
        (spent, operated), rows = await self.journal.call(lambda j: (spent_and_operated(j.read), j.read.trials()))
        result = CampaignResult(
            ending=ending,
            reason=reason,
            trials=sum(row.state.charged for row in rows),
            spent=spent,
            budget=self.spec.problem.budget,
            safe=self._report,
            recorded=sum(row.state is State.RECORDED for row in rows),
            worst_tick_delay_s=self.watchman.lateness.worst_s,
            operated=operated,
            safe_after_s=safe_after_s,
        )
        self._log.info("campaign ended", ending=ending, reason=reason, trials=result.trials, safe=self._report.ok)
        self.desk.tell(result)
        return result

    async def _last_words(self, why: str, *, well: bool) -> None:
        # What an unsafe process left behind and nobody has settled is still to be settled by the next one.
        safe = self._report.ok and (self.past_is_settled or self._was_left_safe)
        # If the journal is what failed, the error on its way out says so.
        with suppress(JournalError):
            if self.past_is_settled:
                await self.journal.call(lambda j: j.phase("ENDED", why))
            await self.journal.call(lambda j: j.beat(ended=why, safe=safe))
        self.starts.end(well=well and safe)

    def _alive(self) -> None:
        """Feed the service manager's watchdog after every look, and at the end do not wait for a disk for ever."""
        self._manager.looked(self.describe().in_short)
        self.starts.looked(self.stop.pause)
        tried = self.safe_was_tried.is_set() and (self._report.ok or self._enough)
        if tried and self.journal.oldest_call_s() > JOURNAL_GIVEN_UP_S:
            self._log.error("leaving: the journal does not return; the next start settles what is open")
            os._exit(1)


def _no_hands(session: Session) -> str:
    """Return why a person cannot drive single instruments now, with the remedy; empty if they can."""
    if not session.past_is_settled or session.safe_was_tried.is_set():
        return "the campaign is starting or ending; try again when it is paused"
    if session.runner.runs_a_trial:
        return "a trial is under way; `rigctl pause` lets it end first, `rigctl pause --now` breaks it off"
    return "" if session.stop.pause else "the campaign runs trials; `rigctl pause` first"


def _objections(session: Session) -> str:
    """Return what the watch finds now that forbids to drive anything; empty: nothing."""
    return "; ".join(map(str, session.watchman.standing.demanding("fail", "hold", "safe", "trip")))


Person = Callable[[Session], Coroutine[Any, Any, None]]
"""What is done by hand while a campaign runs no trials."""
