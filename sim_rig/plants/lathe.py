"""A lathe: each workpiece is loaded, cut once, and its surface measured; wear, coolant and energy are counted."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sim_rig.plants.batch import steps
from sim_rig.plants.machine import Drives
from sim_rig.plants.pump import EnergyBook
from sim_rig.plants.turning import VARIABLES, cutting_min, cutting_w, quality, wear_mm3_per_min

LOAD_S: Final = 60.0
STEP_S: Final = 5.0
LAGS_S: Final = {"speed": 4.0, "feed": 2.0, "depth": 2.0, "coolant": 3.0, "hardness": 10.0}
BASE_W, LOADER_W = 1400.0, 600.0
DRIVE_W: Final = {"speed": 2400.0, "feed": 1800.0, "depth": 3600.0, "coolant": 1500.0, "hardness": 9000.0}
"""Closed-loop control of each: servo drives and gauges; for the hardness the annealing oven."""
CONCENTRATE: Final = 0.008
"""Share of the coolant flow that is lost concentrate."""
DRIVE_ERROR, SENSOR_NOISE, QUALITY_NOISE = 0.003, 0.004, 0.015


class Lathe:
    """The lathe's process. `advance` moves it through simulated time; everything else is immediate."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        self.drives = Drives(VARIABLES, seed, error=DRIVE_ERROR, noise=SENSOR_NOISE, lags_s=LAGS_S, change_s=LOAD_S)
        self.energy = EnergyBook(total_kwh=1825.4)
        self.wear_mm3 = 41.3
        self.concentrate_ml = 5120.0
        self.cut_left = 0.0
        """Share of the present workpiece still to be cut."""

    def command_load(self, on: bool) -> None:
        """A rising command loads the next workpiece, which is then cut at once."""
        if self.drives.command_change(on):
            self.cut_left = 1.0

    @property
    def cutting(self) -> bool:
        """Whether the tool is in the cut."""
        return self.cut_left > 0.0 and not self.drives.change.running

    def quality(self) -> float:
        """One reading of the surface instrument, never negative."""
        true = float(quality(self.drives.values()[None, :])[0])
        return max(0.0, true * (1.0 + QUALITY_NOISE * self.drives.noise()))

    def power_w(self) -> float:
        """Drawn from the mains now."""
        loader_w = LOADER_W if self.drives.change.running else 0.0
        cut_w = float(cutting_w(self.drives.values()[None, :])[0]) if self.cutting else 0.0
        return BASE_W + loader_w + cut_w + self.drives.drive_w(DRIVE_W)

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        while seconds > 0.0:
            moving = self.cut_left > 0.0 or self.drives.change.running
            stretch = min(seconds, 600.0) if moving else seconds
            count, step = steps(stretch, STEP_S) if moving else (1, stretch)
            for _ in range(count):
                self._step(step)
            seconds -= stretch

    def _step(self, seconds: float) -> None:
        loading_s = self.drives.advance(seconds)
        x = self.drives.values()[None, :]
        cut_s = 60.0 * float(cutting_min(x[:, 0], x[:, 1])[0])
        tool_s = min(seconds - loading_s, self.cut_left * cut_s)
        self.cut_left = max(0.0, self.cut_left - tool_s / cut_s)
        if self.cut_left < 1e-9:
            self.cut_left = 0.0
        self.wear_mm3 += float(wear_mm3_per_min(x)[0]) * tool_s / 60.0
        self.concentrate_ml += 1000.0 * CONCENTRATE * self.drives.channels["coolant"].value * tool_s / 60.0
        self.energy.power_w = BASE_W + self.drives.drive_w(DRIVE_W)
        self.energy.advance(seconds, LOADER_W * loading_s + float(cutting_w(x)[0]) * tool_s)

    def state(self) -> dict[str, Any]:
        """Everything, as plain data."""
        true = float(quality(self.drives.values()[None, :])[0])
        cut = {"cutting": self.cutting, "cut_left": self.cut_left}
        return self.drives.state() | cut | {"outcome": true, "power_w": self.power_w()}

    def metered(self) -> dict[str, float]:
        """What has really been consumed since the counters were new."""
        return {
            "energy_kwh": self.energy.total_kwh,
            "wear_mm3": self.wear_mm3,
            "concentrate_ml": self.concentrate_ml,
        }
