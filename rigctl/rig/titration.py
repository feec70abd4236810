"""Dose by dose to a setpoint: read, dispense what is missing, let it mix, read again.

With two pumps, one up and one down, the sign of what is missing says which. They must not chase each other: what one
has overshot by no more than is accepted anyway stays, and the other takes back more than that once in a trial.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NoReturn

from rigctl.errors import GarbledReply, ReadBackMismatch, Tripped, counted
from rigctl.rig.clocks import Clock
from rigctl.rig.dose_log import DoseLog
from rigctl.rig.dosing import Dispenser
from rigctl.rig.handle import Handle
from rigctl.rig.measuring import Probe
from rigctl.rig.protocols import Doser
from rigctl.rig.spec import DosingSpec
from rigctl.rig.values import News
from rigctl.text import in_full

OVERSHOOT = 2.0
"""Past the setpoint by up to this many tolerances is accepted: what was dosed cannot be taken back."""
RESPONSE = 0.2
"""A dose that moves the reading by less than this share of what it should counts as one without response."""
UNANSWERED_DOSES = 2
"""After so many of them in a row nothing more is dosed in this trial."""
DENIED, MOVED = 0.2, 0.5
"""A dose of which the pump denies all but the first share, and which moves the reading by the second of what it should,
was given all the same."""


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
class Partner:
    """A pump that doses along with another."""

    pump: Handle[Doser]
    ratio: float
    """Its mL per mL of the other."""
    per_dose_ml: float | None


@dataclass(frozen=True, slots=True)
class Side:
    """A pump that moves the reading one way, and what goes along with it."""

    spec: DosingSpec
    pump: Handle[Doser]
    per_dose_ml: float | None
    partners: tuple[Partner, ...] = ()

    def volume_ml(self, missing: float) -> float | None:
        """Return the next dose for what is missing (sensor units); None when there is none to give."""
        if abs(missing) <= self.spec.tolerance or missing / self.spec.effect_per_ml <= 0:
            return None
        least = [self.pump.device.min_dose_ml, *(p.pump.device.min_dose_ml / p.ratio for p in self.partners)]
        most = [self.per_dose_ml, *(None if p.per_dose_ml is None else p.per_dose_ml / p.ratio for p in self.partners)]
        return min([max(missing / self.spec.effect_per_ml, *least), *(cap for cap in most if cap is not None)])

    def act(self, volume_ml: float) -> list[tuple[Handle[Doser], float]]:
        """Return what every pump gives when this one gives so much."""
        return [(self.pump, volume_ml), *((p.pump, p.ratio * volume_ml) for p in self.partners)]


@dataclass(frozen=True, slots=True)
class Titration:
    """One pump or two, the probe that judges them, and how they belong together."""

    sides: tuple[Side, ...]
    """The variable's own pump, and the one that moves the reading the other way if there is one."""
    probe: Probe
    dispenser: Dispenser
    clock: Clock
    news: News
    evidence: Evidence

    async def bring_to(self, setpoint: float) -> float:
        """Dose until the probe reads the setpoint within tolerance; returns the last reading, its units.

        The treatment is expected to be on. Raises what `Dispenser.dispense_together` raises, and

        Raises:
            GarbledReply: no valid reading, so nothing (more) was dosed.
            ReadBackMismatch: overshot, no response to doses, still off after `max_doses`, or the probe saw a dose that
                the pump denies.
            Tripped: too many doses without response, over all trials; nothing (more) was dosed.
        """
        reading = await self._fresh()
        side, turned = self._side(setpoint - reading), False
        doses, unanswered = 0, 0
        while (volume_ml := side.volume_ml(setpoint - reading)) is not None:
            if doses >= side.spec.max_doses:
                self._give_up(side, reading, setpoint, f"still off after {counted(side.spec.max_doses, 'dose')}")
            await self.evidence.weigh(side.pump.name, side.spec.sensor)
            dispensed_ml = (await self.dispenser.dispense_together(side.act(volume_ml)))[0]
            doses += 1
            await self.clock.rest(side.spec.mix_s)
            before, reading = reading, await self._fresh()
            await self._hold_against(side, volume_ml, dispensed_ml, reading - before)
            unanswered = 0 if await self._responded(side, reading - before, dispensed_ml) else unanswered + 1
            if unanswered >= UNANSWERED_DOSES:
                silent = counted(unanswered, "dose")
                self._give_up(side, reading, setpoint, f"no response to {silent}; check pump, stock and probe")
            back = self._side(setpoint - reading)
            if back.pump is not side.pump and abs(setpoint - reading) > OVERSHOOT * side.spec.tolerance:
                if turned:
                    self._give_up(side, reading, setpoint, "past it again, and the two pumps would chase each other")
                side, doses, unanswered, turned = back, 0, 0, True
        return self._accepted(reading, setpoint, dosed=doses > 0)

    def _side(self, missing: float) -> Side:
        """Return the pump that moves the reading there; the only one if there is one."""
        return next((s for s in self.sides if missing / s.spec.effect_per_ml > 0), self.sides[0])

    async def _hold_against(self, side: Side, asked_ml: float, dispensed_ml: float, moved: float) -> None:
        """Book in full a dose that the pump denies and the probe has seen; raises `ReadBackMismatch` then."""
        expected = side.spec.effect_per_ml * asked_ml
        if dispensed_ml > DENIED * asked_ml or moved / expected < MOVED or abs(moved) <= side.spec.tolerance:
            return
        doses, name, probe = self.evidence.doses, side.pump.name, side.spec.sensor
        went = f"{probe} moved by {in_full(moved)}, expected {in_full(expected)}"
        why = f"booked {in_full(dispensed_ml)} of {in_full(asked_ml)} mL, but {went}"
        denied = await doses.intend(name, asked_ml - dispensed_ml, 0.0)
        await doses.unknown(denied, asked_ml - dispensed_ml, why)
        await doses.answered(name, probe, moved=moved, expected=expected, answered=True)
        message = f"{why}: the dose counts in full. Look at the pump, its supply and {probe}"
        self.news.major(name, message, kind="dose denied")
        raise ReadBackMismatch(message, device=name)

    async def _responded(self, side: Side, moved: float, dispensed_ml: float) -> bool:
        """Tell whether the reading moved as it should, which is kept as evidence."""
        expected = side.spec.effect_per_ml * dispensed_ml
        answered = dispensed_ml > 0 and moved / expected >= RESPONSE
        await self.evidence.doses.answered(
            side.pump.name, side.spec.sensor, moved=moved, expected=expected, answered=answered
        )
        return answered

    def _accepted(self, reading: float, setpoint: float, *, dosed: bool) -> float:
        spec = self.sides[0].spec
        if abs(setpoint - reading) > OVERSHOOT * spec.tolerance:
            treated = None if dosed or len(self.sides) > 1 else spec.treatment
            longer = "" if treated is None else f"; {treated} may have to be on for longer before it (treat)"
            self._give_up(self.sides[0], reading, setpoint, f"past the setpoint, and no dose brings it back{longer}")
        return reading

    def _give_up(self, side: Side, reading: float, setpoint: float, why: str) -> NoReturn:
        unit, spec, pump = self.probe.handle.device.unit, side.spec, side.pump
        message = (
            f"{self.probe.name}: {spec.sensor} reads {in_full(reading)} {unit}, wanted {in_full(setpoint)} {unit} "
            f"within {in_full(spec.tolerance)}: {why}"
        )
        self.news.major(pump.name, message, kind="setpoint missed")
        raise ReadBackMismatch(message, devices=[pump.name, spec.sensor])

    async def _fresh(self) -> float:
        reading = await self.probe.fresh()
        if reading.valid:
            return reading.value
        raise GarbledReply(
            f"{self.probe.name}: {self.sides[0].spec.sensor} gives no valid reading ({reading.detail}), "
            f"so {self.sides[0].pump.name} doses nothing"
        )
