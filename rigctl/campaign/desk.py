"""Where everything a person should know goes: the log, the journal, whoever watches, the service manager.

And what all parts of a running campaign work with.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from rigctl.campaign.events import Batches, CampaignEvent, Listener, TrialEnded
from rigctl.campaign.journal.alarms import AlarmKey
from rigctl.campaign.journal.rows import CampaignPhase, TrialRow
from rigctl.campaign.journal.thread import JournalThread
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.spec import CampaignSpec
from rigctl.logs import logger
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, News

if TYPE_CHECKING:
    from rigctl.rig.rig import Rig

P = TypeVar("P")

MORE_TIME_S: Final = 30.0
"""Wall seconds that each round of the watch asks for while the process starts or ends; three rounds if rare."""
MOST_ROUNDS: Final = 600
"""So many of them at most: a start or an end that never comes to its end is the service manager's to end."""


class Desk(News):
    """Passes news on. Nothing that goes wrong here may disturb the trial."""

    def __init__(self, journal: JournalThread, listener: Listener, lines: Iterable[str] = ()) -> None:
        self._lines: dict[str, dict[str, Alarm]] = {line: {} for line in lines}
        """What stands of each line, by kind; the first is told of, the others under it."""
        self._journal = journal
        self._listener = listener
        self._log = logger("rigctl.campaign")

    def tell(self, event: CampaignEvent) -> None:
        try:
            self._listener(event)
        except Exception:  # noqa: BLE001 - a display that fails must not stop the rig (fault 46)
            self._log.warning("listener failed", campaign_event=type(event).__name__, exc_info=True)

    async def tell_of_end(self, row: TrialRow) -> None:
        campaign = await self._journal.call(lambda j: j.read.campaign())
        batches = Batches(campaign.batches, campaign.operated) if row.operated else None
        self.tell(TrialEnded(row, campaign.spent, campaign.budget, batches))

    def alarm(self, alarm: Alarm) -> None:
        """Log, keep and show an alarm; does not wait for the journal. All active alarms of one line are one alarm."""
        if alarm.source in self._lines and alarm.state != "once":
            joined = _of_line(self._lines[alarm.source], alarm)
            if joined is None:
                self._log.info("alarm of a line", kind=alarm.kind, source=alarm.source, message=alarm.message)
                return
            alarm = joined
        level = self._log.error if alarm.severity >= Severity.MAJOR else self._log.warning
        if sys.stderr.isatty():  # whoever looks on there is told in words
            level = self._log.debug
        known = {name: text for name, text in (("state", alarm.state), ("action", alarm.action)) if text}
        what = {"kind": alarm.kind, "source": alarm.source, "message": alarm.message}
        level("alarm", severity=alarm.severity.name, **what, **known)
        self.keep("alarm", lambda j: j.alarms.add(alarm))
        self.tell(alarm)

    def latch(self, reason: str) -> None:
        """Keep a trip, which must outlive this process; the first reason stays."""
        self.keep("trip", lambda j: j.trips.latch(reason))

    def keep(self, what: str, work: Callable[[Journal], object]) -> None:
        """Have something written into the journal without waiting for it."""

        def written(done: Future[Any]) -> None:
            error = None if done.cancelled() else done.exception()
            if error is not None:
                self._log.error("not kept in the journal", what=what, error=str(error))

        self._journal.submit(work).add_done_callback(written)

    def keep_phase(
        self, phase: CampaignPhase, why: str, until_s: float | None = None, since_s: float | None = None
    ) -> None:
        """Keep what the campaign is in: what it costs while it holds or waits is told by that; see `Journal.phase`."""
        self.keep("phase", lambda j: j.phase(phase, why, until_s, since_s))


def _of_line(standing: dict[str, Alarm], alarm: Alarm) -> Alarm | None:
    """Take in an alarm of a line; return what people are told: the first, what is worse, what is left, the last end."""
    told = next(iter(standing.values()), alarm)
    standing.pop(alarm.kind, None)
    if alarm.state == "stands":
        first = told.kind == alarm.kind or (alarm.severity, alarm.action != "") > (told.severity, told.action != "")
        rest = dict(standing)
        standing.clear()
        standing |= {alarm.kind: alarm, **rest} if first else {**rest, alarm.kind: alarm}
        return replace(alarm, kind="line") if first else None
    return replace(next(iter(standing.values()), alarm), kind="line") if told.kind == alarm.kind else None


@dataclass(slots=True)
class StopRequest:
    """Holds what somebody has asked for; mutable, shared by the loop and who asks."""

    finish: str | None = None
    """End after the trial under way; why."""
    abandon: str | None = None
    """End now, in mid-trial; why."""
    pause: str = ""
    """Begin no trial until this is empty again: who asked for it, and why."""
    corrected: bool = False
    """Whether a past trial is another than it was when the loop last read it."""


@dataclass(slots=True)
class CampaignPart:
    """A part of a running campaign: what all of them work with."""

    spec: CampaignSpec
    rig: Rig
    journal: JournalThread
    clock: Clock
    desk: Desk
    stop: StopRequest

    def part(self, kind: Callable[..., P], *more: object) -> P:
        """Make another part of the same campaign, of this kind and what it works with besides."""
        return kind(self.spec, self.rig, self.journal, self.clock, self.desk, self.stop, *more)


@dataclass(frozen=True, slots=True)
class Stands:
    """Something that stands, as people are told of it."""

    kind: str
    source: str
    says: str
    over: str
    """What is said once it is gone."""
    severity: Severity = Severity.MAJOR


@dataclass(slots=True)
class StandingNews:
    """What stands of one part of a campaign; mutable, used in the event loop only."""

    desk: Desk
    _told: dict[AlarmKey, Stands] = field(default_factory=dict)

    def __contains__(self, key: AlarmKey) -> bool:
        return key in self._told

    def are(self, now: Iterable[Stands]) -> None:
        """Tell what is new, and what is gone."""
        found = {(one.kind, one.source): one for one in now}
        for gone in (one for key, one in self._told.items() if key not in found):
            self.desk.over(gone.source, gone.over, kind=gone.kind)
        for new in (one for key, one in found.items() if key not in self._told):
            self.desk.alarm(Alarm(new.severity, new.source, new.says, kind=new.kind, state="stands"))
        self._told = found


class ServiceManager:
    """Tells the service manager how the process stands; mutable, used in the event loop only.

    Its watchdog is fed by `looked` alone, which the watch calls after a completed look.
    """

    def __init__(self, every_s: float = 1.0, environment: Mapping[str, str] = os.environ) -> None:
        self._environment = environment
        self._more_us = round(max(MORE_TIME_S, 3 * every_s) * 1e6)
        self._said = ""
        self._running = False
        self._asked = 0

    def ready(self) -> None:
        """Report that everything is safe and trials are starting."""
        self._running = True
        self._tell("READY=1")

    def stopping(self) -> None:
        self._running, self._asked = False, 0
        self._tell("STOPPING=1")

    def looked(self, said: str) -> None:
        """Feed the watchdog; ask for more time while the process starts or ends; say how the campaign stands."""
        self._tell("WATCHDOG=1")
        if not self._running and self._asked < MOST_ROUNDS:
            self._asked += 1
            self._tell(f"EXTEND_TIMEOUT_USEC={self._more_us}")
        if said != self._said:
            self._said = said
            self._tell(f"STATUS={said}")

    def _tell(self, message: str) -> None:
        notify(message, self._environment)


def notify(message: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send e.g. `READY=1` or `WATCHDOG=1` to `$NOTIFY_SOCKET`; return whether it was sent.

    Protocol: sd_notify(3). A leading `@` means an abstract socket.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
        # The manager not listening is its own affair; trials go on.
        out.setblocking(False)
        try:
            out.sendto(message.encode(), "\0" + address[1:] if address.startswith("@") else address)
        except OSError:
            return False
    return True
