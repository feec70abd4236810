"""Nothing is set by readings that have grown old: real processes at speed 1, told by a PLC that nobody here wrote."""

import os
import signal
import textwrap
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
SLEPT = '''
    """The time since boot of a machine that has slept, if a file says how long; the other clocks know nothing of it."""
    import os
    import time

    honest = time.clock_gettime

    def clock_gettime(clock):
        slept = "SLEPT" in os.environ and clock == time.CLOCK_BOOTTIME and os.path.exists(os.environ["SLEPT"])
        return honest(clock) + (float(open(os.environ["SLEPT"]).read()) if slept else 0.0)

    time.clock_gettime = clock_gettime
'''


class Board(Plc):
    """What the valve and the refill are told is kept; the answer to one read is kept back when the test asks for that.

    It is the first read of coils after the probe was read: the look has its readings, nothing is decided yet.
    """

    def __init__(self):
        super().__init__()
        self.told: list[str] = []
        self.keep_back = self.looked = False
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
def bench(plc, tmp_path):
    """Starts rigctl on it, where the machine's sleep is known by the file `slept`."""
    config = yaml.safe_load(RIG.replace("PORT", str(plc.port)))
    config |= {"model": dict(SURE), "safety": {"safe_state": config["safety"]["safe_state"]}}
    config["safety"]["watch"] = {"clear_for": "1 s"}
    config["trial"]["look"] = {"for": "0.5 s", "every": "0.5 s"}
    del config["variables"]["b"]["watch_every"]
    for device in config["devices"].values():
        device["timeout"] = "60 s"  # an answer that is kept back still comes in time, however busy the machine is
    (tmp_path / "rig.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (tmp_path / "sitecustomize.py").write_text(textwrap.dedent(SLEPT), encoding="utf-8")
    stack = Stack(None, tmp_path)

    def start(verb, *arguments):
        environment = {"PYTHONPATH": str(tmp_path), "SLEPT": str(tmp_path / "slept")}
        options = ("--state", tmp_path / "state", "--json", *arguments)
        return stack.rigctl(verb, tmp_path / "rig.yaml", *options, state=tmp_path / "state", **environment)

    yield start
    stack.end()


def stopped(run):
    """Stop the process, and return when none of it runs any more."""
    os.kill(run.process.pid, signal.SIGSTOP)
    stat = Path(f"/proc/{run.process.pid}/stat")
    wait_until(lambda: stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T", "it has stopped")


def go_on(run, plc):
    """Let the answer come that was kept back, then let the process go on."""
    plc.go_on.set()
    os.kill(run.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("verb", ["run", "operate"])
def test_nothing_is_set_by_what_was_read_before_the_machine_slept(plc, bench, tmp_path, verb):
    """Half an hour passes between look and decision: the PLC is told nothing, and prepares anew for another look."""
    if verb == "operate":
        first = bench("run", "--max-trials", 1)
        assert first.wait() == 0, first.said
        assert plc.told == GOOD
        plc.told.clear()
    plc.keep_back = True
    run = bench(verb, "--max-trials" if verb == "run" else "--batches", 2)
    run.until(plc.kept_back.is_set, "the look's last answer kept back")
    stopped(run)
    (tmp_path / "slept").write_text("1800", encoding="ascii")
    go_on(run, plc)
    assert run.wait() == 0, run.said
    assert plc.told[:2] == ["refilled", "refilled"]
    assert plc.told[-3:] == GOOD
    given_up = 1 if verb == "run" else 2
    (state,) = run.rows("SELECT state FROM trials WHERE trial = ?", given_up)
    assert (state["state"], "30 min" in because(run, given_up)) == ("ABANDONED", True)


def test_nothing_is_set_by_what_was_read_before_the_process_was_stopped(plc, bench):
    """It stands still for longer than the watch allows itself: the trial is broken off, and the next one looks anew."""
    plc.keep_back = True
    run = bench("run", "--max-trials", 2)
    run.until(plc.kept_back.is_set, "the look's last answer kept back")
    stopped(run)
    time.sleep(VERY_LATE_S + 1.5)
    go_on(run, plc)
    assert run.wait() == 0, run.said
    assert plc.told[:2] == ["refilled", "refilled"]
    assert plc.told[-3:] == GOOD
    assert run.alarms(kind="watch very late", action="hold")
    assert because(run, 1).partition(":")[0] == "watch very late"
