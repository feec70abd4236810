"""A peristaltic dosing pump: volume over time, and a witness of every dispense."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sim_rig.errors import PlantError


@dataclass(slots=True)
class Dispense:
    """Witnesses one dispense, from command to end: never reset, whatever happens to the pump."""

    number: int
    """1 for the pump's first."""
    command: int
    """Which command of those the pump received asked for it."""
    target_ml: float
    started_s: float
    dispensed_ml: float = 0.0
    """By the pump's own count."""
    delivered_ml: float = 0.0
    """What really reached the process."""
    ended_s: float | None = None
    how: str = "running"


@dataclass(slots=True)
class PumpFaults:
    """Says what is wrong with a pump."""

    dry: bool = False
    """It turns, counts, and nothing arrives."""
    short: float = 1.0
    """It stops after this share of the target."""
    stuck: bool = False
    """It does not stop at the target."""
    unpowered: bool = False
    """The motor has no supply."""
    weak: bool = False
    """The motor's supply breaks down when it is loaded, and looks sound until then."""


class DosingPump:
    """Turns at a rate until a volume is dispensed. Accuracy +-1 % (EZO-PMP data sheet, front page)."""

    max_rate_ml_per_min = 58.5
    min_dose_ml = 0.5

    def __init__(self, name: str, rng: np.random.Generator, accuracy_sd: float = 0.004) -> None:
        self.name = name
        self.faults = PumpFaults()
        self.log: list[Dispense] = []
        self.now_s = 0.0
        self.paused = False
        self.total_ml = 0.0
        """Signed, since power-up or `clear`."""
        self.absolute_ml = 0.0
        """Without sign, since power-up or `clear`."""
        self.delivered_ml = 0.0
        """What really reached the process, since ever: the witness's total."""
        self.last_ml = 0.0
        self._rng = rng
        self._accuracy_sd = accuracy_sd
        self._current: Dispense | None = None
        self._stop_ml = 0.0
        self._rate = 0.0
        self._gain = 1.0

    @property
    def running(self) -> bool:
        """Tell whether a dispense is under way (paused or not)."""
        return self._current is not None

    @property
    def powered(self) -> bool:
        """Tell whether the motor has a supply, as far as can be seen at rest."""
        return not self.faults.unpowered

    @property
    def can_turn(self) -> bool:
        return self.powered and not self.faults.weak

    @property
    def dispensed_ml(self) -> float:
        """Return the volume of the dispense under way, or of the last one."""
        return self._current.dispensed_ml if self._current else self.last_ml

    @property
    def remaining_s(self) -> float:
        """Return the simulated seconds until it stops by itself; infinite when it will not."""
        if self._current is None or self.paused or self._rate == 0.0:
            return math.inf
        return max(0.0, (self._stop_ml - abs(self._current.dispensed_ml)) / abs(self._rate))

    def start(self, target_ml: float, rate_ml_per_min: float, command: int) -> Dispense:
        """Begin a dispense; a negative rate turns backwards. One already under way ends first.

        Raises:
            PlantError: not a volume, or faster than the pump can.
        """
        if not target_ml > 0 or not 0 < abs(rate_ml_per_min) <= self.max_rate_ml_per_min * (1 + 1e-9):
            raise PlantError(f"{self.name}: cannot dispense {target_ml} mL at {rate_ml_per_min} mL/min")
        self.stop("replaced")
        signed = math.copysign(target_ml, rate_ml_per_min)
        self._current = Dispense(len(self.log) + 1, command, signed, self.now_s)
        self.log.append(self._current)
        self._stop_ml = math.inf if self.faults.stuck else target_ml * self.faults.short
        self._rate = rate_ml_per_min / 60.0
        self._gain = 0.0 if self.faults.dry else 1.0 + self._accuracy_sd * float(self._rng.standard_normal())
        self.paused = False
        return self._current

    def advance(self, seconds: float) -> tuple[float, float]:
        """Let time pass, and return (mL that really reached the process, seconds the motor ran)."""
        self.now_s += seconds
        current = self._current
        if current is None or self.paused:
            return 0.0, 0.0
        ran_s = min(seconds, self.remaining_s)
        volume = self._rate * ran_s
        delivered = volume * self._gain
        current.dispensed_ml += volume
        current.delivered_ml += delivered
        self.total_ml += volume
        self.absolute_ml += abs(volume)
        self.delivered_ml += delivered
        if self.remaining_s <= 1e-9:
            self.stop("short" if self.faults.short < 1.0 else "done")
        return delivered, ran_s

    def stop(self, how: str = "stopped") -> float:
        """End the dispense under way, if any, and return the volume of the last one, mL."""
        if self._current is not None:
            self.last_ml = self._current.dispensed_ml
            self._current.ended_s = self.now_s
            self._current.how = how
            self._current = None
        self.paused = False
        return self.last_ml

    def clear(self) -> None:
        """Set both totals to zero; the witness keeps its own."""
        self.total_ml = self.absolute_ml = 0.0

    def power_cycle(self) -> None:
        """Lose the supply and get it back: the dispense ends, every counter of the pump forgets."""
        self.stop("power lost")
        self.clear()
        self.last_ml = 0.0

    def testimony(self) -> list[dict[str, Any]]:
        return [asdict(d) | {"pump": self.name} for d in self.log]


@dataclass(slots=True)
class EnergyBook:
    """Counts energy taken from the mains."""

    total_kwh: float
    power_w: float = 0.0
    offset_kwh: float = 0.0
    """Subtracted from what the counter shows; set by a counter reset or jump."""

    def advance(self, seconds: float, energy_j: float = 0.0) -> None:
        """Let time pass at the present power, plus energy taken by what ran for a part of it."""
        self.total_kwh += (self.power_w * seconds + energy_j) / 3.6e6

    @property
    def counter_kwh(self) -> float:
        return self.total_kwh - self.offset_kwh

    def reset(self) -> None:
        """Start the counter from zero again; the energy taken stays known."""
        self.offset_kwh = self.total_kwh

    def jump(self, kwh: float) -> None:
        """Make the counter show so much more from now on (or less, down to nothing); nothing was taken."""
        self.offset_kwh = min(self.offset_kwh - kwh, self.total_kwh)
