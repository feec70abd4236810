"""Reading sensors: one fresh value, or a window of samples reduced to one measurement.

What could not be read, or cannot be true, is INVALID and excluded; it is never replaced by an older value.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rigctl.errors import DeviceError, DeviceTimeout
from rigctl.rig.bus import Bus
from rigctl.rig.handle import Handle
from rigctl.rig.protocols import Clock, Reading, Sensor, Severity
from rigctl.rig.spec import MeasureSpec, Statistic
from rigctl.rig.values import Measurement

Rest = Callable[[float], Awaitable[None]]
"""Lets so many seconds of rig time pass without blocking the event loop."""

SILENT_LIMIT = 3
"""After so many unanswered samples in a row a sensor is not asked again in this window: its bus has others to serve."""


def resting(clock: Clock) -> Rest:
    """How rig time is slept in the event loop."""

    async def rest(seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds) / clock.speedup)

    return rest


def invalid(unit: str, time_s: float, detail: str) -> Reading:
    """What stands in for a value that could not be read."""
    return Reading(math.nan, unit, time_s, Severity.INVALID, detail)


def judged(reading: Reading, plausible: tuple[float, float] | None) -> Reading:
    """The reading, INVALID if it is no finite number or outside the plausible range."""
    if not reading.valid:
        return reading
    if not math.isfinite(reading.value):
        return replace(reading, value=math.nan, severity=Severity.INVALID, detail=f"read {reading.value}")
    if plausible is not None and not plausible[0] <= reading.value <= plausible[1]:
        detail = f"read {reading.value:g} {reading.unit}, plausible {plausible[0]:g} to {plausible[1]:g}"
        return replace(reading, value=math.nan, severity=Severity.INVALID, detail=detail)
    return reading


@dataclass(frozen=True, slots=True)
class Probe:
    """A sensor with what is believed of its readings."""

    name: str
    """What it measures: a variable, or the outcome."""
    handle: Handle[Sensor]
    plausible: tuple[float, float] | None
    clock: Clock

    async def read(self) -> Reading:
        """A fresh reading; INVALID with the reason when the sensor does not answer or cannot be right."""
        reading, _ = await self.attempt()
        return reading

    async def attempt(self) -> tuple[Reading, bool]:
        """As `read`, and whether anything answered."""
        try:
            reading = await self.handle.ask(self.handle.device.read, "read")
        except DeviceError as error:
            nothing = invalid(self.handle.device.unit, self.clock.now_s(), f"{type(error).__name__}: {error}")
            return nothing, not isinstance(error, DeviceTimeout)
        return judged(reading, self.plausible), True


async def sample_window(
    probes: Sequence[Probe], spec: MeasureSpec, clock: Clock, rest: Rest
) -> Mapping[str, Sequence[Reading]]:
    """Sample every probe every `spec.every_s` for `spec.duration_s` of rig time; buses in parallel.

    A bus that falls behind (rig time may run fast) samples without pause and takes as many as fit into the window,
    but at least `spec.min_count`.
    """
    buses: dict[Bus, list[Probe]] = {}
    for probe in probes:
        buses.setdefault(probe.handle.bus, []).append(probe)
    parts = await asyncio.gather(*(_sample_bus(group, spec, clock, rest) for group in buses.values()))
    return {name: readings for part in parts for name, readings in part.items()}


async def _sample_bus(probes: Sequence[Probe], spec: MeasureSpec, clock: Clock, rest: Rest) -> dict[str, list[Reading]]:
    readings: dict[str, list[Reading]] = {probe.name: [] for probe in probes}
    silences = dict.fromkeys(readings, 0)
    start_s = clock.now_s()
    for taken in range(planned_samples(spec)):
        late_s = clock.now_s() - (start_s + taken * spec.every_s)
        if late_s < 0:
            await rest(-late_s)
        elif taken >= spec.min_count and clock.now_s() - start_s >= spec.duration_s:
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
    return invalid(probe.handle.device.unit, probe.clock.now_s(), detail), False


def planned_samples(spec: MeasureSpec) -> int:
    """How many samples a window holds when nothing is late."""
    return max(spec.min_count, int(spec.duration_s / spec.every_s + 1e-9), 1)


def reduced(readings: Sequence[Reading], statistic: Statistic, min_count: int) -> Measurement:
    """One measurement from a window: statistic and standard deviation of the valid samples.

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
