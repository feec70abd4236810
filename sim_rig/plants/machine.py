"""What the lathe and the wind tunnel share: drives that hold a setpoint, and batches that bring new circumstances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sim_rig.plants.batch import BatchChange
from sim_rig.plants.channel import Channel
from sim_rig.plants.natural import FloatArray, Noise, Variable


class Drives:
    """The process variables of a machine, each free or held by its drive."""

    def __init__(
        self,
        variables: tuple[Variable, ...],
        seed: np.random.SeedSequence,
        *,
        error: float,
        noise: float,
        lags_s: Mapping[str, float],
        change_s: float,
    ) -> None:
        nature, sensing = seed.spawn(2)
        supply = np.random.default_rng(nature)
        self.variables = variables
        self.channels = {
            v.name: Channel(v, supply, error_sd=error * (v.high - v.low), lag_s=lags_s[v.name], holds=False)
            for v in variables
        }
        self.change = BatchChange(change_s)
        self.now_s = 0.0
        """Since power-up."""
        self._noise = Noise(sensing)
        self._noise_share = noise

    def command_change(self, on: bool) -> bool:
        """A rising command begins a new batch: operators, stock and wear bring new values. True if it began."""
        begun = self.change.command(on)
        if begun:
            for channel in self.channels.values():
                channel.draw()
        return begun

    def values(self) -> FloatArray:
        """(d,) true values in column order, engineering units."""
        return np.array([self.channels[v.name].value for v in self.variables])

    def sense(self, name: str) -> float:
        """One reading of a variable, engineering units; noise is a share of its range."""
        v = self.channels[name].variable
        return self.channels[name].value + self._noise_share * (v.high - v.low) * self._noise.at(name, self.now_s)

    def noise(self) -> float:
        """One standard normal draw for the outcome's instrument."""
        return self._noise.at("outcome", self.now_s)

    def advance(self, seconds: float) -> float:
        """Let time pass; returns the seconds during which the batch was being changed."""
        self.now_s += seconds
        for channel in self.channels.values():
            channel.advance(seconds)
        return self.change.advance(seconds)

    def drive_w(self, powers_w: Mapping[str, float]) -> float:
        """Power of the drives that are engaged."""
        return sum(power for name, power in powers_w.items() if self.channels[name].enabled)

    def state(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return {
            "values": {name: c.value for name, c in self.channels.items()},
            "natural": {name: c.natural for name, c in self.channels.items()},
            "setpoints": {name: c.setpoint for name, c in self.channels.items() if c.enabled},
            "changing": self.change.running,
            "batches": self.change.count,
        }
