"""The scenarios by name: their rig, and what there is to be decided on it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from sim_rig.clock import Timer
from sim_rig.economics import GREENHOUSE, greenhouse_cost, lathe_cost, tunnel_cost
from sim_rig.errors import CommandError
from sim_rig.plants import lathe, tank, tunnel
from sim_rig.plants.arrays import load
from sim_rig.plants.natural import FloatArray, PlantVariable
from sim_rig.rigs import greenhouse, machines
from sim_rig.rigs.assembly import Assembly

NAMES: Final = ("greenhouse", "lathe", "wind-tunnel")
GROWTH_ARRAYS, AIRFOIL_ARRAYS = "plant_growth.npz", "airfoil.npz"
CURRENCY: Final = "EUR"
Cost = Callable[[tuple[str, ...], FloatArray], FloatArray]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Holds a simulated rig and what a perfectly informed operator of it knows."""

    name: str
    rig: Callable[[Timer, np.random.SeedSequence], Assembly]
    variables: tuple[PlantVariable, ...]
    control_sets: tuple[tuple[str, ...], ...]
    response: Callable[[FloatArray], FloatArray]
    """(n, d) engineering units -> (n,) outcome, noise free."""
    cost: Cost
    """Controlled variables and (n, d) true values -> (n,) expected cost of such a trial; see `economics`."""
    outcome: str
    unit: str
    floor: float
    """The worst outcome there can be; how good a setting is counts from here."""
    blind_cost: Cost | None = None
    """The same of trials that do not look; None: those of the example do not look anyway."""


def build(name: str, timer: Timer, seed: int, data: Path | None, *, more_pumps: bool = False) -> Assembly:
    """Build the rig of a scenario; `more_pumps` is for the greenhouse. Raises as `scenario`."""
    found = scenario(name, data)
    if more_pumps and name == "greenhouse":
        return greenhouse.build(timer, np.random.SeedSequence(seed), found.response, more_pumps=True)
    return found.rig(timer, np.random.SeedSequence(seed))


def scenario(name: str, data: Path | None) -> Scenario:
    """Return a scenario by its name.

    Raises:
        UsageError: there is no such scenario.
        DataError: it needs arrays that are not there.
    """
    if name == "greenhouse":
        g = tank
        growth = g.growth if data is None else load(data, GROWTH_ARRAYS).over(g.VARIABLES)
        build_it = partial(greenhouse.build, response=growth)
        blind = partial(greenhouse_cost, nominal=GREENHOUSE.blind())
        named = ("growth", "cm2/day", 0.0, blind)
        return Scenario(name, build_it, g.VARIABLES, g.CONTROL_SETS, growth, greenhouse_cost, *named)
    if name == "lathe":
        t = lathe
        return Scenario(
            name, machines.build_lathe, t.VARIABLES, t.CONTROL_SETS, t.quality, lathe_cost, "quality", "1", 0.0
        )
    if name == "wind-tunnel":
        w = tunnel
        noise = w.SelfNoise(load(data, AIRFOIL_ARRAYS))
        build_it = partial(machines.build_tunnel, noise_db=noise)
        return Scenario(name, build_it, w.VARIABLES, w.CONTROL_SETS, noise, tunnel_cost, "noise", "dB", w.FLOOR_DB)
    raise CommandError(f"scenario: got {name!r}, must be one of {', '.join(NAMES)}")
