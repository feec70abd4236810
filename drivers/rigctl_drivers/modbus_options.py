"""What a quantity in Modbus registers or coils is: the options of driver `modbus`.

`register` is an alias throughout: pydantic's classes have a method of that name.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field, model_validator

from rigctl.flaws import Flaw, got, require
from rigctl.rig.protocols import ClaimedPlace, DeviceOptions
from rigctl_drivers.registers import FLOATS, NumberType, WordOrder, decode, encode, float_step, width

TABLES: Final[Mapping[int, Literal["discrete", "input", "holding"]]] = MappingProxyType(
    {1: "discrete", 3: "input", 4: "holding"}
)
"""By the digit that manuals put before a number that is counted from 1: 40001, 400001."""


def as_in_manuals(address: int) -> str:
    """Return the place that a manual calls by such a number, as keys; empty where no manual does."""
    size = 100_000 if address > 0xFFFF else 10_000
    table, number = TABLES.get(address // size), address % size
    return f"register: {table}, at: {number - 1}" if table is not None and number else ""


def _sent(address: object) -> object:
    meant = as_in_manuals(address) if isinstance(address, int) and address > 0xFFFF else ""
    if meant:
        raise ValueError(got(address, "must be at most 65535", f"in a manual it stands for {{{meant}}}"))
    return address


Address = Annotated[int, BeforeValidator(_sent), Field(ge=0, le=0xFFFF)]
"""As sent, counted from 0."""


class NumberOptions(DeviceOptions):
    """How a number stands in registers: value = raw x scale + offset."""

    at: Address
    """Address as sent, counted from 0; manuals often print this + 40001 (holding) or + 30001 (input registers)."""
    type: NumberType = "uint16"
    """How the registers are to be understood."""
    order: WordOrder = "ABCD"
    """Byte order of 32-bit and 64-bit values; `CDAB` has the low word first."""
    scale: float = Field(default=1.0, allow_inf_nan=False)
    """Engineering units per count."""
    offset: float = Field(default=0.0, allow_inf_nan=False)
    """Engineering units at raw 0."""

    @model_validator(mode="after")
    def _scale_is_not_zero(self) -> NumberOptions:
        require(self.scale != 0.0, 0, "must not be 0", where="scale")
        return self

    def value(self, raw: float) -> float:
        return raw * self.scale + self.offset

    def words(self, value: float) -> tuple[int, ...]:
        return encode((value - self.offset) / self.scale, self.type, self.order)

    def rounded(self, setpoint: float) -> float:
        return self.value(decode(self.words(setpoint), self.type, self.order))

    @property
    def resolution(self) -> float:
        """Return the smallest step the registers can hold, engineering units; 0 for floats."""
        return 0.0 if self.type in FLOATS else abs(self.scale)


class BlockOptions(DeviceOptions):
    """Registers that are read in one request, for all devices that name the same block."""

    at: Address
    """First address as sent, counted from 0."""
    count: int = Field(ge=1, le=125)
    """How many registers."""


class ReadOptions(NumberOptions):
    """Where the value is read."""

    table: Literal["input", "holding", "coil", "discrete"] = Field(default="input", alias="register")
    """Which table; a coil or discrete input reads as 0 or 1."""
    error_codes: tuple[int, ...] = ()
    """Raw values that mean a fault (broken sensor, overrange), e.g. [32767]."""
    bit: int | None = Field(default=None, ge=0, le=15)
    """Only this bit of the register is the value, 0 or 1; 0 is the lowest."""

    block: BlockOptions | None = None
    """The neighbours it is read with when they are asked for at the same time."""

    def means_fault(self, raw: float) -> bool:
        """Tell whether it is an error code; manuals print those of signed numbers with and without sign."""
        if self.type in FLOATS:
            return raw in self.error_codes
        span = 2 ** (16 * width(self.type))
        return int(raw) % span in (code % span for code in self.error_codes)

    @model_validator(mode="after")
    def _bit_and_block_of_a_register(self) -> ReadOptions:
        block = self.block
        if block is not None and self.table in ("coil", "discrete"):
            raise ValueError(f"block: only registers are read in blocks, got {self.table}")
        if block is not None and not block.at <= self.at <= block.at + block.count - width(self.type):
            held = f"{block.count} registers from {block.at} on"
            raise ValueError(Flaw("", f"must hold the {self.type} at {self.at}", got=held, where="block"))
        if self.bit is not None and (self.table in ("coil", "discrete") or self.type != "uint16"):
            raise ValueError(f"bit: only a register of type uint16 has bits, got {self.table} {self.type}")
        return self


class WriteOptions(NumberOptions):
    """Where the setpoint is written."""

    table: Literal["holding"] = Field(default="holding", alias="register")
    """Only holding registers can be written."""


class EnableOptions(DeviceOptions):
    """What puts the setpoint in force: a coil, or a holding register and its two values."""

    coil: Address | None = None
    """Address of the coil as sent, counted from 0."""
    table: Literal["holding"] | None = Field(default=None, alias="register")
    """`holding`: a register takes the coil's place."""
    at: Address | None = None
    """Address of that register as sent, counted from 0."""
    on: int = Field(default=1, ge=0, le=0xFFFF)
    """What the register holds while the setpoint is in force."""
    off: int = Field(default=0, ge=0, le=0xFFFF)
    """What is written to it to let go; another value than these two is a fault."""

    @model_validator(mode="after")
    def _one_place(self) -> EnableOptions:
        by_register = self.table is not None and self.at is not None
        if (self.coil is None) != by_register or (self.table is None) != (self.at is None):
            raise ValueError("give either `coil`, or `register: holding` and `at`")
        if self.coil is not None and {"on", "off"} & self.model_fields_set:
            raise ValueError(
                Flaw("`on` and `off` are values of a register", remedy="leave them out: a coil has its own")
            )
        if self.on == self.off:
            raise ValueError(got(self.on, "must differ", where="on, off", lead=" for both"))
        return self


class IdentityOptions(DeviceOptions):
    """A register whose value tells this device from others."""

    table: Literal["input", "holding"] = Field(default="holding", alias="register")
    """Which table."""
    at: Address
    """Address as sent, counted from 0."""
    value: int = Field(ge=0, le=0xFFFF)
    """What must stand there."""


class HeartbeatOptions(DeviceOptions):
    """A holding register that must be written again and again, else the unit makes its outputs safe by itself."""

    at: Address
    """Address of the register as sent, counted from 0; it is given another number each time."""
    every_s: float = Field(default=1.0, ge=0.1, le=60)
    """Wall seconds between two writes; not below the period of the watch."""
    timeout_at: Address | None = None
    """Holding register of the watchdog's time, read before anything is driven; 0 there means that it is off."""
    timeout_scale_s: float = Field(default=0.1, gt=0, le=60)
    """Seconds per count of that register."""
    timeout_most_s: float = Field(default=60.0, gt=0, le=3600)
    """A longer time would be no protection."""


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
    """Coil or register that puts the setpoint in force; alone, the device is on/off and takes 0 or 1."""
    release_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint that imposes nothing, for an actuator without `enable`."""
    safe_value: float | None = Field(default=None, allow_inf_nan=False)
    """Setpoint imposed as the safe state; without it, safe means released."""
    counter: bool = False
    """The value read only rises: the device is a meter."""
    identity: IdentityOptions | None = None
    """Checked before anything is written; without it, any unit that answers is taken."""
    latency_s: float | None = Field(default=None, gt=0, le=60)
    """How long the unit takes to begin an answer, to reckon how fast the rig is safe; 0.05 on modbus_rtu, else 0.1."""
    heartbeat: HeartbeatOptions | None = None
    """The unit's watchdog, if it has one: told once, with any device of the unit, it guards all of its outputs."""
    write_multiple: Literal["auto", "never", "always"] = "auto"
    """Functions 0F and 10: where several are to be written, not at all, or even for a single one."""

    def _rules(self) -> tuple[tuple[bool, str], ...]:
        drives = self.write is not None or self.enable is not None
        on_off = self.enable is not None and self.write is None
        return (
            (self.read is not None or drives, "nothing to do: give `read`, `write` or `enable`"),
            (not self.counter or (self.read is not None and not drives), "`counter` needs `read`, and nothing else"),
            (
                self.write is None or self.enable is not None or self.release_value is not None,
                "`write` needs `enable` or `release_value`, else it can never be released",
            ),
            (self.release_value is None or not self.enable, "`release_value` does not go with `enable`: drop one"),
            (self.release_value is None or self.write is not None, "`release_value` needs `write`"),
            (self.safe_value is None or drives, "`safe_value` needs `write` or `enable`"),
            (
                self.write_multiple != "never" or self.write is None or width(self.write.type) == 1,
                "`write_multiple: never` does not go with a setpoint of several registers: they are one value",
            ),
            (not on_off or self.safe_value in (None, 0.0, 1.0), "`safe_value` of an on/off device must be 0 or 1"),
        )

    def occupies(self) -> Sequence[ClaimedPlace]:
        return tuple(replace(claim, place=f"unit {self.address} {claim.place}") for claim in self._claims())

    def _claims(self) -> Iterator[ClaimedPlace]:
        read, write, enable = self.read, self.write, self.enable
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
        if self.heartbeat is not None:
            yield from _words("holding", self.heartbeat.at, 1, "writes")

    def misfit(self, setpoint: float) -> str:
        if self.write is None:
            on_off = self.enable is not None and setpoint not in (0.0, 1.0)
            return "an on/off device takes 0 or 1" if on_off else ""
        try:
            self.write.words(setpoint)
        except (ValueError, struct.error) as problem:
            return f"holding register {self.write.at}: {problem}"
        return ""

    def assess(self) -> tuple[Sequence[str], Sequence[str]]:
        """Ask about addresses that look as manuals print them."""
        return (), tuple(doubtful_addresses(self))

    def rounded(self, setpoint: float) -> float:
        return setpoint if self.write is None else self.write.rounded(setpoint)

    def grain_at(self, total: float) -> float:
        read = self.read
        if read is None or read.table in ("coil", "discrete"):
            return 0.0
        if read.type in FLOATS:
            return abs(read.scale) * float_step((total - read.offset) / read.scale, FLOATS[read.type])
        return abs(read.scale)

    def watchdog(self) -> tuple[str, bool]:
        """Name the unit, which makes its outputs safe as a whole, and tell whether this device feeds it."""
        return f"unit {self.address}", self.heartbeat is not None


def _words(table: str, at: int, count: int, use: Literal["reads", "writes"], part: str = "") -> Iterator[ClaimedPlace]:
    span = f"{at} to {at + count - 1}{part}"
    for word in range(at, at + count):
        yield ClaimedPlace(f"{table} register {word}{part}", use, span)


def _bit(table: str, at: int, use: Literal["reads", "writes"]) -> ClaimedPlace:
    return ClaimedPlace(f"{table} {at}", use, str(at))


def doubtful_addresses(options: DeviceOptions, above: str = "") -> Iterator[str]:
    """Say which addresses look as manuals print them; some devices do have such ones."""
    for name, value in options:
        if isinstance(value, DeviceOptions):
            yield from doubtful_addresses(value, f"{above}{name}.")
        elif name.endswith("at") and isinstance(value, int):
            meant, table = as_in_manuals(value), getattr(options, "table", "holding")
            if meant and (value > 20_000 or table == "discrete"):
                yield f"sends {above}{name} {value} as it is; if that is a number from a manual, write {{{meant}}}"
