"""I2C buses, by the interface that Linux gives to programs (`/dev/i2c-*`); for one process alone.

`i2c:///dev/i2c-1`. A command leaves once: the kernel is told to repeat nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from rigctl.errors import DeviceTimeout, PortUnavailable
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import AddressedLine, Deadline
from rigctl_drivers.port_holder import Node, other_user_of
from rigctl_drivers.urls import LineUrl

I2C_RETRIES, I2C_TIMEOUT, I2C_SLAVE = 0x0701, 0x0702, 0x0703
"""Requests of `linux/i2c-dev.h`."""
TIMEOUT_10_MS: Final = 10
"""How long the kernel waits for a bus that hangs, in steps of 10 ms; 100 bytes take 10 ms."""
NOT_ACKNOWLEDGED: Final = (errno.ENXIO, errno.EREMOTEIO)
GONE: Final = (errno.ENODEV, errno.ENOENT, errno.EBADF, errno.ESHUTDOWN)


class Adapter(Protocol):
    """What puts bytes on the wires."""

    def transfer(self, address: int, sent: bytes, count: int) -> bytes:
        """Do as `AddressedLine.transfer`; raises `OSError`, within a fraction of a second."""

    def close(self) -> None:
        """Give it back."""


class KernelAdapter:
    """An adapter of this machine, locked (`flock`) against others who ask for a lock."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.ioctl(self._fd, I2C_RETRIES, 0)
            fcntl.ioctl(self._fd, I2C_TIMEOUT, TIMEOUT_10_MS)
        except OSError:
            self.close()
            raise

    def transfer(self, address: int, sent: bytes, count: int) -> bytes:
        fcntl.ioctl(self._fd, I2C_SLAVE, address)
        if sent:
            os.write(self._fd, sent)
        return os.read(self._fd, count) if count else b""

    def close(self) -> None:
        os.close(self._fd)


class I2cLine(AddressedLine):
    """One I2C bus; addresses are those of 7 bits."""

    def __init__(self, where: LineUrl, clock: Clock, open_adapter: Callable[[Path], Adapter]) -> None:
        self.url = where.text
        self.clock = clock
        self._node = Node(where.path, "bus", "is I2C switched on? `ls /dev/i2c-*` shows what is", "i2c")
        self._open_adapter = open_adapter
        self._adapter: Adapter | None = None

    def open(self) -> None:
        self.close()
        try:
            self._adapter = self._open_adapter(self._node.path)
        except OSError as problem:
            raise self._node.why_not(problem, self.url) from problem
        holder = other_user_of(self._node.path)
        if holder:  # whoever opened it and asked for no lock
            self.close()
            raise self._node.held(holder, self.url)

    def close(self) -> None:
        adapter, self._adapter = self._adapter, None
        if adapter is not None:
            adapter.close()

    def transfer(self, address: int | str, sent: bytes, count: int, deadline: Deadline) -> bytes:
        where = f"address {int(address):#04x}"
        deadline.check(where)
        if self._adapter is None:
            raise PortUnavailable("the bus is closed", bus=self.url)
        try:
            return self._adapter.transfer(int(address), sent, count)
        except OSError as problem:
            why = problem.strerror or str(problem)
            if problem.errno in GONE:
                raise PortUnavailable(f"the bus is gone ({why})", bus=self.url) from problem
            if problem.errno in NOT_ACKNOWLEDGED:
                what = f"nobody acknowledges at {where}; is it wired, has it power, and does it speak I2C?"
            else:
                what = f"{where}: the bus hangs or is disturbed ({why}); are SDA and SCL pulled up, and not exchanged?"
            raise DeviceTimeout(what, bus=self.url) from problem


def open_i2c(url: str, clock: Clock) -> I2cLine:
    return I2cLine(LineUrl.parse(url, {}), clock, KernelAdapter)
