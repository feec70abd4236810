"""A Modbus device's tables: registers and bits bound to plain callables.

Word orders: ABCD is big-endian throughout, CDAB swaps the words of a 32-bit value, BADC swaps the bytes of each word,
DCBA does both.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from sim_rig.errors import PlantError, Refusal

NumberType = Literal["int16", "uint16", "int32", "uint32", "float32"]
WordOrder = Literal["ABCD", "BADC", "CDAB", "DCBA"]
Table = Literal["coil", "discrete", "input", "holding"]

ILLEGAL_FUNCTION, ILLEGAL_ADDRESS, ILLEGAL_VALUE, NO_SUCH_UNIT = 0x01, 0x02, 0x03, 0x0B

_FORMATS: Final = {"int16": ">h", "uint16": ">H", "int32": ">i", "uint32": ">I", "float32": ">f"}


def encode(value: float, kind: NumberType, order: WordOrder = "ABCD") -> list[int]:
    """Write a number as registers. Integers saturate; NaN is by custom their lowest, of unsigned ones their highest."""
    if kind != "float32":
        limits = np.iinfo(kind)
        not_a_number = limits.min or limits.max
        value = int(not_a_number if math.isnan(value) else min(max(round(value), limits.min), limits.max))
    raw = struct.pack(_FORMATS[kind], value)
    words = [raw[i : i + 2] for i in range(0, len(raw), 2)]
    return [int.from_bytes(word, "big") for word in _ordered(words, order)]


def decode(words: Iterable[int], kind: NumberType, order: WordOrder = "ABCD") -> float:
    raw = b"".join(_ordered([word.to_bytes(2, "big") for word in words], order))
    return float(struct.unpack(_FORMATS[kind], raw)[0])


def _ordered(words: list[bytes], order: WordOrder) -> list[bytes]:
    if order in ("CDAB", "DCBA"):
        words = words[::-1]
    return [word[::-1] for word in words] if order in ("BADC", "DCBA") else words


@dataclass(slots=True)
class Number:
    """Puts a value into one or two registers; `read` and `write` speak engineering units."""

    read: Callable[[], float]
    write: Callable[[float], None] | None
    kind: NumberType
    order: WordOrder
    scale: float
    """Engineering units per count."""

    def words(self) -> list[int]:
        return encode(self.read() / self.scale, self.kind, self.order)

    def put(self, words: list[int]) -> None:
        """Write the whole value; raise `Refusal` if it is read-only, not a finite number, or out of range."""
        value = decode(words, self.kind, self.order)
        if self.write is None or not math.isfinite(value):
            raise Refusal(ILLEGAL_VALUE, f"{value} cannot be written")
        try:
            self.write(value * self.scale)
        except PlantError as error:
            raise Refusal(ILLEGAL_VALUE, str(error)) from error


@dataclass(slots=True)
class Bit:
    """Is a coil or discrete input."""

    read: Callable[[], bool]
    write: Callable[[bool], object] | None


@dataclass(slots=True)
class Bank:
    """Holds the four tables of one Modbus unit. An address nobody mapped is refused with exception 02."""

    zero_fill: bool = False
    """Unmapped registers read as zero instead, as energy meters do."""
    max_registers: int = 125
    even_below: int = 0
    """Register addresses below this must be even and counts too, as where everything is a float."""
    word_swap: bool = False
    """A fault: 32-bit values of the input registers come with their words swapped."""
    _numbers: dict[tuple[Table, int], tuple[Number, int]] = field(default_factory=dict)
    _bits: dict[tuple[Table, int], Bit] = field(default_factory=dict)

    def number(
        self,
        table: Literal["input", "holding"],
        at: int,
        read: Callable[[], float],
        write: Callable[[float], None] | None = None,
        *,
        kind: NumberType = "float32",
        order: WordOrder = "ABCD",
        scale: float = 1.0,
    ) -> None:
        """Map a value to the registers from `at` on."""
        number = Number(read, write, kind, order, scale)
        for offset in range(struct.calcsize(_FORMATS[kind]) // 2):
            self._numbers[table, at + offset] = (number, offset)

    def bit(
        self,
        table: Literal["coil", "discrete"],
        at: int,
        read: Callable[[], bool],
        write: Callable[[bool], object] | None = None,
    ) -> None:
        self._bits[table, at] = Bit(read, write)

    def read_registers(self, table: Literal["input", "holding"], at: int, count: int) -> list[int]:
        """Return `count` registers, each value sampled once however many of its registers are asked for.

        Raises:
            Refusal: count or address is not allowed.
        """
        if not 1 <= count <= self.max_registers:
            raise Refusal(ILLEGAL_VALUE, f"{count} registers, allowed 1 to {self.max_registers}")
        if at < self.even_below and (at % 2 or count % 2):
            raise Refusal(ILLEGAL_ADDRESS, f"{count} registers at {at}: must be even")
        if self.zero_fill and not any((table, at + i) in self._numbers for i in range(count)):
            raise Refusal(ILLEGAL_ADDRESS, f"no {table} register at {at}")
        sampled: dict[int, list[int]] = {}
        return [self._register(table, at + i, sampled) for i in range(count)]

    def _register(self, table: Table, at: int, sampled: dict[int, list[int]]) -> int:
        if (table, at) not in self._numbers:
            if self.zero_fill:
                return 0
            raise Refusal(ILLEGAL_ADDRESS, f"no {table} register at {at}")
        number, offset = self._numbers[table, at]
        if id(number) not in sampled:
            words = number.words()
            sampled[id(number)] = words[::-1] if self.word_swap and table == "input" else words
        return sampled[id(number)][offset]

    def write_registers(self, at: int, values: list[int]) -> None:
        """Write holding registers; a part of a 32-bit value is merged with what the rest holds now.

        Raises:
            Refusal: an address or value is not allowed; nothing was written then.
        """
        merged: dict[int, tuple[Number, list[int]]] = {}
        for i, word in enumerate(values):
            if ("holding", at + i) not in self._numbers:
                raise Refusal(ILLEGAL_ADDRESS, f"no holding register at {at + i}")
            number, offset = self._numbers["holding", at + i]
            merged.setdefault(id(number), (number, number.words()))[1][offset] = word
        for number, words in merged.values():
            number.put(words)

    def read_bits(self, table: Literal["coil", "discrete"], at: int, count: int) -> list[bool]:
        """Return `count` bits; raise `Refusal` if count or address is not allowed."""
        if not 1 <= count <= 2000:
            raise Refusal(ILLEGAL_VALUE, f"{count} bits, allowed 1 to 2000")
        return [self._bit(table, at + i).read() for i in range(count)]

    def write_coils(self, at: int, values: list[bool]) -> None:
        """Write coils; raise `Refusal` if one of them does not exist (nothing was written then) or is read-only."""
        bits = [self._bit("coil", at + i) for i in range(len(values))]
        for bit, value in zip(bits, values, strict=True):
            if bit.write is None:
                raise Refusal(ILLEGAL_ADDRESS, f"coil at {at} is read-only")
            bit.write(value)

    def _bit(self, table: Table, at: int) -> Bit:
        if (table, at) not in self._bits:
            raise Refusal(ILLEGAL_ADDRESS, f"no {table} at {at}")
        return self._bits[table, at]
