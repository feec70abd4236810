"""The other ends of lines, written for these tests from the protocol documents: they share nothing with the drivers.

A peer is a thread that owns one end of a pseudo-terminal or socket, cuts what arrives into requests, and plays back
what a script answers: bytes, and pauses in seconds of wall time.
"""

import math
import os
import select
import socket
import struct
import threading
import time
import tty
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import serial
from modbus_tk import defines, modbus_rtu
from pyModbusTCP.server import ModbusServer

from rigctl.rig.protocols import Deadline, Hurry

Played = bytes | float
"""Bytes to send, or seconds to wait."""
Cut = Callable[[bytes], int]
"""Length of the first request in a buffer; 0 while it is incomplete."""


class HangUp(Exception):
    """Raised by a script: reset the connection (TCP) or unplug (pty)."""


class _Peer:
    """The thread and its way to end."""

    def __init__(self, cut: Cut, answer: Callable[[bytes], Iterable[Played]]) -> None:
        self.requests: list[bytes] = []
        self._cut = cut
        self._answer = answer
        self._end_r, self._end_w = os.pipe()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop_thread(self) -> None:
        """Answer no more."""
        os.write(self._end_w, b"x")
        self._thread.join(120)
        assert not self._thread.is_alive()

    def stop(self) -> None:
        """End the thread and close everything."""
        self.stop_thread()
        os.close(self._end_r)
        os.close(self._end_w)
        self._close()

    def _wait(self, fd: int) -> bool:
        """Whether there is something to read; False at the end."""
        ready, _, _ = select.select([fd, self._end_r], [], [])
        return self._end_r not in ready

    def _play(self, buffer: bytes, fd: int) -> bytes:
        """Answer all whole requests; returns the rest."""
        while (length := self._cut(buffer)) > 0:
            request, buffer = buffer[:length], buffer[length:]
            self.requests.append(request)
            for item in self._answer(request):
                if isinstance(item, bytes):
                    os.write(fd, item)
                else:
                    time.sleep(item)
        return buffer

    def _serve(self) -> None:
        raise NotImplementedError

    def _close(self) -> None:
        raise NotImplementedError


class PtyPeer(_Peer):
    """At the other end of a serial port, `path`."""

    def __init__(self, cut: Cut, answer: Callable[[bytes], Iterable[Played]]) -> None:
        super().__init__(cut, answer)
        self._near, self._far = os.openpty()
        tty.setraw(self._near)
        tty.setraw(self._far)
        self.path = Path(os.ttyname(self._far))
        self._unplugged = False
        self.start()

    def say(self, data: bytes) -> None:
        """Send something unasked."""
        os.write(self._near, data)

    def unplug(self) -> None:
        """Take the port away."""
        if not self._unplugged:
            self._unplugged = True
            os.close(self._far)
            os.close(self._near)

    def _serve(self) -> None:
        buffer = b""
        while self._wait(self._near):
            buffer = self._play(buffer + os.read(self._near, 4096), self._near)

    def _close(self) -> None:
        self.unplug()


class TcpPeer(_Peer):
    """A server on 127.0.0.1, `port`, one connection at a time."""

    def __init__(self, cut: Cut, answer: Callable[[bytes], Iterable[Played]]) -> None:
        super().__init__(cut, answer)
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.start()

    def _serve(self) -> None:
        while self._wait(self._server.fileno()):
            connection, _ = self._server.accept()
            self.connections += 1
            with connection:
                try:
                    self._talk(connection)
                except HangUp:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _talk(self, connection: socket.socket) -> None:
        buffer = b""
        while self._wait(connection.fileno()):
            try:
                data = connection.recv(4096)
            except ConnectionResetError:
                return
            if not data:
                return
            buffer = self._play(buffer + data, connection.fileno())
        os.write(self._end_w, b"x")  # the outer loop ends too

    def _close(self) -> None:
        self._server.close()


class PtyPair:
    """Two serial ports joined by a wire, for software that wants a port of its own."""

    def __init__(self, *, echo: bool = False) -> None:
        self.cut = False
        """Nothing gets to the other end."""
        self._echo = echo
        """What comes from the second port also goes back to it."""
        self._nears, self._fars = zip(*(os.openpty() for _ in range(2)), strict=True)
        for fd in (*self._nears, *self._fars):
            tty.setraw(fd)
        self.paths = tuple(os.ttyname(far) for far in self._fars)
        self._end_r, self._end_w = os.pipe()
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take both ports away."""
        os.write(self._end_w, b"x")
        self._thread.join(120)
        assert not self._thread.is_alive()
        for fd in (*self._nears, *self._fars, self._end_r, self._end_w):
            os.close(fd)

    def _carry(self) -> None:
        one, other = self._nears
        while True:
            ready, _, _ = select.select([one, other, self._end_r], [], [])
            if self._end_r in ready:
                return
            for fd in ready:
                data = os.read(fd, 4096)
                if fd == other and self._echo:
                    os.write(other, data)
                if not self.cut:
                    os.write(other if fd == one else one, data)


def unwarned(server: Any) -> Any:
    """Return modbus_tk's server, asking for its event by the name that does not warn.

    Its thread may ask in the moment in which one test's filters are gone and the next one's are not yet complete: a
    warning is an error then, which would end it.
    """
    server._go.isSet = server._go.is_set
    return server


@contextmanager
def foreign_slave(*blocks: str, baud: int = 115200, echo: bool = False) -> Iterator[tuple[PtyPair, Any]]:
    """modbus_tk's RTU slave, unit 4: the wire it is on, of which another may have the second port, and itself."""
    kinds = {"input": defines.ANALOG_INPUTS, "holding": defines.HOLDING_REGISTERS, "coils": defines.COILS}
    wire = PtyPair(echo=echo)
    port = serial.Serial(wire.paths[0], baudrate=baud, timeout=0.05)
    server = unwarned(modbus_rtu.RtuServer(port))
    slave = server.add_slave(4)
    for name in blocks:
        slave.add_block(name, kinds[name], 0, 40)
    server.start()
    try:
        yield wire, slave
    finally:
        server.stop()
        port.close()
        wire.close()


def cut_lines(end: bytes) -> Cut:
    """Requests are lines."""
    return lambda buffer: buffer.find(end) + len(end) if end in buffer else 0


def cut_rtu(buffer: bytes) -> int:
    """Requests are Modbus RTU frames, functions 01 to 06, 0F, 10 and 2B."""
    if len(buffer) < 7:
        return 0
    length = {0x0F: 9 + buffer[6], 0x10: 9 + buffer[6], 0x2B: 7}.get(buffer[1], 8)
    return length if len(buffer) >= length else 0


def cut_mbap(buffer: bytes) -> int:
    """Requests are Modbus TCP frames."""
    if len(buffer) < 6:
        return 0
    length = 6 + int.from_bytes(buffer[4:6], "big")
    return length if len(buffer) >= length else 0


def crc16(data: bytes) -> bytes:
    """CRC-16/MODBUS, low byte first: polynomial A001 (reflected), start FFFF."""
    crc = 0xFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc.to_bytes(2, "little")


def briefly() -> Deadline:
    """A deadline for answers that never come, over a real wire."""
    return Deadline.after(0.1)


def soon() -> Deadline:
    """A deadline for what is in memory."""
    return Deadline.after(1.0)


def patient() -> Deadline:
    """A deadline for everything that does come: it bounds a hang only."""
    return Deadline.after(60.0)


class _Once:
    """A hurry that begins when something has been seen."""

    def __init__(self, seen: Callable[[], bool]) -> None:
        self._seen = seen

    @property
    def at_s(self) -> float:
        return 0.0 if self._seen() else math.inf


def over_once(seen: Callable[[], bool]) -> Deadline:
    """A deadline that passes when something has been seen, however busy the machine is; the minute is for a hang."""
    return replace(Deadline.after(60.0), hurry=cast("Hurry", _Once(seen)))


class _Shares(Deadline):
    """Each share of it is over once the party has heard one question more."""

    def within(self, seconds: float) -> Deadline:
        heard = cast("_Questions", self.hurry)
        return replace(Deadline.after(60.0), hurry=cast("Hurry", _Questions(heard.asked, len(heard.asked) + 1)))


class _Questions(_Once):
    def __init__(self, asked: Sequence[bytes], most: int) -> None:
        super().__init__(lambda: len(asked) >= most)
        self.asked = asked


def questions(asked: Sequence[bytes], most: int) -> Deadline:
    """A deadline that passes when a party has heard so many questions, as many shares of it as there are questions."""
    return _Shares(Deadline.after(60.0).at_s, cast("Hurry", _Questions(asked, most)))


class Overdue:
    """A reply that comes when the test says so: after a deadline, and before whatever the test does next."""

    def __init__(self) -> None:
        self._due, self._here = threading.Event(), threading.Event()

    def __call__(self, reply: bytes) -> Iterable[Played]:
        self._due.wait(60)
        yield reply
        self._here.set()

    def come(self) -> None:
        """Let it come, and wait until it is there."""
        self._due.set()
        assert self._here.wait(60)


Fault = Callable[[bytes], Iterable[Played]]
"""A whole reply to what really goes over the wire."""


@dataclass
class ModbusUnit:
    """A Modbus unit: tables, and a list of faults for the next replies, None for a sound one."""

    number: int = 1
    words: dict[tuple[int, int], int] = field(default_factory=dict)
    """(function to read it with, address) -> 16-bit word."""
    coils: dict[int, bool] = field(default_factory=dict)
    faults: list[Fault | None] = field(default_factory=list)
    pdus: list[bytes] = field(default_factory=list)
    """Requests understood."""
    deaf_to: set[int] = field(default_factory=set)
    """Functions that are neither carried out nor answered."""

    def rtu(self, request: bytes) -> Iterable[Played]:
        """Answer an RTU frame."""
        assert crc16(request[:-2]) == request[-2:], request.hex()
        if request[0] != self.number:
            return []
        body = bytes([self.number]) + self._answer(request[1:-2])
        return self._spoil(body + crc16(body))

    def tcp(self, request: bytes) -> Iterable[Played]:
        """Answer a TCP frame."""
        body = bytes([request[6]]) + self._answer(request[7:])
        return self._spoil(request[:4] + len(body).to_bytes(2, "big") + body)

    def _spoil(self, reply: bytes) -> Iterable[Played]:
        fault = self.faults.pop(0) if self.faults else None
        return [reply] if fault is None else fault(reply)

    def _answer(self, pdu: bytes) -> bytes:
        self.pdus.append(pdu)
        if pdu[0] in self.deaf_to:
            self.faults.insert(0, lost)
            return b""
        function, at, value = struct.unpack(">BHH", pdu[:5].ljust(5, b"\0"))
        if function in (3, 4):
            words = b"".join(self.words.get((function, at + i), 0).to_bytes(2, "big") for i in range(value))
            return bytes([function, len(words)]) + words
        if function in (1, 2):
            return bytes([function, 1, sum(self.coils.get(at + i, False) << i for i in range(value))])
        if function == 5:
            self.coils[at] = value == 0xFF00
        elif function == 6:
            self.words[(3, at)] = value
        elif function == 0x10:
            self.words |= {(3, at + i): int.from_bytes(pdu[6 + 2 * i : 8 + 2 * i], "big") for i in range(value)}
        elif function == 0x0F:
            self.coils |= {at + i: bool(pdu[6 + i // 8] >> i % 8 & 1) for i in range(value)}
        else:
            return bytes([function | 0x80, 1])
        return pdu[:5]


def lost(_: bytes) -> list[Played]:
    """The reply never arrives."""
    return []


def flipped(reply: bytes) -> list[Played]:
    """One bit of it is wrong."""
    middle = len(reply) // 2
    return [reply[:middle] + bytes([reply[middle] ^ 0x10]) + reply[middle + 1 :]]


def truncated(reply: bytes) -> list[Played]:
    """Its end is missing."""
    return [reply[: len(reply) // 2]]


def dribbled(reply: bytes) -> list[Played]:
    """One byte every 20 ms."""
    return [item for byte in reply for item in (bytes([byte]), 0.02)]


def after_garbage(reply: bytes) -> list[Played]:
    """Noise precedes it."""
    return [b"\xff\x00\x55" + reply]


def late(seconds: float) -> Fault:
    """It arrives late."""
    return lambda reply: [seconds, reply]


def exception(code: int) -> Fault:
    """The device refuses (RTU framing)."""

    def refuse(reply: bytes) -> list[Played]:
        body = bytes([reply[0], reply[1] | 0x80, code])
        return [body + crc16(body)]

    return refuse


def from_unit(number: int) -> Fault:
    """Another unit answers (RTU framing)."""
    return lambda reply: [bytes([number]) + reply[1:-2] + crc16(bytes([number]) + reply[1:-2])]


@contextmanager
def peers() -> Iterator[Callable[..., _Peer]]:
    """Make peers: `make(PtyPeer, cut, answer)`; all are stopped in the end."""
    made: list[_Peer] = []

    def make(kind, cut, answer):
        made.append(kind(cut, answer))
        return made[-1]

    yield make
    for one in made:
        one.stop()


@contextmanager
def foreign_plc(handler: Any) -> Iterator[Any]:
    """Have pyModbusTCP's server stand where a PLC would, on a TCP port, which `handler.port` names."""
    server = ModbusServer("127.0.0.1", 0, no_block=True, data_hdl=handler)
    server.start()
    handler.port = server._service.server_address[1]
    try:
        yield handler
    finally:
        server.stop()
