"""The instruments of lathe and wind tunnel: beside PLC and three-phase meter one that measures the outcome."""

from __future__ import annotations

from typing import Final

import numpy as np

from sim_rig.clock import Timer
from sim_rig.faces.scpi import ScpiInstrument
from sim_rig.faults import SensorTap
from sim_rig.plants.lathe import Lathe
from sim_rig.plants.tunnel import SelfNoise, Tunnel
from sim_rig.rigs.assembly import Assembly, MainsMeter, PlcPoint, machine_plc

LATHE: Final = (
    PlcPoint("speed", 0, 0, 1000.0),
    PlcPoint("feed", 2, 1, 5.0, order="CDAB"),
    PlcPoint("depth", 4, 2, 20.0, order="BADC"),
    PlcPoint("coolant", 6, 3, 40.0, kind="int16", scale=0.01),
    PlcPoint("hardness", 8, 4, 600.0, kind="uint16", scale=0.1),
)
TUNNEL: Final = (
    PlcPoint("frequency", 0, 0, 10.0),
    PlcPoint("angle", 2, 1, 90.0, order="DCBA"),
    PlcPoint("chord", 4, 2, 1000.0, kind="uint16", scale=0.1),
    PlcPoint("velocity", 6, 3, 200.0, order="CDAB"),
    PlcPoint("thickness", 8, 4, 3.0, kind="int16", scale=0.001),
)
NEXT_COIL: Final = 5
"""Loads the next workpiece; starts the next run."""
WEAR_AT, CONCENTRATE_AT, LOAD_AT = 20, 22, 24


def build_lathe(timer: Timer, seed: np.random.SeedSequence) -> Assembly:
    lathe = Lathe(seed)
    bank, sensors = machine_plc(lathe, LATHE)
    bank.number("input", WEAR_AT, lambda: lathe.wear_mm3)
    bank.number("input", CONCENTRATE_AT, lambda: lathe.concentrate_ml, kind="uint32", scale=0.1)
    bank.number("input", LOAD_AT, lathe.load_kw)
    bank.bit("coil", NEXT_COIL, lambda: lathe.change.commanded, lathe.command_load)
    bank.bit("discrete", 1, lambda: lathe.cutting)
    surface = SensorTap(lathe.quality, 100.0)
    tester = ScpiInstrument(timer, "SIMULATED,SQ-2,3311,1.7", "MEASure:QUALity", surface)
    return Assembly(
        "lathe",
        timer,
        lathe,
        bank,
        MainsMeter("SDM630", 3, 9600),
        sensors=sensors | {"surface": surface},
        instruments={"tester": ("tester", tester)},
    )


def build_tunnel(timer: Timer, seed: np.random.SeedSequence, noise_db: SelfNoise) -> Assembly:
    tunnel = Tunnel(seed, noise_db)
    bank, sensors = machine_plc(tunnel, TUNNEL)
    bank.bit("coil", NEXT_COIL, lambda: tunnel.change.commanded, tunnel.command_change)
    heard = SensorTap(tunnel.level_db, 194.0)
    microphone = ScpiInstrument(timer, "SIMULATED,SLM-1,88,4.0", "MEASure:SPLevel", heard)
    return Assembly(
        "wind-tunnel",
        timer,
        tunnel,
        bank,
        MainsMeter("SDM630", 1, 9600),
        sensors=sensors | {"microphone": heard},
        instruments={"mic": ("microphone", microphone)},
    )
