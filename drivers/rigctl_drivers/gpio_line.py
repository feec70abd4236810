"""Lines of a GPIO chip, by the kernel's character device (ABI v2, Linux 5.10 or later).

`gpio:///dev/gpiochip0`. An address is a line's number and, after it, how the line is used: `17`, `22 active-low
pull-up`. `on` or `off` is sent, and read. The kernel gives each line to one process alone; others keep theirs.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from types import MappingProxyType
from typing import Final

from rigctl.errors import DeviceError, DeviceFault, DeviceTimeout
from rigctl.rig.clocks import Clock
from rigctl_drivers.addressed_line import NodeLine
from rigctl_drivers.port_holder import Node
from rigctl_drivers.urls import LineUrl

ON, OFF = b"on", b"off"
MOST_READ: Final = 3
ACTIVE_LOW, INPUT, OUTPUT = 1 << 1, 1 << 2, 1 << 3
FLAGS = MappingProxyType(
    {"active-low": ACTIVE_LOW, "pull-up": INPUT | 1 << 8, "pull-down": INPUT | 1 << 9, "floating": INPUT | 1 << 10}
)
"""How a line is used: `GPIO_V2_LINE_FLAG_*` of `linux/gpio.h`."""
CONFIG: Final = "QI5I" + "IIQQ" * 10
"""`struct gpio_v2_line_config`: flags, how many attributes, padding; ten attributes with id, padding, value, mask."""
REQUEST: Final = struct.Struct(f"=64I32s{CONFIG}II5Ii")
"""`struct gpio_v2_line_request`: offsets, consumer, config, how many lines, size of the event buffer, padding, fd."""
CHANGE: Final = struct.Struct(f"={CONFIG}")
VALUES: Final = struct.Struct("=QQ")
OUTPUT_VALUES: Final = 2
"""Which attribute says at what level an output begins."""


def _request(number: int, size: int) -> int:
    """Return `_IOWR(0xB4, number, size)`."""
    return 3 << 30 | size << 16 | 0xB4 << 8 | number


GET_LINE = _request(0x07, REQUEST.size)
SET_CONFIG = _request(0x0D, CHANGE.size)
GET_VALUES = _request(0x0E, VALUES.size)


class KernelChip:
    """A chip of this machine; a line that was used is held until the chip is closed."""

    def __init__(self, node: Node) -> None:
        self._fd = os.open(node.path, os.O_RDWR | os.O_CLOEXEC)
        self._held: dict[str, int] = {}

    def transfer(self, address: str, sent: bytes, count: int) -> bytes:
        number, *words = address.split()
        flags = sum(FLAGS[word] for word in words)
        if address not in self._held:  # a line that is only asked for stays as it is, whoever drove it
            config = (flags, *[0] * 46)
            asked = bytearray(REQUEST.pack(int(number), *[0] * 63, b"rigctl", *config, 1, 0, *[0] * 5, 0))
            fcntl.ioctl(self._fd, GET_LINE, asked)
            self._held[address] = REQUEST.unpack(asked)[-1]
        held = self._held[address]
        if sent:
            level = (OUTPUT_VALUES, 0, int(sent == ON), 1)
            fcntl.ioctl(held, SET_CONFIG, CHANGE.pack(flags | OUTPUT, 1, *[0] * 5, *level, *[0] * 36))
        if not count:
            return b""
        values = bytearray(VALUES.pack(0, 1))
        fcntl.ioctl(held, GET_VALUES, values)
        return ON if VALUES.unpack(values)[0] else OFF

    def close(self) -> None:
        for fd in (*self._held.values(), self._fd):
            os.close(fd)
        self._held.clear()


def open_gpio(url: str, clock: Clock) -> NodeLine:
    node = Node(LineUrl.parse(url, {}).path, "GPIO chip", "`ls /dev/gpiochip*` shows what is", "gpio")
    return NodeLine(url, clock, node, KernelChip, _meaning)


def _meaning(problem: OSError, address: str) -> DeviceError:
    if problem.errno == errno.EBUSY:
        return DeviceFault(f"line {address} is used by another program or the kernel; `gpioinfo` shows by whom")
    if problem.errno == errno.EINVAL:
        return DeviceFault(f"line {address}: the chip has no such line, or cannot use it so")
    return DeviceTimeout(f"line {address}: {problem.strerror or problem}")
