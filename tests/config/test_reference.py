"""The reference section: a setting that is played again and again."""

from __future__ import annotations

import pytest

from rigctl.config.load import load_text
from rigctl.core.experiment.problem import ReferenceTrials
from tests.config.conftest import SMALL, problems


def with_reference(reference):
    return SMALL.replace("currency: EUR", f"currency: EUR\nreference: {reference}")


def test_it_is_read_in_the_variables_units(tmp_path):
    """With a setting, without one; without the key there is none."""
    loaded = load_text(with_reference("{every: 25 trials, control: [ph], at: {ph: 6}}"), tmp_path / "rig.yaml")
    found = loaded.problem.reference
    variable = loaded.problem.space.variables[loaded.problem.space.names.index("ph")]
    assert found.every == 25
    assert loaded.problem.space.control_sets[found.control_set].names == ("ph",)
    assert found.setting == (pytest.approx((6 - variable.low) / (variable.high - variable.low)),)
    recommended = load_text(with_reference("{every: 9 trials}"), tmp_path / "rig.yaml").problem.reference
    assert recommended == ReferenceTrials(9)
    assert load_text(SMALL, tmp_path / "rig.yaml").problem.reference is None


@pytest.mark.parametrize(
    ("reference", "where", "what"),
    [
        ("{every: 2 trials}", "3: reference.every", 'at least "5 trials"'),
        ("{every: 3 d}", "3: reference.every", 'at least "5 trials"'),
        ("{every: 9 trials, control: [pH], at: {pH: 6}}", "3: reference.control", 'did you mean "ph"?'),
        ("{every: 9 trials, control: [ph]}", "3: reference.at", "has no value for ph"),
        ("{every: 9 trials, control: [ph], at: {ph: 60}}", "3: reference.at.ph", "must be within"),
        ("{every: 9 trials, control: [ph], at: {ph: 3 min}}", "3: reference.at.ph", "must be in pH"),
        ("{every: 9 trials, control: [ph], at: {ph: 6, ca: 1}}", "3: reference.at.ca", "among those in reference"),
        ("{every: 9 trials, second_sensor: scales}", "3: reference.second_sensor", "there is none"),
    ],
)
def test_what_does_not_hold_is_told(reference, where, what):
    """With line, key and remedy."""
    told = problems(with_reference(reference))
    assert any(place.endswith(where) and what in line for place, line in told.items()), told
