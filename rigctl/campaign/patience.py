"""Waiting instead of giving up: until what is missing is there again, until a cap's window has room, after a failure.

Whatever is waited for, everything is safe meanwhile, the journal and whoever watches are told, a person may end it, and
a trip is never waited out.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from rigctl.campaign.desk import Desk
from rigctl.campaign.events import PhaseChanged
from rigctl.campaign.journal.rows import CampaignPhase
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.watchman import Watchman
from rigctl.errors import Tripped
from rigctl.rig.calendar import Hours, told
from rigctl.rig.civil import civil_now, civil_of
from rigctl.rig.protocols import Clock, Severity
from rigctl.rig.resting import Stepped, meanwhile, rest
from rigctl.rig.values import Alarm, AlarmMark

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
"""Rig seconds between a failed trial and the next one; they double from the first to the longest."""
FIRST_CALL_S = 0.5
LONGEST_CALL_S = 10.0
"""Wall seconds between two roll calls of instruments that are missing; they double likewise."""
AGAIN_S = 30.0
"""Wall seconds between two looks whether instruments can be used again."""
STEADY_CALLS = 5
"""Roll calls in a row without a fault, after which a device counts as steady."""
REMEMBERED = 20
"""Trials over which failures of one device are counted, however many good ones lie between."""
SUSPICIOUS = 3
"""Of those, as many make an alarm, and..."""
UNRELIABLE = 5
"""...as many a hold."""


@dataclass(slots=True)
class Patience:
    """Waits for everything a campaign waits for between trials; mutable, used in the event loop only."""

    journal: JournalThread
    clock: Clock
    desk: Desk
    watchman: Watchman
    clear_for_s: float
    enough: Callable[[], bool]
    """Whether a person has asked to end."""
    paused: Callable[[], str] = lambda: ""
    """Who has paused the campaign, and why; empty: nobody."""
    changed: Callable[[], bool] = lambda: False
    """Whether a person has done something to an instrument that was not looked at yet."""
    beside: Callable[[], Awaitable[object]] | None = None
    """What has to be done meanwhile, and moves nothing: outcomes of earlier trials are due."""
    make_safe: Callable[[], Awaitable[object]] | None = None
    """How everything is made safe; set by whoever runs the trials."""
    phase: CampaignPhase = "RUNNING"
    _failed: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _suspects: set[str] = field(default_factory=set)

    # phases ---------------------------------------------------------------------------------------------------------

    async def enter(self, phase: CampaignPhase, why: str, until_s: float | None = None) -> None:
        """Say and record that the campaign is in this phase now; everything is safe before it waits for anything."""
        before, self.phase = self.phase, phase
        if phase == before == "RUNNING":
            return
        if before == "RUNNING" and self.make_safe is not None:
            await self.make_safe()
        self.desk.keep_phase(phase, why, until_s)
        self.desk.tell(PhaseChanged(phase, why, until_s))

    async def until_clear(self) -> None:
        """Hold while a finding of the watch demands it, and until it has been gone for a while.

        Wait also while an interlock cannot be judged for want of a first reading: what it forbids may be so.

        Raises:
            Tripped: a finding demands the trip.
        """
        clear_at_s: float | None = None  # wall time
        while not self.enough():
            self.refuse_if_tripping()
            holding = self.watchman.demanding("hold", "fail")
            if holding:
                clear_at_s = None
                if self.phase != "HOLDING":
                    await self.enter("HOLDING", "; ".join(map(str, holding)))
                self.watchman.heeded("hold")
            elif self.watchman.standing.unjudged:
                clear_at_s = None
            elif self.phase != "HOLDING":
                return
            elif clear_at_s is None:
                clear_at_s = time.monotonic() + self.clear_for_s / self.clock.speedup
            elif time.monotonic() >= clear_at_s:
                await self.enter("RUNNING", "what it held for is over")
                return
            if self.watchman.demanding("safe"):
                return
            await self._moment()

    async def _moment(self, rest_s: float | None = None) -> None:
        """Let so much rig time pass, or until the watch has looked again; then do what is due meanwhile."""
        if rest_s is None:
            await meanwhile(self.clock, self.watchman.next_look())
        else:
            await rest(self.clock, rest_s)
        if self.beside is not None:
            await self.beside()

    async def until_resumed(self) -> None:
        """Keep everything safe while a person has paused the campaign, until one resumes it.

        Raises:
            Tripped: a finding demands the trip.
        """
        while (why := self.paused()) and not self.enough() and not self.watchman.demanding("safe"):
            self.refuse_if_tripping()
            if self.phase != "PAUSED":
                await self.enter("PAUSED", why)
            await self._moment()
        if self.phase == "PAUSED":
            await self.enter("RUNNING", "a person has resumed it" if not why else "it ends")

    async def until_playable(self, nothing_left: Callable[[], str], look: Callable[[], Awaitable[object]]) -> None:
        """Hold while no control set can be played; look again when a person has done something, and now and then."""
        pause_s = 0.0
        while (why := nothing_left()) and not self.enough() and not self.paused():
            if self.phase != "HOLDING":
                await self.enter("HOLDING", why)
                self._waits("campaign", "nothing playable", f"everything is safe and waits: {why}")
            self.refuse_if_tripping()
            if self.watchman.demanding("hold", "fail", "safe"):
                return
            await self._moment()
            pause_s += self.watchman.period_s
            if self.changed() or pause_s >= AGAIN_S:
                pause_s = 0.0
                await look()
        if self.phase == "HOLDING" and not self.enough():  # else it ends, whatever it held for
            self._waits("campaign", "nothing playable", "something can be played again; the campaign goes on", "over")
            await self.enter("RUNNING", "what it held for is over")

    def _waits(self, source: str, kind: str, message: str, state: AlarmMark = "stands") -> None:
        severity = Severity.MAJOR if state == "stands" else Severity.MINOR
        self.desk.alarm(Alarm(severity, source, message, kind=kind, state=state))

    def refuse_if_tripping(self) -> None:
        """Raise `Tripped` if a finding that stands demands it."""
        for finding in self.watchman.demanding("trip"):
            raise Tripped(str(finding))

    # after a failure ------------------------------------------------------------------------------------------------

    async def until_good(self, wrong: Callable[[], Awaitable[Mapping[str, str]]]) -> bool:
        """Hold until `wrong`, asked ever less often, names no instrument; return whether that had to be waited for."""
        found = await wrong()
        if not found:
            return False
        pause_s = FIRST_CALL_S
        listing = "; ".join(f"{name}: {why}" for name, why in found.items())
        await self.enter("HOLDING", listing)
        source, waits = ", ".join(found), "everything is safe and waits until this is mended"
        self._waits(source, "missing", f"{waits}: {listing}")
        while found and not self.enough():
            self.refuse_if_tripping()
            await self._moment(pause_s * self.clock.speedup)
            pause_s = min(2 * pause_s, LONGEST_CALL_S)
            found = await wrong()
        if not found:
            self._waits(source, "missing", "what the campaign held for is mended; it goes on", "over")
            await self.enter("RUNNING", "mended")
        return True

    async def until_steady(self, device: str, wrong: Callable[[], Awaitable[Mapping[str, str]]]) -> None:
        """Hold until a device that keeps failing has answered every call for a while."""
        why = f"{device} has failed {UNRELIABLE} of the last {REMEMBERED} trials; it must answer steadily first"
        await self.enter("HOLDING", why)
        self._waits(device, "unreliable", f"everything is safe and waits: {why}")
        since_s, calls = time.monotonic(), 0
        steady_s = self.clear_for_s / self.clock.speedup
        while not self.enough() and (time.monotonic() - since_s < steady_s or calls < STEADY_CALLS):
            self.refuse_if_tripping()
            await self._moment(FIRST_CALL_S * self.clock.speedup)
            calls += 1
            if await wrong():
                since_s, calls = time.monotonic(), 0
        if not self.enough():
            self._waits(device, "unreliable", "it answers steadily; the campaign goes on", "over")
        await self.enter("RUNNING", f"{device} answers steadily")

    async def back_off(self, failures: int) -> None:
        """Let time pass after so many failed trials in a row."""
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (failures - 1), LONGEST_PAUSE_S)
        await self.wait_until(self.clock.now_s() + pause_s, f"{failures} failed in a row")

    async def wait_until(self, until_s: float, why: str, sooner_s: Callable[[], float] = lambda: math.inf) -> None:
        """Wait for a rig time, or one that turns out to be sooner, or until the watch or a person demands something."""
        left_s = (until_s - self.clock.now_s()) / self.clock.speedup
        end_s = time.monotonic() + left_s
        told = left_s > 1.0  # wall seconds; a moment is not worth a word
        try:
            if told:
                until = datetime.now(UTC).astimezone() + timedelta(seconds=left_s)  # for people
                await self.enter("WAITING", f"until {until:%Y-%m-%d %H:%M:%S %Z}: {why}", until_s)
            while (left_s := self._left_s(min(until_s, sooner_s()), end_s)) > 0 and not self.enough():
                self.refuse_if_tripping()
                if self.watchman.demanding("hold", "safe") or self.paused() or self.changed():
                    break
                await self._moment(min(left_s, 1.0) * self.clock.speedup)
        finally:  # a trial that waits is broken off, too; what waits already is not made safe again
            if told and self.phase == "WAITING":
                await self.enter("RUNNING", "the wait is over")

    async def until_known(self, why: str, until_s: float, known: Callable[[], bool]) -> None:
        """Wait, everything safe, for an outcome: until it is `known`, this rig time, or somebody demands something."""
        await self.enter("WAITING", why, until_s)
        while (left_s := until_s - self.clock.now_s()) > 0 and not (known() or self.enough() or self.paused()):
            self.refuse_if_tripping()
            if self.watchman.demanding("hold", "fail", "safe"):
                break
            await self._moment(min(left_s, self.clock.speedup))
        await self.enter("RUNNING", "the wait is over")

    async def until_open(self, hours: Hours | None, for_s: float) -> bool:
        """Wait, everything safe, until these hours are open for so long; return whether that had to be waited for.

        It may return before they are: because the watch or a person demands something.
        """
        now_s = civil_now(self.clock)
        if hours is None or now_s is None or self.enough() or self.watchman.demanding("safe"):
            return False
        opens_s = hours.opens_s(now_s, for_s)
        if opens_s <= now_s:
            return False
        why = f"trials may run {hours}; the next may begin on {told(hours.zone, opens_s)}"
        await self.until_civil(opens_s, why)
        return True

    async def until_civil(self, civil_s: float, why: str) -> None:
        """Wait for an instant of civil time, as `wait_until`; not at all if it is never, or nobody knows the time."""
        civil = civil_of(self.clock)
        if civil is not None and civil_s < math.inf:  # the wall clock may be set right meanwhile
            await self.wait_until(civil.rig_s(civil_s), why, lambda: civil.rig_s(civil_s))

    def _left_s(self, until_s: float, end_s: float) -> float:
        # a stepped clock may stand still meanwhile: then nobody knows at what wall time it will be so late
        left_s = (until_s - self.clock.now_s()) / self.clock.speedup
        return left_s if isinstance(self.clock, Stepped) else min(left_s, end_s - time.monotonic())

    def blame(self, devices: frozenset[str]) -> str:
        """Count a trial against the devices that failed it (none: it went well); return an unreliable one."""
        self._failed.append(devices)
        for device in devices:
            count = sum(device in failed for failed in self._failed)
            if count >= UNRELIABLE:
                self._failed.clear()
                self._suspects.discard(device)
                return device
            if count >= SUSPICIOUS and device not in self._suspects:
                self._suspects.add(device)
                what = f"failed {count} of the last {len(self._failed)} trials"
                message = f"{what}; read why, then look at its wiring and supply"
                self.desk.alarm(Alarm(Severity.MAJOR, device, message, kind="fails often"))
        return ""


@dataclass(slots=True)
class StopRequest:
    """Holds what somebody has asked for; mutable, shared by the runner and who asks."""

    finish: str | None = None
    """End after the trial under way; why."""
    abandon: str | None = None
    """End now, in mid-trial; why."""
    pause: str = ""
    """Begin no trial until this is empty again: who asked for it, and why."""
    corrected: bool = False
    """Whether a past trial is another than it was when the runner last read it."""
