"""Today's practice, which recommendations are compared with."""

from __future__ import annotations

import pytest

from rigctl.config.load import load_text
from tests.config.texts import SMALL


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
