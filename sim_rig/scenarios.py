"""The scenarios by name: their rig, and their problem as it truly is."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from sim_rig.clock import LoopTimer
from sim_rig.economics import greenhouse_cost, lathe_cost, tunnel_cost
from sim_rig.errors import UsageError
from sim_rig.plants import growth, tunnel, turning
from sim_rig.plants.arrays import load
from sim_rig.problem import Problem, Response
from sim_rig.rigs import greenhouse, lathe, wind_tunnel
from sim_rig.rigs.assembly import Assembly

NAMES: Final = ("greenhouse", "lathe", "wind-tunnel")
GROWTH_ARRAYS, AIRFOIL_ARRAYS = "plant_growth.npz", "airfoil.npz"


def build(name: str, timer: LoopTimer, seed: int, data: Path | None) -> Assembly:
    """The rig of a scenario.

    Raises:
        UsageError: there is no such scenario.
        DataError: it needs arrays that are not there.
    """
    sequence = np.random.SeedSequence(seed)
    if name == "greenhouse":
        return greenhouse.build(timer, sequence, _growth(data))
    if name == "lathe":
        return lathe.build(timer, sequence)
    if name == "wind-tunnel":
        return wind_tunnel.build(timer, sequence, tunnel.SelfNoise(load(data, AIRFOIL_ARRAYS)))
    raise _unknown(name)


def problem(name: str, data: Path | None) -> Problem:
    """The problem of a scenario.

    Raises:
        UsageError: there is no such scenario.
        DataError: it needs arrays that are not there.
    """
    if name == "greenhouse":
        g, response = growth, _growth(data)
        return Problem(name, g.VARIABLES, g.CONTROL_SETS, response, greenhouse_cost, "growth", "cm2/day", 0.0)
    if name == "lathe":
        t = turning
        return Problem(name, t.VARIABLES, t.CONTROL_SETS, t.quality, lathe_cost, "quality", "1", 0.0)
    if name == "wind-tunnel":
        w, noise = tunnel, tunnel.SelfNoise(load(data, AIRFOIL_ARRAYS))
        return Problem(name, w.VARIABLES, w.CONTROL_SETS, noise, tunnel_cost, "noise", "dB", w.FLOOR_DB)
    raise _unknown(name)


def _growth(data: Path | None) -> Response:
    return growth.growth if data is None else load(data, GROWTH_ARRAYS).over(growth.VARIABLES)


def _unknown(name: str) -> UsageError:
    return UsageError(f"scenario: got {name!r}, must be one of {', '.join(NAMES)}")
