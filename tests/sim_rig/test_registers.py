import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim_rig.errors import PlantError, Refusal
from sim_rig.faces.registers import Bank, decode, encode


@pytest.mark.parametrize(
    ("order", "words"),
    [("ABCD", [0x4048, 0xF5C3]), ("CDAB", [0xF5C3, 0x4048]), ("BADC", [0x4840, 0xC3F5]), ("DCBA", [0xC3F5, 0x4840])],
)
def test_word_orders_are_those_of_the_field(order, words):
    """3.14 as float32 is 40 48 F5 C3, laid out as the order's name says."""
    assert encode(3.14, "float32", order) == words
    assert decode(words, "float32", order) == pytest.approx(3.14, abs=1e-6)


@given(st.floats(width=32, allow_nan=False), st.sampled_from(["ABCD", "BADC", "CDAB", "DCBA"]))
def test_every_float_comes_back(value, order):
    """What is encoded decodes to itself, in every order."""
    assert decode(encode(value, "float32", order), "float32", order) == value


@given(st.integers(-(2**31), 2**31 - 1))
def test_integers_are_twos_complement(value):
    """A 32-bit integer stands in registers as struct would write it."""
    words = encode(value, "int32")
    assert struct.pack(">HH", *words) == struct.pack(">i", value)


@pytest.mark.parametrize(
    ("value", "kind", "word"),
    [(math.nan, "int16", 0x8000), (1e9, "int16", 0x7FFF), (-5.0, "uint16", 0), (2.6, "int16", 3)],
)
def test_integers_saturate_and_mark_nan(value, kind, word):
    """An integer register shows the nearest it can hold, and the customary pattern for no value."""
    assert encode(value, kind) == [word]


def store(bank, at, **layout):
    """A writable value in a bank; returns where it ends up."""
    values = [0.0]
    bank.number("holding", at, lambda: values[0], lambda v: values.__setitem__(0, v), **layout)
    return values


def test_half_of_a_float_may_be_written_at_a_time():
    """Writing one register of two keeps the other."""
    bank = Bank()
    values = store(bank, 10)
    high, low = encode(7.25, "float32")
    bank.write_registers(10, [high])
    bank.write_registers(11, [low])
    assert values == [7.25]


def test_a_value_is_sampled_once_per_request():
    """Both registers of a float come from one sample, even while it moves."""
    readings = iter([1.5, -2.25])
    bank = Bank()
    bank.number("input", 0, lambda: next(readings))
    assert decode(bank.read_registers("input", 0, 2), "float32") == 1.5


@pytest.mark.parametrize("at", [9, 12, 0])
def test_an_address_nobody_mapped_is_refused(at):
    """A read that touches an unmapped register is answered with exception 02."""
    bank = Bank()
    store(bank, 10)
    with pytest.raises(Refusal, match="02"):
        bank.read_registers("holding", at, 2 if at else 1)


def test_what_cannot_be_written_is_refused_and_nothing_changes():
    """Exception 03 for no number or out of range, and for a register that is read-only."""

    def refuse(value):
        raise PlantError(f"{value} is out of range")

    bank = Bank()
    values = store(bank, 0)
    bank.number("holding", 2, lambda: 1.0, refuse)
    bank.number("holding", 4, lambda: 1.0)
    for at, value in ((0, math.nan), (2, 5.0), (4, 5.0)):
        with pytest.raises(Refusal, match="03"):
            bank.write_registers(at, encode(value, "float32"))
    assert values == [0.0]


def test_a_meter_reads_zero_between_its_values_but_not_beyond():
    """Unmapped registers of a zero-filled bank read 0; odd addresses and empty regions are refused."""
    bank = Bank(zero_fill=True, even_below=0xFC00, max_registers=80)
    bank.number("input", 6, lambda: 2.0)
    assert bank.read_registers("input", 4, 4) == [0, 0, *encode(2.0, "float32")]
    for at, count in ((5, 2), (6, 1), (400, 2), (0, 82)):
        with pytest.raises(Refusal):
            bank.read_registers("input", at, count)
