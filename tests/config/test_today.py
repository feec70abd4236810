"""Today's practice, which recommendations are compared with."""

from __future__ import annotations

import pytest

from rigctl.config.load import load_text
from tests.config.conftest import SMALL, problems


def with_today(today):
    return SMALL.replace("currency: EUR", f"currency: EUR\ntoday: {today}")


@pytest.mark.parametrize(
    ("today", "at"),
    [
        ("{control: [ph], at: {ph: 6.1}}", {"ph": 6.1}),
        ("{control: [ca], at: {ca: 2000 uM}}", {"ca": pytest.approx(2.0)}),
        ("{control: []}", {}),
    ],
)
def test_todays_practice_is_read_in_the_variables_units(today, at, tmp_path):
    """One variable, another unit, nothing at all; without the key there is none."""
    assert load_text(with_today(today), tmp_path / "rig.yaml").today == at
    assert load_text(SMALL, tmp_path / "rig.yaml").today is None


@pytest.mark.parametrize(
    ("today", "where", "what"),
    [
        ("{control: [pH], at: {pH: 6}}", "3: today.control[0]", 'did you mean "ph"?'),
        ("{control: [ph]}", "3: today.at", "has no value for ph"),
        ("{control: [ph], at: {ph: 6, ca: 1}}", "3: today.at.ca", "must be among those in today.control"),
        ("{control: [ca], at: {ca: 3 min}}", "3: today.at.ca", "must be in mM"),
    ],
)
def test_a_practice_that_does_not_hold_is_told(today, where, what):
    """With line, key and remedy."""
    told = problems(with_today(today))
    assert any(place.endswith(where) and what in line for place, line in told.items()), told
