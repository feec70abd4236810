"""What goes wrong around a trial, at the pace of real instruments: the rig runs no faster than the wall."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from pyModbusTCP.client import ModbusClient

from tests.simulated import SimHandle, start_sim
from tests.system.stack import because, greenhouse, next_trial

pytestmark = pytest.mark.system

B_VALVE = 2
"""Its enable coil."""


@pytest.fixture(scope="module")
def sim(tmp_path_factory) -> Iterator[SimHandle]:
    """A simulated greenhouse at the pace of a real one: 300 ms for an EZO's answer, 900 ms for a pH."""
    handle = start_sim("greenhouse", tmp_path_factory.mktemp("rig"), speed=1.0, seed=5)
    yield handle
    handle.stop()


def at_real_pace(path, settle="20 s", **interlock):
    """Valves only, without speed-up; `settle` is waited for on the wall."""

    def change(rig):
        rig["clock"]["speedup"] = 1.0
        rig["trial"]["measure"] = {"for": "2 s", "every": "1 s", "min_count": 1}
        for device in rig["devices"].values():
            device["timeout"] = "2 s"
        rig["safety"]["watch"] = {"clear_for": "1 s"}
        if interlock:
            rig["safety"]["interlocks"] = [interlock]

    return greenhouse(path, [("b",)], prepare="0.5 s", settle=settle, edit=change)


def settling(run):
    """Wait until a trial settles; its number."""
    run.until(lambda: run.count("RUNNING"), "a trial that settles")
    return run.rows("SELECT trial FROM trials WHERE state = 'RUNNING'")[0]["trial"]


def another_hand(sim):
    """A Modbus client that nobody here wrote."""
    host, port = sim.plc
    return ModbusClient(host=host, port=port, unit_id=1, auto_open=True)


def test_fault_61_a_valve_switched_off_at_the_plc_fails_the_trial_within_a_few_looks(sim, stack, tmp_path):
    """Another hand lets go of what is driven: the trial is FAILED while it settles, long before it would measure."""
    run = stack.run(at_real_pace(tmp_path / "rig.yaml", settle="10 min"), tmp_path / "state")
    trial = settling(run)
    with closing(another_hand(sim)) as plc:
        assert plc.write_single_coil(B_VALVE, False)
    sim.fault_begins()
    next_trial(run, "FAILED")
    sim.wait_until_safe()
    assert because(run, trial).partition(" ")[0] == "read-back:"
    assert run.alarms(kind="read-back", source="b_valve", severity="MAJOR")
    assert run.rows("SELECT 1 FROM trials WHERE state = 'RECORDED'") == []


def test_fault_62_a_pump_that_starts_by_itself_is_stopped_and_booked(sim, stack, tmp_path):
    """Its button is pressed in mid-trial: stopped long before it is done, its volume in the dose book, an alarm."""
    run = stack.run(at_real_pace(tmp_path / "rig.yaml", settle="10 min"), tmp_path / "state")
    trial = settling(run)
    sim.control({"fault": "button", "bus": "acid", "ml": 50.0})  # 51 s at its rate
    next_trial(run, "FAILED")
    sim.wait_until_safe()
    dose = sim.state()["doses"][-1]
    assert dose["ended_s"] is not None
    assert dose["dispensed_ml"] < 30.0
    given = pytest.approx(dose["dispensed_ml"], abs=0.5)  # a look that began before the button was pressed finds a part
    found = "SELECT sum(dispensed_ml) AS ml FROM doses WHERE state = 'FOUND'"
    run.until(lambda: [row["ml"] for row in run.rows(found)] == [given], "its volume")
    assert because(run, trial).partition(" ")[0] == "pump:"
    assert run.alarms(kind="unasked volume", source="ph_doser", severity="MAJOR")


def test_a_probe_that_goes_silent_fires_the_interlock_over_it(sim, stack, tmp_path):
    """What cannot be read is not taken for safe: the interlock fires though nothing was measured beyond its limit."""
    config = at_real_pace(tmp_path / "rig.yaml", settle="10 min", name="acid", when="ph < 2 pH", then="trip")
    run = stack.run(config, tmp_path / "state")
    settling(run)
    sim.control({"fault": "drop_reply", "bus": "ph", "count": 9999})
    sim.wait_until_safe()
    assert run.wait() == 3
    assert sim.state()["plant"]["setpoints"] == {}
    assert run.alarms(kind="interlock acid", action="trip")
    again = stack.run(config, tmp_path / "state")
    assert again.wait() == 3  # latched


@pytest.mark.parametrize("name", ["journal.sqlite", "lock"])
def test_fault_68_a_file_deleted_under_the_campaign_is_noticed(sim, stack, tmp_path, name):
    """Alarm and hold within a few looks; nothing is driven without its journal or its lock."""
    run = stack.run(at_real_pace(tmp_path / "rig.yaml", settle="10 min"), tmp_path / "state")
    settling(run)
    (tmp_path / "state" / name).unlink()
    sim.fault_begins()
    run.until(lambda: run.alarms(kind="files", severity="MAJOR"), "the alarm")
    sim.wait_until_safe()
    assert run.alive


def test_fault_71_a_meter_away_for_a_while_is_waited_for(sim, stack, tmp_path):
    """The campaign holds, says for whom, and goes on when it is back; it neither ends nor burns through trials."""
    run = stack.run(at_real_pace(tmp_path / "rig.yaml", settle="2 s"), tmp_path / "state")
    next_trial(run, "RECORDED")
    sim.control({"fault": "unplug", "bus": "mains"})
    run.until(lambda: run.phases()[-1:] == ["HOLDING"], "a hold")
    trials = len(run.rows("SELECT 1 FROM trials"))
    run.until(lambda: run.alarms(source="mains_meter"), "its name")
    sim.control({"fault": "replug", "bus": "mains"})
    assert next_trial(run, "RECORDED")["trial"] > trials
    assert len(run.rows("SELECT 1 FROM trials WHERE state = 'FAILED'")) <= 2
