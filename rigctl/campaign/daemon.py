"""A campaign as a process: one event loop, the trials in it, the safety tick beside them, signals and a control socket.

Threads: the event loop's, the journal's, the decision's, and one per bus (the rig's). The tick waits for none of them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

import structlog

from rigctl.campaign.clock import boot_id
from rigctl.campaign.closing import close_open_trial
from rigctl.campaign.control import serving
from rigctl.campaign.desk import Desk
from rigctl.campaign.events import (
    CampaignEnded,
    CampaignEvent,
    CampaignResult,
    CampaignStarted,
    Ending,
    Listener,
    TrialEnded,
)
from rigctl.campaign.journal import Journal, JournalDoseLog, JournalThread
from rigctl.campaign.lock import state_lock
from rigctl.campaign.notify import notify
from rigctl.campaign.protocols import CampaignRig, RigFactory
from rigctl.campaign.recovery import recover
from rigctl.campaign.runner import Runner, StopRequest
from rigctl.campaign.spec import CampaignSpec
from rigctl.campaign.status import Status
from rigctl.campaign.tick import SafetyTick
from rigctl.campaign.trial import Event
from rigctl.errors import JournalError, RigctlError
from rigctl.rig.protocols import Clock
from rigctl.rig.values import SafeReport

SECOND_INTERRUPT_EXIT = 130
"""128 + SIGINT, as a shell has it."""


def run(
    spec: CampaignSpec, state_dir: Path, rig_factory: RigFactory, clock: Clock, listener: Listener
) -> CampaignResult:
    """`run_campaign` in an event loop of its own."""
    return asyncio.run(run_campaign(spec, state_dir, rig_factory, clock, listener))


async def run_campaign(
    spec: CampaignSpec,
    state_dir: Path,
    rig_factory: RigFactory,
    clock: Clock,
    listener: Listener,
    *,
    open_journal: Callable[[Path, Clock], Journal] | None = None,
) -> CampaignResult:
    """Start the campaign, or resume it where the journal says it was; returns when it has ended and all is safe.

    Args:
        spec: what to run.
        state_dir: where journal, lock and control socket live; made if missing.
        rig_factory: makes the rig from the dose log and the alarm desk kept here.
        clock: rig time.
        listener: is told what happens, in the event loop.
        open_journal: opens the journal in a directory; None: `Journal`.

    Raises:
        Locked: another process runs it.
        UsageError: the configuration is not the one it was started with.
        JournalError: the journal cannot be used; nothing has moved.
        DeviceError: the rig cannot be opened or made safe, or trials keep failing.
        Tripped: the rig has tripped.
    """
    make = open_journal or (lambda directory, clock: Journal(directory, clock, boot_id()))
    with state_lock(state_dir), JournalThread(lambda: make(state_dir, clock)) as journal:
        await journal.call(lambda j: j.begin(spec, version("rigctl")))
        status = Status(spec.rig.name, spec.currency)

        def tell(event: CampaignEvent) -> None:
            status.follow(event)
            listener(event)

        desk = Desk(journal, tell)
        rig = rig_factory(JournalDoseLog(journal), desk.alarm)
        session = Session(spec, rig, journal, clock, desk)
        return await _supervise(session, status, state_dir)


async def _supervise(session: Session, status: Status, state_dir: Path) -> CampaignResult:
    verbs = {
        "status": status.answer,
        "stop": lambda: session.stop_after_trial("asked to stop"),
        "safe": lambda: session.abandon("asked to go safe"),
    }
    try:
        async with serving(state_dir, verbs), asyncio.TaskGroup() as group:
            ticking = group.create_task(session.tick.run())
            campaign = group.create_task(session.run())
            session.task = campaign
            campaign.add_done_callback(lambda _: ticking.cancel())
            with _signals(session):
                await asyncio.wait([campaign])
    except BaseExceptionGroup as group_error:
        # One error ends a campaign; the group is only how the event loop hands it over.
        raise group_error.exceptions[0] from None
    return campaign.result()


@contextmanager
def _signals(session: Session) -> Iterator[None]:
    """SIGTERM and SIGINT: abandon, everything safe. A second SIGINT: out at once."""
    loop, interrupts = asyncio.get_running_loop(), iter(range(2))

    def interrupted() -> None:
        if next(interrupts, None) == 0:
            session.abandon("SIGINT")
        else:
            # The person has given up waiting; the journal is good at any instant, the next start makes safe.
            os._exit(SECOND_INTERRUPT_EXIT)

    loop.add_signal_handler(signal.SIGTERM, session.abandon, "SIGTERM")
    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        loop.remove_signal_handler(signal.SIGINT)


class Session:
    """One process's part of a campaign."""

    def __init__(self, spec: CampaignSpec, rig: CampaignRig, journal: JournalThread, clock: Clock, desk: Desk) -> None:
        self.spec = spec
        self.rig = rig
        self.journal = journal
        self.desk = desk
        self.stop = StopRequest()
        self.tick = SafetyTick(lambda: notify("WATCHDOG=1"), self._beat)
        self.task: asyncio.Task[CampaignResult] | None = None
        self._runner = Runner(spec, rig, journal, clock, desk, self.stop)
        self._log = structlog.get_logger("rigctl.campaign")
        self._asked_s = 0.0

    def stop_after_trial(self, why: str) -> dict[str, str]:
        """Finish the trial under way, then end."""
        self.stop.finish = self.stop.finish or why
        return {"stopping": self.stop.finish}

    def abandon(self, why: str) -> dict[str, str]:
        """End now: everything safe, the trial under way abandoned and charged."""
        if self.stop.abandon is None and self.task is not None:
            self.stop.abandon, self._asked_s = why, time.monotonic()
            self.task.cancel()
        return {"stopping": self.stop.abandon or why}

    async def run(self) -> CampaignResult:
        """Open the rig, settle the past, run trials, leave everything safe."""
        ending: Ending
        try:
            await self.rig.open()
            ending, reason, report = await self._until_safe()
            safe_after_s = time.monotonic() - self._asked_s if ending == "abandoned" else None
            if ending == "abandoned":
                await self._close_abandoned(reason)
        except RigctlError as error:
            await self._last_words(f"{type(error).__name__}: {error}")
            raise
        finally:
            notify("STOPPING=1")
            await self.rig.close()
        await self._last_words(ending)
        return await self._result(ending, reason, report, safe_after_s)

    async def _until_safe(self) -> tuple[Ending, str, SafeReport]:
        """Trials until they end or are abandoned; however that comes about, everything is sent to its safe state."""
        ending: Ending
        try:
            ending, reason = await self._trials()
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self.stop.abandon is None or task is None:
                raise
            task.uncancel()
            ending, reason = "abandoned", self.stop.abandon
        finally:
            report = await self.rig.safe()
        return ending, reason, report

    async def _trials(self) -> tuple[Ending, str]:
        recovered = await recover(self.spec, self.rig, self.journal)
        campaign = await self.journal.call(lambda j: j.read.campaign())
        trials = await self.journal.call(lambda j: len(j.read.history(self.spec.problem.space)))
        self.desk.tell(CampaignStarted(campaign.rig, trials, campaign.spent, campaign.budget, recovered.lost))
        notify("READY=1")
        return await self._runner.run()

    async def _close_abandoned(self, why: str) -> None:
        row = await close_open_trial(self.spec, self.rig, self.journal, Event.ABANDON, why)
        if row is not None:
            campaign = await self.journal.call(lambda j: j.read.campaign())
            self.desk.tell(TrialEnded(row, campaign.spent, campaign.budget))

    async def _result(
        self, ending: Ending, reason: str, report: SafeReport, safe_after_s: float | None
    ) -> CampaignResult:
        space = self.spec.problem.space
        history = await self.journal.call(lambda j: j.read.history(space))
        result = CampaignResult(
            ending=ending,
            reason=reason,
            trials=len(history),
            spent=history.spent,
            budget=self.spec.problem.budget,
            safe=report,
            worst_tick_delay_s=self.tick.worst_delay_s,
            safe_after_s=safe_after_s,
        )
        self._log.info("campaign ended", ending=ending, reason=reason, trials=result.trials, safe=report.ok)
        self.desk.tell(CampaignEnded(result))
        return result

    async def _last_words(self, why: str) -> None:
        # If the journal is what failed, the error on its way out says so.
        with suppress(JournalError):
            await self.journal.call(lambda j: j.beat(ended=why))

    def _beat(self) -> None:
        self.journal.submit(lambda j: j.beat())
