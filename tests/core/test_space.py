"""Variables, control sets and units."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.experiment.space import Space, Variable
from rigctl.core.marginals.families import Uniform
from tests.core.conftest import make_space


@given(st.lists(st.floats(0, 1), min_size=2, max_size=2))
def test_units_survive_the_round_trip(u):
    """To engineering units and back gives the same point."""
    space = make_space()
    np.testing.assert_allclose(space.to_unit(space.to_engineering(np.array(u))), u, atol=1e-12)


@given(st.floats(0, 1), st.floats(0, 1))
def test_setpoints_never_leave_the_range(u, v):
    """Rounding cannot push a setpoint out of the range that the guard checks."""
    setpoints = make_space().setpoints(2, (u, v))
    assert 0.0 <= setpoints["a"] <= 10.0
    assert -1.0 <= setpoints["b"] <= 1.0


def test_members_are_sorted_into_column_order():
    """A control set may be written in any order."""
    space = make_space([("b", "a"), ("a",)])
    assert space.control_sets[0].names == ("a", "b")
    assert space.index_of(["b", "a"]) == 0


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


def test_unknown_set_names_the_allowed_ones():
    """Asking for a control set that is not there lists those that are."""
    with pytest.raises(ValueError, match=r"allowed: a, b, a\+b"):
        make_space().index_of(["z"])


@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_a_range_rises(low, high):
    """An empty, reversed or infinite range is refused."""
    with pytest.raises(ValueError, match="range"):
        Variable("a", "mM", low, high, Uniform())


def test_names_differ():
    """Two variables of one name are refused."""
    variable = Variable("a", "mM", 0.0, 1.0, Uniform())
    with pytest.raises(ValueError, match="differ"):
        Space.of([variable, variable], [["a"]])
