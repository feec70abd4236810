"""Pumps in pairs, in a ratio and as volumes, in campaigns on the simulated greenhouse; it witnesses every dose."""

import json

import pytest

from tests.simulated import start_sim
from tests.system.stack import SPEED, TIMEOUT_S, Stack, because, greenhouse, next_trial

pytestmark = pytest.mark.system

CAPS = {"per_dose": "80 mL", "per_day": "10 L"}
JUDGED = {"sensor": "ph_probe", "tolerance": 0.04, "mix": "45 s", "max_doses": 6}


def with_more_pumps(rig):
    """Describe the base pump and the feed pump."""
    rig["buses"] |= {"base": "serial://sim/base_pump", "feed": "serial://sim/feed_pump"}
    for name in ("base", "feed"):
        rig["devices"][f"{name}_doser"] = {"driver": "ezo-pmp", "bus": name, "timeout": f"{TIMEOUT_S} s"}


def both_ways(rig):
    """Acid and base without the alkaliser that acid alone needs; water on both sides of the setpoints."""
    with_more_pumps(rig)
    rig["variables"]["ph"] |= {"range": [5.8, 6.8], "natural_range": [5, 7], "actuator": ["ph_doser", "base_doser"]}
    rig["dosing"] |= {
        "ph_doser": {**JUDGED, "effect": "-0.04 pH/mL"},
        "base_doser": {**JUDGED, "effect": "0.045 pH/mL"},
    }
    rig["safety"]["limits"]["base_doser"] = CAPS
    del rig["safety"]["safe_state"]["alkaliser"]


def in_a_ratio(rig):
    """Calcium with half as much feed."""
    with_more_pumps(rig)
    rig["dosing"]["ca_doser"]["with"] = {"feed_doser": 0.5}
    rig["safety"]["limits"]["feed_doser"] = CAPS


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    sim = start_sim("greenhouse", tmp_path_factory.mktemp("pumps"), speed=SPEED, seed=7, options=["--more-pumps"])
    yield sim
    sim.stop()


@pytest.fixture
def start(sim, tmp_path):
    """Starts a campaign with these control sets and this edit of the greenhouse."""
    sim.control({"clear": True})
    stack = Stack(sim, tmp_path)

    def run(edit, *control_sets, trials=6):
        config = greenhouse(tmp_path / "rig.yaml", control_sets, edit=edit)
        return stack.run(config, tmp_path / "state", "--max-trials", trials)

    yield run
    stack.end()
    sim.control({"clear": True})


def witnessed(sim, pump, since):
    return [d["dispensed_ml"] for d in sim.state()["doses"] if d["pump"] == pump][since:]


def had(sim, *pumps):
    return {pump: len(witnessed(sim, pump, 0)) for pump in pumps}


def booked(run, pump):
    return [row["dispensed_ml"] for row in run.rows("SELECT * FROM doses WHERE actuator = ? ORDER BY id", pump)]


def test_acid_and_base_bring_the_ph_to_setpoints_on_both_sides(sim, start):
    """Water of any pH comes to every setpoint without a treatment; both were needed, and journal and pumps agree."""
    before = had(sim, "ph_doser", "base_doser")
    run = start(both_ways, ["ph"], trials=6)
    assert run.wait() == 0, run.said[-3000:]
    measured = run.rows(
        "SELECT m.value, t.setpoints FROM measurements m JOIN trials t ON t.trial = m.trial WHERE m.name = 'ph' "
        "AND t.state = 'RECORDED'"
    )
    assert len(measured) == 6
    for row in measured:  # two tolerances, and what the probe's noise adds
        assert row["value"] == pytest.approx(json.loads(row["setpoints"])["ph"], abs=0.1)
    for pump, known in before.items():
        assert booked(run, pump) == pytest.approx(witnessed(sim, pump, known), abs=0.02)
        assert booked(run, pump), pump
    trials = run.rows("SELECT trial, count(DISTINCT actuator) AS pumps FROM doses GROUP BY trial")
    assert sum(row["pumps"] == 2 for row in trials) <= len(trials) // 2, "the pumps chase each other"


def test_a_second_pump_that_dies_fails_the_trial_and_is_not_made_up_for(sim, start):
    """The calcium went in, the feed did not: told, failed, booked as it was, and dosed anew in the next trial only."""
    run = start(in_a_ratio, ["ca"], trials=60)
    next_trial(run, "RECORDED")
    sim.control({"fault": "pump", "bus": "feed", "weak": True})
    lost = next_trial(run, "FAILED")["trial"]
    sim.control({"clear": True})
    assert "*ER" in because(run, lost)
    doses = run.rows("SELECT * FROM doses WHERE trial = ? ORDER BY id", lost)
    assert [d["actuator"] for d in doses[-2:]] == ["ca_doser", "feed_doser"]
    assert doses[-2]["dispensed_ml"] > 0
    # nothing; or all of it, where its total is one that this dose reaches from 0: it may have restarted
    booked = doses[-1]["state"], doses[-1]["dispensed_ml"]
    assert booked in (("DONE", 0.0), ("UNKNOWN", doses[-1]["volume_ml"]))
    assert run.alarms(kind="ratio lost", source="feed_doser")
    assert next_trial(run, "RECORDED", after=lost)["trial"] > lost
