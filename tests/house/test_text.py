"""What is written for people has one place, and is not taken apart again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.measure import READ_BACK, read, read_back

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("how", READ_BACK)
def test_text_is_written_in_one_place_and_never_read_back(how):
    """None of the ways in which that was done stands anywhere."""
    assert [line for source in read(ROOT, ("rigctl", "drivers")) for line in read_back(source, how)] == []
