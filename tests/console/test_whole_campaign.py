"""One whole campaign of the real daemon on the simulated rig, and the questions that can be asked about it."""

import json
from contextlib import closing

import pytest
from typer.testing import CliRunner

from rigctl.campaign.journal import Journal
from rigctl.campaign.trial import Event, State, undecided
from rigctl.console.cli import app
from rigctl.core.experiment.history import History
from tests.campaign.records import SetClock
from tests.forked import run
from tests.system.stack import ROOT

LEAST = 4
"""Trials that the budget surely pays for."""


def rigctl(*arguments):
    """Return what a verb says."""
    found = CliRunner().invoke(app, [*map(str, arguments)])
    assert found.exit_code == 0, found.output
    return found.stdout


@pytest.mark.slow
def test_a_demo_runs_a_campaign_and_tells_the_truth_about_it(tmp_path):
    """It ends with its budget, a recommendation, the simulator's truth, an exact ledger and a journal that replays."""
    options = ["--budget", "6 EUR", "--speed", "48000", "--keep", tmp_path / "kept", "--json"]
    demo = run(["rigctl", "demo", *options])
    assert demo.returncode == 0, demo.stderr
    answer = json.loads(demo.stdout)
    trials = answer["trials"]
    assert answer["ending"] == "budget"
    assert trials >= LEAST
    assert answer["ledger_sum"] == answer["spent"]
    assert answer["safe"]["ok"]
    assert answer["recommendation"]["control_set"] == answer["simulators_truth"]["control_set"]
    state = tmp_path / "kept/state"
    with closing(
        Journal(state, SetClock(1e9), "another boot")
    ) as journal:  # a look in vain, as another end would leave
        journal.look(undecided(trials + 1, 1, 6_000_000, History()), {})
        journal.finish(trials + 1, State.LOOKING, Event.ABANDON, (), detail="not decided: nothing fits")
    assert json.loads(rigctl("replay", "--state", state, "--json")) == {
        "trials": trials,  # no look was paid when nothing fitted the budget any more
        "agree": trials,
        "differing": [],
        "other_code": [],
    }
    assert rigctl("explain", "--state", state).startswith(f"Trial {trials + 1} ")
    explained = json.loads(rigctl("explain", "--state", state, "--trial", trials, "--json"))
    assert len(explained["proposal"]["sets"]) == 7
    rigctl("export", "--state", state, "--out", tmp_path / "trials.csv")
    again = rigctl("recommend", ROOT / "config/greenhouse.yaml", "--history", tmp_path / "trials.csv", "--json")
    assert set(json.loads(again)["setpoints"]) <= {"ca", "b", "nh4", "k", "ph"}
