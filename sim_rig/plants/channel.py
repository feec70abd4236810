"""One process variable between nature, which brings it, and an actuator, which may impose it."""

from __future__ import annotations

import math

import numpy as np

from sim_rig.errors import PlantError
from sim_rig.plants.natural import Variable


class Channel:
    """A variable's value as it moves.

    Free, it is what nature brought with this batch; imposed, it goes to the setpoint (with the actuator's small error)
    as a first-order lag. `holds` says what happens once an actuator lets go: a tank keeps what it was given until it
    is refilled, a machine goes back to what the operator had set.
    """

    def __init__(
        self, variable: Variable, rng: np.random.Generator, *, error_sd: float, lag_s: float, holds: bool
    ) -> None:
        self.variable = variable
        self.setpoint = variable.low
        self.enabled = False
        self._rng = rng
        self._error_sd = error_sd
        self._lag_s = lag_s
        self._holds = holds
        self.draw()
        self.value = self.natural

    def impose(self, setpoint: float) -> None:
        """Set what an enabled actuator imposes.

        Raises:
            PlantError: outside the actuator's range (a rounding error of single precision is forgiven).
        """
        v = self.variable
        slack = 1e-6 * (v.high - v.low)
        if not v.low - slack <= setpoint <= v.high + slack:
            raise PlantError(f"{v.name}: setpoint {setpoint} {v.unit} outside [{v.low}, {v.high}]")
        self.setpoint = min(max(setpoint, v.low), v.high)

    def draw(self) -> None:
        """A new batch: nature draws anew, and so does the actuator's error. Always two draws, whatever is enabled."""
        self.natural = self.variable.natural.sample(self._rng)
        self.error = self._error_sd * float(self._rng.standard_normal())

    @property
    def goal(self) -> float:
        """Where the value is heading with a new batch."""
        return self.setpoint + self.error if self.enabled else self.natural

    def advance(self, seconds: float) -> None:
        """Let the actuator (or, on a machine, the operator's setting) act for a while."""
        if self.enabled or not self._holds:
            self.value = self.goal + (self.value - self.goal) * math.exp(-seconds / self._lag_s)

    def approach(self, goal: float, seconds: float, remaining_s: float) -> None:
        """Move evenly so that `goal` is reached after `remaining_s`."""
        self.value += (goal - self.value) * min(1.0, seconds / remaining_s)
