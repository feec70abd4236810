"""A campaign that waits: for a sensor that moves again, for a cap's window, for a service manager that has ended it."""

import signal
import socket

import pytest

from tests.system.stack import WITH_CALCIUM, WITHIN_S, because, greenhouse, next_trial, wait_until

pytestmark = pytest.mark.system

WINDOW_S = 300.0
"""Wall seconds that 24 hours of rig time may take at most, with what is around them, on a loaded machine."""


def starved(manager):
    """Wait until nothing has come from the daemon for three of its periods."""
    manager.settimeout(3.0)
    try:
        while manager.recv(64):
            pass
    except TimeoutError:
        return


def test_fault_64_a_frozen_outcome_is_no_result(sim, stack, tmp_path):
    """The camera says the same to the last digit while all else changes: FAILED, alarm, hold, until it moves again."""
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), tmp_path / "state")
    sim.control({"fault": "sensor", "name": "camera", "mode": "frozen"})
    failed = next_trial(run, "FAILED")["trial"]
    assert "frozen" in because(run, failed)
    run.until(lambda: "HOLDING" in run.phases(), "a hold")
    assert run.alarms(kind="missing", source="growth", severity="MAJOR", state="stands")
    known = len(run.rows("SELECT 1 FROM trials WHERE state = 'RECORDED'"))
    assert known <= failed
    sim.control({"clear": True})
    assert next_trial(run, "RECORDED", after=failed)["trial"] > failed


def test_fault_72_a_daily_cap_is_waited_out(sim, stack, tmp_path):
    """With the cap reached the campaign says until when it waits, nothing fails, and then it goes on."""

    def capped(rig):
        rig["safety"]["limits"]["ca_doser"] = {"per_dose": "120 mL", "per_day": "120 mL"}

    run = stack.run(greenhouse(tmp_path / "rig.yaml", WITH_CALCIUM, edit=capped), tmp_path / "state")
    run.until(lambda: "WAITING" in run.phases(), "the wait")
    (row, *_) = run.rows("SELECT * FROM phases WHERE phase = 'WAITING'")
    assert "120 mL" in row["why"]
    assert 0 < row["until_s"] - row["at_s"] <= 86400
    assert sim.state()["plant"]["setpoints"] == {}
    done = len(run.rows("SELECT 1 FROM trials WHERE state = 'RECORDED'"))
    wait_until(
        lambda: len(run.rows("SELECT 1 FROM trials WHERE state = 'RECORDED'")) > done, "the next trial", WINDOW_S
    )
    assert run.count("FAILED") == 0


def test_fault_30_a_campaign_that_hangs_is_ended_by_its_watchdog_and_made_safe_by_the_next_start(sim, stack, tmp_path):
    """The watchdog is fed by looks alone: stopped, it starves; after the service manager's kill a start makes safe."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(WITHIN_S)
        config = greenhouse(tmp_path / "rig.yaml", settle="100 min")
        run = stack.settling(config, tmp_path / "state", NOTIFY_SOCKET=str(tmp_path / "notify"))
        while manager.recv(64) != b"WATCHDOG=1":
            pass
        run.process.send_signal(signal.SIGSTOP)
        starved(manager)
        run.kill()
    assert sim.state()["plant"]["setpoints"] != {}
    sim.fault_begins()
    again = stack.run(config, tmp_path / "state")
    sim.wait_until_safe()
    assert again.until(lambda: again.count("LOST"), "the lost trial closed") == 1
