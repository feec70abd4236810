"""A range of setpoints apart from the natural range, from the file to the guard."""

from __future__ import annotations

import pytest

from rigctl.core.marginals.stretched import Stretched
from rigctl.core.natural import Learned
from tests.config.conftest import loaded
from tests.config.texts import SMALL

TAP = SMALL.replace(
    "range: [5.2, 6.8], sensor: probe, actuator: doser, natural: {truncated_normal: {mean: 6.1, sd: 0.3}}",
    "range: [5.5, 6.5], natural_range: [7.2, 8.4], plausible: [3, 10], sensor: probe, actuator: doser, "
    "natural: {truncated_normal: {mean: 7.8, sd: 0.2}}",
)


def variable_of(text):
    return loaded(text).problem.space.variables[0]


def test_tap_water_is_where_the_file_says():
    """Setpoints are 0 to 1; the water lies beyond."""
    ph = variable_of(TAP)
    assert (ph.low, ph.high) == (5.5, 6.5)
    assert isinstance(ph.marginal, Stretched)
    assert (ph.marginal.low, ph.marginal.high) == (pytest.approx(1.7), pytest.approx(2.9))
    assert ph.marginal.mean == pytest.approx(2.3)


def test_the_guard_lets_through_setpoints_only():
    """What nature does is no licence to send it."""
    limits = loaded(TAP).rig.limits["doser"]
    assert (limits.low, limits.high) == (5.5, 6.5)


def test_readings_may_be_where_nature_is():
    """The whole natural range is plausible, and 1 % of the setpoints' range is what a read-back may be off."""
    rig = loaded(TAP).rig
    assert rig.plausible["probe"] == (3, 10)
    assert rig.variables[0].read_back_tolerance == pytest.approx(0.01)


def test_learned_water_is_cut_at_the_natural_range():
    """The prior spans it, and so does what is learned later."""
    marginal = variable_of(TAP.replace("{truncated_normal: {mean: 7.8, sd: 0.2}}", "learned")).marginal
    assert isinstance(marginal, Learned)
    assert (marginal.low, marginal.high) == (pytest.approx(1.7), pytest.approx(2.9))
    assert marginal.prior.mean == pytest.approx(2.3)


def test_the_same_range_said_twice_changes_nothing():
    """`natural_range` equal to `range` is the same experiment to the last bit."""
    said = SMALL.replace("range: [5.2, 6.8],", "range: [5.2, 6.8], natural_range: [5.2, 6.8],")
    assert loaded(said).problem == loaded(SMALL).problem
