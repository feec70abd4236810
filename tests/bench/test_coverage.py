"""How often told intervals hold the truth, from tables whose figures are known by hand."""

from math import nan

from rigctl.bench.tables.coverage import EVERY, coverage, coverage_text
from tests.bench.tables import frame, rows

DRAWN = ("drawn-40", "cheap", 0.04, 4.0)
NAMED = ("hartmann3", "cheap", 0.04, 4.0)


def table():
    """Four trials of a quarter of the budget each; something is told after the first, the second and the last."""
    told = {"held": [1.0, 0.0, nan, 1.0], "cost_held": [nan, 1.0, nan, 0.0]}
    other = {"held": [nan, 1.0, nan, 1.0], "cost_held": [nan] * 4}
    return frame([rows("a", 0, [0.1] * 4, setting=DRAWN, **told), rows("a", 0, [0.1] * 4, setting=NAMED, **other)])


def test_intervals_are_counted_by_family_and_share_of_the_budget() -> None:
    """What was told last within each share counts."""
    found = {row.family: row.held for row in coverage(table())}
    assert list(found) == [EVERY, "hartmann3", "steps"]
    assert [found["steps"]["value", share] for share in (0.25, 0.5, 1.0)] == [(1, 1), (0, 1), (1, 1)]
    assert [found["steps"]["cost", share] for share in (0.25, 0.5, 1.0)] == [(0, 0), (1, 1), (0, 1)]
    assert found["hartmann3"]["value", 0.25] == (0, 0)
    assert found[EVERY]["value", 1.0] == (2, 2)


def test_results_that_do_not_say_what_held_have_no_such_table() -> None:
    """Such as those of an older rigctl."""
    assert coverage(table().drop(columns="held")) == []


def test_a_line_says_percent_and_of_how_many() -> None:
    """At each share, and of all that were told."""
    every = coverage_text(coverage(table())).splitlines()[1].split()
    assert every[:2] == ["a", EVERY]
    assert every[2:] == ["100", "50", "100", "80", "-", "100", "0", "50", "5"]
