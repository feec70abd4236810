"""Outcomes that come after the rig has done its part of a trial: read when it is time, waited for, given up.

The trial is charged by then and is never charged again. A person's outcome comes by `give`, whoever asks for it; a
sensor's is read between trials, in whatever wait, or while another one settles: reading moves nothing. What is due is
counted in campaign time, and across a boot by the wall clock if that says it is later; nothing is given up by a wall
clock that nobody keeps right. One sensor reads one outcome at a time: the last that is due.
"""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from rigctl.campaign.desk import CampaignPart
from rigctl.campaign.events import OutcomeCame
from rigctl.campaign.instruments import SENSOR, judged_late
from rigctl.campaign.journal.beside import CAMPAIGN
from rigctl.campaign.journal.past import synchronised
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.trial import State
from rigctl.errors import DeviceError, RigctlError, counted, in_words
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import OutcomeSpec
from rigctl.rig.values import Measurement
from rigctl.text import lasting, told_utc

SOON: Final = 0.2
"""Of the time that there is for an outcome: when so much is left, people are told."""
RETRY: Final = 0.02
"""Of the same: a sensor that gave nothing, or would by a clock that is wrong, is read again after so much."""
LATE: Final = 0.05
"""Of the time after which a sensor is read: if it is read so much later, that is noted, and it must be the last due."""


@dataclass(slots=True)
class Awaiting(CampaignPart):
    """Waits for outcomes beside the trials of one process; mutable, used in the event loop only."""

    _again_s: dict[int, float] = field(default_factory=dict)
    """When sensors that gave nothing are read again, by trial, rig time."""
    _warned: set[int] = field(default_factory=set)
    """Trials of which people were told: that it is nearly too late, or that their sensor gave nothing."""
    _last_read: int = 0
    """The last trial whose outcome a sensor gave to this process."""
    _given_up: list[str] = field(default_factory=list)
    """Since the last outcome that came: trials of this process's that were given up, and why."""

    @property
    def late(self) -> OutcomeSpec | None:
        return self.spec.rig.late

    async def attend(self) -> None:
        """Read what is due, give up what is overdue, and tell people of what soon will be."""
        if self.late is None:
            return
        late, (waiting, sure) = self.late, await self._waiting()
        for trial, left_s in waiting.items():
            if late.by == "sensor":
                await self._read(trial, late, waiting, sure)
            elif sure[trial] <= 0:
                await self._give_up(trial, late, f"nobody has said it within {lasting(late.until_s)}")
            elif left_s <= SOON * late.until_s:
                await self._warn(trial)

    async def _waiting(self) -> tuple[Mapping[int, float], Mapping[int, float]]:
        """Return the rig seconds until each outcome is due: as far as can be told, and for certain."""
        right = synchronised()
        return await self.journal.call(lambda j: (j.awaited.waiting(), j.awaited.waiting(by_wall=right)))

    async def next_s(self) -> float:
        """Return the rig time at which `attend` will have something to do, as far as is known; infinity: never."""
        if self.late is None:
            return math.inf
        (waiting, sure), now_s = await self._waiting(), self.clock.now_s()
        if self.late.by == "hand":
            soon_s = SOON * self.late.until_s
            left = [sure[n] if n in self._warned else left_s - soon_s for n, left_s in waiting.items()]
            return now_s + min(left, default=math.inf)
        return min((max(now_s + s, self._again_s.get(n, now_s)) for n, s in waiting.items()), default=math.inf)

    async def in_the_way(self) -> str:
        """Say why no trial may begin yet; empty: one may."""
        if self.late is None:
            return ""
        waiting = await self.journal.call(lambda j: j.awaited.waiting())
        if waiting and self.late.then == "hold":
            return f"the outcome of {_listed(waiting)} is awaited before the next trial{self._how(self.late)}"
        if len(waiting) >= self.late.pending:
            many = counted(len(waiting), "trial")
            return f"the outcomes of {many} are awaited, no more may be under way{self._how(self.late)}"
        return ""

    def refuse_blind(self, most: int) -> None:
        """Let no trial be paid for whose outcome will hardly come.

        Raises:
            DeviceError: so many in a row were given up.
        """
        if len(self._given_up) >= most:
            lost = f"{counted(len(self._given_up), 'outcome')} in a row did not come, the last one, of"
            raise DeviceError(f"{lost} {self._given_up[-1]}; see to it that they do, then run again")

    async def outstanding(self) -> str:
        """Say whose outcomes a campaign that is over waits for; empty: none's."""
        if self.late is None or self.late.at_end == "end":
            return ""
        waiting = await self.journal.call(lambda j: j.awaited.waiting())
        return f"the outcome of {_listed(waiting)} is awaited{self._how(self.late)}" if waiting else ""

    @staticmethod
    def _how(late: OutcomeSpec) -> str:
        """Say how a person ends that; nothing where sensors do."""
        return ": `rigctl trial outcome TRIAL VALUE` records it" if late.by == "hand" else ""

    # one trial ------------------------------------------------------------------------------------------------------

    async def _read(
        self, trial: int, late: OutcomeSpec, waiting: Mapping[int, float], sure: Mapping[int, float]
    ) -> None:
        """Read the sensors of a trial that is due; again and again, until they give something or it is too late."""
        now_s, left_s = self.clock.now_s(), waiting[trial]
        if left_s > 0 or now_s < self._again_s.get(trial, 0.0):
            return
        if self._over(trial, late, waiting):
            self._again_s[trial] = now_s + RETRY * late.until_s
            why = self._over(trial, late, sure)
            if why:
                await self._give_up(trial, late, why)
            return
        measured: Mapping[str, Measurement] = {}
        try:
            measured = await self.rig.measure(late=True)
        except Exception as error:  # noqa: BLE001 - a plug-in's mistake, too, costs this reading, not the campaign
            wrong = in_words(error)
            detail = "" if isinstance(error, RigctlError) else "".join(traceback.format_exception(error))
        else:
            detail = ""
            measured = await self.journal.call(judged_late, self.spec.rig, trial, measured)
            wrong = "; ".join(
                f"{n}: {_wrong(measured.get(n))}" for n in self.spec.rig.late_names if _wrong(measured.get(n))
            )
        self._again_s[trial] = self.clock.now_s() + RETRY * late.until_s  # also if it cannot be recorded
        if wrong:
            if trial not in self._warned:
                self._warned.add(trial)
                message = f"trial {trial}: its outcome could not be read, and is tried again: {wrong}"
                self.desk.minor("trial", message, detail, kind="outcome unread")
            return
        note = f"read {lasting(-left_s)} late" if -left_s > LATE * late.due_s else "read when it was due"
        if await self._came(trial, {name: measured[name].value for name in self.spec.rig.late_names}, SENSOR, note):
            self._last_read = max(self._last_read, trial)

    def _over(self, trial: int, late: OutcomeSpec, left: Mapping[int, float]) -> str:
        """Say why a sensor is not read any more for a trial, with these rig seconds left; empty: it still is."""
        patience_s, passed_s = late.until_s - late.due_s, -left[trial]
        if passed_s > patience_s:
            gone = "its sensor gave nothing" if trial in self._warned else "it could not be read"
            return f"{gone} within {lasting(patience_s)} after it was due"
        later = max([self._last_read, *(n for n, left_s in left.items() if left_s <= 0)])
        if passed_s <= LATE * late.due_s or later <= trial:
            return ""
        return f"its time was {lasting(passed_s)} ago, and what its sensor reads now is trial {later}'s"

    async def _give_up(self, trial: int, late: OutcomeSpec, why: str) -> None:
        if await self._came(trial, dict.fromkeys(self.spec.rig.late_names), CAMPAIGN, why):
            if late.by == "hand" or trial in self._warned:  # else nobody was there to read it
                self._given_up.append(f"trial {trial}: {why}")
            message = f"trial {trial}: given up without an outcome, its cost stays spent: {why}"
            message += "; `rigctl trial outcome --force` takes one still"
            self.desk.major("trial", message, kind="no outcome")

    async def _came(self, trial: int, outcomes: Mapping[str, float | None], who: str, why: str) -> bool:
        """Record it and tell of it, unless a person has said meanwhile what came; return whether it was recorded."""

        def come(journal: Journal) -> bool:
            awaited = journal.read.trial(trial).state is State.AWAITING
            if awaited:
                journal.awaited.come(trial, outcomes, who, why)
            return awaited

        recorded = await self.journal.call(come)
        if recorded:
            await self.tell(trial)
        return recorded

    async def tell(self, trial: int) -> None:
        """Tell of an outcome that has come, or was given up; the next decision will know."""
        self.stop.corrected = True
        row = await self.journal.call(lambda j: j.read.trial(trial))
        if row.outcome is not None:
            self._given_up.clear()
        left = len(await self.journal.call(lambda j: j.awaited.waiting()))
        self.desk.tell(OutcomeCame(row, left))

    async def _warn(self, trial: int) -> None:
        if trial in self._warned:
            return
        self._warned.add(trial)
        row = await self.journal.call(lambda j: j.read.trial(trial))
        until = "" if row.awaited is None else f" until {told_utc(row.awaited.due_utc)}"
        how = f"`rigctl trial outcome {trial} VALUE` records {', '.join(self.spec.rig.late_names)}"
        self.desk.minor("trial", f"trial {trial}: its outcome is awaited{until}: {how}", kind="outcome awaited")


def _wrong(measured: Measurement | None) -> str:
    """Say what is wrong with a measurement; empty: nothing."""
    if measured is None:
        return "not measured"
    bad = measured.severity >= Severity.INVALID or not math.isfinite(measured.value)
    return (measured.detail or "INVALID") if bad else ""


def _listed(waiting: Mapping[int, float]) -> str:
    numbers = [str(n) for n in waiting]
    shown = ", ".join(numbers if len(numbers) <= 5 else [*numbers[:4], f"and {len(numbers) - 4} more"])
    return f"trial {shown}" if len(numbers) == 1 else f"trials {shown}"
