"""Growth against electric power on the simulated greenhouse: a second quantity the rig has an instrument for."""

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.config.load import load
from tests.system.stack import greenhouse

pytestmark = pytest.mark.system

TRIALS = 4


def weigh_power(rig):
    """The energy meter also tells the power now."""
    power = {"name": "power", "unit": "W", "sensor": "mains_meter", "direction": "minimise"}
    rig |= {"further_outcomes": [power], "max_trials": TRIALS}


def test_two_outcomes_of_a_real_rig(sim, stack, tmp_path):
    """Both are measured in the same window and recorded; the run ends with the front; every decision is replayed."""
    config = greenhouse(tmp_path / "rig.yaml", edit=weigh_power)
    run = stack.run(config, tmp_path / "state")
    assert run.wait() == 0, run.said
    front = run.answer["recommendation"]["front"]
    assert front["hypervolume"] >= 0
    with open_reader(run.state) as reader:
        history = reader.history(load(config).problem.space)
        readings = [m for m in reader.measurements() if m.name == "power"]
    assert len(history) == TRIALS
    assert all(m.is_outcome and m.count >= 3 for m in readings)
    assert all(1.0 < watts < 20_000.0 for o in history.complete for watts in o.further)
    assert {p["trial"] for p in front["points"]} <= {o.trial for o in history.complete}
    replayed = stack.rigctl("replay", "--state", run.state, "--json")
    assert replayed.wait() == 0, replayed.answer
    status = stack.rigctl("status", "--state", run.state, "--json")
    assert status.wait() == 0
    assert status.answer["pareto_trials"] == front["measured"]["trials"]
