"""The watch's loop: every second, from the moment the rig is opened until it is closed, whatever a trial is doing.

It gathers a snapshot without waiting for anybody, holds it against the rules, and acts: alarms are raised, and whoever
runs trials is told of what demands more than that. The service manager's watchdog is fed by a completed look alone.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rigctl.campaign.desk import Desk
from rigctl.campaign.events import RigSeen
from rigctl.campaign.lateness import Lateness
from rigctl.campaign.wall import Wall
from rigctl.campaign.watch import Finding, Rule, Snapshot, Standing, look
from rigctl.errors import RigctlError
from rigctl.rig.civil import civil_now
from rigctl.rig.protocols import Clock, Severity
from rigctl.rig.spec import Action
from rigctl.rig.values import Alarm, AlarmMark, Glance

LASTING: tuple[Action, ...] = ("hold", "safe", "trip")
"""Actions whose consequence outlasts their cause, and the trial it was found in."""


@dataclass(slots=True)
class Surroundings:
    """Looks at what is outside the rig, in threads: a disk that hangs must not hang the watch."""

    directory: Path
    missing: Callable[[], str]
    """What is wrong with journal and lock."""
    _known: Snapshot = field(default_factory=lambda: Snapshot(0.0))
    _looking: bool = False

    def known(self) -> Snapshot:
        """Return disk space and files as last seen; begin another look unless one is under way."""
        if not self._looking:
            self._looking = True
            threading.Thread(target=self._look, name="surroundings", daemon=True).start()
        return self._known

    def _look(self) -> None:
        try:
            stat = os.statvfs(self.directory)
            free, size = float(stat.f_bavail * stat.f_frsize), float(stat.f_blocks * stat.f_frsize)
            self._known = Snapshot(0.0, missing=self.missing(), free_bytes=free, disk_bytes=size)
        except OSError as error:
            self._known = Snapshot(0.0, missing=f"{self.directory}: {error.strerror or error}")
        finally:
            self._looking = False


@dataclass(slots=True)
class Watchman:
    """Looks once a period, and remembers what stands; mutable, used in the event loop only."""

    rules: tuple[Rule, ...]
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
    rig: Callable[[], Glance] | None = None
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
        self.standing = look(self.rules, Standing(), Snapshot(0.0)).standing  # nothing is seen, nothing judged yet

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
            self.look(late_s)
            self.alive()
            if now >= next_beat:
                next_beat = now + self.beats_every_s
                self.beat()

    def look(self, late_s: float = 0.0) -> None:
        seen = replace(
            self.surroundings.known(),
            now_s=self.clock.now_s(),
            rig=Glance() if self.rig is None else self.rig(),
            late_s=late_s,
            journal_s=self.journal_s(),
            civil_s=civil_now(self.clock),
            wall="" if self.wall is None else self.wall.look(),
            untold=self.untold(),
        )
        verdict = look(self.rules, self.standing, seen)
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

    async def next_look(self) -> None:
        self.looked.clear()
        await self.looked.wait()


class Interrupted(RigctlError):
    """Says that the watch demands the end of the trial under way."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__(str(finding))


def _alarm(finding: Finding, severity: Severity, state: AlarmMark) -> Alarm:
    """Return what is told of a finding; source and message do not repeat each other."""
    source, message = (finding.subject, str(finding)) if finding.subject else (finding.rule, finding.why)
    return Alarm(severity, source, message, kind=finding.rule, state=state, action=finding.then)
