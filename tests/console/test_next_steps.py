"""The next command that an answer ends with is one that works, as it stands."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from rigctl.config.load import load
from rigctl.console import output
from tests.console.test_rule_shown import RULE


@pytest.fixture
def loaded(bench):
    return load(bench.folder / "bench.yaml")


def test_a_wired_rig_is_asked_before_it_runs(loaded):
    """`check --probe` after `check`, again where somebody is silent, then `run`."""
    devices = {"probe": next(iter(loaded.rig.devices.values()), None)}
    wired = replace(loaded, rig=replace(loaded.rig, devices=devices), path=Path("rig.yaml"))
    assert output.after_check(wired, probed=False, silent=False) == "Next: rigctl check rig.yaml --probe"
    assert output.after_check(wired, probed=True, silent=True).startswith("Next: rigctl check rig.yaml --probe ")
    assert output.after_check(wired, probed=True, silent=False) == "Next: rigctl run rig.yaml"


def test_a_suggestion_ends_with_the_command_that_records_it(bench):
    """What was set stands in it; with what was measured filled in, it is taken, and names the next suggestion."""
    last = bench.rigctl("suggest", "bench.yaml").out.splitlines()[-1]
    assert last.startswith("Next: rigctl ingest bench.yaml --control-set ")
    words = shlex.split(last.removeprefix("Next: rigctl ").replace("=MEASURED", "=6.0").replace("PAID", "0.5"))
    done = bench.rigctl(*[word.replace("MEASURED", "1.2") for word in words]).out.splitlines()[-1]
    assert done.startswith("Next: rigctl suggest bench.yaml")


def test_where_the_state_is_elsewhere_the_next_command_says_so(loaded):
    """A path with a space is quoted."""
    line = output.after_suggest(loaded, Path("my state"), {"ph": 6.0})
    assert line.endswith(" --state 'my state'")
    assert "--values ph=6,ca=MEASURED" in line


def test_once_the_budget_is_spent_what_came_of_it_is_next(loaded):
    """No further trial is suggested that nothing is left for."""
    assert output.after_ingest(loaded, None, spent=True).startswith("Next: rigctl recommend ")


def test_where_readings_count_it_is_said_how_to_ask_what_is_best_at_one():
    """With the variables whose readings tell something; else only the report follows."""
    day, report = output.after_recommend(Path("rig.yaml"), Path("my state"), RULE).split("\n")
    assert day.startswith("On a day: rigctl recommend rig.yaml --state 'my state' --now ph=READ ")
    assert output.after_recommend(Path("rig.yaml"), Path("my state"), None) == report
