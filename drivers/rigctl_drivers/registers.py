"""Numbers in 16-bit registers, pure: both integer signs, floats and all four word orders found in the field.

A 32-bit value has bytes A (most significant) to D. `ABCD`: high word first; `CDAB`: low word first; `BADC` and `DCBA`
the same with the bytes of each word swapped. pymodbus knows the first two only. A 64-bit value is laid out alike: its
four words from the highest on (`ABCD`, `BADC`), or from the lowest on (`CDAB`, `DCBA`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from types import MappingProxyType
from typing import Literal

from rigctl.flaws import require

NumberType = Literal["int16", "uint16", "int32", "uint32", "float32", "int64", "uint64", "float64"]
WordOrder = Literal["ABCD", "BADC", "CDAB", "DCBA"]
ORDERS: tuple[WordOrder, ...] = ("ABCD", "CDAB", "BADC", "DCBA")
"""The commonest first."""

FLOATS = MappingProxyType({"float32": 24, "float64": 53})
"""Binary digits of a float's significand."""
_FORMATS = MappingProxyType(
    {
        "int16": ">h",
        "uint16": ">H",
        "int32": ">i",
        "uint32": ">I",
        "float32": ">f",
        "int64": ">q",
        "uint64": ">Q",
        "float64": ">d",
    }
)


def width(number_type: NumberType) -> int:
    """Return how many registers a number takes."""
    return struct.calcsize(_FORMATS[number_type]) // 2


def decode(registers: Sequence[int], number_type: NumberType, order: WordOrder = "ABCD") -> float:
    """Return the number in `registers`, integers exact; `ValueError` unless they are the 16-bit words it takes."""
    if len(registers) != width(number_type) or not all(0 <= r <= 0xFFFF for r in registers):
        raise ValueError(f"{number_type} takes {width(number_type)} registers of 16 bits, got {list(registers)}")
    data = _arrange(b"".join(r.to_bytes(2, "big") for r in registers), order)
    value: float
    (value,) = struct.unpack(_FORMATS[number_type], data)
    return value


def encode(value: float, number_type: NumberType, order: WordOrder = "ABCD") -> tuple[int, ...]:
    """Return the registers that hold `value`, integers rounded; `ValueError` if it is not finite or does not fit."""
    require(math.isfinite(value), value, "must be finite")
    number = value if number_type in FLOATS else round(value)
    try:
        data = _arrange(struct.pack(_FORMATS[number_type], number), order)
    except (OverflowError, struct.error):
        raise ValueError(f"got {number}, {number_type} holds {_range(number_type)}") from None
    return tuple(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))


def float_step(value: float, digits: int = 24) -> float:
    """Return the distance to the next number that a float of so many binary digits can hold; float32 unless told."""
    return math.ldexp(1.0, math.frexp(value)[1] - digits) if value else 0.0


def _range(number_type: NumberType) -> str:
    if number_type == "float32":
        return "-3.4e38 to 3.4e38"
    bits = 16 * width(number_type)
    return f"0 to {2**bits - 1}" if number_type.startswith("u") else f"{-(2 ** (bits - 1))} to {2 ** (bits - 1) - 1}"


def _arrange(data: bytes, order: WordOrder) -> bytes:
    """Put transmitted order to most significant first, or back: every order is its own inverse."""
    words = [data[i : i + 2] for i in range(0, len(data), 2)]
    if order in ("CDAB", "DCBA"):
        words.reverse()
    return b"".join(word[::-1] for word in words) if order in ("BADC", "DCBA") else b"".join(words)
