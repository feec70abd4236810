"""The greenhouse's instruments: a PLC on TCP, a meter on RTU; a pH probe, two pumps and a camera on serial lines."""

from __future__ import annotations

import time
from functools import partial

import numpy as np

from sim_rig.clock import LoopTimer
from sim_rig.faces.energy_meter import MeterReadings, meter_bank
from sim_rig.faces.ezo import PhCircuit
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.faces.modbus import Station
from sim_rig.faces.registers import Bank, NumberType, WordOrder
from sim_rig.faces.scpi import Output, ScpiInstrument
from sim_rig.faults import SensorTap, WireFaults
from sim_rig.plants.tank import Response, Tank
from sim_rig.rigs.assembly import Assembly, TcpWire, circuit_wire, rtu_wire, scpi_wire
from sim_rig.rigs.wiring import map_actuator

SOFTENER_COIL, ALKALISER_COIL, REFILL_COIL = 0, 1, 5
PROBES: tuple[tuple[str, int, NumberType, WordOrder, float, float], ...] = (
    ("ca", 0, "float32", "ABCD", 1.0, 20.0),
    ("b", 2, "float32", "CDAB", 1.0, 200.0),
    ("nh4", 4, "float32", "ABCD", 1.0, 20.0),
    ("k", 6, "int16", "ABCD", 0.01, 40.0),
)
"""Variable, register, type, word order, scale, the probe's full scale; a valve's setpoint has its probe's register."""
VALVES = {"b": 2, "nh4": 3, "k": 4}
"""Variable and enable coil."""


def build(timer: LoopTimer, seed: np.random.SeedSequence, response: Response) -> Assembly:
    """The whole rig; `response` is the growth over the tank's variables."""
    tank = Tank(seed, response)
    sensors = {f"{name}_probe": SensorTap(partial(tank.sense, name), full) for name, *_, full in PROBES}
    sensors |= {"ph_probe": SensorTap(partial(tank.sense, "ph"), 14.0), "camera": SensorTap(tank.growth, 1000.0)}
    plc = Station("plc", {1: _plc(tank, sensors)}, WireFaults(), timer.now_s)
    readings = MeterReadings(tank.power_w, lambda: tank.energy.counter_kwh)
    mains = Station("mains", {1: meter_bank(readings, "SDM120")}, WireFaults(), timer.now_s)
    ph = PhCircuit(timer, sensors["ph_probe"], "nutrient_ph")
    ca = PumpCircuit(timer, tank.ca_pump, "calcium")
    acid = PumpCircuit(timer, tank.acid_pump, "acid")
    camera = ScpiInstrument(timer, "SIMULATED,GC-1,1027,2.3", "MEASure:GROWth", sensors["camera"])
    camera.output = Output("ILLumination", 100.0)  # its ring light, percent: growth does not feel it
    assembly = Assembly(
        scenario="greenhouse",
        plant=tank,
        timer=timer,
        tcp=TcpWire("plc", plc),
        serial=(
            rtu_wire("mains", "mains", mains, time.monotonic, 2400),
            circuit_wire("ph", "ph", ph),
            circuit_wire("ca", "ca_pump", ca),
            circuit_wire("acid", "acid_pump", acid),
            scpi_wire("cam", "camera", camera),
        ),
        stations={"plc": plc, "mains": mains},
        sensors=sensors,
        pumps={"ca": tank.ca_pump, "acid": tank.acid_pump},
        circuits={"ph": ph, "ca": ca, "acid": acid, "cam": camera},
        meters={"mains": readings},
        reset_energy=tank.energy.reset,
        jump_energy=tank.energy.jump,
    )
    timer.sync = assembly.sync
    return assembly


def _plc(tank: Tank, sensors: dict[str, SensorTap]) -> Bank:
    bank = Bank()
    for name, at, kind, order, scale, _ in PROBES:
        bank.number("input", at, sensors[f"{name}_probe"], kind=kind, order=order, scale=scale)
        if name in VALVES:
            map_actuator(bank, tank.channels[name], at, VALVES[name], kind=kind, order=order, scale=scale)
    bank.bit("coil", SOFTENER_COIL, lambda: tank.softener, partial(setattr, tank, "softener"))
    bank.bit("coil", ALKALISER_COIL, lambda: tank.alkaliser, partial(setattr, tank, "alkaliser"))
    bank.bit("coil", REFILL_COIL, lambda: tank.refill.commanded, tank.command_refill)
    bank.bit("discrete", 0, lambda: tank.refill.running)
    return bank
