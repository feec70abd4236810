"""Waiting for what is in the way of the next trial, everything safe; and what failed trials say of instruments."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import inf

from rigctl.campaign import obstacles
from rigctl.campaign.desk import Desk, StandingNews, Stands
from rigctl.campaign.events import PhaseChanged
from rigctl.campaign.journal.rows import CampaignPhase
from rigctl.campaign.obstacles import PHASES, Obstacle
from rigctl.campaign.watchman import Watchman
from rigctl.rig.clocks import Clock

FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 600.0
"""Rig seconds between a failed trial and the next one; they double from the first to the longest."""
LONGEST_CALL_S = 10.0
"""Wall seconds between two roll calls of instruments that are missing; they double up to this."""
STEADY_CALLS = 5
"""Roll calls in a row without a fault, after which a device counts as steady."""
SUSPICIOUS = 3
"""Failures of one device among those remembered that make an alarm; `obstacles.UNRELIABLE` make a hold."""
AT_ONCE_S = 1.0
"""Wall seconds of a wait that is not worth a word."""
LEAST_S = 0.01
"""Wall seconds between two looks at something that was due already."""


@dataclass(slots=True)
class Waiting:
    """Says, records and waits for what is in the way; mutable, used in the event loop only."""

    clock: Clock
    desk: Desk
    watchman: Watchman
    first: Obstacle | None = None
    phase: CampaignPhase = "RUNNING"
    safe_s: float | None = None
    """Campaign time at which everything was made safe for it."""
    _news: StandingNews = field(init=False)

    def __post_init__(self) -> None:
        self._news = StandingNews(self.desk)

    def is_for(self, kind: str) -> bool:
        return self.first is not None and self.first.key[0] == kind

    async def enter(self, found: Sequence[Obstacle], make_safe: Callable[[], Awaitable[float]]) -> None:
        """Say what is waited for now, once everything is safe, and that what was waited for is over."""
        told = [obstacle for obstacle in found if not self._is_silent(obstacle)]
        first, before = next(iter(told), None), self.first
        if first is None:
            self._stand(found, ())
            if before is not None:
                self.first = None
                self._enter("RUNNING", before.clear)
            return
        entered = not self.is_for(first.key[0])
        if before is None or (entered and not first.kept):  # without a journal a person drives nothing, either
            self.safe_s = await make_safe()
        self.first = first
        alike = [obstacle for obstacle in told if obstacle.key[0] == first.key[0]]
        self._stand(found, alike)
        if entered:
            why = "; ".join(obstacle.why for obstacle in alike)
            at_s = first.until_s if first.until_s is not None else first.due_s
            until_s = None if at_s == inf else at_s
            self._enter(PHASES[first.kind], self._dated(first, why), until_s, kept=first.kept)

    async def moment(self, first: Obstacle) -> None:
        """Let time pass until it is worth looking again."""
        at_s = first.until_s if first.until_s is not None else first.due_s
        if at_s is not None:
            left_s = min(self._left_s(at_s), 1.0)
            await self.clock.rest((left_s if left_s > 0 else LEAST_S) * self.clock.speedup)
        elif first.every_s is not None:
            await self.clock.rest(first.every_s * self.clock.speedup)
        else:
            await self.clock.meanwhile(self.watchman.next_round())

    def _enter(self, phase: CampaignPhase, why: str, until_s: float | None = None, *, kept: bool = True) -> None:
        self.phase = phase
        if kept:
            self.desk.keep_phase(phase, why, until_s)
        self.desk.tell(PhaseChanged(phase, why, until_s))

    def _stand(self, found: Sequence[Obstacle], waited_for: Sequence[Obstacle]) -> None:
        """Tell of what is waited for; it stands as long as its obstacle does, whatever else comes first."""
        stand = [o for o in found if o.told and (o.key in self._news or o in waited_for)]
        says = "everything is safe and waits"
        self._news.are(Stands(*o.key, f"{says}: {o.why}", f"{o.clear}; the campaign continues") for o in stand)

    def _is_silent(self, obstacle: Obstacle) -> bool:
        if obstacle.silent or obstacle.until_s is None or self.is_for(obstacle.key[0]):
            return obstacle.silent
        return self._left_s(obstacle.until_s) <= AT_ONCE_S

    def _left_s(self, until_s: float) -> float:
        """Return the wall seconds until a rig time."""
        return (until_s - self.clock.now_s()) / self.clock.speedup

    def _dated(self, obstacle: Obstacle, why: str) -> str:
        """Say until when on the wall clock, as far as that is known."""
        if obstacle.until_s is None or obstacle.until_s == inf:
            return why
        until = datetime.now(UTC).astimezone() + timedelta(seconds=self._left_s(obstacle.until_s))
        return f"until {until:%Y-%m-%d %H:%M:%S %Z}: {why}"


@dataclass(slots=True)
class Failures:
    """Remembers failed trials and which devices failed them; mutable, used in the event loop only."""

    clock: Clock
    steady_s: float
    """Rig seconds for which an unreliable device must answer every call."""
    in_a_row: int = 0
    missing: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with instruments, until that is mended."""
    unsteady: str = ""
    _failed: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=obstacles.REMEMBERED))
    _suspects: set[str] = field(default_factory=set)
    _rest: tuple[float, float] = (-inf, -inf)
    """No trial before that: rig time, wall time."""
    _asked: tuple[float, float] = (-inf, 0.0)
    """When the next call is due, and the pause after it; wall seconds."""
    _steady: tuple[float, int] = (0.0, 0)
    """Since when, wall time, and for how many calls the unreliable device has answered."""

    def blame(self, devices: frozenset[str]) -> tuple[str, Mapping[str, str]]:
        """Count a trial against the devices that failed it (none: it went well).

        Returns:
            A device that is unreliable by now, and what people should know of those that fail often, by device.
        """
        self._failed.append(devices)
        suspicious: dict[str, str] = {}
        for device in devices:
            count = sum(device in failed for failed in self._failed)
            if count >= obstacles.UNRELIABLE:
                self._failed.clear()
                self._suspects.discard(device)
                return device, suspicious
            if count >= SUSPICIOUS and device not in self._suspects:
                self._suspects.add(device)
                what = f"failed {count} of the last {len(self._failed)} trials"
                suspicious[device] = f"{what}; read why, then look at its wiring and supply"
        return "", suspicious

    def hold_for(self, missing: Mapping[str, str], unsteady: str = "") -> None:
        """Let no trial begin before these are mended, or this device is steady."""
        self.missing, self.unsteady = missing, unsteady
        now_s = time.monotonic()
        self._asked, self._steady = (now_s + obstacles.ASK_S, obstacles.ASK_S), (now_s, 0)

    def back_off(self) -> None:
        """Let no trial begin for a while, longer after each failure in a row."""
        pause_s = min(FIRST_PAUSE_S * 2.0 ** (max(self.in_a_row, 1) - 1), LONGEST_PAUSE_S)
        self._rest = self.clock.now_s() + pause_s, time.monotonic() + pause_s / self.clock.speedup

    def rests_until_s(self) -> float:
        until_s, wall_s = self._rest
        # a stepped clock may stand still meanwhile: then nobody knows at what wall time it will be so late
        passed = not self.clock.stepped and time.monotonic() >= wall_s
        return -inf if passed else until_s

    async def ask_again(
        self, wrong: Callable[[], Awaitable[Mapping[str, str]]], missing: Callable[[], Awaitable[Mapping[str, str]]]
    ) -> None:
        """Find out, ever less often, whether what was wrong is mended, or the unreliable device steady."""
        (due_s, pause_s), now_s = self._asked, time.monotonic()
        if now_s < due_s:
            return
        if self.missing:
            pause_s = min(2 * pause_s, LONGEST_CALL_S)
            self.missing = await wrong()
        elif self.unsteady:
            since_s, calls = self._steady
            self._steady = (now_s, 0) if await missing() else (since_s, calls + 1)
            lasting_s = time.monotonic() - self._steady[0]
            if lasting_s >= self.steady_s / self.clock.speedup and self._steady[1] >= STEADY_CALLS:
                self.unsteady = ""
        self._asked = time.monotonic() + pause_s, pause_s
