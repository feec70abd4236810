"""The lathe's instruments: a PLC on TCP, a three-phase meter on RTU, a surface instrument on a serial line."""

from __future__ import annotations

import time
from typing import Final

import numpy as np

from sim_rig.clock import LoopTimer
from sim_rig.faces.energy_meter import MeterReadings, meter_bank
from sim_rig.faces.modbus import Station
from sim_rig.faces.registers import Bank
from sim_rig.faces.scpi import ScpiInstrument
from sim_rig.faults import SensorTap, WireFaults
from sim_rig.plants.lathe import Lathe
from sim_rig.rigs.assembly import Assembly, TcpWire, rtu_wire, scpi_wire
from sim_rig.rigs.wiring import Point, drive_sensors, map_drives

POINTS: Final = (
    Point("speed", 0, 0, 1000.0),
    Point("feed", 2, 1, 5.0, order="CDAB"),
    Point("depth", 4, 2, 20.0, order="BADC"),
    Point("coolant", 6, 3, 40.0, kind="int16", scale=0.01),
    Point("hardness", 8, 4, 600.0, kind="uint16", scale=0.1),
)
LOAD_COIL = 5
WEAR_AT, CONCENTRATE_AT = 20, 22


def build(timer: LoopTimer, seed: np.random.SeedSequence) -> Assembly:
    """The whole rig."""
    lathe = Lathe(seed)
    sensors = drive_sensors(lathe.drives, POINTS) | {"surface": SensorTap(lathe.quality, 100.0)}
    plc = Station("plc", {1: _plc(lathe, sensors)}, WireFaults(), timer.now_s)
    readings = MeterReadings(lathe.power_w, lambda: lathe.energy.counter_kwh)
    mains = Station("mains", {3: meter_bank(readings, "SDM630", 3)}, WireFaults(), timer.now_s)
    tester = ScpiInstrument(timer, "SIMULATED,SQ-2,3311,1.7", "MEASure:QUALity", sensors["surface"])
    assembly = Assembly(
        scenario="lathe",
        plant=lathe,
        timer=timer,
        tcp=TcpWire("plc", plc),
        serial=(
            rtu_wire("mains", "mains", mains, time.monotonic, 9600),
            scpi_wire("tester", "tester", tester),
        ),
        stations={"plc": plc, "mains": mains},
        sensors=sensors,
        circuits={"tester": tester},
        meters={"mains": readings},
        reset_energy=lathe.energy.reset,
        jump_energy=lathe.energy.jump,
    )
    timer.sync = assembly.sync
    return assembly


def _plc(lathe: Lathe, sensors: dict[str, SensorTap]) -> Bank:
    bank = Bank()
    map_drives(bank, lathe.drives, sensors, POINTS)
    bank.number("input", WEAR_AT, lambda: lathe.wear_mm3)
    bank.number("input", CONCENTRATE_AT, lambda: lathe.concentrate_ml, kind="uint32", scale=0.1)
    bank.bit("coil", LOAD_COIL, lambda: lathe.drives.change.commanded, lathe.command_load)
    bank.bit("discrete", 0, lambda: lathe.drives.change.running)
    bank.bit("discrete", 1, lambda: lathe.cutting)
    return bank
