import os
import sqlite3
from contextlib import closing
from random import Random

import pytest

from rigctl.campaign import safe_file
from rigctl.campaign.lock import Writer
from rigctl.campaign.safe_file import SafeFile
from rigctl.errors import JournalUnwritable
from tests.simulation.disk import Disk, SimulatedCrash

SEEDS, NIGHTLY = 25, 600


@pytest.fixture
def place(tmp_path):
    return tmp_path / "state"


def opened(path, synchronous="FULL"):
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {synchronous}")
    connection.execute("PRAGMA wal_autocheckpoint = 6")
    connection.execute("CREATE TABLE IF NOT EXISTS t (x INTEGER, filling BLOB)")
    return connection


def put(connection, number, size=1):
    connection.execute("INSERT INTO t VALUES (?, zeroblob(?))", (number, size))


def numbers(path):
    if not path.exists():
        return None
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute("PRAGMA synchronous = OFF")
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            return [number for (number,) in connection.execute("SELECT x FROM t ORDER BY x")]
        except sqlite3.DatabaseError:
            return None


def lost(place, scratch, synchronous, seed) -> int:
    """At how many operations a power loss takes something that was committed, or the file."""
    rng = Random(seed)
    disk, committed, left = Disk(rng), [], []
    disk.on_operation = lambda *_: left.append((list(committed), disk.if_power_failed()))
    with disk.installed(place), closing(opened(place / "x.sqlite", synchronous)) as connection:
        for number in range(rng.randrange(1, 5)):
            put(connection, number, rng.choice((1, 600, 9000)))
            committed.append(number)
    scratch.mkdir()
    found = {}
    for _, files in left:
        image = tuple(sorted(files.items()))
        if image not in found:
            found[image] = read(scratch, files)
    return sum(not kept(committed, found[tuple(sorted(files.items()))]) for committed, files in left)


def read(scratch, files) -> list[int] | None:
    for old in scratch.iterdir():
        old.unlink()
    for name, content in files.items():
        (scratch / name).write_bytes(content)
    return numbers(scratch / "x.sqlite")


def kept(committed, found) -> bool:
    return not committed if found is None else found in (committed, [*committed, len(committed)])


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(SEEDS), pytest.param(range(SEEDS, NIGHTLY), marks=pytest.mark.nightly)])
def test_fault_28_synced_commits_survive_a_power_loss_at_every_operation(tmp_path, seeds):
    """Whatever the disk did of the rest; a transaction under way is there whole or not at all."""
    for seed in seeds:
        assert lost(tmp_path / f"{seed}", tmp_path / f"{seed} after", "FULL", seed) == 0, seed


def test_without_syncing_commits_are_lost(tmp_path):
    """The same check finds a database whose `synchronous` is OFF, and one that syncs at checkpoints only."""
    for mode in ("OFF", "NORMAL"):
        assert any(lost(tmp_path / f"{mode}{s}", tmp_path / f"{mode}{s} after", mode, s) for s in range(10))


def test_it_knows_what_stands_in_every_file(place):
    """What it takes for the contents is, byte by byte, what the files hold."""
    disk = Disk(Random(1))
    with disk.installed(place), closing(opened(place / "x.sqlite")) as connection:
        for number in range(40):
            put(connection, number, 3000)
        connection.execute("DELETE FROM t WHERE x % 2")
        files = {n: i for n, i in disk.files.names.items() if not n.endswith("-shm")}
        assert {n: (place / n).read_bytes() for n in files} == {n: i.content for n, i in files.items()}
        assert set(disk.counts) == {"write", "sync", "truncate", "delete"}


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_it_wrote(place):
    """Without a power loss what was never synced is there for the next life; a later power loss may still take it."""
    left = {False: set(), True: set()}
    for seed in range(SEEDS):
        disk, path = Disk(Random(seed)), place / str(seed) / "x.sqlite"
        with disk.installed(path.parent):
            with closing(opened(path, "OFF")) as connection:
                put(connection, 1)
                disk.kill()
                disk.revive()
            if power_lost := bool(seed % 2):
                disk.lose_power()
                disk.revive()
            left[power_lost].add(str(numbers(path)))
    assert left[False] == {"[1]"}
    assert left[True] > left[False]


def test_a_dead_disk_takes_nothing(place):
    """Dead from the operation that was not to be: not a byte reaches the files, nor can the old life reach the new."""
    disk = Disk(Random(1))

    def crash(operation, name):
        if operation == "sync" and armed:
            raise SimulatedCrash

    armed = []
    disk.on_operation = crash
    with disk.installed(place):
        connection = opened(place / "x.sqlite")
        put(connection, 1)
        armed.append(True)
        with pytest.raises(sqlite3.OperationalError):
            put(connection, 2)
        armed.clear()
        assert disk.dead
        files = {path.name: path.read_bytes() for path in place.iterdir()}
        with pytest.raises(sqlite3.OperationalError):
            put(connection, 3)
        with pytest.raises(sqlite3.OperationalError):
            opened(place / "x.sqlite")
        with pytest.raises(JournalUnwritable):
            safe_file.write(place, word("rig"))
        assert {name: (place / name).read_bytes() for name in files} == files
        disk.revive()
        assert not (place / "safe.new").exists()  # written, but not by anybody who lived
        with pytest.raises(sqlite3.OperationalError):
            put(connection, 4)
        connection.close()
        assert numbers(place / "x.sqlite") in ([1], [1, 2])


def test_fault_32_a_full_disk_lets_nothing_grow(place, golden):
    """SQLITE_FULL, or ENOSPC for what Python writes; with room again it goes on."""
    disk = Disk(Random(1))
    with disk.installed(place), closing(opened(place / "x.sqlite")) as connection:
        put(connection, 1)
        disk.full = True
        with pytest.raises(sqlite3.OperationalError) as told:
            put(connection, 2, 50_000)
        assert told.value.sqlite_errorcode == sqlite3.SQLITE_FULL
        with golden.raises(JournalUnwritable):
            safe_file.write(place, word("rig"))
        disk.full = False
        put(connection, 3)
        assert [x for (x,) in connection.execute("SELECT x FROM t")] == [1, 3]


def test_other_files_are_left_alone(place, tmp_path):
    """A database elsewhere, or in memory, is SQLite's alone, also on a dead disk."""
    disk = Disk(Random(1))
    with disk.installed(place):
        disk.kill()
        for name in (tmp_path / "other.sqlite", ":memory:"):
            with closing(opened(name)) as connection:
                put(connection, 1)
        with (tmp_path / "other").open("w") as file:
            os.fsync(file.fileno())
    assert not disk.counts


def test_a_mistake_in_who_looks_on_is_not_swallowed(place):
    """Nothing can be raised through SQLite, so it is raised when the disk is taken out."""
    disk = Disk(Random(1))
    disk.on_operation = lambda *_: 1 // 0
    with pytest.raises(ZeroDivisionError), disk.installed(place), pytest.raises(sqlite3.OperationalError):
        opened(place / "x.sqlite")


def word(rig):
    return SafeFile(rig, True, 1.0, (), Writer(1, "1", "boot"))


def words_left(place, seed, write) -> set[str]:
    """What could be read of safe.json if the power failed at any operation of the second time it is written."""
    disk, left = Disk(Random(seed)), []
    with disk.installed(place):
        safe_file.write(place, word("old"))
        disk.on_operation = lambda *_: left.append(disk.if_power_failed())
        write(place, word("new"))
        left.append(disk.if_power_failed())
    assert len(left) > 1
    return {known(files.get("safe.json")) for files in left}


def known(content) -> str:
    names = [name for name in ("old", "new") if content and f'"rig": "{name}"'.encode() in content]
    return names[0] if names and content.endswith(b"}") else "half"


def in_place(place, content):
    """As it should not be written: over the old one."""
    (place / "safe.json").write_text('{"rig": "new"}')
    with (place / "safe.json").open("rb+") as file:
        os.fsync(file.fileno())


@pytest.mark.slow
def test_fault_28_what_may_be_driven_is_old_or_new_at_every_operation(tmp_path):
    """safe.json survives a power loss whole, and is the new one once it was written."""
    found = [words_left(tmp_path / f"{seed}", seed, safe_file.write) for seed in range(SEEDS)]
    assert set().union(*found) == {"old", "new"}


@pytest.mark.slow
def test_a_file_written_over_may_be_lost(tmp_path):
    """The same check finds a file that is not written beside the old one first."""
    found = [words_left(tmp_path / f"{seed}", seed, in_place) for seed in range(SEEDS)]
    assert "half" in set().union(*found)


@pytest.mark.slow
def test_a_name_lives_once_its_directory_is_synced(tmp_path):
    """Until then a new file may be gone, one that was renamed have its old name, and one that was deleted be back."""
    created, gone = set(), set()
    for seed in range(SEEDS):
        disk, place = Disk(Random(seed)), tmp_path / str(seed)
        place.mkdir()
        (place / "there").write_text("x")
        with disk.installed(place):
            with (place / "new").open("w") as file:
                os.fsync(file.fileno())
            (place / "there").unlink()
            left = disk.if_power_failed()
            created.add("new" in left)
            gone.add("there" not in left)
            directory = os.open(place, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
            assert set(disk.if_power_failed()) == {"new"}
    assert created == gone == {True, False}
