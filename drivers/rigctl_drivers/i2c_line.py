"""I2C buses, by the interface that Linux gives to programs (`/dev/i2c-*`); for one process alone.

`i2c:///dev/i2c-1`. A command leaves once: the kernel is told to repeat nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
from typing import Final

from rigctl.errors import DeviceTimeout
from rigctl.rig.clocks import Clock
from rigctl_drivers.addressed_line import NodeLine
from rigctl_drivers.port_holder import Node
from rigctl_drivers.urls import LineUrl

I2C_RETRIES, I2C_TIMEOUT, I2C_SLAVE = 0x0701, 0x0702, 0x0703
"""Requests of `linux/i2c-dev.h`."""
TIMEOUT_10_MS: Final = 10
"""How long the kernel waits for a bus that hangs, in steps of 10 ms; 100 bytes take 10 ms."""
NOT_ACKNOWLEDGED: Final = (errno.ENXIO, errno.EREMOTEIO)


class KernelAdapter:
    """An adapter of this machine, locked (`flock`) against others who ask for a lock."""

    def __init__(self, node: Node) -> None:
        self._fd = os.open(node.path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.ioctl(self._fd, I2C_RETRIES, 0)
            fcntl.ioctl(self._fd, I2C_TIMEOUT, TIMEOUT_10_MS)
        except OSError:
            self.close()
            raise

    def transfer(self, address: str, sent: bytes, count: int) -> bytes:
        fcntl.ioctl(self._fd, I2C_SLAVE, int(address))
        if sent:
            os.write(self._fd, sent)
        return os.read(self._fd, count) if count else b""

    def close(self) -> None:
        os.close(self._fd)


def open_i2c(url: str, clock: Clock) -> NodeLine:
    node = Node(LineUrl.parse(url, {}).path, "bus", "is I2C switched on? `ls /dev/i2c-*` shows what is", "i2c")
    return NodeLine(url, clock, node, KernelAdapter, _meaning, sole=True)


def _meaning(problem: OSError, address: str) -> DeviceTimeout:
    where = f"address {int(address):#04x}"
    if problem.errno in NOT_ACKNOWLEDGED:
        return DeviceTimeout(f"nobody acknowledges at {where}; is it wired, has it power, and does it speak I2C?")
    why = problem.strerror or str(problem)
    return DeviceTimeout(
        f"no answer at {where}, or the bus hangs ({why}); is it wired, and are SDA and SCL pulled up and not swapped?"
    )
