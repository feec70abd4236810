"""A process that dies again and again: what it left is made safe at once, and in the end a person is waited for."""

import pytest

from tests.system.stack import greenhouse

pytestmark = pytest.mark.system


def impatient(rig):
    rig["safety"]["starts"] = {"at_most": 1}  # two more lives would show nothing else


def test_fault_31_a_boot_loop_holds_safe_until_a_person_says_go_on(sim, stack, tmp_path):
    """Killed with its valves open, made safe as its service does; the next start moves nothing until `resume`."""
    config = greenhouse(tmp_path / "rig.yaml", [("b", "nh4", "k")], settle="10000 min", edit=impatient)
    state = tmp_path / "state"
    run = stack.settling(config, state)
    assert {
        path.name: path.stat().st_mode & 0o77 for path in (state, *state.iterdir()) if path.stat().st_mode & 0o77
    } == {}
    run.kill()
    assert set(sim.state()["plant"]["setpoints"]) == {"b", "nh4", "k"}
    assert stack.rigctl("safe", "--if-left-driven", "--state", state, "--json").wait() == 0
    assert sim.state()["plant"]["setpoints"] == {}
    held = stack.run(config, state)
    held.until(lambda: "PAUSED" in held.phases(), "a campaign that is held")
    (told,) = held.alarms(kind="bad starts", severity="MAJOR")
    assert "`rigctl resume`" in told["message"]
    assert (sim.state()["plant"]["setpoints"], held.count("RUNNING"), held.count("LOST")) == ({}, 0, 1)
    assert stack.rigctl("resume", "--state", state, "--why", "a loose plug", "--json").wait() == 0
    held.until(lambda: held.count("RUNNING"), "a trial after a person's word")
    assert set(sim.state()["plant"]["setpoints"]) == {"b", "nh4", "k"}
