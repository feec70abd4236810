"""Nothing is set by readings from before a process was stopped: at speed 1, told by a PLC that nobody here wrote."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
import yaml

from rigctl.campaign.watch import VERY_LATE_S
from tests.campaign.test_at_speed_one import PROBE, RIG, Plc
from tests.drivers.peers import foreign_plc
from tests.system.stack import SURE, WITHIN_S, Stack, because, wait_until

pytestmark = [pytest.mark.system, pytest.mark.slow]

VALVE, REFILL = 1, 5
"""Coils."""


class Board(Plc):
    """What the valve and the refill are told is kept; the answer to one read is kept back.

    That is the first read of coils after the probe was read: the look has its readings, nothing is decided yet.
    """

    def __init__(self):
        super().__init__()
        self.told: list[str] = []
        self.keep_back, self.looked = True, False
        self.kept_back, self.go_on = threading.Event(), threading.Event()

    def read_i_regs(self, address, count, srv_info):
        self.looked = self.looked or address == PROBE
        return super().read_i_regs(address, count, srv_info)

    def read_coils(self, address, count, srv_info):
        if self.keep_back and self.looked and "refilled" in self.told:
            self.keep_back = False
            self.kept_back.set()
            assert self.go_on.wait(WITHIN_S)
        return super().read_coils(address, count, srv_info)

    def write_coils(self, address, bits_l, srv_info):
        (on,) = bits_l
        if on:
            self.told.append({VALVE: "valve opened", REFILL: "refilled"}[address])
            self.looked = False
        return super().write_coils(address, bits_l, srv_info)

    def write_h_regs(self, address, words_l, srv_info):
        self.told.append("valve set")
        return super().write_h_regs(address, words_l, srv_info)


GOOD = ["refilled", "valve set", "valve opened"]
"""What a trial tells the PLC that goes on as it should."""


@pytest.fixture
def plc():
    """Stands where the PLC would, on a TCP port."""
    with foreign_plc(Board()) as handler:
        yield handler
        handler.go_on.set()


@pytest.fixture
def run(plc, tmp_path):
    """A campaign on it that looks before it decides."""
    config = yaml.safe_load(RIG.replace("PORT", str(plc.port)))
    config |= {"model": dict(SURE), "safety": {"safe_state": config["safety"]["safe_state"]}}
    config["safety"]["watch"] = {"clear_for": "1 s"}
    config["trial"]["look"] = {"for": "0.5 s", "every": "0.5 s"}
    del config["variables"]["b"]["watch_every"]
    for device in config["devices"].values():
        device["timeout"] = "60 s"  # an answer that is kept back still comes in time, however busy the machine is
    (tmp_path / "rig.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    stack, state = Stack(None, tmp_path), tmp_path / "state"
    yield stack.rigctl("run", tmp_path / "rig.yaml", "--state", state, "--json", "--max-trials", 2, state=state)
    stack.end()


def test_nothing_is_set_by_what_was_read_before_the_process_was_stopped(plc, run):
    """It stands still for longer than the watch allows itself: the trial is broken off, and the next one looks anew."""
    run.until(plc.kept_back.is_set, "the look's last answer kept back")
    os.kill(run.process.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{run.process.pid}/stat")
    wait_until(lambda: stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T", "it has stopped")
    time.sleep(VERY_LATE_S + 1.5)
    plc.go_on.set()
    os.kill(run.process.pid, signal.SIGCONT)
    assert run.wait() == 0, run.said
    assert plc.told[:2] == ["refilled", "refilled"]
    assert plc.told[-3:] == GOOD
    assert run.alarms(kind="watch very late", action="hold")
    assert because(run, 1).partition(":")[0] == "watch very late"
