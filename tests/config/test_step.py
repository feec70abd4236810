"""Steps between setpoints, from the file to the setpoint."""

from __future__ import annotations

from tests.config.conftest import loaded
from tests.config.texts import BY_HAND, SMALL


def test_a_step_is_read_in_the_variables_unit():
    """Also where it is written in another: 100 uM on a variable in mM."""
    for text in ("step: 0.1", "step: 100 uM"):
        ca = loaded(SMALL.replace("range: [0, 7.7]", f"range: [0, 7.7], {text}")).problem.space.variables[1]
        assert (ca.step, ca.steps) == (0.1, 77)
        assert [ca.setpoint(k / 77) for k in (3, 7, 77)] == [0.3, 0.7, 7.7]


def test_whole_numbers_are_a_step_of_one():
    """For what is counted; a bench by hand has it too."""
    text = BY_HAND.replace("range: [0, 7.7], natural: uniform", "range: [1, 8], step: 1, natural: uniform")
    ca = loaded(text).problem.space.variables[1]
    assert [ca.setpoint(k / ca.steps) for k in range(8)] == [1, 2, 3, 4, 5, 6, 7, 8]


def test_without_a_step_every_value_can_be_set():
    """Nothing changes for those who do not ask."""
    assert [v.step for v in loaded(SMALL).problem.space.variables] == [None, None]
