"""What every rig is made of before it listens: a PLC on TCP, a meter on RTU, text instruments on serial lines."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from sim_rig.clock import Timer
from sim_rig.faces.energy_meter import MeterModel, MeterReadings, meter_bank
from sim_rig.faces.lines import TextInstrument
from sim_rig.faces.modbus import RtuFraming, Station
from sim_rig.faces.registers import Bank, NumberType, WordOrder
from sim_rig.faces.watchdog import Watchdog
from sim_rig.faults import SensorTap, WireFaults
from sim_rig.plants.lathe import Lathe
from sim_rig.plants.parts import Channel, Process
from sim_rig.plants.pump import DosingPump
from sim_rig.plants.tank import Tank
from sim_rig.plants.tunnel import Tunnel

PLC: Final = "plc"
MAINS: Final = "mains"
Plant = Tank | Lathe | Tunnel


@dataclass(frozen=True, slots=True)
class SerialWire:
    """Describes a bus over a pseudo-terminal."""

    bus: str
    """Its name in the configuration's `buses`."""
    link: str
    """File name under the rig's directory."""
    scheme: str
    face: RtuFraming | TextInstrument
    """The instrument's end of it."""
    faults: WireFaults
    query: str = ""
    """Of the URL, with its question mark."""


@dataclass(frozen=True, slots=True)
class MainsMeter:
    """Says which energy meter is on the mains."""

    model: MeterModel
    node: int
    baud: int


class Assembly:
    """Holds a plant and its instruments. `sync` brings the plant up to now; call it before touching anything.

    `sensors` are by the device's name in the configuration; `pumps` are by bus, and so are `instruments`, each with the
    file name of its line.
    """

    def __init__(
        self,
        scenario: str,
        timer: Timer,
        plant: Plant,
        plc: Bank,
        meter: MainsMeter,
        *,
        sensors: Mapping[str, SensorTap],
        instruments: Mapping[str, tuple[str, TextInstrument]],
        pumps: Mapping[str, DosingPump] | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.scenario = scenario
        self.timer = timer
        self.plant = plant
        self.sensors = sensors
        self.pumps = pumps or {}
        self.drops = [] if watchdog is None else watchdog.drops
        """When the PLC's watchdog let everything go."""
        self.circuits = {bus: instrument for bus, (_, instrument) in instruments.items()}
        self.meter = MeterReadings(plant.power_w, lambda: plant.energy.counter_kwh)
        mains = Station({meter.node: meter_bank(self.meter, meter.model, meter.node)}, now_s=timer.now_s)
        self.stations = {PLC: Station({1: plc}, now_s=timer.now_s), MAINS: mains}
        rtu = RtuFraming(mains, time.monotonic)
        self.serial = (
            SerialWire(MAINS, MAINS, "modbus_rtu", rtu, mains.faults, f"?baud={meter.baud}"),
            *(SerialWire(bus, link, "serial", i, WireFaults()) for bus, (link, i) in instruments.items()),
        )
        self.wire_faults = {PLC: self.stations[PLC].faults} | {wire.bus: wire.faults for wire in self.serial}
        self._synced_s: float | None = None
        timer.sync = self.sync

    def sync(self) -> None:
        now_s = self.timer.now_s()
        if self._synced_s is not None:
            self.plant.advance(max(0.0, now_s - self._synced_s))
        self._synced_s = now_s

    def power_up(self) -> None:
        """Start what instruments do unasked."""
        self.sync()
        for circuit in self.circuits.values():
            circuit.power_up()

    def doses(self) -> list[dict[str, Any]]:
        """Tell every dispense of every pump, with the pump's device name."""
        return [entry for pump in self.pumps.values() for entry in pump.testimony()]


# how variables and their actuators appear in a PLC ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlcPoint:
    """Says where a variable sits in a PLC: its reading and its setpoint have the same register number."""

    name: str
    at: int
    coil: int | None
    """Enables its actuator; None: it has none here."""
    full_scale: float
    kind: NumberType = "float32"
    order: WordOrder = "ABCD"
    scale: float = 1.0


def map_points(
    bank: Bank, points: Iterable[PlcPoint], sensors: Mapping[str, SensorTap], channels: Mapping[str, Channel]
) -> None:
    """Map readings, and of what can be imposed the setpoints (out of range: exception 03) and enable coils.

    `sensors` and `channels` are by variable.
    """
    for p in points:
        layout = partial(bank.number, kind=p.kind, order=p.order, scale=p.scale)
        layout("input", p.at, sensors[p.name])
        if p.coil is not None:
            channel = channels[p.name]
            layout("holding", p.at, partial(getattr, channel, "setpoint"), channel.impose)
            bank.bit("coil", p.coil, partial(getattr, channel, "enabled"), partial(setattr, channel, "enabled"))


def machine_plc(machine: Process, points: Iterable[PlcPoint]) -> tuple[Bank, dict[str, SensorTap]]:
    """Return the PLC of a machine, and a sensor for every variable, named as in the configuration."""
    bank, points = Bank(), tuple(points)
    sensors = {p.name: SensorTap(partial(machine.sense, p.name), p.full_scale) for p in points}
    map_points(bank, points, sensors, machine.channels)
    bank.bit("discrete", 0, lambda: machine.change.running)
    return bank, {f"{name}_sensor": tap for name, tap in sensors.items()}
