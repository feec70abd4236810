"""What people are told of a decision: it agrees with itself, and everybody can read it."""

from __future__ import annotations

import pytest

from rigctl.core.explain import plus_minus


@pytest.mark.parametrize(
    ("mean", "sd", "text"),
    [
        (3378.4, 314.2, "3380 ± 310"),
        (11.2449, 0.1502, "11.24 ± 0.15"),
        (0.5, 3.0, "0.5 ± 3.0"),
        (5.0, 0.0, "5 ± 0"),
        (7.25, 9.96, "7.2 ± 10.0"),
        (float("nan"), 1.0, "nan ± 1"),
    ],
)
def test_a_value_has_as_many_decimals_as_its_spread(mean, sd, text):
    """Two digits of the spread, never in powers of ten where plain digits do."""
    assert plus_minus(mean, sd) == text
