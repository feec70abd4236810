"""A probe that answers no dose, over a whole campaign."""

import pytest

from tests.system.stack import greenhouse

pytestmark = pytest.mark.system

ENOUGH = 6
"""`RigSpec.unanswered_doses` unless the configuration says otherwise."""
STARTS = 6
"""Of a campaign that gives up for another reason before it has dosed so often; each adds some doses."""


def acid(sim):
    """Doses of the acid pump, says the simulator."""
    return [d for d in sim.state()["doses"] if d["pump"] == "ph_doser"]


def only_by_its_doses(rig):
    """Nothing else shall notice that the probe is frozen, and each trial asks for acid, whatever the policy plays."""
    rig["variables"]["ph"] |= {"frozen_after": "off", "range": [5.0, 5.5], "natural_range": [5.0, 7.0]}


def test_fault_63_a_frozen_probe_latches_its_pump_over_all_trials(sim, stack, tmp_path):
    """However trials are interleaved and restarted: so many doses ever, then exit 3 until a person resets the trip."""
    sim.control({"fault": "sensor", "name": "ph_probe", "mode": "frozen"})
    config = greenhouse(tmp_path / "rig.yaml", (("b",), ("ph",), ("b", "ph")), edit=only_by_its_doses)
    state = tmp_path / "state"
    known = len(acid(sim))
    for _ in range(STARTS):
        run = stack.run(config, state)
        if run.wait() == 3:
            break
    assert run.process.returncode == 3, run.said[-2000:]
    assert run.error["kind"] == "Tripped"
    assert "ph_probe" in run.error["what"]
    assert len(acid(sim)) - known == ENOUGH
    (spread,) = run.rows("SELECT count(DISTINCT trial) AS trials FROM doses WHERE actuator = 'ph_doser'")
    assert spread["trials"] >= ENOUGH / 2  # two a trial at most
    again = stack.run(config, state)
    assert again.wait() == 3
    assert len(acid(sim)) - known == ENOUGH
    reset = stack.rigctl("reset-trip", "--state", state, "--json")
    assert reset.wait() == 0
    assert reset.answer["reset"]["reason"] in run.error["what"]
    sim.control({"clear": True})
    healthy = stack.run(config, state)
    healthy.until(lambda: healthy.rows("SELECT 1 FROM answers WHERE answered"), "a dose that is answered")
    healthy.process.terminate()
    assert healthy.wait() == 0
