"""What a whole rig is made of, before it listens anywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sim_rig.clock import LoopTimer
from sim_rig.faces.energy_meter import MeterReadings
from sim_rig.faces.ezo import PhCircuit
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.faces.modbus import RtuFraming, Station
from sim_rig.faces.scpi import ScpiInstrument
from sim_rig.faults import SensorTap, WireFaults
from sim_rig.plants.pump import DosingPump


class Plant(Protocol):
    """Physics that moves through simulated time."""

    def advance(self, seconds: float) -> None:
        """Let simulated time pass."""
        ...

    def state(self) -> dict[str, Any]:
        """Everything, as plain data."""
        ...

    def metered(self) -> dict[str, float]:
        """What has really been consumed since power-up."""
        ...


class Face(Protocol):
    """An instrument's end of a serial line."""

    def feed(self, data: bytes) -> None:
        """Bytes from the line."""
        ...


@dataclass(frozen=True, slots=True)
class SerialWire:
    """A bus over a pseudo-terminal."""

    bus: str
    """Its name in the configuration's `buses`."""
    link: str
    """File name under the rig's directory."""
    scheme: str
    face: Face
    connect: Callable[[Callable[[bytes], None]], None]
    """Give the face its way to send."""
    faults: WireFaults
    query: str = ""
    """Of the URL, with its question mark."""


@dataclass(frozen=True, slots=True)
class TcpWire:
    """A Modbus bus over TCP."""

    bus: str
    station: Station


@dataclass(slots=True)
class Assembly:
    """A plant and its instruments. `sync` brings the plant up to now; call it before touching anything."""

    scenario: str
    plant: Plant
    timer: LoopTimer
    tcp: TcpWire
    serial: tuple[SerialWire, ...]
    stations: Mapping[str, Station]
    """Every Modbus station by bus."""
    sensors: Mapping[str, SensorTap]
    """By the device's name in the configuration."""
    pumps: Mapping[str, DosingPump] = field(default_factory=dict)
    """By bus."""
    circuits: Mapping[str, PhCircuit | PumpCircuit | ScpiInstrument] = field(default_factory=dict)
    """Text instruments by bus."""
    meters: Mapping[str, MeterReadings] = field(default_factory=dict)
    """Energy meters by bus."""
    reset_energy: Callable[[], None] = field(default=lambda: None)
    """The energy counter starts from zero."""
    jump_energy: Callable[[float], None] = field(default=lambda _: None)
    """The energy counter shows so many kWh more."""
    _synced_s: float | None = None

    def sync(self) -> None:
        """Advance the plant to now."""
        now_s = self.timer.now_s()
        if self._synced_s is not None:
            self.plant.advance(max(0.0, now_s - self._synced_s))
        self._synced_s = now_s

    def power_up(self) -> None:
        """Start what instruments do unasked."""
        self.sync()
        for circuit in self.circuits.values():
            if isinstance(circuit, PhCircuit):
                circuit.power_up()

    def doses(self) -> list[dict[str, Any]]:
        """Every dispense of every pump, with the pump's device name."""
        return [entry for pump in self.pumps.values() for entry in pump.testimony()]

    def wire_faults(self) -> dict[str, WireFaults]:
        """The faults of every bus."""
        return {self.tcp.bus: self.tcp.station.faults} | {wire.bus: wire.faults for wire in self.serial}


def rtu_wire(bus: str, link: str, station: Station, wall_s: Callable[[], float], baud: int) -> SerialWire:
    """A Modbus RTU bus."""
    framing = RtuFraming(station, wall_s)

    def connect(send: Callable[[bytes], None]) -> None:
        framing.send = send

    return SerialWire(bus, link, "modbus_rtu", framing, connect, station.faults, f"?baud={baud}")


def circuit_wire(bus: str, link: str, instrument: PhCircuit | PumpCircuit) -> SerialWire:
    """An EZO circuit on its own line."""

    def connect(send: Callable[[bytes], None]) -> None:
        instrument.circuit.send = send

    return SerialWire(bus, link, "serial", instrument.circuit, connect, WireFaults())


def scpi_wire(bus: str, link: str, instrument: ScpiInstrument) -> SerialWire:
    """A SCPI instrument on its own line."""

    def connect(send: Callable[[bytes], None]) -> None:
        instrument.send = send

    return SerialWire(bus, link, "serial", instrument, connect, WireFaults())
