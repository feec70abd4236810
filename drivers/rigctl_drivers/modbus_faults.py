"""What Modbus exception codes mean, and what to do about them."""

from __future__ import annotations

from types import MappingProxyType

from rigctl.errors import DeviceBusy, DeviceError, DeviceFault

BUSY = frozenset({0x05, 0x06})
NOT_THIS_WAY = frozenset({0x01, 0x02, 0x03})
"""The unit cannot do what was asked, whoever asks again."""

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

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


def fault_of(code: int, doing: str) -> DeviceError:
    """The error for an exception reply; `doing` names line, unit, function and register."""
    meaning, remedy = _MEANING.get(code, ("unknown exception", "see the device's manual"))
    message = f"{doing}: refused with exception {code:02X}, {meaning}; {remedy}"
    return DeviceBusy(message) if code in BUSY else Refused(code, message)
