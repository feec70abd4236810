from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl import Space, Uniform, Variable
from tests.core.conftest import make_space


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_units_survive_the_round_trip(u):
    """To engineering units and back gives the same point."""
    space = make_space()
    np.testing.assert_allclose(space.to_unit(space.to_engineering(np.array(u))), u, atol=1e-12)


def one_variable(low, high):
    return Space.of([Variable("a", "mM", low, high, Uniform())], [["a"]])


@given(st.integers(-10_000, 10_000), st.integers(1, 20_000), st.floats(0, 1))
def test_setpoints_never_leave_the_range(low, span, u):
    """Rounding cannot push a setpoint out of the range that the guard checks, wherever a range of two decimals lies."""
    low, high = low / 100, (low + span) / 100
    assert low <= one_variable(low, high).setpoints(0, (u,))["a"] <= high
    assert one_variable(low, high).setpoints(0, (0.0,))["a"] == low
    assert one_variable(low, high).setpoints(0, (1.0,))["a"] <= high


def test_some_ranges_do_round_out():
    """The defect that clipping avoids: about one range in ten of two decimals ends above its own end."""
    ends = [(low / 100, high / 100) for low in range(-300, 300, 7) for high in range(low + 1, 900, 13)]
    beyond = [(low, high) for low, high in ends if low + (high - low) * 1.0 > high]
    assert 0.05 < len(beyond) / len(ends) < 0.2
    assert all(one_variable(low, high).setpoints(0, (1.0,)) == {"a": high} for low, high in beyond)


@pytest.mark.parametrize(("u", "setpoint"), [(-0.5, 2.0), (-1e-17, 2.0), (0.25, 3.5), (1.0 + 1e-15, 8.0), (1.5, 8.0)])
def test_a_setting_is_clipped_at_both_ends_and_linear_between(u, setpoint):
    """What lies outside the unit cube becomes the nearer end of the range."""
    assert one_variable(2.0, 8.0).setpoints(0, (u,)) == {"a": setpoint}


def test_each_value_of_a_setting_goes_to_its_own_variable(golden):
    """In the order of the columns; a setting of another length is refused, not cut short."""
    space = make_space()
    assert space.setpoints(2, (0.25, 0.75)) == {"a": 2.5, "b": 0.5}
    assert space.setpoints(1, (0.75,)) == {"b": 0.5}
    for setting in ((0.5,), (0.5, 0.5, 0.5)):
        with pytest.raises(ValueError) as refused:
            space.setpoints(2, setting)
        golden(refused.value)


def test_values_may_be_given_as_any_numbers():
    """Lists, integers and decimals that numpy would not compute with become floating point, to units and back."""
    space = make_space()
    assert space.to_unit([5, 0]).tolist() == [0.5, 0.5]
    np.testing.assert_array_equal(space.to_unit([Decimal(5), Decimal(0)]), [0.5, 0.5])
    np.testing.assert_array_equal(space.to_engineering([Decimal("0.5"), Decimal("0.5")]), [5.0, 0.0])
    assert space.to_engineering([[0, 1]]).dtype == float


def test_members_are_sorted_into_column_order():
    """A control set may be written in any order; settings stand in its columns, a half everywhere else."""
    space = make_space([("b", "a"), ("a",)])
    assert space.control_sets[0].names == ("a", "b")
    assert space.index_of(["b", "a"]) == 0
    space = make_space((("a",), ("b",), ("b", "a")))
    assert space.rows(1, np.array([[0.25], [0.75]])).tolist() == [[0.5, 0.25], [0.5, 0.75]]
    assert space.rows(2, np.array([[0.125, 0.25]])).tolist() == [[0.125, 0.25]]
    assert space.rows(0, np.empty((0, 1))).shape == (0, 2)


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ([("a", "c")], "unknown variables"),
        ([("a",), ("a",)], "must differ"),
        ([()], "at least one"),
        ([("a", "a")], "each once"),
    ],
)
def test_bad_control_sets_are_refused(sets, message):
    """Unknown, empty and repeated control sets say what is wrong."""
    with pytest.raises(ValueError, match=message):
        make_space(sets)


def test_unknown_set_names_the_allowed_ones(golden):
    """Asking for a set that is not there lists those that are; two variables of one name are refused."""
    with golden.raises(ValueError):
        make_space().index_of(["y", "z"])
    variable = Variable("a", "mM", 0.0, 1.0, Uniform())
    with pytest.raises(ValueError, match="differ"):
        Space.of([variable, variable], [["a"]])


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_a_range_rises(low, high):
    """An empty, reversed or infinite range is refused."""
    with pytest.raises(ValueError, match="range"):
        Variable("a", "mM", low, high, Uniform())
