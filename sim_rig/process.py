"""The rig as a process: its ports opened, its readiness announced, its end clean."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sim_rig.control import ControlDesk, listen
from sim_rig.errors import ListenError
from sim_rig.faces.modbus import TcpFraming
from sim_rig.faces.ports import HOST, Feed, TcpPort
from sim_rig.rigs.assembly import PLC, Assembly, SerialWire

if TYPE_CHECKING:
    from sim_rig.faces.pty_port import PtyPort

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
        """Serve until SIGTERM, SIGINT or the parent's end; raises ListenError: a port or link cannot be had."""
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
    """Run a rig until it is told to stop; raises ListenError: a port, link or the directory cannot be had."""
    try:
        await RigProcess(assembly, place).run()
    except OSError as error:
        raise ListenError(f"{place.directory}: {error.strerror or error}") from error
