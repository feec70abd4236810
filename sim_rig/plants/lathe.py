"""A lathe that turns steel bars: each is loaded, cut once, measured; wear, coolant and energy are counted."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from sim_rig.plants.natural import FloatArray, PlantVariable
from sim_rig.plants.parts import Process, advance_in_steps, shares

VARIABLES = (
    PlantVariable.of("speed", "m/min", (80.0, 320.0), 185.0, 35.0),
    PlantVariable.of("feed", "mm", (0.05, 0.40), 0.21, 0.045),
    PlantVariable.of("depth", "mm", (0.3, 3.0), 1.4, 0.4),
    PlantVariable.of("coolant", "L/min", (1.0, 12.0), 5.0, 1.8),
    PlantVariable.of("hardness", "HB", (160.0, 280.0), 220.0, 18.0),
)
CONTROL_SETS = (
    ("speed", "feed"),
    ("feed", "depth"),
    ("speed", "depth"),
    ("speed", "coolant"),
    ("feed", "hardness"),
    ("speed", "feed", "depth"),
    ("speed", "feed", "depth", "coolant", "hardness"),
)

NOSE_RADIUS_MM: Final = 0.8
BAR_DIAMETER_MM: Final = 60.0
CUT_LENGTH_MM: Final = 120.0
SPECIFIC_FORCE_N_PER_MM2: Final = 2100.0
"""Of medium carbon steel (Sandvik Coromant, Metal cutting technology, kc1 of group P2)."""
TOOL_LIFE_MIN: Final = 25.0
"""At the natural means."""
WEAR_PER_EDGE_MM3: Final = 0.3
"""Volume worn off the flank when an edge is used up."""
HALF_QUALITY_UM: Final = 1.5
"""Roughness at which the quality index is half of what it can be."""

LOAD_S: Final = 60.0
STEP_S: Final = 5.0
LAGS_S: Final = {"speed": 4.0, "feed": 2.0, "depth": 2.0, "coolant": 3.0, "hardness": 10.0}
BASE_W, LOADER_W = 1400.0, 600.0
DRIVE_W: Final = {"speed": 2400.0, "feed": 1800.0, "depth": 3600.0, "coolant": 1500.0, "hardness": 9000.0}
"""Closed-loop control of each: servo drives and gauges; for the hardness the annealing oven."""
CONCENTRATE: Final = 0.008
"""Share of the coolant flow that is lost concentrate."""
DRIVE_ERROR, SENSOR_NOISE, QUALITY_NOISE = 0.003, 0.004, 0.015


def roughness_um(x: FloatArray) -> FloatArray:
    """Return the mean roughness Ra; `x`: (n, 5) engineering units in the order of `VARIABLES` -> (n,) micrometre.

    The kinematic part f^2 / (32 r) is Brammertz's textbook formula. The rest are the field's known effects with
    made-up numbers: ploughing below the minimum chip thickness, built-up edge at low speed (worse in soft stock),
    chatter with depth and speed, rubbing in too shallow a cut, heat where speed outruns the coolant, thermal
    shock where there is too much of it. Feed is per revolution.
    """
    v, f, depth, coolant, hardness = x.T
    kinematic = 1000.0 * f**2 / (32.0 * NOSE_RADIUS_MM)
    ploughing = 0.9 * np.exp(-(f - 0.05) / 0.025)
    softness = np.exp((220.0 - hardness) / 250.0)
    built_up_edge = 3.0 * softness / (1.0 + np.exp((v - 165.0) / 24.0))
    chatter = 0.08 * (depth / 1.4) ** 2 + 0.12 * (v / 230.0) ** 4
    rubbing = 0.20 * np.exp(-(depth - 0.3) / 0.3)
    heat = 0.16 * (v / 230.0) ** 2 * (hardness / 220.0) * np.exp(-coolant / 3.0)
    shock = 0.03 * ((coolant - 7.5) / 4.0) ** 2
    return np.asarray(0.25 + kinematic + ploughing + built_up_edge + chatter + rubbing + heat + shock)


def quality(x: FloatArray) -> FloatArray:
    """Return the surface's quality in (0, 100), 100 for a mirror; `x` as above -> (n,)."""
    return np.asarray(100.0 / (1.0 + roughness_um(x) / HALF_QUALITY_UM))


def cutting_min(v: FloatArray, f: FloatArray) -> FloatArray:
    """Return the minutes one cut takes: pi D L / (1000 v f)."""
    return np.asarray(math.pi * BAR_DIAMETER_MM * CUT_LENGTH_MM / (1000.0 * v * f))


def wear_mm3_per_min(x: FloatArray) -> FloatArray:
    """Return flank wear by Taylor's extended tool life T = C v^-3 f^-0.8 d^-0.3 H^-2; (n, 5) -> (n,)."""
    v, f, depth, _, hardness = x.T
    life = TOOL_LIFE_MIN * (185.0 / v) ** 3 * (0.21 / f) ** 0.8 * (1.4 / depth) ** 0.3 * (220.0 / hardness) ** 2
    return np.asarray(WEAR_PER_EDGE_MM3 / life)


def cutting_w(x: FloatArray) -> FloatArray:
    """Return the mechanical power of the cut, kc v f d / 60; (n, 5) -> (n,) watt."""
    v, f, depth, _, hardness = x.T
    return np.asarray(SPECIFIC_FORCE_N_PER_MM2 * (hardness / 220.0) * v * f * depth / 60.0)


class Lathe(Process):
    """Is the lathe's process. `advance` moves it through simulated time; everything else is immediate."""

    def __init__(self, seed: np.random.SeedSequence) -> None:
        errors, noise = shares(VARIABLES, DRIVE_ERROR), shares(VARIABLES, SENSOR_NOISE)
        super().__init__(VARIABLES, seed, errors, noise, LAGS_S, change_s=LOAD_S, total_kwh=1825.4)
        self.wear_mm3 = 41.3
        self.concentrate_ml = 5120.0
        self.cut_left = 0.0
        """Share of the present workpiece still to be cut."""

    def command_load(self, on: bool) -> None:
        """Load the next workpiece on a rising command; it is then cut at once."""
        if self.command_change(on):
            self.cut_left = 1.0

    @property
    def cutting(self) -> bool:
        return self.cut_left > 0.0 and not self.change.running

    def quality(self) -> float:
        """Read the surface instrument: never negative."""
        true = float(quality(self.values()[None, :])[0])
        return max(0.0, true * (1.0 + QUALITY_NOISE * self.noise()))

    def load_kw(self) -> float:
        """Return what the spindle gives at these settings, during a cut."""
        return float(cutting_w(self.values()[None, :])[0]) / 1000.0

    def power_w(self) -> float:
        loader_w = LOADER_W if self.change.running else 0.0
        cut_w = float(cutting_w(self.values()[None, :])[0]) if self.cutting else 0.0
        return BASE_W + loader_w + cut_w + self.drive_w(DRIVE_W)

    def advance(self, seconds: float) -> None:
        advance_in_steps(seconds, STEP_S, lambda: self.cut_left > 0.0 or self.change.running, self._step)

    def _step(self, seconds: float) -> None:
        loading_s = self.move(seconds)
        x = self.values()[None, :]
        cut_s = 60.0 * float(cutting_min(x[:, 0], x[:, 1])[0])
        tool_s = min(seconds - loading_s, self.cut_left * cut_s)
        self.cut_left = max(0.0, self.cut_left - tool_s / cut_s)
        if self.cut_left < 1e-9:
            self.cut_left = 0.0
        self.wear_mm3 += float(wear_mm3_per_min(x)[0]) * tool_s / 60.0
        self.concentrate_ml += 1000.0 * CONCENTRATE * self.channels["coolant"].value * tool_s / 60.0
        self.energy.power_w = BASE_W + self.drive_w(DRIVE_W)
        self.energy.advance(seconds, LOADER_W * loading_s + float(cutting_w(x)[0]) * tool_s)

    def state(self) -> dict[str, Any]:
        true = float(quality(self.values()[None, :])[0])
        cut = {"cutting": self.cutting, "cut_left": self.cut_left}
        return super().state() | cut | {"outcome": true, "power_w": self.power_w()}

    def metered(self) -> dict[str, float]:
        return {
            "energy_kwh": self.energy.total_kwh,
            "wear_mm3": self.wear_mm3,
            "concentrate_ml": self.concentrate_ml,
        }
