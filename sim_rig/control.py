"""The control socket: faults on and off, and the witness's testimony, as JSON lines.

`{"fault": "drop_reply", "bus": "mains", "count": 1}`, `{"clear": true}`, `{"query": "state"}`; every request is
answered with one line, `{"ok": true, ...}` or `{"ok": false, "error": "..."}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim_rig.errors import ControlError, ListenError
from sim_rig.faces.ezo import PhCircuit
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.faces.scpi import ScpiInstrument
from sim_rig.faults import BYTE_FAULTS, MODBUS_FAULTS, SENSOR_MODES, TCP_FAULTS, WireFault
from sim_rig.rigs.assembly import Assembly

Request = dict[str, Any]
Handler = Callable[[Request], None]


@dataclass(frozen=True, slots=True)
class Hardware:
    """What can be done to the ports themselves, by whoever owns them."""

    unplug: Callable[[str], None]
    replug: Callable[[str], None]
    deafen: Callable[[bool], None]


class ControlDesk:
    """Understands control requests."""

    def __init__(self, assembly: Assembly, hardware: Hardware) -> None:
        self._rig = assembly
        self._hardware = hardware
        self._identities: dict[str, str] = {}
        self._handlers: Mapping[str, Handler] = {
            "sensor": self._sensor,
            "identity": self._identity,
            "pump_reset": lambda r: self._pump(r).power_cycle(),
            "restart": self._restart,
            "dstart": self._dstart,
            "pump": self._pump_fault,
            "energy_reset": lambda _: self._rig.reset_energy(),
            "energy_unit": self._energy_unit,
            "word_swap": self._word_swap,
            "unplug": lambda r: self._hardware.unplug(text(r, "bus")),
            "replug": lambda r: self._hardware.replug(text(r, "bus")),
            "half_open": lambda r: self._hardware.deafen(bool(r.get("on", True))),
        } | dict.fromkeys((*BYTE_FAULTS, *MODBUS_FAULTS, *TCP_FAULTS), self._wire)

    def handle(self, request: Request) -> dict[str, Any]:
        """Do what is asked; returns the answer.

        Raises:
            ControlError: not understood; nothing was changed.
        """
        self._rig.sync()
        if request.get("query") == "state":
            return self.state()
        if request.get("clear"):
            self.clear()
            return {}
        kind = text(request, "fault")
        if kind not in self._handlers:
            raise ControlError(f"fault: got {kind!r}, must be one of {', '.join(sorted(self._handlers))}")
        self._handlers[kind](request)
        return {}

    def state(self) -> dict[str, Any]:
        """The plant, every dose, what was metered, what was written."""
        rig = self._rig
        return {
            "scenario": rig.scenario,
            "time_s": rig.clock.now_s(),
            "speed": rig.clock.speed,
            "plant": rig.plant.state(),
            "doses": rig.doses(),
            "metered": rig.plant.metered(),
            "requests": {name: s.requests for name, s in rig.stations.items()},
            "writes": {name: list(s.writes) for name, s in rig.stations.items()},
        }

    def clear(self) -> None:
        """Everything works again (what was unplugged stays so)."""
        for faults in self._rig.wire_faults().values():
            faults.clear()
        for tap in self._rig.sensors.values():
            tap.mode = "ok"
        for pump in self._rig.pumps.values():
            pump.faults.clear()
        for reading in self._rig.meters.values():
            reading.per_unit = 1.0
        for station in self._rig.stations.values():
            for bank in station.units.values():
                bank.word_swap = False
        for bus, identity in self._identities.items():
            self._set_identity(bus, identity)
        self._identities.clear()
        for circuit in self._rig.circuits.values():
            if isinstance(circuit, PumpCircuit):
                circuit.dstart_ml = 0.0
        self._hardware.deafen(False)

    # handlers ----------------------------------------------------------------------------------------------------

    def _wire(self, request: Request) -> None:
        bus = text(request, "bus" if "bus" in request else "device")
        faults = self._rig.wire_faults()
        if bus not in faults:
            raise ControlError(f"bus: got {bus!r}, must be one of {', '.join(faults)}")
        kind = text(request, "fault")
        if kind in TCP_FAULTS and bus != self._rig.tcp.bus:
            raise ControlError(f"{kind}: {bus} is no TCP bus, {self._rig.tcp.bus} is")
        if kind in MODBUS_FAULTS and bus not in self._rig.stations:
            raise ControlError(f"{kind}: {bus} speaks no Modbus; {', '.join(self._rig.stations)} do")
        given: dict[str, Any] = {key: request[key] for key in ("count", "seconds", "code", "unit") if key in request}
        if "data" in request:
            given["data"] = bytes.fromhex(text(request, "data"))
        faults[bus].add(WireFault(kind, **given))

    def _sensor(self, request: Request) -> None:
        name, mode = text(request, "name"), text(request, "mode")
        if name not in self._rig.sensors:
            raise ControlError(f"name: got {name!r}, must be one of {', '.join(self._rig.sensors)}")
        if mode not in SENSOR_MODES:
            raise ControlError(f"mode: got {mode!r}, must be one of {', '.join(SENSOR_MODES)}")
        tap = self._rig.sensors[name]
        tap.mode = mode
        tap.offset = float(request.get("offset", 0.0))

    def _identity(self, request: Request) -> None:
        bus = text(request, "bus")
        before = self._set_identity(bus, text(request, "as"))
        self._identities.setdefault(bus, before)

    def _set_identity(self, bus: str, identity: str) -> str:
        instrument = self._circuit(bus)
        target = instrument if isinstance(instrument, ScpiInstrument) else instrument.circuit
        before, target.identity = target.identity, identity
        return before

    def _restart(self, request: Request) -> None:
        instrument = self._circuit(text(request, "bus"))
        if isinstance(instrument, PhCircuit):
            instrument.circuit.power_cycle()
        else:
            instrument.power_cycle()

    def _dstart(self, request: Request) -> None:
        self._pump(request).dstart_ml = float(request.get("ml", 10.0))

    def _pump_fault(self, request: Request) -> None:
        pump = self._pump(request)
        mechanics = next(p for p in self._rig.pumps.values() if p is pump.pump)
        given: dict[str, Any] = {key: request[key] for key in ("dry", "short", "stuck", "unpowered") if key in request}
        if not given:
            raise ControlError("pump: say dry, short, stuck or unpowered")
        for key, value in given.items():
            setattr(mechanics.faults, key, type(getattr(mechanics.faults, key))(value))

    def _energy_unit(self, request: Request) -> None:
        for readings in self._rig.meters.values():
            readings.per_unit = {"kWh": 1.0, "MWh": 1000.0}[text(request, "as")]

    def _word_swap(self, request: Request) -> None:
        for bank in self._rig.stations[text(request, "bus")].units.values():
            bank.word_swap = bool(request.get("on", True))

    def _circuit(self, bus: str) -> PhCircuit | PumpCircuit | ScpiInstrument:
        if bus not in self._rig.circuits:
            raise ControlError(f"bus: got {bus!r}, must be one of {', '.join(self._rig.circuits)}")
        return self._rig.circuits[bus]

    def _pump(self, request: Request) -> PumpCircuit:
        instrument = self._circuit(text(request, "bus"))
        if not isinstance(instrument, PumpCircuit):
            raise ControlError(f"bus: {request['bus']} has no pump")
        return instrument


def text(request: Request, key: str) -> str:
    """A string the request must have."""
    if not isinstance(request.get(key), str):
        raise ControlError(f"{key}: missing, must be a string")
    return str(request[key])


def answer(desk: ControlDesk, line: bytes) -> dict[str, Any]:
    """One request line and its answer."""
    try:
        return {"ok": True} | desk.handle(dict(json.loads(line)))
    except (ControlError, ValueError, TypeError, KeyError) as error:
        return {"ok": False, "error": f"{type(error).__name__}: {error}"}


def _bound(path: Path) -> socket.socket:
    """A socket bound to `path` through its folder's descriptor, as its own path may not exceed 107 bytes."""
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        bound.bind(f"/proc/self/fd/{folder}/{path.name}")
    except OSError as error:
        bound.close()
        raise ListenError(f"{path}: cannot make this socket: {error.strerror}") from error
    finally:
        os.close(folder)
    return bound


async def listen(path: Path, desk: ControlDesk) -> asyncio.Server:
    """Serve the control socket.

    Raises:
        ListenError: the socket cannot be made.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps(answer(desk, line)).encode() + b"\n")
            await writer.drain()
        writer.close()

    return await asyncio.start_unix_server(serve, sock=_bound(path))
