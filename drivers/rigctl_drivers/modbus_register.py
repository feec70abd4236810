"""One quantity behind Modbus registers or coils: a sensor, an actuator, both, or a counter.

What the options hold decides what the device can do: `read` makes a sensor, `write` and/or `enable` an actuator,
`read` with `counter: true` a meter.
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rigctl.errors import DeviceFault, IdentityMismatch
from rigctl.rig.protocols import (
    ActuatorState,
    Deadline,
    Device,
    DeviceOptions,
    Identity,
    Line,
    Reading,
    RegisterLine,
    Severity,
)
from rigctl_drivers import modbus_claims
from rigctl_drivers.registers import NumberType, WordOrder, decode, encode, width

Address = Field(ge=0, le=0xFFFF)


class _Part(BaseModel):
    """Base of the nested options. `register` is an alias: pydantic's classes have a method of that name."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class _Number(_Part):
    """How a number stands in registers: value = raw x scale + offset."""

    at: int = Address
    """Address as sent, counted from 0; manuals often print this + 40001 (holding) or + 30001 (input registers)."""
    type: NumberType = "uint16"
    """How the registers are to be understood."""
    order: WordOrder = "ABCD"
    """Byte order of 32-bit values; `CDAB` has the low word first."""
    scale: float = Field(default=1.0, allow_inf_nan=False)
    """Engineering units per count."""
    offset: float = Field(default=0.0, allow_inf_nan=False)
    """Engineering units at raw 0."""

    @model_validator(mode="after")
    def _scale_is_not_zero(self) -> _Number:
        if self.scale == 0.0:
            raise ValueError("scale: got 0, must not be 0")
        return self

    @property
    def resolution(self) -> float:
        """The smallest step the registers can hold, engineering units; 0 for floats."""
        return 0.0 if self.type == "float32" else abs(self.scale)


class ReadOptions(_Number):
    """Where the value is read."""

    table: Literal["input", "holding", "coil", "discrete"] = Field(default="input", alias="register")
    """Which table; a coil or discrete input reads as 0 or 1."""
    error_codes: tuple[int, ...] = ()
    """Raw values that mean a fault (broken sensor, overrange), e.g. [32767]."""


class WriteOptions(_Number):
    """Where the setpoint is written."""

    table: Literal["holding"] = Field(default="holding", alias="register")
    """Only holding registers can be written."""


class EnableOptions(_Part):
    """The coil that puts the setpoint in force."""

    coil: int = Address
    """Address as sent, counted from 0."""


class IdentityOptions(_Part):
    """A register whose value tells this device from others."""

    table: Literal["input", "holding"] = Field(default="holding", alias="register")
    """Which table."""
    at: int = Address
    """Address as sent, counted from 0."""
    value: int = Field(ge=0, le=0xFFFF)
    """What must stand there."""


class ModbusOptions(DeviceOptions):
    """One quantity of a Modbus device."""

    address: int = Field(default=1, ge=0, le=255)
    """Unit address (RTU 1 to 247; a TCP device without units often wants 1, 0 or 255)."""
    unit: str = ""
    """Engineering unit of the value."""
    read: ReadOptions | None = None
    """Where the value is read; makes the device a sensor."""
    write: WriteOptions | None = None
    """Where the setpoint is written; makes the device an actuator."""
    enable: EnableOptions | None = None
    """Coil that puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    release_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint that imposes nothing, for an actuator without `enable`."""
    safe_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint imposed as the safe state; without it, safe means released."""
    counter: bool = False
    """The value read only rises: the device is a meter."""
    identity: IdentityOptions | None = None
    """Checked before anything is written; without it, any unit that answers is taken."""

    @model_validator(mode="after")
    def _parts_fit_together(self) -> ModbusOptions:
        for holds, problem in self._rules():
            if not holds:
                raise ValueError(problem)
        return self

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        drives = self.write is not None or self.enable is not None
        on_off = self.enable is not None and self.write is None
        return (
            (self.read is not None or drives, "nothing to do: give `read`, `write` or `enable`"),
            (not self.counter or (self.read is not None and not drives), "`counter` needs `read`, and nothing else"),
            (
                self.write is None or self.enable is not None or self.release_value is not None,
                "`write` needs `enable` (a coil) or `release_value`, else it can never be released",
            ),
            (self.release_value is None or not self.enable, "`release_value` does not go with `enable`: drop one"),
            (self.release_value is None or self.write is not None, "`release_value` needs `write`"),
            (self.safe_value is None or drives, "`safe_value` needs `write` or `enable`"),
            (not on_off or self.safe_value in (None, 0.0, 1.0), "`safe_value` of an on/off device must be 0 or 1"),
        )


class ModbusRegisterDriver:
    """Driver of a quantity in registers or coils."""

    name: ClassVar[str] = "modbus"
    summary: ClassVar[str] = "a sensor, actuator or counter in Modbus registers or coils"
    schemes: ClassVar[tuple[str, ...]] = ("modbus_tcp", "modbus_rtu")
    options: ClassVar[type[DeviceOptions]] = ModbusOptions
    occupies = staticmethod(modbus_claims.occupies)
    misfits = staticmethod(modbus_claims.misfits)
    grain = staticmethod(modbus_claims.grain)

    @staticmethod
    def connect(name: str, options: DeviceOptions, line: Line) -> Device:
        """The device called `name`; sends nothing yet."""
        if not isinstance(options, ModbusOptions) or not isinstance(line, RegisterLine):
            raise TypeError(f"{name}: driver modbus needs ModbusOptions and a Modbus line, got {line.url}")
        unit = _Unit(name, options, line)
        if options.counter:
            return ModbusCounter(unit)
        if options.read is None:
            return ModbusActuator(unit)
        if options.write is None and options.enable is None:
            return ModbusSensor(unit)
        return ModbusControlled(unit)


class ModbusSensor:
    """Reads one quantity."""

    def __init__(self, unit: _Unit) -> None:
        self.unit = unit.options.unit
        self._unit = unit

    def identify(self, deadline: Deadline) -> Identity:
        """Who answers; raises `IdentityMismatch` if the identity register holds something else."""
        return self._unit.identify(deadline)

    def read(self, deadline: Deadline) -> Reading:
        """The value now."""
        return self._unit.read(deadline)


class ModbusCounter:
    """Counts what is consumed."""

    def __init__(self, unit: _Unit) -> None:
        self.meter_unit = unit.options.unit
        self._unit = unit

    def identify(self, deadline: Deadline) -> Identity:
        """Who answers; raises `IdentityMismatch` if the identity register holds something else."""
        return self._unit.identify(deadline)

    def total(self, deadline: Deadline) -> Reading:
        """The counter now; INVALID if negative."""
        reading = self._unit.read(deadline)
        if reading.valid and reading.value < 0:
            detail = f"a counter cannot read {reading.value}: check type and order"
            return Reading(math.nan, reading.unit, reading.time_s, Severity.INVALID, detail)
        return reading


class ModbusActuator:
    """Imposes a setpoint, or switches."""

    def __init__(self, unit: _Unit) -> None:
        self.unit = unit.options.unit
        self._unit = unit

    def identify(self, deadline: Deadline) -> Identity:
        """Who answers; raises `IdentityMismatch` if the identity register holds something else."""
        return self._unit.identify(deadline)

    def apply(self, value: float, deadline: Deadline) -> None:
        """Write the setpoint, then close the enable coil; each is sent once."""
        self._unit.apply(value, deadline)

    def release(self, deadline: Deadline) -> None:
        """Open the enable coil, or write the release value."""
        self._unit.release(deadline)

    def safe(self, deadline: Deadline) -> None:
        """Impose `safe_value` if there is one, else release."""
        self._unit.safe(deadline)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        """Coil and setpoint as the device holds them."""
        return self._unit.read_back(deadline)


class ModbusControlled:
    """Imposes a setpoint and reads the quantity."""

    def __init__(self, unit: _Unit) -> None:
        self.unit = unit.options.unit
        self._unit = unit

    def identify(self, deadline: Deadline) -> Identity:
        """Who answers; raises `IdentityMismatch` if the identity register holds something else."""
        return self._unit.identify(deadline)

    def read(self, deadline: Deadline) -> Reading:
        """The value now."""
        return self._unit.read(deadline)

    def apply(self, value: float, deadline: Deadline) -> None:
        """Write the setpoint, then close the enable coil; each is sent once."""
        self._unit.apply(value, deadline)

    def release(self, deadline: Deadline) -> None:
        """Open the enable coil, or write the release value."""
        self._unit.release(deadline)

    def safe(self, deadline: Deadline) -> None:
        """Impose `safe_value` if there is one, else release."""
        self._unit.safe(deadline)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        """Coil and setpoint as the device holds them."""
        return self._unit.read_back(deadline)


class _Unit:
    """What the device classes share: the exchanges with one Modbus unit."""

    def __init__(self, name: str, options: ModbusOptions, line: RegisterLine) -> None:
        self.name = name
        self.options = options
        self.line = line

    def identify(self, deadline: Deadline) -> Identity:
        o, line = self.options, self.line
        model = f"Modbus unit {o.address}"
        if o.identity is not None:
            (got,) = line.read_registers(o.address, o.identity.table, o.identity.at, 1, deadline)
            if got != o.identity.value:
                where = f"{self.name}: {line.url} unit {o.address}: {o.identity.table} register {o.identity.at}"
                raise IdentityMismatch(f"{where} holds {got}, expected {o.identity.value}: another device answers")
            return Identity(f"{model}, identity {got}")
        if o.read is not None:
            self._raw(o.read, o.read.table, deadline)
        else:
            self.read_back(deadline)
        return Identity(model)

    def read(self, deadline: Deadline) -> Reading:
        place = self.options.read
        if place is None:  # connect() makes no sensor without it
            raise DeviceFault(f"{self.name}: nothing to read: `read` is not configured")
        raw = self._raw(place, place.table, deadline)
        now_s = self.line.clock.now_s()
        problem = ""
        if not math.isfinite(raw):
            problem = f"the device reports {raw}"
        elif raw in place.error_codes:
            problem = f"the device reports error code {raw:g}"
        if problem:
            return Reading(math.nan, self.options.unit, now_s, Severity.INVALID, problem)
        return Reading(raw * place.scale + place.offset, self.options.unit, now_s)

    def apply(self, value: float, deadline: Deadline) -> None:
        o = self.options
        if o.write is not None:
            self._write_setpoint(o.write, value, deadline)
        elif value not in (0.0, 1.0):
            raise DeviceFault(f"{self.name}: got setpoint {value}, an on/off device takes 0 or 1; nothing was sent")
        if o.enable is not None:
            on = o.write is not None or value == 1.0
            self.line.write_coil(o.address, o.enable.coil, on, deadline)

    def release(self, deadline: Deadline) -> None:
        o = self.options
        if o.enable is not None:
            self.line.write_coil(o.address, o.enable.coil, False, deadline)
        elif o.write is not None and o.release_value is not None:
            self._write_setpoint(o.write, o.release_value, deadline)

    def safe(self, deadline: Deadline) -> None:
        if self.options.safe_value is None:
            self.release(deadline)
        else:
            self.apply(self.options.safe_value, deadline)

    def read_back(self, deadline: Deadline) -> ActuatorState:
        o = self.options
        on = True
        if o.enable is not None:
            (on,) = self.line.read_bits(o.address, "coil", o.enable.coil, 1, deadline)
        if o.write is None:
            return ActuatorState(on, float(on))
        if not on:
            return ActuatorState(False, None)
        held = self._raw(o.write, "holding", deadline) * o.write.scale + o.write.offset
        if o.release_value is not None and self._same(o.write, held, o.release_value):
            return ActuatorState(False, None)
        return ActuatorState(True, held)

    def _write_setpoint(self, place: WriteOptions, value: float, deadline: Deadline) -> None:
        try:
            words = encode((value - place.offset) / place.scale, place.type, place.order)
        except ValueError as problem:
            where = f"{self.name}: setpoint {value} {self.options.unit}".rstrip()
            raise DeviceFault(f"{where} does not fit register {place.at}: {problem}; nothing was sent") from problem
        self.line.write_registers(self.options.address, place.at, words, deadline)

    def _raw(
        self, place: _Number, register: Literal["input", "holding", "coil", "discrete"], deadline: Deadline
    ) -> float:
        unit = self.options.address
        if register == "coil" or register == "discrete":  # noqa: PLR1714 - mypy narrows this form only
            return float(self.line.read_bits(unit, register, place.at, 1, deadline)[0])
        words = self.line.read_registers(unit, register, place.at, width(place.type), deadline)
        return decode(words, place.type, place.order)

    @staticmethod
    def _same(place: WriteOptions, held: float, wanted: float) -> bool:
        """Equal as far as the registers can tell."""
        return math.isclose(held, wanted, rel_tol=1e-6, abs_tol=max(place.resolution / 2, 1e-9))
