from decimal import ROUND_DOWN, Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.experiment.money import to_micros, to_units


@given(st.lists(st.decimals(min_value=0, max_value=1000, places=6), max_size=50))
def test_sums_are_exact(amounts):
    """A sum of micro-units is the micro-units of the exact sum, whatever the order."""
    assert sum(map(to_micros, amounts)) == to_micros(sum(amounts, Decimal(0)))


def test_twenty_trials_of_five_cents_cost_exactly_one():
    """The trial that floating point loses: 20 times 0.05 leaves nothing of 1; a float is what it is written as."""
    spent = 20 * to_micros(0.05)
    assert spent == to_micros("1")
    assert sum([0.1] * 10) != 1.0  # the very defect being avoided
    assert 10 * to_micros(0.1) == to_micros(1.0)
    assert to_units(1_250_000) == 1.25
    assert Decimal.from_float(1.0000065) > Decimal("1.0000065")
    assert to_micros(1.0000065) == 1_000_006


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), "NaN", "-Infinity"])
def test_money_is_finite(amount):
    """An amount that is no number is refused."""
    with pytest.raises(ValueError, match="finite"):
        to_micros(amount)


@pytest.mark.parametrize(
    ("amount", "micros"),
    [
        ("0.0000005", 0),
        ("0.0000015", 2),
        ("0.0000025", 2),
        ("0.0000035", 4),
        ("-0.0000005", 0),
        ("-0.0000015", -2),
        ("-0.0000025", -2),
        ("0.00000250000001", 3),
        ("0.0000014999999", 1),
        (2.5e-06, 2),
        (3.5e-06, 4),
        (Decimal("1234567.0000005"), 1_234_567_000_000),
        (Decimal("1234567.0000015"), 1_234_567_000_002),
    ],
)
def test_half_a_micro_unit_goes_to_the_even_neighbour(amount, micros):
    """Halves of both signs go to the even micro-unit, all else to the nearest: long sums do not drift."""
    assert to_micros(amount) == micros


def test_rounding_does_not_depend_on_the_decimal_context_of_whoever_asks():
    """A library that changes the way its decimals are rounded changes no cost."""
    with localcontext() as context:
        context.rounding = ROUND_DOWN
        assert to_micros("0.0000015") == 2
