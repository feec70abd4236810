"""The watch's loop: every second, from the moment the rig is opened until it is closed, whatever a trial is doing.

It gathers a snapshot without waiting for anybody, holds it against the rules, and acts: alarms are raised, and whoever
runs trials is told of what demands more than that. The service manager's watchdog is fed by a completed look alone.
"""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import floor, log
from pathlib import Path
from typing import Any, TypeVar

from rigctl.campaign.desk import Desk
from rigctl.campaign.events import RigSeen
from rigctl.campaign.journal.past import synchronised
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.watch import Finding, Snapshot, Standing, WatchRule, judge
from rigctl.errors import RigctlError, UsageError
from rigctl.rig.clocks import Civil, Clock
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import Action, RigSpec
from rigctl.rig.values import Alarm, AlarmMark, RigGlance

T = TypeVar("T")

# The wall clock -------------------------------------------------------------------------------------------------------
#
# On a real rig civil time is the wall clock's, compared once when a process begins. What the system's clock is
# corrected by little by little is followed. A jump is an alarm; it is followed only once the system says that its clock
# is synchronised, because a wrong clock is set right as often as a right one is set wrong. Beside a simulated rig a
# campaign begins at an instant of its own, and rig time goes on from there.


FOLLOWED_S = 5.0
"""A difference of at most so many seconds between two looks is a correction, not a jump."""


async def begin_civil(journal: JournalThread, rig: RigSpec, clock: Clock) -> Wall | None:
    """Say what civil time it is by this clock, once the process has begun; return what compares the wall with it.

    Raises:
        UsageError: hours or tariffs are to be kept by a clock that cannot carry civil time.
    """
    civil = clock.civil
    if civil is None:
        if rig.calendar:
            raise UsageError("`allowed` and tariffs need civil time, and this clock carries none")
        return None
    time, first = await journal.call(lambda j: (j.time, j.read.starts()[0]))
    if clock.speedup == 1:
        civil.set(clock.now_s(), time.wall().timestamp())
    else:
        begins_s = datetime.fromisoformat(first.utc).timestamp() if rig.begins_s is None else rig.begins_s
        civil.set(first.at_s - time.offset_s, begins_s)
    return Wall(civil, clock, lambda: time.wall().timestamp())


@dataclass(frozen=True, slots=True)
class Wall:
    """Compares the wall clock with the civil time that rig time has carried on."""

    civil: Civil
    clock: Clock
    now: Callable[[], float]
    """Seconds since 1970 by the wall clock."""
    right: Callable[[], bool] = synchronised

    def compare(self) -> str:
        """Return what is wrong with the wall clock; follow it where that is plausible."""
        rig_s, wall_s = self.clock.now_s(), self.now()
        known_s = self.civil.at(rig_s)
        if known_s is None or self.clock.speedup != 1 or self.clock.stepped:
            return ""
        jump_s = wall_s - known_s
        followed = abs(jump_s) <= FOLLOWED_S or self.right()
        if followed:
            self.civil.set(rig_s, wall_s)
        if abs(jump_s) <= FOLLOWED_S:
            return ""
        then = "it is synchronised, so hours and tariffs follow it"
        if not followed:
            then = "hours and tariffs do not follow it before it is synchronised, or this program is started anew"
        return f"the wall clock was set by {jump_s:+.0f} s; waits, caps and rates are not affected; {then}"


# Lateness, counted by size: the counts take the same room after a month -----------------------------------------------

LEAST_S = 1e-4
"""Below that a look counts as in time."""
STEP = 1.1
"""Ratio of one size to the next: quantiles are told to a tenth of themselves."""


@dataclass(slots=True)
class Lateness:
    """Counts how late looks came, wall seconds; mutable."""

    worst_s: float = 0.0
    rounds: int = 0
    _sizes: Counter[int] = field(default_factory=Counter)

    def add(self, late_s: float) -> None:
        self.worst_s = max(self.worst_s, late_s)
        self.rounds += 1
        self._sizes[floor(log(max(late_s, LEAST_S) / LEAST_S, STEP)) + 1 if late_s > LEAST_S else 0] += 1

    def quantile_s(self, share: float) -> float:
        """Return a delay that this share of all looks did not exceed; 0 before the first."""
        left = share * self.rounds
        for size, count in sorted(self._sizes.items()):
            left -= count
            if left <= 0:
                return min(LEAST_S * STEP**size, self.worst_s)
        return self.worst_s

    def to_json(self) -> Mapping[str, float]:
        """Return how many looks there were, and how late their median, 99th percentile and worst came."""
        quantiles = {"late_p50_s": self.quantile_s(0.5), "late_p99_s": self.quantile_s(0.99)}
        return {"looks": self.rounds, **quantiles, "late_max_s": self.worst_s}


# The loop -------------------------------------------------------------------------------------------------------------

LASTING: tuple[Action, ...] = ("hold", "safe", "trip")
"""Actions whose consequence outlasts their cause, and the trial it was found in."""


@dataclass(slots=True)
class Surroundings:
    """Looks at what is outside the rig, in threads: a disk that hangs must not hang the watch."""

    directory: Path
    missing: Callable[[], str]
    """What is wrong with journal and lock."""
    _known: Snapshot = field(default_factory=lambda: Snapshot(0.0))
    _busy: bool = False

    def known(self) -> Snapshot:
        """Return disk space and files as last seen; begin another look unless one is under way."""
        if not self._busy:
            self._busy = True
            threading.Thread(target=self._see, name="surroundings", daemon=True).start()
        return self._known

    def _see(self) -> None:
        try:
            disk = shutil.disk_usage(self.directory)
            free, size = float(disk.free), float(disk.total)
            self._known = Snapshot(0.0, missing=self.missing(), free_bytes=free, disk_bytes=size)
        except OSError as error:
            self._known = Snapshot(0.0, missing=f"{self.directory}: {error.strerror or error}")
        finally:
            self._busy = False


@dataclass(slots=True)
class Watchman:
    """Looks once a period, and remembers what stands; mutable, used in the event loop only."""

    rules: tuple[WatchRule, ...]
    clock: Clock
    desk: Desk
    surroundings: Surroundings
    journal_s: Callable[[], float]
    """Wall seconds the journal's oldest call has been waiting."""
    alive: Callable[[], object]
    """Pats the service manager's watchdog."""
    beat: Callable[[], None]
    """Has a heartbeat written, without waiting for it; at a low rate, since each is an fsync."""
    period_s: float = 1.0
    beats_every_s: float = 30.0
    rig: Callable[[], RigGlance] | None = None
    """Set from the moment the rig is open."""
    untold: Callable[[], str] = lambda: ""
    """Why people cannot be told of anything; empty: they can."""
    demand: Callable[[Finding], None] | None = None
    """Told of every finding that asks for more than an alarm."""
    wall: Wall | None = None
    """Set from the moment civil time is known."""
    standing: Standing = field(init=False)
    unheeded: list[Finding] = field(default_factory=list)
    """What has demanded a hold, the end or the trip, and was not acted upon yet; over or not, it is owed."""
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set after every look; whoever waits for the next one clears it."""
    lateness: Lateness = field(default_factory=Lateness)

    def __post_init__(self) -> None:
        self.standing = judge(self.rules, Standing(), Snapshot(0.0)).standing  # nothing is seen, nothing judged yet

    async def run(self) -> None:
        """Look until cancelled; a look that comes late is not made up for, but is told."""
        loop = asyncio.get_running_loop()
        next_beat = loop.time()
        while True:
            due = loop.time() + self.period_s
            await asyncio.sleep(self.period_s)
            now = loop.time()
            late_s = now - due
            self.lateness.add(late_s)
            self.round(late_s)
            self.alive()
            if now >= next_beat:
                next_beat = now + self.beats_every_s
                self.beat()

    def round(self, late_s: float = 0.0) -> None:
        seen = replace(
            self.surroundings.known(),
            now_s=self.clock.now_s(),
            rig=RigGlance() if self.rig is None else self.rig(),
            late_s=late_s,
            journal_s=self.journal_s(),
            civil_s=self.clock.civil_s(),
            wall="" if self.wall is None else self.wall.compare(),
            untold=self.untold(),
        )
        verdict = judge(self.rules, self.standing, seen)
        self.standing = verdict.standing
        self.desk.tell(RigSeen(seen.now_s, seen.rig.readings, max(0.0, late_s), seen.rig.exchanges))
        for finding in verdict.new:
            severity = Severity.MINOR if finding.then == "warn" else Severity.MAJOR
            self.desk.alarm(_alarm(finding, severity, "stands"))
            if finding.then == "trip":  # whatever becomes of this process
                self.desk.latch(str(finding))
            if finding.then in LASTING:
                self.unheeded.append(finding)
            if finding.then != "warn" and self.demand is not None:
                self.demand(finding)
        for finding in verdict.over:
            self.desk.alarm(_alarm(finding, Severity.MINOR, "over"))
        self.looked.set()

    def demanding(self, *actions: Action) -> tuple[Finding, ...]:
        """Return the findings that ask for one of these, and stand or were not heeded yet."""
        stand = self.standing.demanding(*actions)
        return (*stand, *(f for f in self.unheeded if f.then in actions and f not in stand))

    def heeded(self, action: Action) -> None:
        """Note that what has asked for this so far has been done; only what stands asks on."""
        self.unheeded = [f for f in self.unheeded if f.then != action]

    async def next_round(self) -> None:
        self.looked.clear()
        await self.looked.wait()


class Interrupted(RigctlError):
    """Says that the watch demands the end of the trial under way."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


@dataclass(slots=True)
class Breakable:
    """Runs one piece of work at a time, which a finding may break off; mutable, used in the event loop only."""

    _work: asyncio.Task[Any] | None = None
    _why: Finding | None = None
    """What has broken it off."""

    @property
    def busy(self) -> bool:
        """Tell whether something is under way."""
        return self._work is not None and not self._work.done()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it as a task of its own; raise `Interrupted` if it is broken off."""
        self._work = made = asyncio.create_task(work)
        try:
            return await made
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._why is None or (task is not None and task.cancelling()):
                raise
            raise Interrupted(self._why) from None
        finally:
            self._work = self._why = None

    def break_off(self, finding: Finding) -> bool:
        """Break off what is under way, unless that was done already; tell whether there is anything."""
        if self._work is None or self._work.done():
            return False
        if self._why is None:
            self._why = finding
            self._work.cancel()
        return True


def _alarm(finding: Finding, severity: Severity, state: AlarmMark) -> Alarm:
    """Return what is told of a finding; source and message do not repeat each other."""
    source, message = (finding.subject, str(finding)) if finding.subject else (finding.rule, finding.why)
    return Alarm(severity, source, message, kind=finding.rule, state=state, action=finding.then)
