"""Serial ports and sockets as lines of bytes; the only module that knows pyserial.

`serial://sim/ph?baud=9600&parity=N&stopbits=1&bits=8&quiet=0.5` (path relative to the current directory, or absolute:
`serial:///dev/serial/by-id/usb-...`) and `tcp://host:port?quiet=0.5`. `quiet` is the silence of `resync`, wall seconds.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from types import MappingProxyType

from rigctl.errors import DeviceTimeout, GarbledReply, PortUnavailable
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import ByteLine, Deadline
from rigctl_drivers.port_holder import Node, other_user_of
from rigctl_drivers.urls import SERIAL_FRAME, Convert, LineUrl, positive
from rigctl_drivers.wire import PATIENCE_S, Opened, OpenPort, Wire, WiredLine

SCPI_PORT = 5025
DEFAULT_QUIET_S = 0.5
MAX_LINE_BYTES = 64 * 1024
QUIET: Mapping[str, Convert] = MappingProxyType({"quiet": positive})


def open_serial(url: str, clock: Clock) -> TextLine:
    where = LineUrl.parse(url, {**SERIAL_FRAME, **QUIET})
    return TextLine(where, clock, serial_opener(where))


def open_socket(url: str, clock: Clock) -> TextLine:
    where = LineUrl.parse(url, QUIET)
    return TextLine(where, clock, socket_opener(where, SCPI_PORT))


class TextLine(WiredLine, ByteLine):
    """Lines of text ended by a terminator."""

    def __init__(self, where: LineUrl, clock: Clock, open_port: OpenPort) -> None:
        super().__init__(clock, Wire(where.text, open_port))
        self._quiet_s: float = where.options.get("quiet", DEFAULT_QUIET_S)
        self._buffer = bytearray()
        self._dropped = b""

    def open(self) -> None:
        self._buffer.clear()
        self._dropped = b""
        self._wire.open()

    def close(self) -> None:
        self._buffer.clear()
        self._wire.close()

    def resync(self) -> None:
        self.settle(Deadline(math.inf), command=True)  # a driver calls it before commands, too

    def _take(self, dropped: bytes) -> None:
        self._dropped = (self._dropped + self._buffer + dropped)[-MAX_LINE_BYTES:]
        self._buffer.clear()

    def quiet_for_s(self, *, pressed_on: bool) -> float:
        return 0.0 if pressed_on else self._quiet_s

    def press_on(self) -> None:
        self._wire.press_on()
        self._buffer.clear()

    def take_dropped(self) -> bytes:
        dropped, self._dropped = self._dropped, b""
        return dropped

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send everything, opening the port if it is closed.

        Raises:
            PortUnavailable: nothing was sent.
            DeviceTimeout: the port did not take it in time, or broke.
        """
        self._ensure_open(deadline)
        self._wire.write(data, deadline)

    def read_line(self, terminator: bytes, deadline: Deadline) -> bytes:
        """Return the next line without its terminator.

        Raises:
            PortUnavailable: the port cannot be opened.
            DeviceTimeout: no complete line in time; what has come of it is kept for the next call.
            GarbledReply: 64 KiB without a terminator; they are dropped.
        """
        searched = 0
        while True:
            end = self._buffer.find(terminator, max(0, searched - len(terminator) + 1))
            if end >= 0:
                line = bytes(self._buffer[:end])
                del self._buffer[: end + len(terminator)]
                return line
            searched = len(self._buffer)
            if searched > MAX_LINE_BYTES:
                self._buffer.clear()
                raise GarbledReply(f"{searched} bytes without a line end; is the terminator right?", bus=self.url)
            self._receive(deadline)

    def read_bytes(self, count: int, deadline: Deadline, until: bytes = b"") -> bytes:
        """Return the next `count` bytes, fewer where `until` ends them. Raises as `read_line`."""
        while True:
            end = self._buffer.find(until, 0, count) if until else -1
            size = count if end < 0 else end + len(until)
            if len(self._buffer) >= size:
                data = bytes(self._buffer[:size])
                del self._buffer[:size]
                return data
            self._receive(deadline)

    def _ensure_open(self, deadline: Deadline) -> None:
        if not self._wire.is_open:
            self._buffer.clear()
            self._wire.ensure_open(deadline)

    def _receive(self, deadline: Deadline) -> None:
        self._ensure_open(deadline)
        waits = deadline.remaining_s > 0
        data = self._wire.read_some(deadline)
        if not data:
            if waits:  # else nothing was expected: somebody only looked whether there is something
                self._wire.silence.distrust(self._quiet_s)
            partial = f"; got only {bytes(self._buffer[:60])!r}" if self._buffer else ""
            raise DeviceTimeout(f"no complete line in time{partial}", bus=self.url)
        self._buffer += data


def serial_opener(where: LineUrl) -> OpenPort:
    node = Node(where.path, "port", "is it plugged in? `ls /dev/serial/by-id` shows what is", "dialout")

    def open_port(patience_s: float) -> Opened:
        import serial  # noqa: PLC0415 - only where a port is really opened

        from rigctl_drivers.sole_port import SolePort  # noqa: PLC0415 - not every system has what it needs

        try:
            opened = serial.Serial(
                str(where.path),
                baudrate=where.options.get("baud", 9600),
                bytesize=where.options.get("bits", 8),
                parity=where.options.get("parity", "N"),
                stopbits=where.options.get("stopbits", 1),
                timeout=0,
                write_timeout=patience_s,  # never None: that blocks for ever
                exclusive=True,
            )
            port = SolePort(opened)
        except (serial.SerialException, OSError, ValueError) as problem:
            raise node.why_not(problem, where.text) from problem
        holder = other_user_of(where.path)
        if holder:  # whoever opened it before us and asked for no lock
            port.close()
            raise node.held(holder, where.text)
        return port

    return open_port


def socket_opener(where: LineUrl, default_port: int) -> OpenPort:
    host, number = where.host_port(default_port)

    def open_port(patience_s: float) -> Opened:
        try:
            connection = socket.create_connection((host, number), timeout=min(patience_s, PATIENCE_S))
        except OSError as problem:
            why = problem.strerror or str(problem) or "no answer"
            what = f"cannot connect to {host} port {number} ({why}); is it on, is the address right?"
            raise PortUnavailable(what, bus=where.text) from problem
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return connection

    return open_port
