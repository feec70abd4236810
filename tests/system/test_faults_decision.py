"""Decisions that cannot be used: the rig goes on, safely, and says why."""

from dataclasses import replace

import pytest

from rigctl.campaign.daemon import run_campaign
from rigctl.campaign.journal import open_reader
from rigctl.campaign.replay import replay
from rigctl.config.load import Overrides, load
from rigctl.console.assemble import rig_factory
from rigctl.page.campaign import campaign_spec
from rigctl.rig.clocks import RealClock
from tests.bench.players import install_policy
from tests.campaign.bad_policies import Bad
from tests.system.stack import greenhouse

pytestmark = pytest.mark.system

ASTRAY = """
    setting = {1: (math.nan,), 2: (1.5,), 3: (0.5,), 4: (-1e300,), 5: (0.5, 0.5)}.get(trial, (0.25,))
    if trial == 6:
        raise ZeroDivisionError("somebody else's mistake")
    return Proposal(trial, self.name, "lost", 99 if trial == 7 else 0, setting, "because"), {}
"""
"""Not to be trusted."""
ROTTEN = """
    if trial == 2:
        ctypes.string_at(0)
    if trial == 4:
        return {}["no such key"]
    if trial == 5:
        os._exit(3)
    if trial == 6:
        ctypes.PyDLL(None).sleep(8)
    return Proposal(trial, self.name, "rotten", 0, (trial / 10,), "because"), {}
"""
"""Breaks whatever it runs in."""
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
    """Where those policies are installed, each as a distribution of its own."""
    site = tmp_path / "site"
    site.mkdir()
    for name, lines in {"astray": ASTRAY, "rotten": ROTTEN}.items():
        install_policy(site, name, lines, "import ctypes, math, os")
    return str(site)


def agrees(stack, state, installed, trials):
    """Replay comes to the same decisions."""
    replayed = stack.rigctl("replay", "--state", state, "--json", PYTHONPATH=installed)
    assert replayed.wait() == 0, replayed.said
    assert replayed.answer == {"trials": trials, "agree": trials, "differing": [], "other_code": []}


def test_fault_42_a_proposal_that_cannot_be_played_is_replaced(stack, tmp_path, installed):
    """NaN, out of range, ill-shaped or no proposal: rejected, logged, safe exploration instead; replay agrees."""
    config = greenhouse(tmp_path / "rig.yaml", edit=lambda rig: rig.update(policy={"name": "astray"}))
    run = stack.run(config, tmp_path / "state", "--max-trials", 8, PYTHONPATH=installed)
    assert run.wait() == 0, run.said
    trials = run.rows("SELECT * FROM trials ORDER BY trial")
    assert {r["trial"]: r["origin"] for r in trials} == {t: "rejected" if t in WRONG else "policy" for t in range(1, 9)}
    assert {r["state"] for r in trials} == {"RECORDED"}
    told = run.alarms(kind="rejected", source="policy astray", severity="MAJOR")
    assert all(why in alarm["message"] for why, alarm in zip(WRONG.values(), told, strict=True))
    imposed = run.rows("SELECT variable, setpoint FROM states WHERE controlled")
    ranges = {"b": (5, 60), "nh4": (0.1, 4), "k": (1, 12)}
    assert len(imposed) == len(trials)
    assert all(ranges[r["variable"]][0] <= r["setpoint"] <= ranges[r["variable"]][1] for r in imposed)
    agrees(stack, tmp_path / "state", installed, 8)


def test_faults_60_and_75_a_policy_that_breaks_what_it_runs_in_costs_its_decision(stack, tmp_path, installed):
    """A crash, an exit, an exception, the interpreter lock kept for 8 s: the campaign goes on, the tick comes in time.

    What was done instead and where the policy stood is kept in the journal; replay agrees, and asks it for no crash.
    """
    config = greenhouse(tmp_path / "rig.yaml", edit=lambda rig: rig.update(policy={"name": "rotten"}))
    run = stack.run(config, tmp_path / "state", "--max-trials", 7, PYTHONPATH=installed)
    assert run.wait() == 0, run.said
    trials = run.rows("SELECT state, origin, note, json_extract(proposal, '$.setting[0]') AS u FROM trials")
    origins = ["policy", "timed-out", "policy", "rejected", "timed-out", "policy", "policy"]
    assert [r["origin"] for r in trials] == origins
    assert {r["state"] for r in trials} == {"RECORDED"}
    assert (trials[1]["u"], trials[4]["u"]) == (0.1, 0.3)  # what had worked last
    details = [r["detail"] for r in run.rows("SELECT detail FROM alarms WHERE source = 'policy rotten' ORDER BY id")]
    assert ["Segmentation fault" in d for d in details] == [True, False, False]
    assert "KeyError" in details[1]
    assert "rotten_policy.py" in details[1]
    assert len(run.alarms(kind="timed-out", source="policy rotten", severity="MAJOR")) == 2
    assert run.answer["worst_tick_delay_s"] < 4.0
    agrees(stack, tmp_path / "state", installed, 7)


@pytest.mark.usefixtures("twins")
async def test_faults_50_and_60_a_policy_that_never_returns_is_ended_and_the_rig_goes_on(sim, tmp_path):
    """It keeps the interpreter lock for ever: ended at its limit, its last good proposal is played again, in time."""
    sim.control({"clear": True})
    loaded = load(greenhouse(tmp_path / "rig.yaml"), Overrides(buses=sim.buses))
    policy = Bad(kind="holds", after=2, cost=0.01)
    spec = replace(campaign_spec(loaded), policy=policy, decision_limit_s=3.0, max_trials=4)
    clock = RealClock(loaded.rig.speedup)
    result = await run_campaign(spec, tmp_path / "state", rig_factory(loaded, clock), clock, lambda _: None)
    assert (result.ending, result.trials, result.safe.ok) == ("trials", 4, True)
    with open_reader(tmp_path / "state") as reader:
        trials, differences = reader.trials(), [t.differences for t in replay(reader, spec)]
    assert [(t.origin, t.state) for t in trials] == [("policy", "RECORDED")] * 2 + [("timed-out", "RECORDED")] * 2
    assert [t.setpoints for t in trials[2:]] == [trials[1].setpoints] * 2
    assert differences == [()] * 4
    assert result.worst_tick_delay_s < spec.decision_limit_s
