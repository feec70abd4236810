"""The scenarios by name: their rig, and what there is to be decided on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from sim_rig.clock import Timer
from sim_rig.economics import greenhouse_cost, lathe_cost, tunnel_cost
from sim_rig.errors import UsageError
from sim_rig.plants import lathe, tank, tunnel
from sim_rig.plants.arrays import load
from sim_rig.plants.natural import FloatArray, Variable
from sim_rig.rigs import greenhouse, machines
from sim_rig.rigs.assembly import Assembly

NAMES: Final = ("greenhouse", "lathe", "wind-tunnel")
GROWTH_ARRAYS, AIRFOIL_ARRAYS = "plant_growth.npz", "airfoil.npz"
CURRENCY: Final = "EUR"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Holds what a perfectly informed operator knows."""

    name: str
    variables: tuple[Variable, ...]
    control_sets: tuple[tuple[str, ...], ...]
    response: Callable[[FloatArray], FloatArray]
    """(n, d) engineering units -> (n,) outcome, noise free."""
    cost: Callable[[tuple[str, ...], FloatArray], FloatArray]
    """Controlled variables and (n, d) true values -> (n,) expected cost of such a trial; see `economics`."""
    outcome: str
    unit: str
    floor: float
    """The worst outcome there can be; how good a setting is counts from here."""


def build(name: str, timer: Timer, seed: int, data: Path | None) -> Assembly:
    """Build the rig of a scenario.

    Raises:
        UsageError: there is no such scenario.
        DataError: it needs arrays that are not there.
    """
    sequence = np.random.SeedSequence(seed)
    if name == "greenhouse":
        return greenhouse.build(timer, sequence, _growth(data))
    if name == "lathe":
        return machines.build_lathe(timer, sequence)
    if name == "wind-tunnel":
        return machines.build_tunnel(timer, sequence, tunnel.SelfNoise(load(data, AIRFOIL_ARRAYS)))
    raise _unknown(name)


def scenario(name: str, data: Path | None) -> Scenario:
    """Return what there is to be decided.

    Raises:
        UsageError: there is no such scenario.
        DataError: it needs arrays that are not there.
    """
    if name == "greenhouse":
        g, response = tank, _growth(data)
        return Scenario(name, g.VARIABLES, g.CONTROL_SETS, response, greenhouse_cost, "growth", "cm2/day", 0.0)
    if name == "lathe":
        t = lathe
        return Scenario(name, t.VARIABLES, t.CONTROL_SETS, t.quality, lathe_cost, "quality", "1", 0.0)
    if name == "wind-tunnel":
        w, noise = tunnel, tunnel.SelfNoise(load(data, AIRFOIL_ARRAYS))
        return Scenario(name, w.VARIABLES, w.CONTROL_SETS, noise, tunnel_cost, "noise", "dB", w.FLOOR_DB)
    raise _unknown(name)


def _growth(data: Path | None) -> tank.Response:
    return tank.growth if data is None else load(data, GROWTH_ARRAYS).over(tank.VARIABLES)


def _unknown(name: str) -> UsageError:
    return UsageError(f"scenario: got {name!r}, must be one of {', '.join(NAMES)}")
