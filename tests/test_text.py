"""Numbers, durations and control sets are written in one way."""

from __future__ import annotations

import pytest

from rigctl.text import in_full, joined, lasting, set_label, set_members, shown_unit


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (59.4, "59.4 s"),
        (75, "75 s"),
        (90, "1 min 30 s"),
        (125, "2 min 5 s"),
        (725, "12 min"),
        (3599.7, "1 h"),
        (4860, "1 h 21 min"),
        (86_399, "1 day"),
        (86_400, "1 day"),
        (273_600, "3 days 4 h"),
        (36_000_000, "416 days 16 h"),
    ],
)
def test_a_duration_has_two_units_at_most(seconds, words):
    """Rounded to the smaller one, and never 60 of anything."""
    assert lasting(seconds) == words


def test_a_control_set_is_known_by_its_name():
    """What is written is read back."""
    assert set_members(set_label(("ca", "b"))) == ("ca", "b")
    assert [joined(names) for names in ((), ("a",), ("a", "b", "c"))] == ["", "a", "a, b and c"]
    assert (shown_unit("1"), shown_unit("mM")) == ("", "mM")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (2e6, "2000000"),
        (1234567.8, "1234568"),
        (6.1, "6.1"),
        (1 / 3, "0.333333"),
        (2e-5, "0.00002"),
        (-1.25e-6, "-0.00000125"),
        (0.0, "0"),
        (1e-9, "1e-09"),
        (5e12, "5e+12"),
    ],
)
def test_a_number_is_written_as_people_write_it(value, words):
    """Powers of ten stand only where nobody counts the digits."""
    assert in_full(value) == words
