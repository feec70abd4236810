"""Lines between the controller's drivers and the rig's faces, in memory: bytes take a while, and arrive in order.

The drivers see a `Port`, the rig's control desk what it sees of a pseudo-terminal or a TCP server.
"""

from __future__ import annotations

import errno
import select
from collections.abc import Callable
from typing import Any

from rigctl.errors import PortUnavailable
from rigctl_drivers.urls import LineUrl
from sim_rig.errors import ControlError
from sim_rig.faces.modbus import Station, TcpFraming
from sim_rig.faults import TCP_FAULTS, WireFaults
from tests.simulation.kernel import Kernel, Life

Hook = Callable[[str, str, bytes], None]
"""Told of every write: bus, `before` or `after`, bytes."""


class _Way:
    """One direction of a line: what enters it leaves it later, in the same order."""

    def __init__(self, kernel: Kernel, deliver: Callable[[bytes], None]) -> None:
        self._kernel = kernel
        self._deliver = deliver
        self._free_s = 0.0

    def send(self, data: bytes, more_s: float = 0.0) -> None:
        kernel = self._kernel
        draw = kernel.random.random()
        took_s = 0.0004 + 0.002 * draw if draw < 0.97 else draw * 0.04
        self._free_s = max(self._free_s, kernel.now_s + more_s + took_s)
        kernel.at(self._free_s, lambda: self._deliver(data))


class MemoryPort:
    """The controller's end of one connection."""

    def __init__(self, cable: Cable, life: Life) -> None:
        self.cable = cable
        self.life = life
        self.broken: OSError | None = None
        self.ended = False
        """The other end has closed in good order."""
        self._inbox = bytearray()
        self._waiting: Any = None
        self._out = _Way(cable.kernel, lambda data: cable.heard(self, data))
        self._back = _Way(cable.kernel, self._arrived)
        self.framing: TcpFraming | None = None

    def ready(self, event: int, seconds: float) -> bool:
        kernel = self.cable.kernel
        if event == select.POLLOUT:
            return True
        until_s = kernel.mono_s + seconds
        while not (self._inbox or self.broken or self.ended):
            if kernel.past(until_s):
                return False
            self._waiting = kernel.strand
            kernel.park(until_s)
            self._waiting = None
        return True

    def read(self) -> bytes:
        if self._inbox:
            data = bytes(self._inbox)
            self._inbox.clear()
            return data
        if self.broken is not None:
            raise self.broken
        if self.ended:
            return b""
        raise BlockingIOError

    def write(self, data: memoryview) -> int:
        if self.broken is not None:
            raise self.broken
        sent = bytes(data)
        self.cable.hook(self.cable.bus, "before", sent)
        self._out.send(sent)
        self.cable.hook(self.cable.bus, "after", sent)
        return len(sent)

    def close(self) -> None:
        self.cable.left(self)

    # the rig's side

    def send(self, data: bytes, more_s: float = 0.0) -> None:
        self._back.send(data, more_s)

    def breaks(self, code: int) -> None:
        self.broken = OSError(code, errno.errorcode[code])
        self._tell()

    def _arrived(self, data: bytes) -> None:
        if not self.life.dead and self.broken is None and self.cable.has(self):
            self._inbox += data
            self._tell()

    def _tell(self) -> None:
        if self._waiting is not None:
            self.cable.kernel.wake(self._waiting)


class Cable:
    """One bus, its rig end always there; plugged in or not."""

    def __init__(self, kernel: Kernel, bus: str, hook: Hook) -> None:
        self.kernel = kernel
        self.bus = bus
        self.hook = hook
        self.plugged = True
        self.ports: list[MemoryPort] = []

    def plug(self, where: LineUrl) -> MemoryPort:
        """Open the controller's end. Raises `PortUnavailable`."""
        life = self.kernel.life
        if life is None:
            raise AssertionError("nobody opens a port")
        if not self.plugged:
            raise PortUnavailable(f"there is no port {where.place}; is it plugged in?", bus=where.text)
        self.forget_dead()
        port = MemoryPort(self, life)
        self.ports.append(port)
        self.attached(port)
        return port

    def forget_dead(self) -> None:
        for port in [p for p in self.ports if p.life.dead]:
            self.left(port)

    def has(self, port: MemoryPort) -> bool:
        return port in self.ports

    def left(self, port: MemoryPort) -> None:
        if port in self.ports:
            self.ports.remove(port)

    def attached(self, port: MemoryPort) -> None:
        """Begin a connection."""

    def heard(self, port: MemoryPort, data: bytes) -> None:
        """Take what has arrived at the rig."""
        raise NotImplementedError


class SerialCable(Cable):
    """A serial line to one face; one at a time has it."""

    def __init__(
        self, kernel: Kernel, bus: str, hook: Hook, faults: WireFaults, receive: Callable[[bytes], None]
    ) -> None:
        super().__init__(kernel, bus, hook)
        self._faults = faults
        self._receive = receive

    def open(self) -> None:
        if self.plugged:
            raise ControlError(f"bus: {self.bus} is plugged in")
        self.plugged = True

    def close(self) -> None:
        self.plugged = False
        for port in self.ports:
            port.breaks(errno.EIO)
        self.ports.clear()

    def heard(self, port: MemoryPort, data: bytes) -> None:
        if self.plugged and port.broken is None:
            self._receive(data)

    def transmit(self, reply: bytes) -> None:
        late_s = 0.0
        for wait_s, data in self._faults.shape(reply):
            late_s += wait_s
            for port in self.ports:
                port.send(data, late_s)


class TcpCable(Cable):
    """A TCP server for Modbus; several may be connected."""

    def __init__(self, kernel: Kernel, bus: str, hook: Hook, station: Station, sync: Callable[[], None]) -> None:
        super().__init__(kernel, bus, hook)
        self.station = station
        self.deaf = False
        self._sync = sync

    def attached(self, port: MemoryPort) -> None:
        port.framing = TcpFraming(self.station, lambda reply: self._transmit(port, reply))

    def unplug(self) -> None:
        self.plugged = False
        for port in self.ports:
            port.breaks(errno.ECONNRESET)
        self.ports.clear()

    def heard(self, port: MemoryPort, data: bytes) -> None:
        if self.deaf or port.broken is not None or not self.plugged or port.framing is None:
            return
        self._sync()
        port.framing.feed(data)

    def _transmit(self, port: MemoryPort, reply: bytes) -> None:
        if self.station.faults.take(TCP_FAULTS) is not None:
            port.breaks(errno.ECONNRESET)
            self.left(port)
            return
        late_s = 0.0
        for wait_s, data in self.station.faults.shape(reply):
            late_s += wait_s
            port.send(data, late_s)
