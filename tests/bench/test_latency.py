"""The bench measures what a decision computes; how fast the machine is, is not a test's business."""

from __future__ import annotations

import pytest

from rigctl.bench.latency import CONTROL_SETS, history, measure_latency, plant_problem


def test_a_row_says_what_was_measured():
    """One row per kind of bounds and number of trials, with spread and a baseline from the same run."""
    rows = measure_latency(n_values=(8, 12), bounds_kinds=("integrated", "pointwise"), repeats=2, seed=3)
    assert [(r.bounds, r.n) for r in rows] == [
        ("integrated", 8),
        ("integrated", 12),
        ("pointwise", 8),
        ("pointwise", 12),
    ]
    for row in rows:
        assert (row.d, row.sets, row.repeats) == (5, 7, 2)
        assert 0 < row.min_s <= row.median_s <= row.max_s
        assert row.ratio == pytest.approx(row.median_s / row.baseline_s)
        assert row.nodes == (128 if row.bounds == "pointwise" else None)


def test_the_problem_is_the_seven_set_one():
    """Five variables, seven control sets, the last of them all variables; the same seed gives the same trials."""
    space = plant_problem("integrated").space
    assert len(space.control_sets) == len(CONTROL_SETS) == 7
    assert len(space.control_sets[-1].indices) == space.dimension == 5
    assert history(20, 1) == history(20, 1)
    assert history(20, 1) != history(20, 2)


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"n_values": (0,)}])
def test_nothing_to_measure_is_refused(wrong):
    """No repeats or no trials is an error, not an empty average."""
    with pytest.raises(ValueError, match="at least 1"):
        measure_latency(**{"n_values": (5,), "repeats": 1, **wrong})
