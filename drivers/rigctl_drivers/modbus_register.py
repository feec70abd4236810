"""One quantity behind Modbus registers or coils: a sensor, an actuator, both, or a counter.

What the options hold decides what the device can do: `read` makes a sensor, `write` and/or `enable` an actuator,
`read` with `counter: true` a meter. What is asked is in `modbus_unit`, what is sent in `modbus_drive`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from rigctl.rig.protocols import ClaimedPlace, Deadline, Device, Driver, Meter, Reading, RegisterLine, Sensor
from rigctl_drivers.looking import look_modbus
from rigctl_drivers.modbus_drive import Drive
from rigctl_drivers.modbus_heartbeat import watchdog_of
from rigctl_drivers.modbus_options import ModbusOptions
from rigctl_drivers.modbus_unit import Unit
from rigctl_drivers.registers import float_step, width

_FLOATS: Final = {"float32": 24, "float64": 53}
"""Binary digits of a float's significand."""


def _occupies(options: ModbusOptions) -> Sequence[ClaimedPlace]:
    return tuple(replace(claim, place=f"unit {options.address} {claim.place}") for claim in _claims(options))


def _misfits(options: ModbusOptions, setpoints: Sequence[float]) -> Sequence[str]:
    """Name setpoints, and the values for safe and released, that the registers cannot hold."""
    own = {"safe_value": options.safe_value, "release_value": options.release_value}
    named = [("setpoint", value) for value in setpoints]
    named += [(name, value) for name, value in own.items() if value is not None]
    return [f"{name} {value:g} {why}" for name, value in named if (why := _misfit(options, value))]


def _rounded(options: ModbusOptions, setpoint: float) -> float:
    return setpoint if options.write is None else options.write.rounded(setpoint)


def _grain(options: ModbusOptions, total: float) -> float:
    read = options.read
    if read is None or read.table in ("coil", "discrete"):
        return 0.0
    if read.type in _FLOATS:
        return abs(read.scale) * float_step((total - read.offset) / read.scale, _FLOATS[read.type])
    return abs(read.scale)


def _claims(options: ModbusOptions) -> Iterator[ClaimedPlace]:
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
    if options.heartbeat is not None:
        yield from _words("holding", options.heartbeat.at, 1, "writes")


def _words(table: str, at: int, count: int, use: Literal["reads", "writes"], part: str = "") -> Iterator[ClaimedPlace]:
    span = f"{at} to {at + count - 1}{part}"
    for word in range(at, at + count):
        yield ClaimedPlace(f"{table} register {word}{part}", use, span)


def _bit(table: str, at: int, use: Literal["reads", "writes"]) -> ClaimedPlace:
    return ClaimedPlace(f"{table} {at}", use, str(at))


def _misfit(options: ModbusOptions, value: float) -> str:
    write = options.write
    if write is None:
        on_off = options.enable is not None and value not in (0.0, 1.0)
        return "cannot be held: an on/off device takes 0 or 1" if on_off else ""
    try:
        write.words(value)
    except (ValueError, struct.error) as problem:
        return f"cannot be held by holding register {write.at}: {problem}; change its type or scale"
    return ""


class ModbusRegisterDriver(Driver):
    """Driver of a quantity in registers or coils."""

    name = "modbus"
    summary = "a sensor, actuator or counter in Modbus registers or coils"
    schemes = ("modbus_tcp", "modbus_rtu", "rtu_tcp")
    options = ModbusOptions
    occupies = staticmethod(_occupies)
    misfits = staticmethod(_misfits)
    rounded = staticmethod(_rounded)
    grain = staticmethod(_grain)
    watchdog = staticmethod(watchdog_of)
    look_rank = 3
    look = staticmethod(look_modbus)

    @staticmethod
    def connect(options: ModbusOptions, line: RegisterLine) -> Device:
        if options.address == 0 and line.url.startswith(("modbus_rtu:", "rtu_tcp:")):
            everybody = "every unit on the line obeys it, and none answers"
            raise ValueError(f"address: got 0, must be 1 to 247: 0 is the broadcast, {everybody}")
        if options.counter:
            return ModbusCounter(options, line)
        if options.read is None:
            return Drive(options, line)
        if options.write is None and options.enable is None:
            return ModbusSensor(options, line)
        return ModbusControlled(options, line)


class ModbusSensor(Unit, Sensor):
    """Reads the quantity."""


class ModbusCounter(Unit, Meter):
    """Counts what is consumed."""

    def __init__(self, options: ModbusOptions, line: RegisterLine) -> None:
        super().__init__(options, line)
        self.meter_unit = options.unit

    def total(self, deadline: Deadline) -> Reading:
        reading = self.read(deadline)
        if reading.valid and reading.value < 0:
            detail = f"a counter cannot read {reading.value}: check type and order"
            return Reading.invalid(reading.unit, reading.time_s, detail)
        return reading


class ModbusControlled(Drive, Sensor):
    """Imposes a setpoint and reads the quantity."""
