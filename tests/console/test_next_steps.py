"""The next command that an answer ends with is one that works, as it stands."""

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


def test_a_wired_rig_is_asked_before_it_runs(loaded, golden):
    """`check --probe` after `check`, again where somebody is silent, then `run`."""
    devices = {"probe": next(iter(loaded.rig.devices.values()), None)}
    wired = replace(loaded, rig=replace(loaded.rig, devices=devices), path=Path("rig.yaml"))
    lines = [output.after_check(wired, probed=p, silent=s) for p, s in ((False, False), (True, True), (True, False))]
    assert ["--probe" in line for line in lines] == [True, True, False]
    for line in lines:
        golden(line)


@pytest.mark.slow
def test_a_suggestion_ends_with_the_command_that_records_it(bench, golden):
    """What was set stands in it; with what was measured filled in, it is taken, and names the next suggestion."""
    last = bench.rigctl("suggest", "bench.yaml").out.splitlines()[-1]
    golden(last)
    words = shlex.split(last.removeprefix("Next: rigctl ").replace("=MEASURED", "=6.0").replace("PAID", "0.5"))
    done = bench.rigctl(*[word.replace("MEASURED", "1.2") for word in words]).out.splitlines()[-1]
    golden(done)
    assert bench.rigctl("status", "bench.yaml", "--json").json["trials"] == 1


def test_where_the_state_is_elsewhere_the_next_command_says_so(loaded, golden):
    """A path with a space is quoted."""
    line = output.after_suggest(loaded, Path("my state"), {"ph": 6.0})
    assert shlex.split(line)[-2:] == ["--state", "my state"]
    golden(line)


def test_what_was_found_is_asked_for_once_something_was():
    """Before a trial has given an outcome `recommend` would refuse."""
    lines = [output.after_status({**BENCH, **found}, None, None) for found in ({}, {"best_trial": {"trial": 1}})]
    assert ["recommend" in line for line in lines] == [False, True]


def test_once_the_budget_is_spent_what_came_of_it_is_next(loaded, golden):
    """No further trial is suggested that nothing is left for."""
    line = output.after_ingest(loaded, None, spent=True)
    assert "suggest" not in line
    golden(line)


def test_where_readings_count_it_is_said_how_to_ask_what_is_best_at_one(golden):
    """With the variables whose readings tell something; else only the report follows."""
    day, report = output.after_recommend(Path("rig.yaml"), Path("my state"), RULE).split("\n")
    golden(day)
    assert output.after_recommend(Path("rig.yaml"), Path("my state"), None) == report


BENCH = {"running": False, "spent": 2.0, "budget": 20.0}


@pytest.mark.parametrize(
    ("status", "verb"),
    [
        (BENCH, "suggest rig.yaml"),
        ({**BENCH, "spent": 20.0}, "recommend rig.yaml"),
        ({**BENCH, "running": True}, "status rig.yaml --watch"),
        ({**BENCH, "running": True, "paused": "by Anna"}, "resume rig.yaml"),
        ({**BENCH, "running": True, "paused": "by Anna", "active_alarms": 1}, "alarm list rig.yaml"),
        ({**BENCH, "ended": "interlock", "active_alarms": 1, "tripped": "acid"}, "help after-a-trip"),
        ({**BENCH, "ended": "budget"}, "recommend rig.yaml"),
        ({**BENCH, "ended": "budget", "awaiting": [7]}, "trial outcome rig.yaml 7 VALUE"),
        ({**BENCH, "ended": None}, "run rig.yaml"),
        ({**BENCH, "ended": "stopped", "production": {"batches": 3}}, "operate rig.yaml"),
    ],
)
def test_a_status_ends_with_what_to_do(status, verb):
    """What stands in the way comes first; then what goes on; at the end, what came of it."""
    line = output.after_status(status, Path("rig.yaml"), None)
    assert line.removeprefix("Next: rigctl ").partition("   (")[0] == verb


@pytest.mark.parametrize(
    ("ending", "verb"), [("budget", "report"), ("trials", "report"), ("abandoned", "run"), ("interlock", "status")]
)
def test_a_run_ends_with_what_to_do(ending, verb, golden):
    """Once it is done, what came of it can be passed on; else `status` says what it needs."""
    line = output.after_run(Path("rig.yaml"), Path("my state"), ending, None)
    assert shlex.split(line)[2] == verb
    golden(line)
