"""The rig as a process: its ports opened, its readiness announced, its end clean; and its control socket.

Over that faults go on and off, and the witness testifies, as JSON lines: `{"fault": "drop_reply", "bus": "mains",
"count": 1}`, `{"clear": true}`, `{"query": "state"}`; on a stepped clock also `{"go_to": 420.0}`, simulated seconds.
Every request is answered with one line, `{"ok": true, ...}` or `{"ok": false, "error": "..."}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sim_rig.errors import ControlError, ListenError, SimError
from sim_rig.faces.ezo import PhCircuit
from sim_rig.faces.ezo_pump import PumpCircuit
from sim_rig.faces.lines import TextInstrument
from sim_rig.faces.modbus import TcpFraming
from sim_rig.faces.ports import HOST, Feed, TcpPort
from sim_rig.faults import BYTE_FAULTS, MODBUS_FAULTS, SENSOR_MODES, TCP_FAULTS, WireFault
from sim_rig.plants.pump import PumpFaults
from sim_rig.rigs.assembly import PLC, Assembly, SerialWire

if TYPE_CHECKING:
    from sim_rig.faces.pty_port import PtyPort

BUS: Final = frozenset({"bus"})
WIRE_KEYS: Final = frozenset({"count", "seconds", "code", "unit", "data", "device", "after"})
"""`device` is another word for `bus`."""
ENERGY_UNITS: Final = {"kWh": 1.0, "MWh": 1000.0}

Request = dict[str, Any]
Choice = TypeVar("Choice", bound=str)
Handler = Callable[[Request], None]


class ControlDesk:
    """Understands control requests; `ptys` are by bus."""

    def __init__(self, assembly: Assembly, tcp: TcpPort, ptys: Mapping[str, PtyPort]) -> None:
        self._rig = assembly
        self._tcp = tcp
        self._ptys = ptys
        self._identities: dict[str, str] = {}
        self._handlers: Mapping[str, tuple[Handler, frozenset[str]]] = {
            "sensor": (self._sensor, frozenset({"name", "mode", "offset"})),
            "identity": (self._identity, frozenset({"bus", "as"})),
            "pump_reset": (lambda r: pump_of(self._circuit(text(r, "bus"))).power_cycle(), BUS),
            "restart": (lambda r: self._circuit(text(r, "bus")).power_cycle(), BUS),
            "dstart": (self._dstart, BUS | {"ml"}),
            "slopes": (lambda r: give_slopes(self._circuit(text(r, "bus")), text(r, "as")), BUS | {"as"}),
            "pump": (self._pump_fault, BUS | {"dry", "short", "stuck", "unpowered", "weak"}),
            "button": (self._button, BUS | {"ml"}),
            "energy_reset": (lambda _: self._rig.plant.energy.reset(), frozenset()),
            "jump_kwh": (lambda r: self._rig.plant.energy.jump(float(r.get("kwh", 1e6))), frozenset({"kwh"})),
            "energy_unit": (self._energy_unit, frozenset({"as"})),
            "word_swap": (self._word_swap, BUS | {"on"}),
            "unplug": (lambda r: self._port(r).close(), BUS),
            "replug": (lambda r: self._port(r).open(), BUS),
            "half_open": (lambda r: setattr(self._tcp, "deaf", bool(r.get("on", True))), frozenset({"on"})),
        } | dict.fromkeys((*BYTE_FAULTS, *MODBUS_FAULTS, *TCP_FAULTS), (self._wire, BUS | WIRE_KEYS))

    def handle(self, request: Request) -> dict[str, Any]:
        """Do what is asked, and return the answer; raises ControlError, before any change, if it is not understood."""
        self._rig.sync()
        if "go_to" in request:
            self._rig.timer.go_to(float(request["go_to"]))
            return {}
        if request.get("query") == "state":
            return self.state()
        if request.get("clear"):
            self.clear()
            return {}
        handler, keys = self._handlers[one_of(request, "fault", sorted(self._handlers))]
        unknown = sorted(set(request) - keys - {"fault"})
        if unknown:
            raise ControlError(f"{request['fault']}: got {', '.join(unknown)}, takes {', '.join(sorted(keys))}")
        handler(request)
        return {}

    def state(self) -> dict[str, Any]:
        """Tell of the plant, every dose, what was metered, what was written."""
        rig = self._rig
        return {
            "scenario": rig.scenario,
            "time_s": rig.timer.now_s(),
            "speed": rig.timer.speed,
            "plant": rig.plant.state(),
            "doses": rig.doses(),
            "metered": rig.plant.metered(),
            "requests": {name: s.requests for name, s in rig.stations.items()},
            "watchdog": list(rig.drops),
            "writes": {name: list(s.writes) for name, s in rig.stations.items()},
        }

    def clear(self) -> None:
        """Make everything work again (what was unplugged stays so)."""
        for faults in self._rig.wire_faults.values():
            faults.clear()
        for tap in self._rig.sensors.values():
            tap.mode = "ok"
        for pump in self._rig.pumps.values():
            pump.faults = PumpFaults()
        self._rig.meter.per_unit = 1.0
        for station in self._rig.stations.values():
            for bank in station.units.values():
                bank.word_swap = False
        for bus, identity in self._identities.items():
            self._set_identity(bus, identity)
        self._identities.clear()
        for circuit in self._rig.circuits.values():
            if isinstance(circuit, PumpCircuit):
                circuit.dstart_ml = 0.0
        self._tcp.deaf = False

    # handlers ----------------------------------------------------------------------------------------------------

    def _wire(self, request: Request) -> None:
        faults = self._rig.wire_faults
        bus = one_of(request, "device" if "device" in request else "bus", faults)
        kind = text(request, "fault")
        if kind in TCP_FAULTS and bus != PLC:
            raise ControlError(f"{kind}: {bus} is no TCP bus, {PLC} is")
        if kind in MODBUS_FAULTS and bus not in self._rig.stations:
            raise ControlError(f"{kind}: {bus} speaks no Modbus; {', '.join(self._rig.stations)} do")
        given: dict[str, Any] = {key: int(request[key]) for key in ("count", "code", "unit") if key in request}
        if "seconds" in request:
            given["seconds"] = float(request["seconds"])
        if "data" in request:
            given["data"] = bytes.fromhex(text(request, "data"))
        if "after" in request:
            given["after"] = [bytes.fromhex(pdu) for pdu in request["after"]]
        faults[bus].add(WireFault(kind, **given))

    def _sensor(self, request: Request) -> None:
        tap = self._rig.sensors[one_of(request, "name", self._rig.sensors)]
        mode = one_of(request, "mode", SENSOR_MODES)
        tap.offset = float(request.get("offset", 0.0))
        tap.mode = mode

    def _identity(self, request: Request) -> None:
        bus = text(request, "bus")
        before = self._set_identity(bus, text(request, "as"))
        self._identities.setdefault(bus, before)

    def _set_identity(self, bus: str, identity: str) -> str:
        target = self._circuit(bus)
        before, target.identity = target.identity, identity
        return before

    def _dstart(self, request: Request) -> None:
        pump_of(self._circuit(text(request, "bus"))).dstart_ml = float(request.get("ml", 10.0))

    def _pump_fault(self, request: Request) -> None:
        faults = self._rig.pumps[one_of(request, "bus", self._rig.pumps)].faults
        given = {key: request[key] for key in ("dry", "short", "stuck", "unpowered", "weak") if key in request}
        if not given:
            raise ControlError(
                "pump: say dry, stuck, unpowered or weak (true or false), or short (a share of the dose)"
            )
        for key, value in given.items():
            setattr(faults, key, float(value) if key == "short" else bool(value))

    def _button(self, request: Request) -> None:
        # somebody presses the pump's own button
        pump = self._rig.pumps[one_of(request, "bus", self._rig.pumps)]
        pump.start(float(request.get("ml", 10.0)), pump.max_rate_ml_per_min, 0)

    def _energy_unit(self, request: Request) -> None:
        self._rig.meter.per_unit = ENERGY_UNITS[one_of(request, "as", ENERGY_UNITS)]

    def _word_swap(self, request: Request) -> None:
        for bank in self._rig.stations[one_of(request, "bus", self._rig.stations)].units.values():
            bank.word_swap = bool(request.get("on", True))

    def _port(self, request: Request) -> PtyPort:
        return self._ptys[one_of(request, "bus", self._ptys)]

    def _circuit(self, bus: str) -> TextInstrument:
        return self._rig.circuits[one_of({"bus": bus}, "bus", self._rig.circuits)]


def give_slopes(instrument: TextInstrument, percent: str) -> None:
    """Let a pH probe be as worn as this says, an answer to `Slope,?`."""
    if not isinstance(instrument, PhCircuit):
        raise ControlError("bus: there is no pH probe on it")
    instrument.slopes = percent


def pump_of(instrument: TextInstrument) -> PumpCircuit:
    if not isinstance(instrument, PumpCircuit):
        raise ControlError("bus: there is no pump on it")
    return instrument


def text(request: Request, key: str) -> str:
    if not isinstance(request.get(key), str):
        raise ControlError(f"{key}: missing, must be a string")
    return str(request[key])


def one_of(request: Request, key: str, allowed: Collection[Choice]) -> Choice:
    value = text(request, key)
    for choice in allowed:
        if choice == value:
            return choice
    raise ControlError(f"{key}: got {value!r}, must be one of {', '.join(allowed)}")


def answer(desk: ControlDesk, line: bytes) -> dict[str, Any]:
    try:
        return {"ok": True} | desk.handle(dict(json.loads(line)))
    except (SimError, ValueError, TypeError) as error:
        return {"ok": False, "error": str(error)}


def _bound(path: Path) -> socket.socket:
    # through the folder's descriptor, as a socket's own path may not exceed 107 bytes
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


async def listen(path: Path | None, desk: ControlDesk) -> asyncio.Server:
    """Serve the control socket, at a free TCP port where it has no path; raise `ListenError` if it cannot be made."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):  # whoever asked is gone
            while line := await reader.readline():
                writer.write(json.dumps(answer(desk, line)).encode() + b"\n")
                await writer.drain()
        writer.close()

    if path is None:
        return await asyncio.start_server(serve, HOST, 0)
    return await asyncio.start_unix_server(serve, sock=_bound(path))


# the rig --------------------------------------------------------------------------------------------------------------


CONTROL_SOCKET = "control.sock"
PARENT_POLL_S = 0.5
OVER_TCP = {"modbus_rtu": "rtu_tcp", "serial": "tcp"}
"""Schemes of serial buses and of the same through a gateway."""


@dataclass(frozen=True, slots=True)
class Place:
    """Says where the rig appears."""

    directory: Path
    port: int = 0
    ready: Path | None = None
    parent: int | None = None
    """Stop when this process is gone."""
    network: bool = False
    """Every port over TCP, for systems without pseudo-terminals; then it stops when its standard input ends."""


class RigProcess:
    """Owns the ports of one rig."""

    def __init__(self, assembly: Assembly, place: Place) -> None:
        self._assembly = assembly
        self._place = place
        self._directory = place.directory.absolute()
        plc = assembly.stations[PLC]
        self._tcp = TcpPort(lambda send: TcpFraming(plc, send).feed, plc.faults, place.port, assembly.sync)
        serial = () if place.network else assembly.serial
        self._ptys = {wire.bus: self._pty(wire) for wire in serial}
        self._sockets = {wire.bus: self._socket(wire) for wire in assembly.serial if place.network}
        self._stopped = asyncio.Event()

    @property
    def buses(self) -> dict[str, str]:
        """Return the URLs by bus name, as in the configuration."""
        urls = {PLC: f"modbus_tcp://{HOST}:{self._tcp.port}"}
        for wire in self._assembly.serial:
            urls[wire.bus] = f"{wire.scheme}://{self._directory / wire.link}{wire.query}"
            if wire.bus in self._sockets:
                urls[wire.bus] = f"{OVER_TCP[wire.scheme]}://{HOST}:{self._sockets[wire.bus].port}"
        return urls

    async def run(self) -> None:
        """Serve until SIGTERM, SIGINT or the parent's end; raises ListenError if a port or a link cannot be had."""
        self._directory.mkdir(parents=True, exist_ok=True)
        loop = asyncio.get_running_loop()
        with suppress(NotImplementedError):  # such a system ends it at once
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._stopped.set)
        if self._place.network:
            threading.Thread(target=_ends_with_input, args=(loop, self._stopped), daemon=True).start()
        control = None
        ports = (self._tcp, *self._sockets.values())
        try:
            for port in ports:
                await port.open()
            for pty in self._ptys.values():
                pty.open()
            desk = ControlDesk(self._assembly, self._tcp, self._ptys)
            control = await listen(None if self._place.network else self._directory / CONTROL_SOCKET, desk)
            self._assembly.power_up()
            self._announce(control)
            await self._until_stopped()
        finally:
            if control is not None:
                control.close()
                (self._directory / CONTROL_SOCKET).unlink(missing_ok=True)
            for pty in self._ptys.values():
                pty.close()
            for port in ports:
                await port.close()
            if self._place.ready is not None:
                self._place.ready.unlink(missing_ok=True)

    def _socket(self, wire: SerialWire) -> TcpPort:
        def connect(send: Feed) -> Feed:
            wire.face.send = send
            return wire.face.feed

        return TcpPort(connect, wire.faults, 0, self._assembly.sync)

    def _pty(self, wire: SerialWire) -> PtyPort:
        from sim_rig.faces.pty_port import PtyPort  # noqa: PLC0415  # not every system has such

        def receive(data: bytes) -> None:
            self._assembly.sync()
            wire.face.feed(data)

        port = PtyPort(self._directory / wire.link, wire.faults, receive)
        wire.face.send = port.transmit
        return port

    def _announce(self, control: asyncio.Server) -> None:
        state = {"pid": os.getpid(), "speed": self._assembly.timer.speed, "scenario": self._assembly.scenario}
        path = str(self._directory / CONTROL_SOCKET)
        where = list(control.sockets[0].getsockname()) if self._place.network else path
        ready = json.dumps(state | {"buses": self.buses, "control": where})
        if self._place.ready is not None:
            temporary = self._place.ready.with_name(f".{self._place.ready.name}.{os.getpid()}")
            temporary.write_text(ready + "\n", encoding="utf-8")
            temporary.replace(self._place.ready)
        with suppress(BrokenPipeError):
            sys.stdout.write(ready + "\n")
            sys.stdout.flush()

    async def _until_stopped(self) -> None:
        while not self._stopped.is_set():
            if self._place.parent is None or self._place.network:
                await self._stopped.wait()
                return
            if not _alive(self._place.parent):
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), PARENT_POLL_S)


def _ends_with_input(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(stopped.set)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


async def serve(assembly: Assembly, place: Place) -> None:
    """Run a rig until it is told to stop; raises ListenError if a port, a link or the directory cannot be had."""
    try:
        await RigProcess(assembly, place).run()
    except OSError as error:
        raise ListenError(f"{place.directory}: {error.strerror or error}") from error
