"""Variables, outcomes and what is said of both, from the file to the problem."""

import json
from operator import attrgetter
from types import SimpleNamespace

import pytest

from rigctl.config import load
from rigctl.config.problem import COLUMNS
from rigctl.console.journals import _trial_columns
from rigctl.core.experiment.marginals.conditional import Stretched
from rigctl.core.experiment.natural import Learned
from rigctl.core.experiment.problem import FurtherOutcome, ReferenceTrials
from rigctl.core.policies.published.ca_mobo import CaMobo
from tests.config.conftest import loaded, problems
from tests.config.texts import BY_HAND, SMALL

approx = pytest.approx
TAP = SMALL.replace(
    "range: [5.2, 6.8], sensor: probe, actuator: doser, natural: {truncated_normal: {mean: 6.1, sd: 0.3}}",
    "range: [5.5, 6.5], natural_range: [7.2, 8.4], plausible: [3, 10], sensor: probe, actuator: doser, "
    "natural: {truncated_normal: {mean: 7.8, sd: 0.2}}",
)


def put(old, new, text=SMALL):
    assert old in text
    return text.replace(old, new)


LEARNED = put("{truncated_normal: {mean: 7.8, sd: 0.2}}", "learned", TAP)
ENDS = (5.5, 6.5, approx(1.7), approx(2.9))


def water(config):
    """Where setpoints are, and where nature is on their scale."""
    ph = config.problem.space.variables[0]
    return ph.low, ph.high, ph.marginal.low, ph.marginal.high


def steps(config):
    ca = config.problem.space.variables[1]
    return ca.step, ca.steps, [ca.setpoint(k / 77) for k in (3, 7, 77)]


def worth(worth, unit="cm2/day"):
    return put(GROWTH, f'outcome: {{name: growth, worth: "{worth}", unit: {unit}', BY_HAND)


def said(what, text=SMALL):
    return put("currency: EUR", f"currency: EUR\n{what}", text)


def a_reference(config):
    found, space = config.problem.reference, config.problem.space
    return found.every, space.control_sets[found.control_set].names, found.setting


GROWTH = "outcome: {name: growth, unit: cm2/day"
STEPS = (0.1, 77, [0.3, 0.7, 7.7])
IS_WORTH, STOPS_AT, TODAY = attrgetter("worth"), attrgetter("problem.stop_worth"), attrgetter("today")
REFERENCE = attrgetter("problem.reference")


@pytest.mark.parametrize(
    ("text", "seen", "is_"),
    [
        (TAP, water, ENDS),
        (TAP, lambda c: type(c.problem.space.variables[0].marginal), Stretched),
        (TAP, lambda c: c.problem.space.variables[0].marginal.mean, approx(2.3)),
        # what nature does is no licence to send it, but readings may be there
        (TAP, lambda c: (c.rig.limits["doser"].low, c.rig.limits["doser"].high), (5.5, 6.5)),
        (TAP, lambda c: (c.rig.plausible["probe"], c.rig.variables[0].read_back_tolerance), ((3, 10), approx(0.01))),
        (LEARNED, water, ENDS),
        (LEARNED, lambda c: type(c.problem.space.variables[0].marginal), Learned),
        (LEARNED, lambda c: c.problem.space.variables[0].marginal.prior.mean, approx(2.3)),
        (put("range: [0, 7.7]", "range: [0, 7.7], step: 0.1"), steps, STEPS),
        (put("range: [0, 7.7]", "range: [0, 7.7], step: 100 uM"), steps, STEPS),
        # in the outcome's unit or another of its kind
        (worth("0.02 EUR/(cm2/day)"), IS_WORTH, approx(0.02)),
        (worth("0.3 EUR/(mm2/h)"), IS_WORTH, approx(1.25)),
        (worth("3 EUR/kg", "g"), IS_WORTH, approx(0.003)),
        (worth("0.3 EUR/degC", "degC"), IS_WORTH, approx(0.3)),
        (worth("0.3 EUR", '"1"'), IS_WORTH, approx(0.3)),
        (BY_HAND, IS_WORTH, None),
        (said("stop: {worth: 12 EUR/(cm2/day)}", BY_HAND), STOPS_AT, approx(12.0)),
        (said("stop: {worth: 0.3 EUR/(mm2/h)}", BY_HAND), STOPS_AT, approx(1.25)),
        (said("stop: {worth: 0.3 EUR/(mm2/h)}", BY_HAND), IS_WORTH, None),
        (worth("0.02 EUR/(cm2/day)"), STOPS_AT, None),
        (said("today: {control: [ph], at: {ph: 6.1}}"), TODAY, {"ph": 6.1}),
        (said("today: {control: [ca], at: {ca: 2000 uM}}"), TODAY, {"ca": approx(2.0)}),
        (said("today: {control: []}"), TODAY, {}),
        (SMALL, TODAY, None),
        (said("reference: {every: 25 trials, control: [ph], at: {ph: 6}}"), a_reference, (25, ("ph",), (approx(0.5),))),
        (said("reference: {every: 9 trials}"), REFERENCE, ReferenceTrials(9)),
        (SMALL, REFERENCE, None),
    ],
)
def test_what_a_file_says_of_variables_and_outcomes_is_what_it_means(text, seen, is_):
    """Setpoints are 0 to 1, nature lies beyond; values are in the variable's unit, prices per unit of the outcome."""
    assert seen(loaded(text)) == is_


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
