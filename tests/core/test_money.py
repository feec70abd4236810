"""Money adds up."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.money import to_micros, to_units


@given(st.lists(st.decimals(min_value=0, max_value=1000, places=6), max_size=50))
def test_sums_are_exact(amounts):
    """A sum of micro-units is the micro-units of the exact sum, whatever the order."""
    assert sum(map(to_micros, amounts)) == to_micros(sum(amounts, Decimal(0)))


def test_twenty_trials_of_five_cents_cost_exactly_one():
    """The trial that floating point loses: 20 times 0.05 leaves nothing of 1.0, not 1e-16."""
    spent = 20 * to_micros(0.05)
    assert spent == to_micros("1")
    assert sum([0.1] * 10) != 1.0  # the very defect being avoided
    assert 10 * to_micros(0.1) == to_micros(1.0)


@pytest.mark.parametrize("amount", [float("nan"), float("inf"), "NaN", "-Infinity"])
def test_money_is_finite(amount):
    """An amount that is no number is refused."""
    with pytest.raises(ValueError, match="finite"):
        to_micros(amount)


def test_display_returns_currency_units():
    """Micro-units are shown in units."""
    assert to_units(1_250_000) == 1.25
