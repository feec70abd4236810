"""What quantities in Modbus registers use of their unit, which setpoints they can hold, how finely they count."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from rigctl.rig.abilities import Claim
from rigctl_drivers.modbus_options import ModbusOptions
from rigctl_drivers.registers import encode, width

_FLOATS: Final = {"float32": 24, "float64": 53}
"""Binary digits of a float's significand."""


def occupies(options: ModbusOptions) -> Sequence[Claim]:
    """Claim every word and coil that a device with these options reads or writes."""
    return tuple(replace(claim, place=f"unit {options.address} {claim.place}") for claim in _claims(options))


def misfits(options: ModbusOptions, setpoints: Sequence[float]) -> Sequence[str]:
    """Name setpoints, and the values for safe and released, that the registers cannot hold."""
    own = {"safe_value": options.safe_value, "release_value": options.release_value}
    named = [("setpoint", value) for value in setpoints]
    named += [(name, value) for name, value in own.items() if value is not None]
    return [f"{name} {value:g} {why}" for name, value in named if (why := _misfit(options, value))]


def grain(options: ModbusOptions, total: float) -> float:
    """Return the smallest step of the counter at this count."""
    read = options.read
    if read is None or read.table in ("coil", "discrete"):
        return 0.0
    if read.type in _FLOATS:
        return abs(read.scale) * float_step((total - read.offset) / read.scale, _FLOATS[read.type])
    return abs(read.scale)


def float_step(value: float, digits: int = 24) -> float:
    """Return the distance to the next number that a float of so many binary digits can hold; float32 unless told."""
    return math.ldexp(1.0, math.frexp(value)[1] - digits) if value else 0.0


def meter_claims(address: int) -> Sequence[Claim]:
    """Claim a unit address for a meter: whoever else is taken to be there counts the same energy."""
    return (Claim(f"unit {address} as an energy meter", "keeps"),)


def _claims(options: ModbusOptions) -> Iterator[Claim]:
    read, write, enable = options.read, options.write, options.enable
    if read is not None and read.table in ("coil", "discrete"):
        yield _bit(read.table, read.at, "reads")
    elif read is not None:
        part = "" if read.bit is None else f" bit {read.bit}"
        yield from _words(read.table, read.at, width(read.type), "reads", part)
    if write is not None:
        yield from _words(write.table, write.at, width(write.type), "writes")
    if enable is not None and enable.at is not None:
        yield from _words("holding", enable.at, 1, "writes")
    elif enable is not None and enable.coil is not None:
        yield _bit("coil", enable.coil, "writes")


def _words(table: str, at: int, count: int, use: Literal["reads", "writes"], part: str = "") -> Iterator[Claim]:
    span = f"{at} to {at + count - 1}{part}"
    for word in range(at, at + count):
        yield Claim(f"{table} register {word}{part}", use, span)


def _bit(table: str, at: int, use: Literal["reads", "writes"]) -> Claim:
    return Claim(f"{table} {at}", use, str(at))


def _misfit(options: ModbusOptions, value: float) -> str:
    """Say why a device with these options cannot hold a setpoint; empty if it can."""
    write = options.write
    if write is None:
        on_off = options.enable is not None and value not in (0.0, 1.0)
        return "cannot be held: an on/off device takes 0 or 1" if on_off else ""
    try:
        encode((value - write.offset) / write.scale, write.type, write.order)
    except (ValueError, struct.error) as problem:
        return f"cannot be held by holding register {write.at}: {problem}; change its type or scale"
    return ""
