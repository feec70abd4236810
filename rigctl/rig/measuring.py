"""Reading sensors: one fresh value, or a window of samples reduced to one measurement.

What could not be read, or cannot be true, is INVALID and excluded; it is never replaced by an older value.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rigctl.errors import DeviceError, DeviceTimeout, in_words
from rigctl.rig.bus import Bus
from rigctl.rig.clocks import Clock
from rigctl.rig.handle import Handle
from rigctl.rig.protocols import Reading, Sensor, Severity
from rigctl.rig.spec import MeasureSpec, SensorRules, Statistic
from rigctl.rig.values import Measurement
from rigctl.text import in_full

SILENT_LIMIT = 3
"""After so many unanswered samples in a row a sensor is not asked again in this window: its bus has others to serve."""

FRESH_READINGS = 3
"""Attempts at a valid reading before whoever needs one gives up."""
CONFIRMING = 3
"""Readings that must agree on a step beyond the plausible rate before it is believed."""
GRANTED_S = 10.0
"""Rig seconds: the shortest time that a plausible rate is counted over."""


def judged(reading: Reading, plausible: tuple[float, float] | None) -> Reading:
    """Return the reading, INVALID if it is no finite number or outside the plausible range."""
    if not reading.valid:
        return reading
    if not math.isfinite(reading.value):
        return Reading.invalid(reading.unit, reading.time_s, f"read {reading.value}")
    if plausible is not None and not plausible[0] <= reading.value <= plausible[1]:
        value, low, high = map(in_full, (reading.value, *plausible))
        detail = f"read {value} {reading.unit}, plausible {low} to {high}"
        return Reading.invalid(reading.unit, reading.time_s, detail)
    return reading


@dataclass(slots=True)
class Record:
    """What a sensor has said so far, whoever asked; mutable, used in the event loop only."""

    asked_s: float | None = None
    """Wall time (monotonic) of the first attempt."""
    valid: Reading | None = None
    valid_s: float | None = None
    """Wall time of it."""
    same_since_s: float = math.nan
    """Rig time from which readings have been the same to the last bit."""
    detail: str = ""
    """Why the last attempt gave nothing."""
    step: str = ""
    """The last step beyond the plausible rate that was confirmed."""
    _held: Reading | None = None
    """A reading too far from the last one, until others confirm it."""
    _agreeing: int = 0

    def take(self, reading: Reading, max_rate_per_s: float | None, now_s: float) -> Reading:
        """Remember a judged reading; INVALID instead if it is a step faster than it can be, until others confirm it.

        `max_rate_per_s` is in engineering units per rig second (None: any), `now_s` monotonic wall time.
        """
        if self.asked_s is None:
            self.asked_s = now_s
        if not reading.valid:
            self.detail = reading.detail
            return reading
        last = self.valid
        if last is not None and max_rate_per_s is not None and not _reachable(last, reading, max_rate_per_s):
            near = self._held is not None and _reachable(self._held, reading, max_rate_per_s)
            self._held, self._agreeing = reading, self._agreeing + 1 if near else 1
            what = f"went from {in_full(last.value)} to {in_full(reading.value)} {reading.unit}, faster than it can"
            if self._agreeing < CONFIRMING:
                self.detail = f"{what}; not believed before it is confirmed"
                return Reading.invalid(reading.unit, reading.time_s, self.detail)
            self.step = what
        if last is None or last.value != reading.value:
            self.same_since_s = reading.time_s
        self._held, self._agreeing = None, 0
        self.valid, self.valid_s, self.detail = reading, now_s, ""
        return reading


def _reachable(before: Reading, after: Reading, max_rate_per_s: float) -> bool:
    """Tell whether the quantity can have gone there; noise is granted what it moves in a while."""
    elapsed_s = max(after.time_s - before.time_s, GRANTED_S)
    return abs(after.value - before.value) <= max_rate_per_s * elapsed_s


@dataclass(frozen=True, slots=True)
class Thermometer:
    """A sensor whose reading another one is compensated by."""

    handle: Handle[Sensor]
    plausible: tuple[float, float] | None

    async def hand_to(self, device: Sensor, clock: Clock) -> None:
        """Read it, and tell the other device; also why there is nothing to tell."""
        unit = self.handle.device.unit
        try:
            reading = judged(await self.handle.ask(self.handle.device.read, "temperature"), self.plausible)
        except DeviceError as error:
            reading = Reading.invalid(unit, clock.now_s(), in_words(error))
        device.take_temperature(reading)


@dataclass(frozen=True, slots=True)
class Probe:
    """A sensor with what is believed of its readings."""

    name: str
    """What it measures: a variable, or the outcome."""
    handle: Handle[Sensor]
    plausible: tuple[float, float] | None
    clock: Clock
    rules: SensorRules = field(default_factory=SensorRules)
    record: Record = field(default_factory=Record)
    temperature: Thermometer | None = None
    """What the sensor's readings are compensated by; read before each of them."""

    async def read(self) -> Reading:
        """Take a fresh reading; INVALID with the reason when the sensor does not answer or cannot be right."""
        reading, _ = await self.attempt()
        return reading

    async def fresh(self) -> Reading:
        """Take a reading, again if it is INVALID, a few times; one that still is says why."""
        for _ in range(FRESH_READINGS - 1):
            reading = await self.read()
            if reading.valid:
                return reading
        return await self.read()

    async def attempt(self) -> tuple[Reading, bool]:
        """Read as `read`, and tell whether anything answered."""
        if self.temperature is not None:
            await self.temperature.hand_to(self.handle.device, self.clock)
        try:
            reading = await self.handle.ask(self.handle.device.read, "read")
        except DeviceError as error:
            nothing = Reading.invalid(self.handle.device.unit, self.clock.now_s(), in_words(error))
            return self._taken(nothing), not isinstance(error, DeviceTimeout)
        return self._taken(judged(reading, self.plausible)), True

    def _taken(self, reading: Reading) -> Reading:
        return self.record.take(reading, self.rules.max_rate_per_s, time.monotonic())


async def sample_window(probes: Sequence[Probe], spec: MeasureSpec, clock: Clock) -> Mapping[str, Sequence[Reading]]:
    """Sample every probe every `spec.every_s` for `spec.for_s` of rig time; buses in parallel.

    A bus that falls behind (rig time may run fast) samples without pause and takes as many as fit into the window,
    but at least `spec.min_count`.
    """
    buses: dict[Bus, list[Probe]] = {}
    for probe in probes:
        buses.setdefault(probe.handle.bus, []).append(probe)
    windows = (_sample_bus(group, spec, clock) for group in buses.values())
    parts = await asyncio.gather(*clock.beside(windows))
    return {name: readings for part in parts for name, readings in part.items()}


async def _sample_bus(probes: Sequence[Probe], spec: MeasureSpec, clock: Clock) -> dict[str, list[Reading]]:
    readings: dict[str, list[Reading]] = {probe.name: [] for probe in probes}
    silences = dict.fromkeys(readings, 0)
    start_s = clock.now_s()
    for taken in range(spec.samples):
        late_s = clock.now_s() - (start_s + taken * spec.every_s)
        if late_s < 0:
            await clock.rest(-late_s)
        elif taken >= spec.min_count and clock.now_s() - start_s >= spec.for_s:
            break
        for probe in probes:
            reading, answered = await _sample(probe, silences[probe.name])
            silences[probe.name] = 0 if answered else silences[probe.name] + 1
            readings[probe.name].append(reading)
    return readings


async def _sample(probe: Probe, silences: int) -> tuple[Reading, bool]:
    if silences < SILENT_LIMIT:
        return await probe.attempt()
    detail = f"not asked: {silences} requests in a row went unanswered"
    return Reading.invalid(probe.handle.device.unit, probe.clock.now_s(), detail), False


def reduced(readings: Sequence[Reading], statistic: Statistic, min_count: int) -> Measurement:
    """Make one measurement of a window: statistic and standard deviation of the valid samples.

    Severity: INVALID when no sample is valid, MAJOR when fewer than `min_count` are, MINOR when some were excluded.
    """
    values = [r.value for r in readings if r.valid]
    rejected = [r for r in readings if not r.valid]
    detail = f"{len(rejected)} of {len(readings)} samples excluded, last: {rejected[-1].detail}" if rejected else ""
    if not values:
        return Measurement(math.nan, math.nan, 0, len(rejected), Severity.INVALID, detail or "no samples")
    severity = Severity.MAJOR if len(values) < min_count else Severity.MINOR if rejected else Severity.NONE
    value = statistics.median(values) if statistic == "median" else statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return Measurement(value, spread, len(values), len(rejected), severity, detail)
