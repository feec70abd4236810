"""Numbers in registers: vectors worked out by hand, and round trips of everything a register can hold."""

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl_drivers.registers import decode, encode, width

ORDERS = ("ABCD", "BADC", "CDAB", "DCBA")
# 123.456 is 42F6E979 as IEEE 754 single: A=42 B=F6 C=E9 D=79. 305419896 is 12345678.
BY_HAND = [
    ("float32", "ABCD", [0x42F6, 0xE979], 123.456),
    ("float32", "BADC", [0xF642, 0x79E9], 123.456),
    ("float32", "CDAB", [0xE979, 0x42F6], 123.456),
    ("float32", "DCBA", [0x79E9, 0xF642], 123.456),
    ("uint32", "ABCD", [0x1234, 0x5678], 305419896),
    ("uint32", "CDAB", [0x5678, 0x1234], 305419896),
    ("int32", "ABCD", [0xFFFF, 0xFFFE], -2),
    ("int32", "CDAB", [0xFFFE, 0xFFFF], -2),
    ("int16", "ABCD", [0xFF85], -123),
    ("int16", "BADC", [0x85FF], -123),
    ("uint16", "ABCD", [0xFF85], 65413),
    # 1311768467463790320 is 123456789ABCDEF0; 1.5 is 3FF8000000000000 as IEEE 754 double
    ("uint64", "ABCD", [0x1234, 0x5678, 0x9ABC, 0xDEF0], 1311768467463790320),
    ("uint64", "BADC", [0x3412, 0x7856, 0xBC9A, 0xF0DE], 1311768467463790320),
    ("uint64", "CDAB", [0xDEF0, 0x9ABC, 0x5678, 0x1234], 1311768467463790320),
    ("uint64", "DCBA", [0xF0DE, 0xBC9A, 0x7856, 0x3412], 1311768467463790320),
    ("int64", "CDAB", [0xFFFE, 0xFFFF, 0xFFFF, 0xFFFF], -2),
    ("float64", "ABCD", [0x3FF8, 0, 0, 0], 1.5),
    ("float64", "DCBA", [0, 0, 0, 0xF83F], 1.5),
]


@pytest.mark.parametrize(("kind", "order", "words", "value"), BY_HAND)
def test_vectors_worked_out_by_hand(kind, order, words, value):
    """Each type and word order holds exactly the registers one gets with pencil and paper."""
    assert encode(value, kind, order) == tuple(words)
    assert decode(words, kind, order) == pytest.approx(value, rel=1e-7)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False), st.sampled_from(ORDERS))
def test_every_float32_survives_every_order(value, order):
    """What is written in an order is read back in it, bit for bit."""
    back = decode(encode(value, "float32", order), "float32", order)
    assert struct.pack(">f", back) == struct.pack(">f", value)


@given(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(ORDERS))
def test_every_float64_survives_every_order(value, order):
    """The same for doubles."""
    assert struct.pack(">d", decode(encode(value, "float64", order), "float64", order)) == struct.pack(">d", value)


@given(st.data(), st.sampled_from(["int16", "uint16", "int32", "uint32", "int64", "uint64"]), st.sampled_from(ORDERS))
def test_every_integer_survives_every_order(data, kind, order):
    """Integers come back exactly, up to both ends of their range."""
    bits = 16 * width(kind)
    low, high = (0, 2**bits - 1) if kind.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    value = data.draw(st.one_of(st.integers(low, high), st.sampled_from([low, high])))
    assert decode(encode(value, kind, order), kind, order) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_four_orders_differ_only_in_order(value):
    """All orders send the same four bytes, each in its own sequence."""
    sent = {order: b"".join(w.to_bytes(2, "big") for w in encode(value, "float32", order)) for order in ORDERS}
    for order in ORDERS:
        assert bytes(sent["ABCD"]["ABCD".index(letter)] for letter in order) == sent[order]


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (math.nan, "float32", "finite"),
        (math.inf, "int16", "finite"),
        (1e39, "float32", "float32 holds"),
        (40000, "int16", "-32768 to 32767"),
        (-1, "uint32", "0 to 4294967295"),
        (1e19, "int64", "int64 holds"),
    ],
)
def test_what_does_not_fit_is_refused(value, kind, says):
    """A number that the registers cannot hold is an error that says what they hold, never a wrapped value."""
    with pytest.raises(ValueError, match=says):
        encode(value, kind)


@pytest.mark.parametrize("words", [[1], [1, 2, 3], [70000, 0], [-1, 0]])
def test_the_wrong_registers_are_refused(words, golden):
    """Too few, too many or too large registers make no number."""
    with golden.raises(ValueError):
        decode(words, "float32")
