"""One whole campaign of the real daemon on the simulated rig, and the questions that can be asked about it."""

from __future__ import annotations

import json
import subprocess
import sys

from typer.testing import CliRunner

from rigctl.console.cli import app
from tests.system.stack import ROOT

LEAST = 4
"""Trials that the budget surely pays for."""


def rigctl(*arguments):
    """Return what a verb says."""
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_a_demo_runs_a_campaign_and_tells_the_truth_about_it(tmp_path):
    """It ends with its budget, a recommendation, the simulator's truth, an exact ledger and a journal that replays."""
    options = ["--budget", "6 EUR", "--speed", "48000", "--keep", tmp_path / "kept", "--json"]
    demo = subprocess.run(
        [sys.executable, "-m", "rigctl", "demo", *options], capture_output=True, text=True, check=False
    )
    assert demo.returncode == 0, demo.stderr
    answer = json.loads(demo.stdout)
    trials = answer["trials"]
    assert answer["ending"] == "budget"
    assert trials >= LEAST
    assert answer["ledger_sum"] == answer["spent"]
    assert answer["safe"]["ok"]
    assert answer["recommendation"]["control_set"] == answer["simulators_truth"]["control_set"]
    state = tmp_path / "kept/state"
    assert json.loads(rigctl("replay", "--state", state, "--json")) == {
        "trials": trials - 1,  # after the last look nothing fitted the budget
        "agree": trials - 1,
        "differing": [],
        "other_code": [],
    }
    assert f"Trial {trials} ended before it was decided" in rigctl("explain", "--state", state)
    explained = json.loads(rigctl("explain", "--state", state, "--trial", trials - 1, "--json"))
    assert len(explained["proposal"]["sets"]) == 7
    rigctl("export", "--state", state, "--out", tmp_path / "trials.csv")
    again = rigctl("recommend", ROOT / "config/greenhouse.yaml", "--history", tmp_path / "trials.csv", "--json")
    assert set(json.loads(again)["setpoints"]) <= {"ca", "b", "nh4", "k", "ph"}
