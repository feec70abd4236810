"""Outcomes besides the first, and policies that need them or name variables."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rigctl.config import load
from rigctl.config.problem import COLUMNS
from rigctl.console.export import _trial_columns
from rigctl.core.experiment.problem import FurtherOutcome
from rigctl.core.policies.ca_mobo import CaMobo
from rigctl.rig.spec import OutcomeWiring
from tests.config.conftest import loaded, problems
from tests.config.texts import BY_HAND, SMALL

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
    assert config.rig.further == (OutcomeWiring("water", "water_meter"),)
    assert config.rig.outcome_names == ("growth", "water")
    assert json.dumps(config.policy_options)


def test_without_any_there_is_one_outcome():
    """The key may be left out."""
    assert loaded(BY_HAND).problem.further == ()
    assert loaded(BY_HAND).rig.outcome_names == ("growth",)


@pytest.mark.usefixtures("weighing")
def test_a_policy_of_several_outcomes_needs_them():
    """It is a mistake of the configuration, told with its line, before anything runs."""
    text = BY_HAND + "policy: {name: ca-mobo, order: [ph, phosphate]}\n"
    found = problems(text)
    assert {where.split(": ")[-1] for where in found} == {"further_outcomes", "policy.order"}
    assert "policy ca-mobo weighs several" in " ".join(found.values())
    assert "got phosphate, must be among ph, ca" in " ".join(found.values())


@pytest.mark.usefixtures("weighing")
def test_an_order_is_written_as_a_list():
    """Options that are tuples are lists in the file; anything else is told as such."""
    two = BY_HAND + "further_outcomes: [{name: water, unit: L}]\n"
    config = loaded(two + "policy: {name: ca-mobo, order: [-ph, ca], width: {beta: 4}}\n")
    assert isinstance(config.policy, CaMobo)
    assert config.policy.order == ("-ph", "ca")
    assert config.policy.width.beta == 4.0
    (told,) = problems(two + "policy: {name: ca-mobo, order: ph}\n").values()
    assert told == 'got "ph", must be a list'


def test_they_are_those_of_the_export():
    """Whatever an export adds to variables and outcomes."""
    assert set(_trial_columns(SimpleNamespace(names=()), ())) == COLUMNS
