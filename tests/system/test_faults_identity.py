"""The right device, and only we: instruments that changed places, and two campaigns on one bus."""

from contextlib import closing
from dataclasses import replace

import pytest

from rigctl.campaign.journal import Journal
from rigctl.campaign.lock import state_lock
from rigctl.rig.clocks import RealClock, boot_id
from tests.simulated import start_sim
from tests.system.stack import SPEED, WITH_CALCIUM, greenhouse, next_trial, rows

pytestmark = pytest.mark.system


def ended(stack, config, state, **changes):
    """A campaign of one more trial, which ends by itself."""
    run = stack.run(config, state, "--max-trials", len(rows(state, "SELECT 1 FROM trials")) + 1, **changes)
    run.wait()
    return run


def pinned_as(state, name, serial):
    """The journal believes that this device had another number."""
    with state_lock(state), closing(Journal(state, RealClock(SPEED), boot_id())) as journal:
        pin = journal.read.pins.by_device()[name]
        journal.pins.keep([replace(pin, serial=serial)])


def left_safe(stack, config, state):
    """Run until a campaign ends with everything confirmed; on a busy machine an answer may come too late for it."""
    for _ in range(5):
        assert ended(stack, config, state).process.returncode == 0
        if rows(state, "SELECT safe FROM starts ORDER BY id DESC LIMIT 1")[0]["safe"]:
            return
    raise AssertionError("no campaign ended with everything confirmed to be safe")


def test_fault_65_pumps_that_swapped_ports_dose_nothing(sim, stack, tmp_path):
    """Each is another than the one pinned at its first start: refused, and neither a dose nor a command goes out."""
    config, state = greenhouse(tmp_path / "rig.yaml", WITH_CALCIUM), tmp_path / "state"
    left_safe(stack, config, state)
    names = {r["device"]: r["serial"] for r in rows(state, "SELECT device, serial FROM pins")}
    assert names["ca_doser"] != names["ph_doser"]
    before = sim.state()
    swapped = {"ca": sim.buses["acid"], "acid": sim.buses["ca"]}
    run = ended(stack, config, state, buses=swapped)
    assert run.process.returncode == 1
    assert (run.error["kind"], run.error["devices"]) == ("IdentityMismatch", ["ca_doser", "ph_doser"])
    assert "device accept" in run.error["what"]
    after = sim.state()
    assert (after["doses"], after["writes"]) == (before["doses"], before["writes"])
    assert ended(stack, config, state).process.returncode == 0


def test_fault_18_an_exchanged_instrument_is_refused_until_a_person_accepts_it(sim, stack, tmp_path):
    """Another number answers: nothing is written; `accept-device` asks who it is, keeps who said so, and it goes on."""
    config, state = greenhouse(tmp_path / "rig.yaml"), tmp_path / "state"
    left_safe(stack, config, state)
    pinned_as(state, "camera", "SN-OLD")
    before = sim.state()["writes"]
    refused = ended(stack, config, state)
    assert refused.process.returncode == 1
    assert (refused.error["kind"], refused.error["devices"]) == ("IdentityMismatch", ["camera"])
    assert "SN-OLD" in refused.error["what"]
    assert sim.state()["writes"] == before, refused.said
    bus = ("--bus", f"cam={sim.buses['cam']}")
    accepted = stack.rigctl("accept-device", config, "camera", "--state", state, *bus, "--json")
    assert accepted.wait() == 0, accepted.said
    answer = accepted.answer
    assert "SN-OLD" in answer["was"]
    assert answer["is"] != answer["was"]
    (kept,) = rows(state, "SELECT * FROM pins WHERE accepted")
    assert (kept["device"], kept["who"]) == ("camera", answer["by"])
    assert "uid" in kept["who"]
    assert ended(stack, config, state).process.returncode == 0


def test_fault_67_two_campaigns_on_one_server_are_refused(sim, stack, tmp_path):
    """Other state directories, other instruments, the same PLC under another name: exit 4, naming the first."""
    config = greenhouse(tmp_path / "rig.yaml")
    first = stack.run(config, tmp_path / "first")
    next_trial(first, "RECORDED")
    other = start_sim("greenhouse", tmp_path, speed=SPEED, seed=6)
    try:
        writes = len(other.state()["writes"]["plc"])
        plc = sim.buses["plc"].replace("127.0.0.1", "localhost")
        second = stack.run(config, tmp_path / "second", buses={**other.buses, "plc": plc})
        assert second.wait() == 4
        assert second.error["kind"] == "Locked"
        for named in (plc, f"pid {first.process.pid}", str((tmp_path / "first").resolve())):
            assert named in second.error["what"]
        assert rows(tmp_path / "second", "SELECT 1 FROM trials") == []
        assert len(other.state()["writes"]["plc"]) == writes
        next_trial(first, "RECORDED")
        first.kill()
        third = stack.run(config, tmp_path / "second", buses={**other.buses, "plc": plc})
        next_trial(third, "RECORDED")
    finally:
        stack.end()
        other.stop()
