"""Maxim DS18B20 thermometers on 1-Wire, read by the kernel (`w1_therm`).

`w1:///sys/bus/w1/devices`. The kernel takes 0.75 s over each reading, which nothing can cut short.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field

from rigctl.errors import DeviceTimeout, GarbledReply
from rigctl.rig.clocks import Clock
from rigctl.rig.protocols import AddressedLine, ClaimedPlace, Deadline, DeviceOptions, Driver, Identity, Reading, Sensor
from rigctl_drivers.addressed_line import NodeLine
from rigctl_drivers.port_holder import Node
from rigctl_drivers.urls import LineUrl

ANSWER: Final = re.compile(rb"((?:[0-9a-f]{2} ){9}): crc=[0-9a-f]{2} (YES|NO)\n(?:[0-9a-f]{2} ){9}t=(-?\d+)\n?")
MOST_READ: Final = 256
POWER_ON_C: Final = 85.0
"""What it says while it has measured nothing since it got power."""
LOWEST_C, HIGHEST_C = -55.0, 125.0


class KernelW1:
    """The 1-Wire buses of this machine; the kernel lets their readers take turns."""

    def __init__(self, node: Node) -> None:
        self._path = node.path
        next(node.path.iterdir(), None)

    def transfer(self, address: str, sent: bytes, count: int) -> bytes:  # noqa: ARG002 - nothing is ever sent
        return (self._path / address / "w1_slave").read_bytes()[:count]

    def close(self) -> None:
        """Do nothing: nothing is kept open."""


def open_w1(url: str, clock: Clock) -> NodeLine:
    missing = "is 1-Wire switched on (`dtoverlay=w1-gpio` in config.txt)?"
    return NodeLine(url, clock, Node(LineUrl.parse(url, {}).path, "bus", missing, "root"), KernelW1, _meaning)


def _meaning(problem: OSError, address: str) -> DeviceTimeout:
    return DeviceTimeout(f"{address} does not answer ({problem.strerror}); is it wired? `ls /sys/bus/w1/devices`")


class Ds18b20Options(DeviceOptions):
    """One thermometer."""

    id: str = Field(pattern=r"^28-[0-9a-f]{12}$")
    """Its number, as its folder is called: 28-0316a2795a3d."""

    def occupies(self) -> tuple[ClaimedPlace, ...]:
        return (ClaimedPlace(self.id, "reads"),)


class Ds18b20(Sensor):
    """A sensor of degrees Celsius."""

    unit = "degC"

    def __init__(self, options: Ds18b20Options, line: AddressedLine) -> None:
        self._id = options.id
        self._line = line

    def identify(self, deadline: Deadline) -> Identity:
        """Read it: every one has a number of its own."""
        self._asked(deadline)
        return Identity("DS18B20", serial=self._id)

    def read(self, deadline: Deadline) -> Reading:
        """Read it; INVALID what no thermometer can have measured.

        Raises:
            DeviceTimeout: it is not there.
            GarbledReply: its checksum is wrong.
        """
        scratchpad, celsius = self._asked(deadline)
        now_s = self._line.clock.now_s()
        if not any(scratchpad):
            return Reading.invalid(self.unit, now_s, "all zeros: is its wire shorted?")
        if celsius == POWER_ON_C:
            return Reading.invalid(self.unit, now_s, "85 degC, what it says after a power cut before it has measured")
        if not LOWEST_C <= celsius <= HIGHEST_C:
            return Reading.invalid(self.unit, now_s, f"{celsius:g} degC, must be {LOWEST_C:g} to {HIGHEST_C:g}")
        return Reading(celsius, self.unit, now_s)

    def _asked(self, deadline: Deadline) -> tuple[bytes, float]:
        """Return the nine bytes of its scratchpad, and the temperature, degrees Celsius."""
        said = self._line.transfer(self._id, b"", MOST_READ, deadline)
        found = ANSWER.fullmatch(said)
        if found is None or found[2] != b"YES":
            raise GarbledReply(f"{self._id}: got {said[:80]!r}, of which the checksum is wrong")
        return bytes.fromhex(found[1].decode("ascii")), int(found[3]) / 1000


class Ds18b20Driver(Driver):
    """Driver of one thermometer."""

    name = "ds18b20"
    summary = "DS18B20 thermometer on 1-Wire (degC)"
    schemes = ("w1",)
    options = Ds18b20Options
    connect = staticmethod(Ds18b20)
