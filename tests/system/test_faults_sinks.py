"""Who watches a campaign stalls, or goes away: messages are lost, nothing else (faults 46, 59)."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from tests.forked import BEFORE, Forked, take_terminal, take_terminal_under_nohup
from tests.profiles import nightly_beyond
from tests.system.signal_matrix import is_safe
from tests.system.stack import Process, greenhouse, wait_until

pytestmark = pytest.mark.system


@contextmanager
def stalled() -> Iterator[int]:
    """A pipe that is full and that nobody reads: the end to write to."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x")
    os.set_blocking(writing, True)
    try:
        yield writing
    finally:
        for end in (reading, writing):
            with suppress(OSError):
                os.close(end)


@pytest.fixture
def start(sim, stack, tmp_path):
    """Starts a campaign with these streams; ended with the stack."""

    def started(*arguments: object, **streams) -> Process:
        config = greenhouse(tmp_path / "rig.yaml")
        command = [
            sys.executable,
            "-m",
            "rigctl",
            "run",
            config,
            "--state",
            tmp_path / "state",
            *sim.options,
            *arguments,
        ]
        begin = Forked if streams.get("preexec_fn") in {None, *BEFORE.values()} else subprocess.Popen
        process = begin([*map(str, command)], stdin=subprocess.DEVNULL, cwd=tmp_path, **streams)
        stack.processes.append(Process(process, tmp_path / "out.json", tmp_path / "err.jsonl", tmp_path / "state"))
        (tmp_path / "err.jsonl").touch()
        return stack.processes[-1]

    return started


@pytest.mark.parametrize("both", nightly_beyond(1, [True, False]))
def test_fault_59_nobody_reads_what_the_campaign_says(sim, stack, tmp_path, start, both):
    """A full pipe on standard error (and output): trials go on, alarms are kept, `safe` and SIGTERM work, exit 0."""
    with stalled() as full, (tmp_path / "out.json").open("wb") as out:
        run = start("--json", stderr=full, stdout=full if both else out)
        run.until(lambda: run.count("RECORDED") > 1, "trials")
        sim.control({"fault": "sensor", "name": "b_probe", "mode": "nan"})
        run.until(lambda: run.rows("SELECT 1 FROM alarms"), "an alarm in the journal")
        sim.control({"clear": True})
        safe = stack.rigctl("safe", "--state", tmp_path / "state", "--json")
        assert safe.wait() == 0, safe.said
        assert run.wait() == 0
    assert is_safe(sim)
    if not both:
        assert run.answer["ending"] == "abandoned"


def test_fault_59_who_read_has_gone_away(sim, start):
    """Broken pipes on both streams: the campaign runs to its end and its exit code stays."""
    reading, writing = os.pipe()
    run = start("--max-trials", 2, stderr=writing, stdout=writing)
    os.close(writing)
    os.close(reading)
    assert run.wait() == 0
    assert run.count("RECORDED") == 2
    assert is_safe(sim)


def test_fault_59_streams_that_were_closed_before_the_start(sim, start):
    """Neither standard output nor error: as with both."""

    def close() -> None:
        os.close(1)
        os.close(2)

    run = start("--max-trials", 2, preexec_fn=close)
    assert run.wait() == 0
    assert run.count("RECORDED") == 2
    assert is_safe(sim)


def at_terminal(start, terminal: int, *arguments: object, nohup: bool = False) -> Process:
    """A campaign whose controlling terminal this is."""
    take = take_terminal_under_nohup if nohup else take_terminal
    return start(*arguments, stdout=terminal, stderr=terminal, preexec_fn=take)


def test_fault_59_a_terminal_that_is_stopped(sim, tmp_path, start):
    """At a terminal that takes nothing more the campaign goes on, and SIGTERM ends it, safe, exit 0."""
    ours, theirs = pty.openpty()
    try:
        run = at_terminal(start, theirs)  # its buffer is full after some screens, for nobody reads `ours`
        run.until(lambda: run.count("RECORDED") > 8, "trials")
        run.process.terminate()
        assert run.wait() == 0
    finally:
        os.close(ours)
        os.close(theirs)
    assert is_safe(sim)


def test_fault_54_a_terminal_that_is_closed(sim, start):
    """Closing the terminal ends the campaign as SIGTERM does: the trial closed and charged, all safe, exit 0."""
    ours, theirs = pty.openpty()
    run = at_terminal(start, theirs)
    os.close(theirs)
    run.until(lambda: run.count("RECORDED"), "a trial")
    os.close(ours)
    assert run.wait() == 0
    assert [r["ended"] for r in run.rows("SELECT ended FROM starts")] == ["abandoned"]
    assert is_safe(sim)


def test_fault_54_a_hangup_that_was_ignored_stays_ignored(sim, start):
    """Under nohup a closed terminal does nothing: the campaign runs to its end."""
    ours, theirs = pty.openpty()
    run = at_terminal(start, theirs, "--max-trials", 4, nohup=True)
    os.close(theirs)
    run.until(lambda: run.count("RECORDED"), "a trial")
    os.close(ours)
    assert run.wait() == 0
    assert run.count("RECORDED") == 4


@pytest.mark.parametrize(("name", "code"), nightly_beyond(1, [("SIGHUP", 0), ("SIGINT", 130)], several=True))
def test_a_demo_that_is_ended_leaves_no_process_behind(tmp_path, name, code):
    """A closed terminal or Ctrl-C, at whatever moment: the simulated rig is stopped too."""
    command = [sys.executable, "-m", "rigctl", "demo", "--keep", str(tmp_path)]
    demo = Forked(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def simulated() -> list[psutil.Process]:
        return [p for p in psutil.Process(demo.pid).children() if "sim_rig" in " ".join(p.cmdline())]

    rig = wait_until(simulated, "the simulated rig")
    demo.send_signal(signal.Signals[name])
    assert demo.wait() == code
    assert not any(p.is_running() for p in rig)
