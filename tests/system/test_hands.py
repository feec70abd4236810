"""A person steps in: at the speed of real instruments, with the simulator as witness."""

import pytest

from tests.simulated import start_sim
from tests.system.stack import Stack, greenhouse, rows

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def sim(tmp_path_factory):
    """A simulated greenhouse in which time passes as it does."""
    handle = start_sim("greenhouse", tmp_path_factory.mktemp("rig"), speed=1.0, seed=5)
    yield handle
    handle.stop()


def at_speed_one(rig):
    """Real time, and real patience."""
    rig["clock"] = {"speedup": 1}
    for device in rig["devices"].values():
        device["timeout"] = "2 s"


def by_hand(stack: Stack, config, state, *words):
    """What `rigctl device` answers."""
    verb, *rest = words
    done = stack.rigctl("manual", verb, config, *rest, "--state", state, "--json", *stack.sim.options, state=state)
    assert done.wait() == 0, done.said
    return done.answer


def test_a_pump_is_driven_by_hand_where_no_campaign_runs(sim, stack, tmp_path, golden):
    """The process takes the rig, doses once, books it and leaves everything safe."""
    config, state = greenhouse(tmp_path / "rig.yaml", edit=at_speed_one), tmp_path / "state"
    started = stack.run(config, state, "--max-trials", "1")  # a campaign must have begun in this directory
    started.until(lambda: started.rows("SELECT 1 FROM trials"), "a trial")
    started.process.terminate()
    started.wait()
    before = len(sim.state()["doses"])
    assert by_hand(stack, config, state, "dose", "ca_doser", "1 mL")["dispensed_ml"] == pytest.approx(1.0, abs=0.1)
    (witnessed,) = sim.state()["doses"][before:]
    assert witnessed["delivered_ml"] == pytest.approx(1.0, rel=0.1)
    (booked,) = rows(state, "SELECT * FROM doses")
    assert (booked["state"], booked["trial"]) == ("DONE", None)
    acts = [(r["argument"], r["outcome"]) for r in rows(state, "SELECT * FROM acts WHERE verb = 'manual' ORDER BY id")]
    golden([argument for argument, _ in acts])
    assert acts[0][1] == "begun"
    assert sim.state()["plant"]["setpoints"] == {}


def test_fault_45_pause_now_breaks_off_the_trial_and_a_person_takes_over(sim, stack, tmp_path):
    """Nothing is driven when it has answered; a valve opens by hand alone, and closes when something goes wrong."""
    config, state = greenhouse(tmp_path / "rig.yaml", edit=at_speed_one), tmp_path / "state"
    run = stack.run(config, state)
    run.until(lambda: sim.state()["plant"]["setpoints"], "a valve that is driven")
    paused = stack.rigctl("pause", "--now", "--state", state, "--why", "a leak", "--json")
    assert paused.wait() == 0, paused.said
    run.until(lambda: run.count("ABANDONED") and run.phases()[-1:] == ["PAUSED"], "the trial broken off")
    assert sim.state()["plant"]["setpoints"] == {}
    assert run.rows("SELECT detail FROM events WHERE state = 'ABANDONED'")[0]["detail"].endswith("a leak")
    assert by_hand(stack, config, state, "set", "b_valve", "30")["outcome"].startswith("holds 30")
    assert set(sim.state()["plant"]["setpoints"]) == {"b"}
    refused = stack.rigctl("manual", "set", config, "b_valve", "1e6", "--state", state)
    assert refused.wait() == 1
    assert "allowed" in refused.said
    assert sim.state()["plant"]["setpoints"] == {}  # what went wrong leaves everything safe
