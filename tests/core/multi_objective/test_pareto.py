"""Which settings no other one beats, and from where a hypervolume is counted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rigctl.core.multi_objective.trade_off import non_dominated, reference_point
from tests.golden import Golden


def plainly(values):
    """The definition, pair by pair."""
    return [not any(all(b >= a) and any(b > a) for b in values) for a in values]


@given(arrays(float, st.tuples(st.integers(0, 25), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)))
def test_the_front_is_what_the_definition_says(values):
    """Ties and repetitions included, whatever the number of outcomes."""
    assert list(non_dominated(values)) == plainly(values)


def test_rounding_of_sums_hides_no_domination():
    """Rows whose sums are equal in floating point are still told apart."""
    values = np.array([[1.0, 1e17], [2.0, 1e17], [1.0, 1e17]])
    assert list(non_dominated(values)) == [False, True, False]


def test_equal_settings_stay_together():
    """Of equal rows none dominates the other, so all are on the front."""
    assert list(non_dominated(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 2.0]]))) == [True, True, False]


def test_the_reference_lies_below_the_worst_seen():
    """A tenth of the range without a floor; at a declared floor unless it has been undercut; never on a value."""
    seen = np.array([[0.0, 5.0, 3.0], [10.0, 5.0, 1.0]])
    floors = np.array([np.nan, 4.0, 2.0])
    assert reference_point(seen) == pytest.approx([-1.0, 4.5, 0.8])
    assert reference_point(seen, floors) == pytest.approx([-1.0, 4.0, 0.8])
    assert reference_point(np.zeros((1, 2))) == pytest.approx([-0.1, -0.1])


@pytest.mark.parametrize("values", [np.zeros(3), np.zeros((2, 0)), np.array([[np.nan, 1.0]])])
def test_what_is_no_table_of_outcomes_is_refused(values, golden: Golden):
    """A wrong shape or a missing number is an error, not a front."""
    with pytest.raises(ValueError) as refused:
        non_dominated(values)
    golden(refused.value)


def test_without_values_there_is_no_reference(golden: Golden):
    """Nothing seen, nothing to count from."""
    with pytest.raises(ValueError) as refused:
        reference_point(np.empty((0, 2)))
    golden(refused.value)
