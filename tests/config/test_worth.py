"""What the outcome is worth in money."""

from __future__ import annotations

import pytest

from rigctl.config.load import load_text
from tests.config.texts import BY_HAND

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
