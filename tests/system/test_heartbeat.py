"""A dead man in the PLC: what is driven goes safe though nobody tells it to, as the simulator itself saw it."""

import os
import signal

import pytest

from tests.simulated import start_sim
from tests.system.signal_matrix import is_safe
from tests.system.stack import Stack, greenhouse, wait_until

pytestmark = pytest.mark.system

TIMEOUT_S = 4.0


@pytest.fixture
def sim(tmp_path):
    """A simulated greenhouse at the speed of real instruments."""
    handle = start_sim("greenhouse", tmp_path / "rig", speed=1.0, seed=5)
    yield handle
    handle.stop()


def test_fault_27_the_device_makes_itself_safe_when_the_process_is_killed(sim, tmp_path):
    """Killed with a valve driven, rigctl tells nobody anything; the PLC drops its outputs within its own time."""

    def edit(rig):
        rig["clock"] = {"speedup": 1}
        for device in rig["devices"].values():
            device["timeout"] = "3 s"
        rig["devices"]["b_valve"]["heartbeat"] = {"at": 100, "every_s": 1.0, "timeout_at": 101}

    stack = Stack(sim, tmp_path)
    try:
        run = stack.run(greenhouse(tmp_path / "rig.yaml", (("b",),), edit=edit), tmp_path / "state")
        run.until(lambda: sim.state()["plant"]["refill_commanded"], "something is driven")
        beats = len(written(sim, 100))
        run.until(lambda: len(written(sim, 100)) >= beats + 6, "the watchdog is fed while the trial goes on")
        assert sim.state()["watchdog"] == []
        os.kill(run.process.pid, signal.SIGKILL)
        run.process.wait()
        wait_until(lambda: is_safe(sim), "the PLC has dropped its outputs")
        (dropped_s,), last_s = sim.state()["watchdog"], written(sim, 100)[-1]["time_s"]
        assert dropped_s - last_s >= TIMEOUT_S - 0.1
        assert written(sim, 100)[-1] == sim.state()["writes"]["plc"][-1]
    finally:
        stack.end()


def written(sim, at):
    """What was written to a register of the PLC, as the simulator has it."""
    return [w for w in sim.state()["writes"]["plc"] if w["at"] == at and w["function"] in (6, 16)]
