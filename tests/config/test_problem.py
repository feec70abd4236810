"""Variables, outcomes and what is said of both, from the file to the problem."""

import json
from types import SimpleNamespace

import pytest

from rigctl.config import load
from rigctl.config.load import load_text
from rigctl.config.problem import COLUMNS
from rigctl.console.journals import _trial_columns
from rigctl.core.experiment.marginals.conditional import Stretched
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.problem import FurtherOutcome, ReferenceTrials
from rigctl.core.policies.published.ca_mobo import CaMobo
from tests.config.conftest import loaded, problems
from tests.config.texts import BY_HAND, SMALL

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


def test_a_step_is_read_in_the_variables_unit():
    """Also where it is written in another: 100 uM on a variable in mM."""
    for text in ("step: 0.1", "step: 100 uM"):
        ca = loaded(SMALL.replace("range: [0, 7.7]", f"range: [0, 7.7], {text}")).problem.space.variables[1]
        assert (ca.step, ca.steps) == (0.1, 77)
        assert [ca.setpoint(k / 77) for k in (3, 7, 77)] == [0.3, 0.7, 7.7]


WATER = "further_outcomes: [{name: water, unit: L, sensor: ca_probe, direction: minimise, floor: 2000 mL}]\n"


@pytest.fixture
def weighing(monkeypatch):
    """`ca-mobo` is installed, whatever else is."""
    monkeypatch.setattr(load, "policy_names", lambda: ("ca-mobo",))
    monkeypatch.setattr(load, "policy_class", lambda _: CaMobo)


def test_a_further_outcome_is_known_to_problem_and_rig():
    """Direction and floor in its own unit to the decision, its sensor to the rig."""
    text = SMALL + WATER.replace("ca_probe", "water_meter")
    text = text.replace("  camera:", "  water_meter: {driver: modbus, bus: plc, unit: L, read: {at: 8}}\n  camera:")
    config = loaded(text)
    assert config.problem.further == (FurtherOutcome("water", "L", maximise=False, floor=2.0),)
    assert [(o.name, o.sensor) for o in config.rig.outcomes[1:]] == [("water", "water_meter")]
    assert config.rig.outcome_names == ("growth", "water")
    assert json.dumps(config.policy_options)


@pytest.mark.usefixtures("weighing")
def test_a_policy_of_several_outcomes_needs_them():
    """It is a mistake of the configuration, told with its line, before anything runs."""
    text = BY_HAND + "policy: {name: ca-mobo, order: [ph, phosphate]}\n"
    assert {where.split(": ")[-1] for where in problems(text)} == {"further_outcomes", "policy.order"}


@pytest.mark.usefixtures("weighing")
def test_an_order_is_written_as_a_list():
    """Options that are tuples are lists in the file; anything else is told as such."""
    two = BY_HAND + "further_outcomes: [{name: water, unit: L}]\n"
    config = loaded(two + "policy: {name: ca-mobo, order: [-ph, ca], width: {beta: 4}}\n")
    assert isinstance(config.policy, CaMobo)
    assert config.policy.order == ("-ph", "ca")
    assert config.policy.width.beta == 4.0
    (where,) = problems(two + "policy: {name: ca-mobo, order: ph}\n")
    assert where.endswith("policy.order")


def test_they_are_those_of_the_export():
    """Whatever an export adds to variables and outcomes."""
    assert set(_trial_columns(SimpleNamespace(names=()), ())) == COLUMNS


GROWTH = "outcome: {name: growth, unit: cm2/day"


def with_worth(worth, unit="cm2/day"):
    assert GROWTH in BY_HAND
    return BY_HAND.replace(GROWTH, f'outcome: {{name: growth, worth: "{worth}", unit: {unit}')


@pytest.mark.parametrize(
    ("worth", "unit", "price"),
    [
        ("0.02 EUR/(cm2/day)", "cm2/day", 0.02),
        ("0.3 EUR/(mm2/h)", "cm2/day", 1.25),
        ("3 EUR/kg", "g", 0.003),
        ("0.3 EUR/degC", "degC", 0.3),
        ("0.3 EUR", '"1"', 0.3),
    ],
)
def test_a_worth_is_read_per_unit_of_the_outcome(worth, unit, price, tmp_path):
    """In the outcome's unit or another of its kind; without the key there is none."""
    assert load_text(with_worth(worth, unit), tmp_path / "rig.yaml").worth == pytest.approx(price)
    assert load_text(BY_HAND, tmp_path / "rig.yaml").worth is None


def test_what_ends_a_campaign_early_is_read_per_unit_of_the_outcome(tmp_path):
    """In the outcome's unit or another of its kind; not the worth of the outcome in a trial."""
    for worth, price in (("12 EUR/(cm2/day)", 12.0), ("0.3 EUR/(mm2/h)", 1.25)):
        text = BY_HAND.replace("currency: EUR", f"currency: EUR\nstop: {{worth: {worth}}}")
        loaded = load_text(text, tmp_path / "rig.yaml")
        assert loaded.problem.stop_worth == pytest.approx(price)
        assert loaded.worth is None
    assert load_text(with_worth("0.02 EUR/(cm2/day)"), tmp_path / "rig.yaml").problem.stop_worth is None


def with_today(today):
    return SMALL.replace("currency: EUR", f"currency: EUR\ntoday: {today}")


@pytest.mark.parametrize(
    ("today", "at"),
    [
        ("{control: [ph], at: {ph: 6.1}}", {"ph": 6.1}),
        ("{control: [ca], at: {ca: 2000 uM}}", {"ca": pytest.approx(2.0)}),
        ("{control: []}", {}),
    ],
)
def test_todays_practice_is_read_in_the_variables_units(today, at, tmp_path):
    """One variable, another unit, nothing at all; without the key there is none."""
    assert load_text(with_today(today), tmp_path / "rig.yaml").today == at
    assert load_text(SMALL, tmp_path / "rig.yaml").today is None


def with_reference(reference):
    return SMALL.replace("currency: EUR", f"currency: EUR\nreference: {reference}")


def test_a_reference_is_read_in_the_variables_units(tmp_path):
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
