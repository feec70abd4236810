from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign.journal import Journal, JournalThread, open_reader
from rigctl.campaign.journal.database import open_for_writing
from rigctl.campaign.journal.rows import VERSION
from rigctl.campaign.lock import state_lock
from rigctl.campaign.trial import State
from rigctl.errors import JournalCorrupt, JournalUnwritable, JournalVersion, UsageError
from tests.campaign.records import SetClock, begun, make_decision


@pytest.fixture
def closed(tmp_path):
    """The file of a journal with twenty trials, cleanly closed."""
    journal = begun(tmp_path, 20)
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
    begun(tmp_path).close()


def fill_up(journal):
    """No page may be added any more, as on a full disk."""
    pages = journal._connection.execute("PRAGMA page_count").fetchone()[0]
    journal._connection.execute(f"PRAGMA max_page_count = {pages}")


def test_fault_32_a_full_disk_is_told_and_nothing_half_written(tmp_path):
    """A commit that does not fit raises JournalUnwritable, leaves no trace, and goes through when there is room."""
    journal = begun(tmp_path)
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
