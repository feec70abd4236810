"""Turning a steel bar: how good the surface gets, how fast the tool wears, what the cut draws. Pure formulas."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from sim_rig.plants.natural import FloatArray, Variable

VARIABLES = (
    Variable.of("speed", "m/min", (80.0, 320.0), 185.0, 35.0),
    Variable.of("feed", "mm", (0.05, 0.40), 0.21, 0.045),
    Variable.of("depth", "mm", (0.3, 3.0), 1.4, 0.4),
    Variable.of("coolant", "L/min", (1.0, 12.0), 5.0, 1.8),
    Variable.of("hardness", "HB", (160.0, 280.0), 220.0, 18.0),
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


def roughness_um(x: FloatArray) -> FloatArray:
    """Arithmetic mean roughness Ra; `x`: (n, 5) engineering units in the order of `VARIABLES` -> (n,) micrometre.

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
    """Surface quality index in (0, 100), 100 for a mirror; `x` as above -> (n,)."""
    return np.asarray(100.0 / (1.0 + roughness_um(x) / HALF_QUALITY_UM))


def cutting_min(v: FloatArray, f: FloatArray) -> FloatArray:
    """Minutes one cut takes: pi D L / (1000 v f)."""
    return np.asarray(math.pi * BAR_DIAMETER_MM * CUT_LENGTH_MM / (1000.0 * v * f))


def wear_mm3_per_min(x: FloatArray) -> FloatArray:
    """Flank wear while cutting, from Taylor's extended tool life T = C v^-3 f^-0.8 d^-0.3 H^-2; (n, 5) -> (n,)."""
    v, f, depth, _, hardness = x.T
    life = TOOL_LIFE_MIN * (185.0 / v) ** 3 * (0.21 / f) ** 0.8 * (1.4 / depth) ** 0.3 * (220.0 / hardness) ** 2
    return np.asarray(WEAR_PER_EDGE_MM3 / life)


def cutting_w(x: FloatArray) -> FloatArray:
    """Mechanical power of the cut, kc v f d / 60; (n, 5) -> (n,) watt."""
    v, f, depth, _, hardness = x.T
    return np.asarray(SPECIFIC_FORCE_N_PER_MM2 * (hardness / 220.0) * v * f * depth / 60.0)
