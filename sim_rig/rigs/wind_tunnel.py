"""The wind tunnel's instruments: a PLC on TCP, a three-phase meter on RTU, a microphone on a serial line."""

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
from sim_rig.plants.tunnel import SelfNoise, Tunnel
from sim_rig.rigs.assembly import Assembly, TcpWire, rtu_wire, scpi_wire
from sim_rig.rigs.wiring import Point, drive_sensors, map_drives

POINTS: Final = (
    Point("frequency", 0, 0, 10.0),
    Point("angle", 2, 1, 90.0, order="DCBA"),
    Point("chord", 4, 2, 1000.0, kind="uint16", scale=0.1),
    Point("velocity", 6, 3, 200.0, order="CDAB"),
    Point("thickness", 8, 4, 3.0, kind="int16", scale=0.001),
)
RUN_COIL = 5


def build(timer: LoopTimer, seed: np.random.SeedSequence, noise_db: SelfNoise) -> Assembly:
    """The whole rig."""
    tunnel = Tunnel(seed, noise_db)
    sensors = drive_sensors(tunnel.drives, POINTS) | {"microphone": SensorTap(tunnel.level_db, 194.0)}
    plc = Station("plc", {1: _plc(tunnel, sensors)}, WireFaults(), timer.now_s)
    readings = MeterReadings(tunnel.power_w, lambda: tunnel.energy.counter_kwh)
    mains = Station("mains", {1: meter_bank(readings, "SDM630")}, WireFaults(), timer.now_s)
    microphone = ScpiInstrument(timer, "SIMULATED,SLM-1,88,4.0", "MEASure:SPLevel", sensors["microphone"])
    assembly = Assembly(
        scenario="wind-tunnel",
        plant=tunnel,
        timer=timer,
        tcp=TcpWire("plc", plc),
        serial=(
            rtu_wire("mains", "mains", mains, time.monotonic, 9600),
            scpi_wire("mic", "microphone", microphone),
        ),
        stations={"plc": plc, "mains": mains},
        sensors=sensors,
        circuits={"mic": microphone},
        meters={"mains": readings},
        reset_energy=tunnel.energy.reset,
        jump_energy=tunnel.energy.jump,
    )
    timer.sync = assembly.sync
    return assembly


def _plc(tunnel: Tunnel, sensors: dict[str, SensorTap]) -> Bank:
    bank = Bank()
    map_drives(bank, tunnel.drives, sensors, POINTS)
    bank.bit("coil", RUN_COIL, lambda: tunnel.drives.change.commanded, tunnel.command_run)
    bank.bit("discrete", 0, lambda: tunnel.drives.change.running)
    return bank
