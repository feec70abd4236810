"""Parts that plants are made of: variables that an actuator may impose, batches that bring new ones, drives, energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim_rig.errors import PlantError
from sim_rig.plants.natural import FloatArray, Noise, PlantVariable
from sim_rig.plants.pump import EnergyBook

STEP_S = 600.0
"""Seconds after which a plant looks again whether anything still moves."""


class Channel:
    """Follows a variable's value as it moves.

    Free, it is what nature brought with this batch; imposed, it goes to the setpoint (with the actuator's small error)
    as a first-order lag. `holds` says what happens once an actuator lets go: a tank keeps what it was given until it
    is refilled, a machine goes back to what the operator had set.
    """

    def __init__(
        self, variable: PlantVariable, rng: np.random.Generator, *, error_sd: float, lag_s: float, holds: bool
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
        """Draw nature and the actuator's error for a new batch. Always two draws, whatever is enabled."""
        self.natural = self.variable.natural.sample(self._rng)
        self.error = self._error_sd * float(self._rng.standard_normal())

    @property
    def goal(self) -> float:
        """Return where the value is heading with a new batch."""
        return self.setpoint + self.error if self.enabled else self.natural

    def advance(self, seconds: float) -> None:
        """Let the actuator (or, on a machine, the operator's setting) act for a while."""
        if self.enabled or not self._holds:
            self.value = self.goal + (self.value - self.goal) * math.exp(-seconds / self._lag_s)

    def approach(self, goal: float, seconds: float, remaining_s: float) -> None:
        """Move evenly so that `goal` is reached after `remaining_s`."""
        self.value += (goal - self.value) * min(1.0, seconds / remaining_s)


@dataclass(slots=True)
class BatchChange:
    """Takes a while and then has replaced the batch; started by a rising command."""

    duration_s: float
    remaining_s: float = 0.0
    commanded: bool = False
    count: int = 0
    """Batches begun since power-up."""

    @property
    def running(self) -> bool:
        return self.remaining_s > 0.0

    def command(self, on: bool) -> bool:
        """Set the command, and tell whether that begins a new batch. Asking again while it is on begins nothing."""
        begins = on and not self.commanded and not self.running
        self.commanded = on
        if begins:
            self.remaining_s = self.duration_s
            self.count += 1
        return begins

    def advance(self, seconds: float) -> float:
        """Let time pass, and return the seconds during which the change was under way."""
        ran_s = min(seconds, self.remaining_s)
        self.remaining_s -= ran_s
        if self.remaining_s < 1e-9:
            self.remaining_s = 0.0
        return ran_s


def advance_in_steps(
    seconds: float, longest_s: float, moving: Callable[[], bool], step: Callable[[float], None]
) -> None:
    """Let time pass in equal steps no longer than `longest_s` while something moves, at once otherwise."""
    while seconds > 0.0:
        stretch, count = seconds, 1
        if moving():
            stretch = min(seconds, STEP_S)
            count = max(1, -int(-stretch // longest_s))
        for _ in range(count):
            step(stretch / count)
        seconds -= stretch


class Process:
    """Holds the variables of a plant, each free or imposed, and the change of batch that brings new ones."""

    def __init__(
        self,
        variables: tuple[PlantVariable, ...],
        seed: np.random.SeedSequence,
        error_sd: Mapping[str, float],
        noise_sd: Mapping[str, float],
        lags_s: Mapping[str, float],
        *,
        change_s: float,
        total_kwh: float,
        holds: bool = False,
    ) -> None:
        nature, sensing = seed.spawn(2)
        supply = np.random.default_rng(nature)
        self.variables = variables
        self.channels = {
            v.name: Channel(v, supply, error_sd=error_sd[v.name], lag_s=lags_s[v.name], holds=holds) for v in variables
        }
        self.change = BatchChange(change_s)
        self.energy = EnergyBook(total_kwh)
        self.now_s = 0.0
        """Since power-up."""
        self._noise = Noise(sensing)
        self._noise_sd = noise_sd

    def command_change(self, on: bool) -> bool:
        """Begin a new batch on a rising command: supply, stock and wear bring new values. True if it began."""
        begun = self.change.command(on)
        if begun:
            for channel in self.channels.values():
                channel.draw()
        return begun

    def values(self) -> FloatArray:
        """Return (d,) true values in column order, engineering units."""
        return np.array([self.channels[v.name].value for v in self.variables])

    def sense(self, name: str) -> float:
        """Read a variable, engineering units."""
        return self.channels[name].value + self._noise_sd[name] * self._noise.at(name, self.now_s)

    def noise(self, instrument: str = "outcome") -> float:
        """Return standard normal noise of an instrument."""
        return self._noise.at(instrument, self.now_s)

    def move(self, seconds: float) -> float:
        """Let time pass for all variables, and return the seconds during which the batch was being changed."""
        self.now_s += seconds
        for channel in self.channels.values():
            channel.advance(seconds)
        return self.change.advance(seconds)

    def drive_w(self, powers_w: Mapping[str, float]) -> float:
        return sum(power for name, power in powers_w.items() if self.channels[name].enabled)

    def state(self) -> dict[str, Any]:
        """Tell where variables are, where nature would have them, and what is imposed."""
        channels = self.channels
        return {
            "values": {name: c.value for name, c in channels.items()},
            "natural": {name: c.natural for name, c in channels.items()},
            "setpoints": {name: c.setpoint for name, c in channels.items() if c.enabled},
            "changing": self.change.running,
            "batches": self.change.count,
        }


def shares(variables: tuple[PlantVariable, ...], share: float) -> dict[str, float]:
    """Return so much of each variable's range."""
    return {v.name: share * (v.high - v.low) for v in variables}
