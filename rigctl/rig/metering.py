"""Reading the counters, and beside them two of our own, which say how far the others can be believed.

- Where a meter can also say what power it sees now (W), that power is integrated over rig time by trapezoids: a second
  counter of the same energy, in kWh from when this process began. It is sampled whenever the counters are read, and a
  few times in every trial between. It testifies without doubt only if no gap between two samples was a large part of
  the time between two readings.
- Where prices go by the hour, the civil time of a round of readings, and where the counter stood when its rate became
  another; each is handed out with the next round.
- How long the machine has been suspended since it was booted, in rig seconds, where the clock can say so.

Both are kept beside the meters' readings, under names that no meter has.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import cast

from rigctl.errors import DeviceError, in_words
from rigctl.rig.calendar import Tariff
from rigctl.rig.clocks import Clock
from rigctl.rig.handle import Handle, together
from rigctl.rig.measuring import judged
from rigctl.rig.protocols import Meter, Reading, Sensor, Severity
from rigctl.rig.spec import TrialTiming
from rigctl.rig.values import News

ASLEEP = "(asleep)"
"""Name under which the time spent in suspend is kept, rig seconds since boot."""
CIVIL = "(civil)"
"""Name under which the civil time of a round of readings is kept, seconds since 1970."""
BY_POWER = " (by power)"
AT = " (at "
UNREAD = "meter {} unread"
"""Kind of the alarm that is active while a meter cannot be read."""
SAMPLES_PER_TRIAL = 20
LEAST_PERIOD_S = 1.0
"""Wall seconds between two samples of the power at least: the bus has others to serve."""
CIVIL_EVERY_S = 30.0
"""Wall seconds after which civil time is looked at again: it may have been set."""
LARGEST_GAP = 0.2
"""Share of the time between two readings that may pass between two samples of the power."""
JOULES_PER_KWH = 3.6e6


def by_power(meter: str) -> str:
    return meter + BY_POWER


def is_own(name: str) -> bool:
    """Tell whether a reading of this name is one of our own counters, not a meter's."""
    return name in (ASLEEP, CIVIL) or name.endswith(BY_POWER) or AT in name


def at_change(name: str, counter: str) -> float | None:
    """Return the instant (seconds since 1970) of a reading of this counter at a change of its rate; None: of others."""
    whose, _, instant = name.removesuffix(")").partition(AT)
    return float(instant) if instant and whose == counter else None


@dataclass(slots=True)
class PowerIntegral:
    """Energy as power times time."""

    kwh: float = 0.0
    last: Reading | None = None
    told_s: float = 0.0
    """Rig time at which it was last told."""
    widest_s: float = 0.0
    """The widest gap between two samples since then."""

    def add(self, power: Reading) -> None:
        """Take the power (W) at an instant later than the last one."""
        if self.last is not None:
            passed_s = max(0.0, power.time_s - self.last.time_s)
            self.kwh += max(0.0, self.last.value + power.value) / 2.0 * passed_s / JOULES_PER_KWH
            self.widest_s = max(self.widest_s, passed_s)
        self.last = power

    def tell(self) -> Reading | None:
        """Return the counter as of the last sample; doubtful (MINOR) if a wide gap was bridged since last told."""
        if self.last is None:
            return None
        now_s, widest_s = self.last.time_s, self.widest_s
        dense = widest_s <= LARGEST_GAP * (now_s - self.told_s)
        self.told_s, self.widest_s = now_s, 0.0
        if dense:
            return Reading(self.kwh, "kWh", now_s)
        return Reading(self.kwh, "kWh", now_s, Severity.MINOR, f"the power was not sampled for {widest_s:.0f} s")


class Metering:
    """The meters of one rig, by their names; the `timing` of a trial says how often their power is sampled.

    `tariffs`: of all meters that have one, also those without a counter. Devices that are `aside` (a set that may
    change) are not asked: their meters are left out.
    """

    def __init__(
        self,
        meters: Mapping[str, Handle[Meter]],
        timing: TrialTiming,
        clock: Clock,
        news: News,
        tariffs: Mapping[str, Tariff] | None = None,
        *,
        aside: Container[str] = (),
    ) -> None:
        self._meters = meters
        self._aside = aside
        self._clock = clock
        self._news = news
        self._powers = {
            name: (cast("Handle[Sensor]", handle), PowerIntegral())
            for name, handle in meters.items()
            if isinstance(handle.device, Sensor) and (handle.device.meter_unit, handle.device.unit) == ("kWh", "W")
        }
        self._period_s = max(LEAST_PERIOD_S, timing.takes_s / SAMPLES_PER_TRIAL / clock.speedup)
        self._sampling: asyncio.Task[None] | None = None
        self._tariffs = dict(tariffs or {})
        self._waiting: asyncio.Task[None] | None = None
        self._at: dict[str, Reading] = {}
        """What was read at changes of rates since the last round."""
        self._unread: set[str] = set()
        """Meters of which it was told that they cannot be read."""

    async def meanwhile(self) -> Mapping[str, Reading]:
        """Wait as long as between samples of the power, then read the meters' counters; our own count on."""
        await self._clock.rest(self._period_s * self._clock.speedup)
        return await self._totals()

    async def _totals(self) -> dict[str, Reading]:
        asked = self._in_service
        for name in self._unread - asked.keys():  # what nobody asks any more is no cause of an alarm
            self._tell_over(name, f"meter {name} is out of service")
        readings = await together(*(self._total(n, h) for n, h in asked.items()))
        return dict(zip(asked, readings, strict=True))

    async def read(self) -> Mapping[str, Reading]:
        """Read all counters, our own among them; a meter's that cannot be read is INVALID, ours are left out then."""
        found = await self._totals()
        sampled = await self._sample_if_possible()
        told = {by_power(name): integral.tell() for name, (_, integral) in self._powers.items() if name in sampled}
        found |= {name: reading for name, reading in told.items() if reading is not None}
        now_s = self._clock.civil_s() if self._tariffs else None
        if now_s is not None:
            found |= {**self._at, CIVIL: Reading(now_s, "s", self._clock.now_s())}
            self._at = {}
        suspended_s = self._clock.suspended_s()
        if suspended_s is not None:
            found[ASLEEP] = Reading(suspended_s, "s", self._clock.now_s())
        return found

    @property
    def _in_service(self) -> Mapping[str, Handle[Meter]]:
        return {name: handle for name, handle in self._meters.items() if handle.name not in self._aside}

    async def _total(self, name: str, handle: Handle[Meter]) -> Reading:
        try:
            reading = judged(await handle.ask(handle.device.total, "total"), None)
        except Exception as error:  # noqa: BLE001 - also a driver's mistake: read while a failed trial is closed
            reading = Reading.invalid(handle.device.meter_unit, self._clock.now_s(), in_words(error))
        self._tell_unread(name, reading)
        return reading

    def _tell_unread(self, name: str, reading: Reading) -> None:
        """Tell once that a meter cannot be read, however often it is asked, and once that it can be again."""
        if reading.valid and name in self._unread:
            self._tell_over(name, f"meter {name} can be read again")
        elif not reading.valid and name not in self._unread:
            self._unread.add(name)
            message = f"meter {name} cannot be read: {reading.detail}"
            self._news.stands(self._meters[name].name, message, Severity.MINOR, kind=UNREAD.format(name))

    def _tell_over(self, name: str, message: str) -> None:
        self._unread.discard(name)
        self._news.over(self._meters[name].name, message, kind=UNREAD.format(name))

    async def _sample_if_possible(self) -> set[str]:
        try:
            return await self._sample()
        except Exception as error:  # noqa: BLE001 - as in `_total`
            self._tell_mistake("the power is not known", error)
            return set()

    async def _sample(self) -> set[str]:
        asked = {name: self._powers[name] for name in self._in_service if name in self._powers}
        readings = await together(*(self._power(handle) for handle, _ in asked.values()))
        sampled = set()
        for (name, (_, integral)), power in zip(asked.items(), readings, strict=True):
            if power is not None:
                integral.add(power)
                sampled.add(name)
        return sampled

    async def _power(self, handle: Handle[Sensor]) -> Reading | None:
        """Return None where it cannot be read: a gap, which the integral says itself."""
        try:
            reading = judged(await handle.ask(handle.device.read, "power"), None)
        except DeviceError:
            return None
        return reading if reading.valid else None

    def start(self) -> None:
        """Go on sampling the power, until `stop`; harmless when it is sampled already, or nothing can be."""
        if self._powers and self._sampling is None:
            self._sampling = self._clock.enlist(self._keep_sampling(), "power")
        if self._tariffs.keys() & self._meters.keys() and self._waiting is None:
            self._waiting = self._clock.enlist(self._keep_changes(), "changes of rates")

    async def _keep_changes(self) -> None:
        """Read the counters whose rate changes when it does; one that cannot be read then is divided by time."""
        due_s = math.inf
        while True:
            now_s = self._clock.civil_s()
            if now_s is not None and now_s >= due_s:
                await self._read_at(due_s)
                due_s = math.inf
                continue
            if now_s is not None:
                due_s = min([due_s, *(self._tariffs[n].changes_s(now_s) for n in self._meters if n in self._tariffs)])
            every_s = CIVIL_EVERY_S * self._clock.speedup
            await self._clock.rest(every_s if now_s is None else min(due_s - now_s, every_s))

    async def _read_at(self, change_s: float) -> None:
        changing = [
            n for n in self._in_service if n in self._tariffs and self._tariffs[n].changes_s(change_s - 1) == change_s
        ]
        readings = await together(*(self._total(n, self._meters[n]) for n in changing))
        self._at |= {f"{n}{AT}{change_s:.0f})": r for n, r in zip(changing, readings, strict=True) if r.valid}
        for name in (await self._sample_if_possible()).intersection(changing):
            kwh, now_s = self._powers[name][1].kwh, self._clock.now_s()
            self._at[f"{by_power(name)}{AT}{change_s:.0f})"] = Reading(kwh, "kWh", now_s)

    async def _keep_sampling(self) -> None:
        try:
            while True:
                await self._clock.rest(self._period_s * self._clock.speedup)
                await self._sample()
        except Exception as error:  # noqa: BLE001 - a driver is a plug-in: what it raises costs evidence, no trial
            self._tell_mistake("the power is no longer sampled between readings", error)

    def _tell_mistake(self, what: str, error: Exception) -> None:
        self._news.minor(", ".join(self._powers), f"{what}: {in_words(error)}", kind="power not sampled")

    async def stop(self) -> None:
        for task in (self._sampling, self._waiting):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        self._sampling = self._waiting = None
