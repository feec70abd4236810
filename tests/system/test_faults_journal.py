"""Faults of the journal: without it nothing moves, and what cannot be read is kept as it is."""

import resource
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.stack import at_s, because, fill, greenhouse, mounted, next_trial

pytestmark = pytest.mark.system


@dataclass
class Disk:
    """Where a state directory may run out of room."""

    path: Path
    fill: Callable[[], None]
    free: Callable[[], None]


@pytest.fixture
def disk(stack, tmp_path):
    """A tiny file system that can be filled; where none can be mounted, a limit on the size of the daemon's files."""
    place = tmp_path / "disk"
    place.mkdir()
    if not mounted(place):
        yield Disk(place, lambda: limit(stack, place / "state/journal.sqlite-wal"), lambda: limit(stack, None))
        return
    ballast = place / "ballast"
    yield Disk(place, lambda: fill(ballast), ballast.unlink)
    stack.end()
    subprocess.run(["umount", place], check=True)


def limit(stack, file) -> None:
    """Let the daemon's files grow no further than this one is now."""
    pid, unlimited = stack.processes[-1].process.pid, resource.RLIM_INFINITY
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (unlimited if file is None else file.stat().st_size, unlimited))


def moves(write) -> bool:
    """Whether this is more than letting something go (coils off)."""
    value = {5: write["pdu"][6:], 15: write["pdu"][12:]}.get(write["function"], "1")
    return int(value, 16) != 0


def test_fault_32_without_a_journal_nothing_is_actuated(sim, stack, tmp_path, disk):
    """The disk is full: an alarm, everything safe, no actuation until there is space; then the campaign goes on."""
    state = disk.path / "state"
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), state)
    next_trial(run, "RECORDED")
    disk.fill()
    sim.fault_begins()
    kinds = ("unwritable", "disk full")  # whoever finds it first
    run.until(lambda: any(run.alarms(kind=kind, state="stands", severity="MAJOR") for kind in kinds), "the alarm")
    waits = sim.wait_until_safe()
    (last,) = run.rows("SELECT max(trial) AS trial FROM trials WHERE state IN ('RECORDED', 'ABANDONED')")
    disk.free()
    trial = next_trial(run, "RECORDED", after=last["trial"])["trial"]
    assert len(run.alarms(kind="unwritable", state="over")) == len(run.alarms(kind="unwritable", state="stands"))
    armed_s = at_s(run, trial, "ARM")
    between = [w for w in sim.state()["writes"]["plc"] if waits["time_s"] < w["time_s"] < armed_s]
    assert [w for w in between if moves(w)] == []
    assert armed_s - waits["time_s"] > 0
    run.process.terminate()
    assert run.wait() == 0
    every = "SELECT amount_micros FROM ledger UNION ALL SELECT amount_micros FROM idle"
    (booked,) = run.rows(f"SELECT sum(amount_micros) AS amount FROM ({every})")  # noqa: S608 - two tables
    assert run.answer["spent"] == pytest.approx(booked["amount"] / 1e6, abs=1e-9)


@pytest.fixture(scope="module")
def done(shared, tmp_path_factory):
    """A campaign that has ended: its configuration and its journal."""
    config = greenhouse(tmp_path_factory.mktemp("config") / "rig.yaml")
    run = shared.run(config, shared.directory / "state", "--max-trials", 2)
    assert run.wait() == 0, run.said
    return config, (shared.directory / "state/journal.sqlite").read_bytes()


def left_alone(sim, stack, config, state):
    """Start on this state: nothing moves and no file of it changes; the process that ended."""
    journal, before = state / "journal.sqlite", sim.state()["writes"]
    found = journal.read_bytes()
    run = stack.run(config, state, "--max-trials", 3)
    run.wait()
    assert sim.state()["writes"] == before
    assert journal.read_bytes() == found
    assert sorted(p.name for p in state.iterdir()) == ["journal.sqlite", "lock"]
    return run


def test_fault_33_a_corrupt_journal_is_kept_and_nothing_moves(sim, stack, tmp_path, done):
    """A damaged journal: refuses to actuate, keeps the file byte for byte, says how to recover."""
    config, journal = done
    middle, state = len(journal) // 2, tmp_path / "state"
    state.mkdir()
    (state / "journal.sqlite").write_bytes(journal[:4096] + b"\xa5" * (middle - 4096) + journal[middle:])
    run = left_alone(sim, stack, config, state)
    assert run.process.returncode == 1
    assert run.error["kind"] == "JournalCorrupt"
    assert ".recover" in run.said


def test_fault_73_another_program_holds_the_journals_lock(sim, stack, tmp_path):
    """Longer than is waited for: an alarm, everything safe; let go, the campaign goes on and ends well.

    Whoever meets the lock first tells it: the trial, whose next word cannot be written, or between trials the watch.
    """
    state = tmp_path / "state"
    run = stack.run(greenhouse(tmp_path / "rig.yaml"), state)
    before = next_trial(run, "RECORDED")["trial"]
    with closing(sqlite3.connect(state / "journal.sqlite", isolation_level=None, timeout=25.0)) as other:
        other.execute("BEGIN IMMEDIATE")
        sim.fault_begins()
        kinds = ("unwritable", "journal")
        run.until(lambda: any(run.alarms(kind=kind, severity="MAJOR") for kind in kinds), "the alarm")
        sim.wait_until_safe()
        other.execute("ROLLBACK")
    next_trial(run, "RECORDED", after=before)
    run.process.terminate()
    assert run.wait() == 0
    failed = run.rows("SELECT trial FROM trials WHERE state = 'FAILED'")
    assert all("lock" in because(run, row["trial"]) for row in failed)


def test_fault_79_after_a_crash_a_lost_log_is_missed(sim, stack, tmp_path):
    """Killed in mid-trial, and its log deleted: refused with advice, not taken for a new campaign."""
    config, state = greenhouse(tmp_path / "rig.yaml"), tmp_path / "state"
    run = stack.run(config, state)
    next_trial(run, "RECORDED")
    run.kill()
    (state / "journal.sqlite-wal").unlink()
    left = (state / "journal.sqlite").read_bytes()
    again = stack.run(config, state)
    assert again.wait() == 1
    assert (again.error["kind"], again.error["damage"]) == ("JournalCorrupt", "no-log")
    assert "Traceback" not in again.said
    assert (state / "journal.sqlite").read_bytes() == left
    asked = stack.rigctl("status", "--state", state, "--json")
    assert asked.wait() == 0
    assert "journal.sqlite-wal" in asked.said
    third = stack.run(config, state)
    assert third.wait() == 1


def test_fault_80_a_flipped_bit_is_told_by_every_verb(sim, stack, tmp_path, done):
    """In a cost that was booked: exit 1 with the advice of a corrupt journal, no traceback, the file kept."""
    config, journal = done
    state = tmp_path / "state"
    state.mkdir()
    position = journal.rindex(b"electricity")
    flipped = journal[:position] + bytes([journal[position] ^ 4]) + journal[position + 1 :]
    (state / "journal.sqlite").write_bytes(flipped)
    verbs = ("status", "recommend", "explain", "export", "replay", "reset-trip")
    asked = [stack.rigctl(verb, "--state", state, *(["--json"] if verb != "export" else [])) for verb in verbs]
    for verb, process in zip(verbs, asked, strict=True):
        assert process.wait() == 1, verb
        assert verb == "export" or process.error["damage"] == "damaged", verb
        assert ".recover" in process.said, verb
        assert "Traceback" not in process.said, verb
    run = stack.run(config, state, "--max-trials", 3)
    assert run.wait() == 1
    assert run.error["damage"] == "damaged"
    assert (state / "journal.sqlite").read_bytes() == flipped
