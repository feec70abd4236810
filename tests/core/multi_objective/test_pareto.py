"""Which settings no other one beats, and from where a hypervolume is counted."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rigctl.core.multi_objective.trade_off import hypervolume, non_dominated, reference_point


def on_a_sphere(n, k, seed):
    points = np.abs(np.random.default_rng([seed, n, k]).standard_normal((n, k)))
    return points / np.linalg.norm(points, axis=1, keepdims=True)


def theirs(values, reference):
    from pymoo.indicators.hv import HV

    return float(HV(ref_point=-np.asarray(reference))(-np.asarray(values)))


@pytest.mark.parametrize("k", [2, 3, 4, 5])
@pytest.mark.parametrize("n", [1, 2, 10, 40])
def test_it_agrees_with_pymoo(n, k):
    """On fronts, and on clouds of which most points are dominated or outside."""
    cloud = np.random.default_rng([n, k]).standard_normal((n, k))
    for values, reference in ((on_a_sphere(n, k, 0), np.zeros(k)), (cloud, np.full(k, -0.5))):
        assert hypervolume(values, reference) == pytest.approx(theirs(values, reference), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize(
    ("points", "reference", "volume"),
    [
        ([[2.0, 3.0, 4.0]], [1.0, 1.0, 1.0], 6.0),
        ([[3.0, 1.0], [1.0, 2.0]], [0.0, 0.0], 4.0),
        ([[3.0], [5.0]], [1.0], 4.0),
        ([[5.0, 0.0], [-1.0, 9.0]], [0.0, 0.0], 0.0),
        (np.empty((0, 2)), [0.0, 0.0], 0.0),
    ],
    ids=["one", "two that overlap", "one outcome alone", "beside the reference", "none"],
)
def test_boxes_known_by_hand(points, reference, volume):
    """Not better in every outcome means no volume."""
    assert hypervolume(np.array(points), np.array(reference)) == volume


cells = arrays(float, st.tuples(st.integers(0, 6), st.just(3)), elements=st.integers(-1, 4).map(float))


@given(cells)
def test_whole_cells_are_counted(values):
    """On a grid it is the number of unit cells below some point."""
    corners = np.stack(np.meshgrid(*[np.arange(4.0)] * 3), axis=-1).reshape(-1, 3)
    covered = [any((v >= c + 1).all() for v in values) for c in corners]
    assert hypervolume(values, np.zeros(3)) == pytest.approx(sum(covered))


@given(arrays(float, (7, 3), elements=st.floats(0, 1)), st.floats(0.1, 10))
def test_units_multiply_and_order_is_nothing(values, unit):
    """Another unit of one outcome is a factor; the order of rows and of outcomes does not count."""
    volume = hypervolume(values, np.full(3, -0.1))
    scaled = hypervolume(values * [1, unit, 1], np.array([-0.1, -0.1 * unit, -0.1]))
    assert scaled == pytest.approx(unit * volume)
    assert hypervolume(values[::-1, ::-1], np.full(3, -0.1)) == pytest.approx(volume)


def plainly(values):
    return [not any(all(b >= a) and any(b > a) for b in values) for a in values]


@given(arrays(float, st.tuples(st.integers(0, 25), st.integers(1, 4)), elements=st.integers(-3, 3).map(float)))
def test_the_front_is_what_the_definition_says(values):
    """Ties and repetitions included, whatever the number of outcomes."""
    assert list(non_dominated(values)) == plainly(values)


@pytest.mark.parametrize(
    ("values", "front"),
    [
        ([[1.0, 1e17], [2.0, 1e17], [1.0, 1e17]], [False, True, False]),
        ([[1.0, 2.0], [1.0, 2.0], [0.0, 2.0]], [True, True, False]),
    ],
    ids=["rounding of sums hides nothing", "equal settings stay together"],
)
def test_equal_and_nearly_equal_rows_are_told_apart(values, front):
    """Sums that are equal in floating point are no tie; of equal rows none dominates the other."""
    assert list(non_dominated(np.array(values))) == front


def test_the_reference_lies_below_the_worst_seen():
    """A tenth of the range without a floor; at a declared floor unless it has been undercut; never on a value."""
    seen = np.array([[0.0, 5.0, 3.0], [10.0, 5.0, 1.0]])
    floors = np.array([np.nan, 4.0, 2.0])
    assert reference_point(seen, np.full(3, np.nan)) == pytest.approx([-1.0, 4.5, 0.8])
    assert reference_point(seen, floors) == pytest.approx([-1.0, 4.0, 0.8])
    assert reference_point(np.zeros((1, 2)), np.full(2, np.nan)) == pytest.approx([-0.1, -0.1])


def test_what_does_not_fit_is_refused(golden):
    """Shapes that do not match, numbers that are none, and nothing to count from are errors, not a front."""
    for wrong in (
        lambda: hypervolume(np.zeros((2, 3)), np.zeros(2)),
        lambda: hypervolume(np.zeros(2), np.zeros(2)),
        lambda: hypervolume(np.array([[np.nan, 0.0]]), np.zeros(2)),
        lambda: non_dominated(np.zeros(3)),
        lambda: non_dominated(np.zeros((2, 0))),
        lambda: non_dominated(np.array([[np.nan, 1.0]])),
        lambda: reference_point(np.empty((0, 2)), np.full(2, np.nan)),
    ):
        with golden.raises(ValueError):
            wrong()
