"""A wind tunnel with an airfoil in it, heard by a microphone: the airfoil self-noise data as a process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim_rig.plants.arrays import ArrayResponse
from sim_rig.plants.natural import FloatArray, PlantVariable
from sim_rig.plants.parts import Process, shares


def _spread(name: str, unit: str, low: float, high: float) -> PlantVariable:
    """Centre natural variation in the range, with a fifth of it as sd (variance 0.04 on the unit interval)."""
    return PlantVariable.of(name, unit, (low, high), (low + high) / 2, 0.2 * (high - low))


VARIABLES = (
    _spread("frequency", "octave", 0.0, 6.64),
    _spread("angle", "deg", 0.0, 22.2),
    _spread("chord", "mm", 26.0, 304.0),
    _spread("velocity", "m/s", 31.7, 71.3),
    _spread("thickness", "decade", -0.39, 1.76),
)
"""Frequency in octaves above 200 Hz, displacement thickness in decades above 1 mm: both act by their logarithm."""
CONTROL_SETS = (
    ("velocity", "thickness"),
    ("angle", "thickness"),
    ("frequency", "velocity"),
    ("angle", "chord"),
    ("chord", "thickness"),
    ("frequency", "angle"),
    ("chord", "velocity"),
)
"""Those of the data, in their order."""

FLOOR_DB: Final = 100.0
"""A little below the quietest measurement, 103 dB."""
RUN_S: Final = 60.0
LAGS_S: Final = {"frequency": 1.0, "angle": 5.0, "chord": 15.0, "velocity": 20.0, "thickness": 8.0}
BASE_W, RUN_W, FAN_W = 1500.0, 900.0, 3200.0
"""`FAN_W` at the highest velocity; it grows with the cube."""
DRIVE_W: Final = {"frequency": 2200.0, "angle": 7000.0, "chord": 11000.0, "velocity": 1100.0, "thickness": 1400.0}
DRIVE_ERROR, SENSOR_NOISE, NOISE_DB = 0.003, 0.003, 0.25


@dataclass(frozen=True, slots=True)
class SelfNoise:
    """Gives the sound pressure level over the tunnel's variables."""

    arrays: ArrayResponse

    def __call__(self, x: FloatArray) -> FloatArray:
        """Map (n, 5), engineering units in the order of `VARIABLES` -> (n,) dB."""
        physical = np.column_stack([200.0 * 2.0 ** x[:, 0], x[:, 1], x[:, 2] / 1e3, x[:, 3], 1e-3 * 10.0 ** x[:, 4]])
        low, high = self.arrays.lower, self.arrays.upper
        u = (physical - low) / (high - low)
        for i in np.flatnonzero(self.arrays.log_input):
            u[:, i] = np.log(physical[:, i] / low[i]) / math.log(high[i] / low[i])
        return self.arrays(u)


def fan_w(velocity_m_per_s: FloatArray) -> FloatArray:
    """Return the power of the fan, by the affinity law."""
    return np.asarray(FAN_W * (velocity_m_per_s / VARIABLES[3].high) ** 3)


class Tunnel(Process):
    """Is the tunnel's process. `advance` moves it through simulated time; everything else is immediate."""

    def __init__(self, seed: np.random.SeedSequence, noise_db: SelfNoise) -> None:
        errors, noise = shares(VARIABLES, DRIVE_ERROR), shares(VARIABLES, SENSOR_NOISE)
        super().__init__(VARIABLES, seed, errors, noise, LAGS_S, change_s=RUN_S, total_kwh=9031.1)
        self._noise_db = noise_db

    def level_db(self) -> float:
        return self._true_db() + NOISE_DB * self.noise()

    def power_w(self) -> float:
        return self._steady_w() + (RUN_W if self.change.running else 0.0)

    def advance(self, seconds: float) -> None:
        before_w = self._steady_w()
        running_s = self.move(seconds)
        self.energy.power_w = (before_w + self._steady_w()) / 2 if running_s > 0.0 else self._steady_w()
        self.energy.advance(seconds, RUN_W * running_s)

    def state(self) -> dict[str, Any]:
        return super().state() | {"outcome": self._true_db(), "power_w": self.power_w()}

    def metered(self) -> dict[str, float]:
        return {"energy_kwh": self.energy.total_kwh}

    def _steady_w(self) -> float:
        fan = float(fan_w(np.array([self.channels["velocity"].value]))[0])
        return BASE_W + fan + self.drive_w(DRIVE_W)

    def _true_db(self) -> float:
        return float(self._noise_db(self.values()[None, :])[0])
