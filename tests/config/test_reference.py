"""The reference section: a setting that is played again and again."""

import pytest

from rigctl.config.load import load_text
from rigctl.core.experiment.problem import ReferenceTrials
from tests.config.texts import SMALL


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
