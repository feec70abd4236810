"""What the outcome is worth in money."""

from __future__ import annotations

import pytest

from rigctl.config.load import load_text
from tests.config.conftest import BY_HAND, problems

GROWTH = "outcome: {name: growth, unit: cm2/day"


def with_worth(worth, unit="cm2/day"):
    assert GROWTH in BY_HAND
    return BY_HAND.replace(GROWTH, f'outcome: {{name: growth, worth: "{worth}", unit: {unit}')


@pytest.mark.parametrize(
    ("worth", "unit", "price"),
    [
        ("0.02 EUR/(cm2/day)", "cm2/day", 0.02),
        ("0.3 EUR/(mm2/h)", "cm2/day", 1.25),
        ("3 EUR/kg", "g", 0.003),
        ("0.3 EUR/degC", "degC", 0.3),
        ("0.3 EUR", '"1"', 0.3),
    ],
)
def test_a_worth_is_read_per_unit_of_the_outcome(worth, unit, price, tmp_path):
    """In the outcome's unit or another of its kind; without the key there is none."""
    assert load_text(with_worth(worth, unit), tmp_path / "rig.yaml").worth == pytest.approx(price)
    assert load_text(BY_HAND, tmp_path / "rig.yaml").worth is None


@pytest.mark.parametrize(
    ("worth", "unit", "what"),
    [
        ("0.3 EUR/g", "cm2/day", 'must be a price of one unit of outcome such as "0.3 EUR/(cm2/day)"; g cannot be'),
        ("0.3 EUR", "cm2/day", 'such as "0.3 EUR/(cm2/day)"'),
        ("0.3 EUR/degF", "degC", "has another zero"),
        ("0.3 USD/cm2/day", "cm2/day", "must be in the rig's currency EUR"),
        ("0.3 USD/cm2/day", "cm2/day", 'write "0.3 EUR/(cm2/day)"'),
        ("0.3 EUR/cm2/day", "cm2/day", 'must have brackets around what it is per; write "0.3 EUR/(cm2/day)"'),
        ("0.3 EUR/m2 day^-1", "cm2/day", 'write "0.3 EUR/(m2 day^-1)"'),
        ("0.3 EUR/cm2 per day", "cm2/day", 'write "0.3 EUR/(cm2 per day)"'),
        ("0,3 EUR/cm2/day", "cm2/day", 'write "0.3 EUR/(cm2/day)"'),
        ("-0.3 EUR/g", "g", "must not be negative"),
        ("0 EUR/g", "g", "must be more than nothing; leave it out where nobody knows"),
    ],
)
def test_a_worth_that_does_not_hold_is_told(worth, unit, what):
    """With line, key and remedy."""
    told = problems(with_worth(worth, unit))
    assert any(place.endswith("outcome.worth") and what in line for place, line in told.items()), told


def test_only_the_first_outcome_has_a_worth():
    """What the others are worth is not counted anywhere."""
    text = BY_HAND + "further_outcomes: [{name: colour, unit: nm, worth: 1 EUR/nm}]\n"
    assert any("only what the first outcome is worth is counted" in line for line in problems(text).values())
