from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign.journal import Journal, JournalThread, open_reader
from rigctl.campaign.journal.database import open_for_writing
from rigctl.campaign.journal.rows import VERSION
from rigctl.campaign.lock import state_lock
from rigctl.campaign.trial import Event, State
from rigctl.errors import JournalCorrupt, JournalUnwritable, JournalVersion, UsageError
from tests.campaign.fakes import make_spec
from tests.campaign.records import STEPS, SetClock, make_decision, record_trial


@pytest.fixture
def closed(tmp_path):
    """The file of a journal with twenty trials, cleanly closed."""
    journal = Journal(tmp_path, SetClock(), "boot-1")
    journal.begin(make_spec(), "0.0")
    for trial in range(1, 21):
        record_trial(journal, trial)
    journal.close()
    return journal.path


def refused(path, error):
    """Opening it to write and to read both raise `error`, and the file stays as it is; returns it."""
    before = contents(path)
    with pytest.raises(error) as writing:
        open_for_writing(path)
    assert contents(path) == before
    with pytest.raises(error), open_reader(path) as reader:
        reader.trials(), reader.events(), reader.ledger()
    assert path.read_bytes() == before[path.name]
    return writing.value


def contents(path):
    return {p.name: p.read_bytes() for p in path.parent.iterdir()}


def overwritten(data):
    """Pages in the middle are."""
    page, spoilt = int.from_bytes(data[16:18], "big"), bytearray(data)
    for start in range(page * 3, len(data), page * 2):
        spoilt[start : start + 64] = b"\xff" * 64
    return spoilt


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"not a database at all, but long enough to look at",
        lambda data: b"SQLite format 3\x01" * 9,
        lambda data: data[: len(data) // 2],
        overwritten,
    ],
    ids=["garbage", "a damaged header", "truncated", "overwritten"],
)
def test_fault_33_a_damaged_file_is_kept_and_refused(closed, spoil):
    """Found before anything is written; nothing moves, and the file stays."""
    closed.write_bytes(spoil(closed.read_bytes()))
    assert refused(closed, JournalCorrupt).kind == "damaged"


def test_fault_33_another_programs_database_is_left_alone(tmp_path):
    """A sound SQLite file without our application id is refused."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (x)")
    assert refused(path, JournalCorrupt).kind == "foreign"


@pytest.mark.parametrize("version", [VERSION + 1, VERSION - 1])
def test_fault_34_a_journal_of_another_version_is_refused(closed, version):
    """A file of a newer or an older version, sealed by who wrote it, is not touched."""
    with closing(sqlite3.connect(closed)) as file, file:
        assert file.execute("PRAGMA application_id").fetchone() == (int.from_bytes(b"RIGC"),)
        file.execute("UPDATE seals SET digest = ? WHERE name = 'user_version'", (version,))
        file.execute(f"PRAGMA user_version = {version}")
    error = refused(closed, JournalVersion)
    assert (error.found, error.known) == (version, VERSION)


def test_a_file_whose_first_transaction_never_ended_is_started_again(tmp_path):
    """An empty file (killed while it was created) becomes a journal."""
    (tmp_path / "journal.sqlite").touch()
    with pytest.raises(UsageError), open_reader(tmp_path):
        pass
    journal = Journal(tmp_path, SetClock(), "boot-1")
    journal.begin(make_spec(), "0.0")
    journal.close()


def fill_up(journal):
    """No page may be added any more, as on a full disk."""
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_fault_32_a_full_disk_is_told_and_nothing_half_written(tmp_path):
    """A commit that does not fit raises JournalUnwritable, leaves no trace, and goes through when there is room."""
    journal = Journal(tmp_path, SetClock(), "boot-1")
    journal.begin(make_spec(), "0.0")
    fill_up(journal)
    with pytest.raises(JournalUnwritable):
        journal.propose(make_decision(1, note="x" * 100_000))
    assert journal.read.trials() == ()
    journal._connection.execute("PRAGMA max_page_count = 100000")
    journal.propose(make_decision(1, note="x" * 100_000))
    assert [row.state for row in journal.read.trials()] == [State.PROPOSED]
    journal.close()


def test_fault_32_a_state_directory_that_cannot_be_made_is_told(tmp_path):
    """A file where the directory should be."""
    (tmp_path / "file").touch()
    with pytest.raises(JournalUnwritable), state_lock(tmp_path / "file" / "state"):
        pass


async def test_errors_come_out_of_the_journals_thread_as_ours(tmp_path):
    """SQLite's errors are translated for reads too, and the thread goes on."""
    with JournalThread(lambda: Journal(tmp_path, SetClock(), "boot-1")) as thread:
        with pytest.raises(JournalCorrupt):
            await thread.call(lambda _: (_ for _ in ()).throw(damaged()))
        assert await thread.call(lambda j: j.read.trials()) == ()


def damaged():
    error = sqlite3.DatabaseError("malformed")
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


# Power loss ---------------------------------------------------------------------------------------------------------


def power_lost(path, target, committed_bytes, tail):
    """A copy of the files in which only what was synced is sure, and `tail` is what became of the rest of the log."""
    target.mkdir()
    wal = path.with_name(path.name + "-wal")
    shutil.copy(path, target / path.name)
    (target / wal.name).write_bytes(wal.read_bytes()[:committed_bytes] + tail)
    return target


@pytest.mark.parametrize("unsynced", ["dropped", "half", "zeros", "noise"])
def test_fault_28_after_a_power_loss_everything_committed_is_there(tmp_path, unsynced):
    """Whatever became of the bytes after the last commit, the journal opens and has exactly what was committed."""
    (tmp_path / "live").mkdir()
    journal = Journal(tmp_path / "live", SetClock(), "boot-1")
    journal.begin(make_spec(), "0.0")
    wal = journal.path.with_name(journal.path.name + "-wal")
    for trial, events in ((1, list(STEPS)), (2, [Event.PROPOSE, Event.ARM])):
        for event in events:
            STEPS[event](journal, trial)
    dose = journal.doses.intend("pump", 10.0, 0.0)
    committed, state = wal.stat().st_size, list(journal._connection.iterdump())
    STEPS[Event.RUN](journal, 2)
    journal.doses.settle(dose, "DONE", 10.0, "")
    rest = wal.read_bytes()[committed:]
    tail = {
        "dropped": b"",
        "half": rest[: len(rest) // 3],
        "zeros": bytes(len(rest)),
        "noise": bytes(reversed(rest)),
    }[unsynced]
    journal_after = Journal(power_lost(journal.path, tmp_path / "after", committed, tail), SetClock(), "boot-2")
    assert list(journal_after._connection.iterdump()) == state
    assert journal_after.read.campaign().spent == 80_000
    assert journal_after.doses.given_ml(["pump"], -1e9) == 10.0
    journal_after.close()
    journal.close()
