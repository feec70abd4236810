"""What Modbus lines and devices share, pymodbus apart: what refusals mean, blocks of registers, who made a unit."""

from __future__ import annotations

from types import MappingProxyType

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault, DeviceTimeout
from rigctl.rig.protocols import Deadline, RegisterLine

ACCEPTED = 0x05
BUSY = frozenset({ACCEPTED, 0x06})
NOT_THIS_WAY = frozenset({0x01, 0x02, 0x03})
"""The unit cannot do what was asked, whoever asks again."""
UNREACHED = frozenset({0x0A, 0x0B})
"""A gateway speaks, for a unit that it does not reach or hear: as if there were no answer."""

_MEANING = MappingProxyType(
    {
        0x01: (
            "illegal function",
            "the device does not know this function; check `register: holding|input|coil|discrete`",
        ),
        0x02: (
            "illegal data address",
            "the device has no such register; check `at` (counted from 0) and the number type",
        ),
        0x03: ("illegal data value", "the device does not accept this value or count; check type, scale and range"),
        0x04: ("device failure", "the device reports a fault of its own; look at its display or log"),
        0x05: ("acknowledge", "the device has accepted the request and is still working on it; ask again later"),
        0x06: ("device busy", "ask again later"),
        0x07: ("negative acknowledge", "the device cannot do this; see its manual"),
        0x08: ("memory parity error", "the device's memory is damaged; restart or replace it"),
        0x0A: ("gateway path unavailable", "the gateway has no route to this unit; check its set-up"),
        0x0B: (
            "gateway target failed to respond",
            "the unit behind the gateway is silent; check power, wiring, address",
        ),
    }
)
"""Modbus Application Protocol V1.1b3, section 7."""


class Refused(DeviceFault):
    """A request was answered with an exception."""

    def __init__(self, what: str = "", code: int = 0, *, device: str = "", bus: str = "") -> None:
        super().__init__(what, device=device, bus=bus)
        self.code = code


def fault_of(code: int, doing: str, bus: str, *, writes: bool) -> DeviceError:
    """Return what an exception means; `DeviceTimeout` where a write may be, or have been, carried out all the same."""
    meaning, remedy = _MEANING.get(code, ("unknown exception", "see the device's manual"))
    if code in UNREACHED or (writes and code == ACCEPTED):
        return DeviceTimeout(f"{doing}: got exception {code:02X}, {meaning}; {remedy}", bus=bus)
    message = f"{doing}: refused with exception {code:02X}, {meaning}; {remedy}"
    return DeviceBusy(message, bus=bus) if code in BUSY else Refused(message, code, bus=bus)


SIMULATED = "(simulated)"
"""Stands in the vendor's name of a unit that is not real."""


def says_simulated(line: RegisterLine, unit: int, deadline: Deadline) -> bool:
    """Tell whether a unit says that it is simulated (function 2B, 0E); False where it refuses the question."""
    try:
        return SIMULATED in line.vendor(unit, deadline)
    except DeviceFault:
        return False
