"""Dose by dose to a setpoint: read, dispense what is missing, let it mix, read again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from rigctl.errors import GarbledReply, ReadBackMismatch, Tripped, counted
from rigctl.rig.dosing import Dispenser
from rigctl.rig.handle import Handle
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import DoseLog, Doser, Severity
from rigctl.rig.resting import Rest
from rigctl.rig.spec import DosingSpec
from rigctl.rig.values import Alarm

OVERSHOOT = 2.0
"""Past the setpoint by up to this many tolerances is accepted: what was dosed cannot be taken back."""
RESPONSE = 0.2
"""A dose that moves the reading by less than this share of what it should counts as one without response."""
UNANSWERED_DOSES = 2
"""After so many of them in a row nothing more is dosed in this trial."""
FRESH_READINGS = 3
"""Attempts at a valid reading before dosing is given up."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What doses did, over all trials: a probe that no dose moves must not go on calling for more (fault 63)."""

    doses: DoseLog
    enough: int
    """Doses in a row without response, whatever trial they belong to, after which the pump is latched."""
    trip: Callable[[str], Awaitable[object]]
    """Latches the trip and drives the rig to its safe state."""

    async def weigh(self, pump: str, probe: str) -> None:
        """Raise `Tripped` if this probe has not answered too many doses of this pump."""
        silent = await self.doses.unanswered(pump, probe)
        if silent.doses < self.enough:
            return
        trials = counted(silent.trials, "trial")
        reason = f"{pump}: {counted(silent.doses, 'dose')} in a row, over {trials}, did not move {probe}; pump latched"
        await self.trip(reason)
        raise Tripped(reason, "Look at pump, stock and probe")


@dataclass(frozen=True, slots=True)
class Titration:
    """One pump, the probe that judges it, and how they belong together."""

    spec: DosingSpec
    pump: Handle[Doser]
    probe: Probe
    per_dose_ml: float | None
    dispenser: Dispenser
    rest: Rest
    on_alarm: Callable[[Alarm], None]
    evidence: Evidence

    async def bring_to(self, setpoint: float) -> float:
        """Dose until the probe reads the setpoint within tolerance; returns the last reading, its units.

        The treatment is expected to be on. Raises what `Dispenser.dispense` raises, and

        Raises:
            GarbledReply: no valid reading, so nothing (more) was dosed.
            ReadBackMismatch: overshot, no response to doses, or still off after `max_doses`.
            Tripped: too many doses without response, over all trials; nothing (more) was dosed.
        """
        reading = await self._fresh()
        unanswered = 0
        for _ in range(self.spec.max_doses):
            volume_ml = self._volume_ml(setpoint - reading)
            if volume_ml is None:
                return self._accepted(reading, setpoint)
            await self.evidence.weigh(self.pump.name, self.spec.sensor)
            dispensed_ml = await self.dispenser.dispense(self.pump, volume_ml)
            await self.rest(self.spec.mix_s)
            before, reading = reading, await self._fresh()
            unanswered = 0 if await self._responded(reading - before, dispensed_ml) else unanswered + 1
            if unanswered >= UNANSWERED_DOSES:
                self._give_up(
                    reading, setpoint, f"no response to {counted(unanswered, 'dose')}; check pump, stock and probe"
                )
        if self._volume_ml(setpoint - reading) is not None:
            self._give_up(reading, setpoint, f"still off after {counted(self.spec.max_doses, 'dose')}")
        return self._accepted(reading, setpoint)

    def _volume_ml(self, missing: float) -> float | None:
        """Return the next dose for what is missing (sensor units); None when there is none to give."""
        if abs(missing) <= self.spec.tolerance or missing / self.spec.effect_per_ml <= 0:
            return None
        volume_ml = max(missing / self.spec.effect_per_ml, self.pump.device.min_dose_ml)
        return volume_ml if self.per_dose_ml is None else min(volume_ml, self.per_dose_ml)

    async def _responded(self, moved: float, dispensed_ml: float) -> bool:
        """Tell whether the reading moved as it should, which is kept as evidence."""
        expected = self.spec.effect_per_ml * dispensed_ml
        answered = dispensed_ml > 0 and moved / expected >= RESPONSE
        await self.evidence.doses.answered(
            self.pump.name, self.spec.sensor, moved=moved, expected=expected, answered=answered
        )
        return answered

    def _accepted(self, reading: float, setpoint: float) -> float:
        if abs(setpoint - reading) > OVERSHOOT * self.spec.tolerance:
            self._give_up(reading, setpoint, "past the setpoint, and no dose brings it back")
        return reading

    def _give_up(self, reading: float, setpoint: float, why: str) -> NoReturn:
        unit = self.probe.handle.device.unit
        message = (
            f"{self.probe.name}: {self.spec.sensor} reads {reading:g} {unit}, wanted {setpoint:g} {unit} "
            f"within {self.spec.tolerance:g}: {why}"
        )
        self.on_alarm(Alarm(Severity.MAJOR, self.pump.name, message))
        raise ReadBackMismatch(message)

    async def _fresh(self) -> float:
        """Take a valid reading now; a single INVALID one is asked again."""
        for _ in range(FRESH_READINGS):
            reading = await self.probe.read()
            if reading.valid:
                return reading.value
        raise GarbledReply(
            f"{self.probe.name}: {self.spec.sensor} gives no valid reading ({reading.detail}), "
            f"so {self.pump.name} doses nothing"
        )
