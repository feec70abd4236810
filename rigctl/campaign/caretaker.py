"""Sees between trials which instruments may be used: what people say of them, what runs out, what is calibrated.

And which instrument stands where, pinned at the first start and compared at every later one (faults 18, 65). An
instrument is known by its model and its own number (serial number, or the name that was given to it); one without a
number by the stable name of its port. Firmware does not count: updates are welcome.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rigctl.campaign.desk import CampaignPart, StandingNews, Stands
from rigctl.campaign.instruments import (
    HOURS,
    SPENT,
    DeviceState,
    against,
    caps_reached,
    limited,
    objections,
    out_of_service,
    reopens_s,
    states_now,
    unavailable,
)
from rigctl.campaign.journal.rows import Pin
from rigctl.errors import IdentityMismatch
from rigctl.rig.calendar import told
from rigctl.rig.clocks import Clock
from rigctl.rig.places import Seen
from rigctl.rig.protocols import Calibration, Identity
from rigctl.rig.spec import DeviceSpec, RigSpec

# Who stands where -----------------------------------------------------------------------------------------------------


def pin_of(device: DeviceSpec, found: Identity) -> Pin:
    seen = Seen.at(device.url, found)
    return Pin(device.name, seen.model, seen.serial, seen.place)


def _exchanged(rig: RigSpec, changed: Sequence[Pin], known: Mapping[str, Pin]) -> str:
    """Say which instruments answer in the place of others, and what to do."""
    told = (
        f"{p.device} on {rig.devices[p.device].url}: {p} answers, but on {known[p.device].utc} it was {known[p.device]}"
        for p in changed
    )
    return (
        f"{'; '.join(told)}. Nothing was written. Connect the right instruments; or, where one was exchanged on "
        f"purpose, look at it and say so: `rigctl device accept CONFIG {changed[0].device}` (with the same --state)"
    )


def _alike(pumps: Iterable[Pin]) -> list[str]:
    """Name the pumps that could change places without anybody noticing."""
    loose = [p for p in pumps if not (p.serial or p.place)]
    models = Counter(p.model for p in loose)
    return [
        f"{', '.join(p.device for p in loose if p.model == model)}: {number} {model} that cannot be told apart: if "
        "they change ports nobody notices. Give each a name (EZO: `Name,...`) or a port under /dev/serial/by-id"
        for model, number in models.items()
        if number > 1
    ]


# What may be used -----------------------------------------------------------------------------------------------------

READ_EVERY_S = 86400.0
"""Rig seconds between two readings of what instruments say of their calibration."""
AGAIN_S = 30.0
"""Wall seconds between two looks whether instruments can be used again."""


@dataclass(slots=True)
class Caretaker(CampaignPart):
    """Knows which control sets can be played; mutable, used in the event loop only."""

    under_way: Callable[[], bool] = lambda: False
    """Whether a trial is: then nothing changes for the rig."""
    changed: bool = False
    """Whether a person has done something to an instrument since the last look."""
    barred: Mapping[int, str] = field(default_factory=dict)
    """Control sets that cannot be played, and why."""
    states: Mapping[str, DeviceState] = field(default_factory=dict)
    exhausted: set[str] = field(default_factory=set)
    """Pumps that have met a cap of the campaign."""
    over: str = ""
    """Why nothing can be played any more, whoever waits."""
    for_good: bool = False
    """Whether nothing but caps of the campaign keeps anything from being played."""
    reopens_s: float = math.inf
    """Civil time at which something can be played again that only its hours keep from it."""
    _objections: StandingNews = field(init=False)
    _read_s: float = -math.inf
    _looked_s: float = 0.0
    """When it has looked last, wall time."""
    _why: tuple[str, ...] = ()
    """Why they cannot be played, each reason once."""
    _useless: frozenset[int] | None = None
    """With these barred, for whatever reason, the policy has found nothing to play."""
    _one_at_a_time: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self._objections = StandingNews(self.desk)

    async def begin(self) -> None:
        """Leave out what is out of service, and say who stands where, before the rig is opened."""
        for pin in (await self.journal.call(lambda j: j.read.pins.by_device())).values():
            self.rig.hands.expect(pin.device, pin.seen)  # safe values reach nobody else, also if opening fails
        self.rig.hands.set_aside(frozenset(await self.journal.call(lambda j: out_of_service(j.read))))

    async def judge(self, *, read: bool = False, first: bool = False) -> None:
        """Find out what can be played now, and tell what is new; with `read` ask instruments for their calibration.

        While a trial is under way nothing changes for the rig, unless this is the `first` thing that trial does.

        Raises:
            JournalError: it cannot be read or written.
        """
        async with self._one_at_a_time:
            self.changed, self._looked_s = False, time.monotonic()
            if read or self.clock.now_s() >= self._read_s + READ_EVERY_S:
                await self.keep_calibrations(await self.rig.hands.calibrations())
                self._read_s = self.clock.now_s()
            await self._take_in(first=first)

    async def judge_again(self) -> bool:
        """Look if a person has done something, hours have opened, or nothing could be played for a while."""
        civil_s, left = self.clock.civil_s(), self.nothing_left()
        reopened = civil_s is not None and civil_s >= self.reopens_s
        again = bool(left) and time.monotonic() >= self._looked_s + AGAIN_S
        if not (self.changed or reopened or again):
            return False
        await self.judge(read=bool(left))
        return True

    async def recognise(self, found: Mapping[str, Identity]) -> Mapping[str, Seen]:
        """Compare who answers with who was pinned; pin what is new. To be called before anything is written to the rig.

        Returns:
            Who is known to stand where, by device, those among them that were not asked now.

        Raises:
            IdentityMismatch: another instrument answers than the one pinned; names all of them.
        """
        rig = self.spec.rig
        pins = [pin_of(rig.devices[name], identity) for name, identity in found.items() if name in rig.devices]
        known = await self.journal.call(lambda j: j.read.pins.by_device())
        changed = [p for p in pins if p.device in known and known[p.device] != p]
        if changed:
            raise IdentityMismatch(_exchanged(rig, changed, known), devices=[p.device for p in changed])
        new = [p for p in pins if p.device not in known]
        if new:
            await self.journal.call(lambda j: j.pins.keep(new))
        for message in _alike(p for p in pins if p.device in rig.pumps):
            self.desk.minor("pumps", message, kind="alike")
        return {pin.device: pin.seen for pin in (*known.values(), *new)}

    async def keep_calibrations(self, found: Mapping[str, Calibration], *, fresh: bool = False) -> None:
        """Record what instruments say of their calibration; `fresh`: they were calibrated just now."""
        if not found:
            return
        for device in await self.journal.call(lambda j: j.upkeep.read(found, fresh=fresh)):
            points, slopes = found[device].points, " and ".join(f"{slope:g} %" for slope in found[device].slopes)
            told = f"was calibrated since it was last asked: {points} points{f', slopes {slopes}' if slopes else ''}"
            self.desk.minor(device, told, kind="calibrated")

    def nothing_left(self) -> str:
        """Return why no control set can be played, or none that the policy would choose; empty if one can."""
        sets = self.spec.problem.space.control_sets
        if len(self.barred) < len(sets) and frozenset(self.barred) != self._useless:
            return ""
        why = "; ".join(self._why)
        return why if len(self.barred) == len(sets) else f"nothing worth a trial can be played: {why}"

    def nothing_useful(self) -> None:
        """Note that the policy proposes nothing as long as these control sets are barred."""
        self._useless = frozenset(self.barred)

    async def _take_in(self, *, first: bool) -> None:
        rig, sets = self.spec.rig, self.spec.problem.space.control_sets
        civil_s = self.clock.civil_s()
        known = await self.journal.call(states_now, rig)
        self.states = await self.journal.call(limited, rig, known, civil_s, self.exhausted)
        found = objections(rig, self.states)
        self.for_good = all(objection.kind == SPENT for objection in found if objection.forbids)
        self.over, self.reopens_s = caps_reached(rig, sets, found), reopens_s(rig, sets, found, civil_s)
        self.barred = unavailable(rig, sets, found)
        self._why = tuple(dict.fromkeys(str(o) for why in against(rig, sets, found).values() for o in why))
        told = [(o, f"{o.why}; {o.remedy}") for o in found if o.kind not in ("out", HOURS)]
        self._objections.are(Stands(o.kind, o.device, text, text, o.severity) for o, text in told)
        out = frozenset(name for name, state in self.states.items() if state.out)
        if out != self.rig.hands.aside and (first or not self.under_way()):
            await self._set_aside(out)

    async def _set_aside(self, out: frozenset[str]) -> None:
        """Make everything safe while what goes is still asked, and once more when what comes back is."""
        going = out - self.rig.hands.aside
        if going:
            report = await self.rig.safe()
            for name in going & set(report.failed):
                told = "is out of service now, but was not confirmed safe before: see to it by hand"
                self.desk.major(name, f"{told}: {report.failed[name]}", kind="left unsafe")
        coming = self.rig.hands.aside - out
        self.rig.hands.set_aside(out)
        if coming:
            await self.rig.safe()  # told if it is not; the next trial finds out as well


def opening(rig: RigSpec, clock: Clock) -> tuple[float, str]:
    """Return from when on trials may run at this hour, rig time, and that for people; at any time: minus infinity."""
    civil, now_s, hours = clock.civil, clock.civil_s(), rig.allowed
    if hours is None or civil is None or now_s is None:
        return -math.inf, ""
    opens_s = hours.opens_s(now_s, rig.expected_s)
    if opens_s <= now_s:
        return -math.inf, ""
    return civil.rig_s(opens_s), f"trials may run {hours}; the next may begin on {told(hours.zone, opens_s)}"
