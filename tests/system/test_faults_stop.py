"""Ending a campaign in the middle of something: by the service manager, by a person."""

import signal
import time

import pytest

from tests.system.stack import SPEED, WITH_CALCIUM, because, cost, greenhouse

pytestmark = pytest.mark.system

PROMISE_S = 2.0
"""Wall seconds from the signal to the safe state."""
MARGIN_S = 8.0
"""For a busy machine."""


def rig_time_s() -> float:
    """Now, on the clock that the rig and its witness keep."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) * SPEED


def patient(rig) -> None:
    """Doses that take most of a minute of wall time: a weak stock, and no cap in the way."""
    rig["dosing"]["ca_doser"]["effect"] = "0.0001 mM/mL"
    rig["safety"]["limits"]["ca_doser"] = {"per_dose": "200 L", "per_day": "2000 L"}


def dosing(state) -> list[dict[str, object]]:
    """Doses under way, says the simulator."""
    return [dose for dose in state["doses"] if dose["ended_s"] is None]


def resumes(stack, config, state) -> None:
    """A new process goes on with the next trial, and the ledger adds up."""
    again = stack.run(config, state, "--max-trials", 2)
    assert again.wait() == 0
    assert again.answer["trials"] == 2
    sql = "SELECT (SELECT sum(amount_micros) FROM ledger) + (SELECT total(amount_micros) FROM idle) AS amount"
    (booked,) = again.rows(sql)
    assert again.answer["spent"] == again.answer["ledger_sum"] == pytest.approx(booked["amount"] / 1e6, abs=1e-9)
    assert [r["state"] for r in again.rows("SELECT state FROM trials ORDER BY trial")] == ["ABANDONED", "RECORDED"]


def test_fault_29_sigterm_while_settling_is_safe_within_two_seconds(sim, stack, tmp_path):
    """SIGTERM in mid-trial: valves let go within 2 s of wall time, the trial is closed and charged, `run` resumes."""
    config = greenhouse(tmp_path / "rig.yaml", [("b", "nh4", "k")], settle="100 min")
    run = stack.settling(config, tmp_path / "state")
    assert set(sim.state()["plant"]["setpoints"]) == {"b", "nh4", "k"}
    told_s = rig_time_s()
    sim.fault_begins()
    run.process.send_signal(signal.SIGTERM)
    sim.wait_until_safe()
    assert run.wait() == 0
    state = sim.state()
    assert state["plant"]["setpoints"] == {}
    # one by one, or all coils of the PLC at once
    writes = [w for w in state["writes"]["plc"] if (w["function"] == 5 and w["at"] in (2, 3, 4)) or w["function"] == 15]
    let_go = [w["time_s"] for w in writes]
    assert max(let_go) > told_s
    assert (max(let_go) - told_s) / SPEED < PROMISE_S + MARGIN_S
    assert run.answer["ending"] == "abandoned"
    assert run.answer["safe_after_s"] < PROMISE_S + MARGIN_S
    assert cost(run, 1) > 0
    resumes(stack, config, tmp_path / "state")


def test_fault_29_sigterm_in_mid_dose_stops_the_pump(sim, stack, tmp_path):
    """SIGTERM in mid-dose: the pump stands within 2 s of wall time, and what it dispensed is booked."""
    config = greenhouse(tmp_path / "rig.yaml", WITH_CALCIUM[:1], edit=patient)
    run = stack.run(config, tmp_path / "state")
    run.until(lambda: dosing(sim.state()), "a dose")
    told_s = rig_time_s()
    sim.fault_begins()
    run.process.send_signal(signal.SIGTERM)
    stands = sim.wait_until_safe()
    assert (stands["time_s"] - told_s) / SPEED < PROMISE_S + MARGIN_S
    assert run.wait() == 0
    assert dosing(sim.state()) == []
    stopped = sim.state()["doses"][-1]
    assert stopped["dispensed_ml"] < stopped["target_ml"]
    (booked,) = run.rows("SELECT * FROM doses")
    assert booked["state"] in ("DONE", "UNKNOWN")
    assert booked["dispensed_ml"] >= stopped["dispensed_ml"] - 0.02
    assert because(run, 1) == "SIGTERM"


def test_fault_27_a_missing_meter_does_not_keep_valves_open_after_a_kill(sim, stack, tmp_path):
    """Killed while valves are open, and the power meter is gone at the next start: it fails, but all valves let go."""
    config = greenhouse(tmp_path / "rig.yaml", [("b", "nh4", "k")], settle="100 min")
    run = stack.settling(config, tmp_path / "state")
    run.kill()
    assert set(sim.state()["plant"]["setpoints"]) == {"b", "nh4", "k"}
    gone = {"mains": f"modbus_rtu://{tmp_path}/gone?baud=2400"}
    again = stack.run(config, tmp_path / "state", buses=gone)
    assert again.wait() == 1  # a service manager tries again: it may have been unplugged only
    assert f"{tmp_path}/gone" in again.said
    assert [record for record in again.logged(level="error") if "failed" in record] == []
    assert sim.state()["plant"]["setpoints"] == {}
    assert again.count("RUNNING") == 1


def test_fault_45_safe_in_mid_dose_stops_at_once_and_replays_nothing(sim, stack, tmp_path, golden):
    """`rigctl safe` in mid-dose: the pump stands, the trial is abandoned; the next start does not take it up again."""
    config = greenhouse(tmp_path / "rig.yaml", WITH_CALCIUM[:1], edit=patient)
    run = stack.run(config, tmp_path / "state")
    run.until(lambda: dosing(sim.state()), "a dose")
    asked = stack.rigctl("safe", "--state", tmp_path / "state", "--json")
    assert asked.wait() == 0
    golden((asked.answer["ok"], asked.answer["by"]))
    assert run.wait() == 0
    assert dosing(sim.state()) == []
    doses = sim.state()["doses"]
    assert doses[-1]["dispensed_ml"] < doses[-1]["target_ml"]
    again = stack.run(config, tmp_path / "state")
    # any later trial, in whatever state: PROPOSED itself is over in a moment
    again.until(lambda: again.rows("SELECT 1 FROM trials WHERE trial > 1"), "a trial after the abandoned one")
    assert [r["state"] for r in again.rows("SELECT state FROM trials WHERE trial = 1")] == ["ABANDONED"]
    assert len(again.rows("SELECT 1 FROM doses WHERE trial = 1")) == 1
