"""Going safe needs no journal, no lock, no room on the disk, no valid configuration; and says what came of it."""

import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.system.signal_matrix import is_safe
from tests.system.stack import LOCK, PORT, Process, fill, greenhouse, mounted, stranger

pytestmark = pytest.mark.system


@pytest.fixture
def place(stack, tmp_path) -> Iterator[Path]:
    """A file system of its own for the state, where one can be mounted."""
    directory = tmp_path / "disk"
    directory.mkdir()
    if not mounted(directory):
        pytest.skip("takes root, and a system that lets it mount")
    yield directory
    stack.end()
    subprocess.run(["umount", directory], check=True)


def crashed(sim, stack, config, state) -> None:
    """A campaign died in mid-trial and left its valves on."""
    stack.settling(config, state).kill()
    assert not is_safe(sim)


def given_up(safe: Process) -> int:
    """End it by a signal once it has said what is not safe; its exit code."""
    safe.until(lambda: safe.said, "its word")
    safe.process.terminate()
    return safe.wait()


@pytest.fixture
def config(tmp_path) -> Path:
    return greenhouse(tmp_path / "rig.yaml", [("b", "nh4", "k")], settle="10000 min")


# the start after a crash --------------------------------------------------------------------------------------------


def corrupt(state: Path, config: Path) -> None:
    (state / "journal.sqlite-wal").unlink(missing_ok=True)
    with (state / "journal.sqlite").open("r+b") as file:
        file.write(b"X" * 16)


def newer(state: Path, config: Path) -> None:
    with closing(sqlite3.connect(state / "journal.sqlite")) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA user_version = 99")


def typo(state: Path, config: Path) -> None:
    config.write_text(config.read_text(encoding="utf-8") + "budgett: [5 EUR\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "code", "told"), [(corrupt, 1, "JournalCorrupt"), (newer, 4, "JournalVersion"), (typo, 2, "ConfigError")]
)
def test_fault_56_safe_first_then_the_refusal(
    sim, stack, tmp_path, config, spoil: Callable[[Path, Path], None], code, told
):
    """After a crash nothing keeps a start from going safe: not the journal, not the configuration."""
    crashed(sim, stack, config, tmp_path / "state")
    spoil(tmp_path / "state", config)
    journal = (tmp_path / "state/journal.sqlite").read_bytes()
    run = stack.run(config, tmp_path / "state")
    assert run.wait() == code
    assert (tmp_path / "state/journal.sqlite").read_bytes() == journal
    assert run.error["kind"] == told
    assert run.logged(level="warning", ok=True)
    assert is_safe(sim)


def read_only(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", place], check=True)


def full(place: Path) -> None:
    fill(place / "ballast")


@pytest.mark.parametrize("spoil", [read_only, full])
def test_fault_56_safe_first_where_nothing_can_be_written(sim, stack, place, config, spoil):
    """On a read-only or full file system a start after a crash goes safe, then refuses."""
    crashed(sim, stack, config, place / "state")
    spoil(place)
    run = stack.run(config, place / "state")
    assert run.wait() == 1
    assert run.logged(level="warning", ok=True)
    assert is_safe(sim)


def test_fault_56_a_strangers_lock_does_not_keep_a_start_from_going_safe(sim, stack, tmp_path, config):
    """The refusal names who holds the lock, after everything is safe."""
    crashed(sim, stack, config, tmp_path / "state")
    with stranger(LOCK, tmp_path / "state/lock") as holder:
        run = stack.run(config, tmp_path / "state")
        assert run.wait() == 4
    assert run.error["kind"] == "Locked"
    assert str(holder.pid) in run.error["what"]
    assert is_safe(sim)


# rigctl safe --------------------------------------------------------------------------------------------------------


def test_fault_57_safe_on_a_read_only_file_system(sim, stack, place, config):
    """`rigctl safe` writes nothing, and exits by what it has confirmed."""
    crashed(sim, stack, config, place / "state")
    read_only(place)
    safe = stack.rigctl("safe", "--state", place / "state", "--json")
    assert safe.wait() == 0, safe.said
    assert set(safe.answer["reached"]) >= {"b_valve", "ca_doser"}
    assert is_safe(sim)


def test_fault_57_safe_while_a_stranger_holds_the_lock(sim, stack, tmp_path, config):
    """`rigctl safe` takes no lock."""
    crashed(sim, stack, config, tmp_path / "state")
    with stranger(LOCK, tmp_path / "state/lock"):
        safe = stack.rigctl("safe", "--state", tmp_path / "state", "--json")
        assert safe.wait() == 0, safe.said
    assert is_safe(sim)


def test_safe_by_what_was_last_driven_where_the_configuration_is_broken(sim, stack, tmp_path, config):
    """Neither a typo nor other URLs in the configuration keep `rigctl safe` from what was last driven."""
    crashed(sim, stack, config, tmp_path / "state")
    typo(tmp_path / "state", config)
    safe = stack.rigctl("safe", config, "--state", tmp_path / "state", "--json")
    assert safe.wait() == 0, safe.said
    assert len(safe.answer["notes"]) == 1
    assert str(config) in safe.answer["notes"][0]
    assert is_safe(sim)


def test_safe_also_drives_what_the_configuration_no_longer_names(sim, stack, tmp_path, config):
    """A configuration whose ports are others does not hide where the valves are that were left on."""
    crashed(sim, stack, config, tmp_path / "state")
    safe = stack.rigctl("safe", config, "--state", tmp_path / "state", "--json")  # without --bus: other URLs
    assert given_up(safe) == 1
    assert [name for name in safe.answer["reached"] if name.startswith("b_valve (")]
    assert "b_valve" in safe.answer["failed"]
    assert is_safe(sim)


def test_safe_names_who_holds_a_port(sim, stack, tmp_path, config):
    """A pump on a port that another process holds is not confirmed: exit 1, port and holder named; the rest is safe."""
    crashed(sim, stack, config, tmp_path / "state")
    with stranger(PORT, sim.path("ca")) as holder:
        safe = stack.rigctl("safe", "--state", tmp_path / "state", "--json")
        assert given_up(safe) == 1
    assert list(safe.answer["failed"]) == ["ca_doser"]
    assert str(holder.pid) in safe.answer["failed"]["ca_doser"]
    assert is_safe(sim)


def test_fault_58_safe_waits_for_the_campaigns_report(sim, stack, tmp_path, config, golden):
    """A live campaign whose actuators do not confirm: exit 1 and their names, once the campaign has tried."""
    run = stack.settling(config, tmp_path / "state")
    sim.control({"fault": "drop_reply", "bus": "plc", "count": -1})
    safe = stack.rigctl("safe", "--state", tmp_path / "state", "--json")
    assert safe.wait() == 1
    golden(safe.answer["by"])
    assert set(safe.answer["failed"]) >= {"b_valve", "nh4_valve", "k_valve"}
    assert run.alive
    sim.control({"clear": True})
    assert run.wait() == 0
    assert is_safe(sim)
