"""Outcomes besides the first, and policies that need them or name variables."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from rigctl.config import load
from rigctl.config.build_problem import COLUMNS
from rigctl.console.export import _trial_columns
from rigctl.core.experiment.problem import FurtherOutcome
from rigctl.core.policies.ca_mobo import CaMobo
from rigctl.rig.spec import OutcomeWiring
from tests.config.conftest import BY_HAND, SMALL, loaded, problems

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


@pytest.mark.parametrize(
    ("section", "where", "what"),
    [
        ("{name: water, unit: L, sensor: ca_probe}", "[0].sensor", "must speak L"),
        ("{name: water, unit: mM}", "[0].sensor", "is missing"),
        ("{name: growth, unit: mM, sensor: ca_probe}", "[0].name", "another outcome; must differ"),
        ("{name: ph, unit: mM, sensor: ca_probe}", "[0].name", "a variable; must differ"),
        ("{name: water, unit: mM, sensor: ca_probe, floor: 2 kg}", "[0].floor", "2 kg"),
        ("{name: water, unit: mM, sensor: ca_probe, floor: 9, plausible: [0, 5]}", "[0].floor", "must be below"),
        ("{name: water, unit: mM, sensor: ca_probe, sense: up}", "[0].sense", "unknown key"),
    ],
)
def test_what_does_not_hold_is_told_with_its_place(section, where, what):
    """Each mistake stands under its own entry of the list."""
    found = problems(SMALL + f"further_outcomes: [{section}]\n")
    place, told = next(iter(found.items()))
    assert len(found) == 1
    assert place.endswith(f"further_outcomes{where}")
    assert what in told


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


def test_names_of_export_columns_are_refused():
    """A variable `cost` would be written over by the trial's cost; so would an outcome."""
    named = BY_HAND.replace("  ca: {", "  cost: {").replace("name: growth", "name: control_set")
    found = "\n".join(f"{where}: {what}" for where, what in problems(named).items())
    assert "variables.cost: is a column of every history and export; rename it" in found
    assert 'outcome.name: got "control_set", which is a column of every history and export' in found


def test_they_are_those_of_the_export():
    """Whatever an export adds to variables and outcomes."""
    assert set(_trial_columns(SimpleNamespace(names=()), ())) == COLUMNS
