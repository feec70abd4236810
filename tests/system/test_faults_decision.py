"""Decisions that cannot be used: the rig goes on, safely, and says why."""

from __future__ import annotations

import textwrap

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from rigctl.core.model import fit_history
from tests.system.stack import VALVES_ONLY, greenhouse

pytestmark = pytest.mark.system

ASTRAY = '''
    """A policy of somebody else's that is not to be trusted."""
    import math
    from dataclasses import dataclass
    from rigctl.core.policy import Proposal

    @dataclass(frozen=True)
    class Astray:
        name = "astray"

        def initial_state(self, problem):
            return {}

        def propose(self, state, problem, history, rng):
            trial = len(history) + 1
            setting = {1: (math.nan,), 2: (1.5,), 3: (0.5,), 4: (-1e300,), 5: (0.5, 0.5)}.get(trial, (0.25,))
            if trial == 6:
                raise ZeroDivisionError("somebody else's mistake")
            chosen = 99 if trial == 7 else 0
            return Proposal(trial, self.name, "lost", chosen, setting, "because"), {}
'''
WRONG = {
    1: "b: got nan on the unit cube",
    2: "b: got 1.5 on the unit cube",
    4: "b: got -1e+300 on the unit cube",
    5: "2 values for 1 controlled variables",
    6: "ZeroDivisionError: somebody else's mistake",
    7: "control set 99 does not exist",
}


@pytest.fixture
def installed(tmp_path):
    """Where that policy is installed, as a distribution of its own."""
    site = tmp_path / "site"
    (site / "astray-1.dist-info").mkdir(parents=True)
    (site / "astray.py").write_text(textwrap.dedent(ASTRAY), encoding="utf-8")
    (site / "astray-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: astray\nVersion: 1\n")
    (site / "astray-1.dist-info/entry_points.txt").write_text("[rigctl.policies]\nastray = astray:Astray\n")
    return str(site)


def test_fault_42_a_proposal_that_cannot_be_played_is_replaced(stack, tmp_path, installed):
    """NaN, out of range, ill-shaped or no proposal: rejected, logged, safe exploration instead; replay agrees."""
    config = greenhouse(tmp_path / "rig.yaml", edit=lambda rig: rig.update(policy={"name": "astray"}))
    run = stack.run(config, tmp_path / "state", "--max-trials", 8, PYTHONPATH=installed)
    assert run.wait() == 0, run.said
    trials = run.rows("SELECT * FROM trials ORDER BY trial")
    assert {r["trial"]: r["origin"] for r in trials} == {t: "rejected" if t in WRONG else "policy" for t in range(1, 9)}
    assert {r["state"] for r in trials} == {"RECORDED"}
    for trial, why in WRONG.items():
        assert run.alarms("policy astray", f"trial {trial}: ", why, "exploring safely instead", severity="MAJOR")
    imposed = run.rows("SELECT variable, setpoint FROM states WHERE controlled")
    ranges = {"b": (5, 60), "nh4": (0.1, 4), "k": (1, 12)}
    assert len(imposed) == len(trials)
    assert all(ranges[r["variable"]][0] <= r["setpoint"] <= ranges[r["variable"]][1] for r in imposed)
    replayed = stack.rigctl("replay", "--state", tmp_path / "state", "--json", PYTHONPATH=installed)
    assert replayed.wait() == 0, replayed.said
    assert replayed.answer == {"trials": 8, "agree": 8, "differing": []}


@pytest.mark.parametrize(
    ("model", "note"),
    [
        ({"hyperparameters": "fixed", "lengthscales": 100, "signal_sd": 3, "noise_sd": 1e-9, "mean": 8}, "definite"),
        ({"hyperparameters": "learned"}, ""),
    ],
    ids=["not positive definite", "nothing to tell apart"],
)
def test_fault_49_a_fit_in_trouble_does_not_end_the_campaign(sim, stack, tmp_path, model, note):
    """Every probe frozen, so that all trials look the same: the policy still decides each of them, and all run."""
    for sensor in ("ca_probe", "b_probe", "nh4_probe", "k_probe", "ph_probe"):
        sim.control({"fault": "sensor", "name": sensor, "mode": "frozen"})

    def edit(rig):
        rig["model"] = model
        rig["policy"]["explore"] = {"plays": 1}

    config = greenhouse(tmp_path / "rig.yaml", VALVES_ONLY, edit=edit)
    run = stack.run(config, tmp_path / "state", "--max-trials", 8)
    assert run.wait() == 0, run.said
    trials = run.rows("SELECT state, origin, proposal FROM trials")
    assert [(r["state"], r["origin"]) for r in trials] == [("RECORDED", "policy")] * 8
    measured = run.rows("SELECT DISTINCT name, value FROM measurements WHERE NOT outcome")
    assert len(measured) == 5  # one value each: there was nothing to tell the trials apart by
    problem = load(config).problem
    with open_reader(run.state) as reader:
        fitted = fit_history(problem, reader.history(problem.space), None, 0)
    assert note in " ".join(fitted.posterior.notes)
    assert '"phase": "commit"' in trials[-1]["proposal"]
    assert run.alarms(severity="MAJOR") == []
