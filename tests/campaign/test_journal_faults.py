"""What happens to the journal's file: damage, other versions, a full disk, other programs, a call that hangs."""

import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from rigctl.campaign.journal import Journal, JournalThread, database, open_reader
from rigctl.campaign.journal.database import open_for_writing
from rigctl.campaign.journal.rows import VERSION
from rigctl.campaign.lock import state_lock
from rigctl.campaign.trial import State
from rigctl.errors import JournalBusy, JournalCorrupt, JournalUnwritable, JournalVersion, UsageError
from tests.campaign.fakes import make_spec, open_journal
from tests.campaign.records import SetClock, begun, make_decision
from tests.profiles import slow_beyond


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
    slow_beyond(
        1,
        [
            lambda data: b"not a database at all, but long enough to look at",
            lambda data: b"SQLite format 3\x01" * 9,
            lambda data: data[: len(data) // 2],
            overwritten,
        ],
    ),
    ids=["garbage", "a damaged header", "truncated", "overwritten"],
)
def test_fault_33_a_damaged_file_is_kept_and_refused(closed, spoil):
    """Found before anything is written; nothing moves, and the file stays."""
    closed.write_bytes(spoil(closed.read_bytes()))
    assert refused(closed, JournalCorrupt).damage == "damaged"


def test_fault_33_another_programs_database_is_left_alone(tmp_path):
    """A sound SQLite file without our application id is refused."""
    path = tmp_path / "journal.sqlite"
    with closing(sqlite3.connect(path)) as other, other:
        other.execute("CREATE TABLE theirs (x)")
    assert refused(path, JournalCorrupt).damage == "foreign"


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


# Other programs, and a call that hangs --------------------------------------------------------------------------------


@contextmanager
def locked(path):
    """Another program in the middle of a change that it does not end."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield other
        if other.in_transaction:
            other.execute("ROLLBACK")


def hasty(directory, clock):
    """A journal that does not wait long for others."""
    journal = open_journal(directory, clock)
    journal._connection.execute("PRAGMA busy_timeout = 10")
    return journal


def test_fault_73_another_programs_lock_is_an_error_of_its_own(tmp_path):
    """Nothing is half written, the message names the file, and it goes through once the other lets go."""
    journal = hasty(tmp_path, SetClock())
    journal.begin(make_spec(), "0.0")
    assert issubclass(JournalBusy, JournalUnwritable)
    assert 1000 <= database.BUSY_MS <= 5000  # a backup's lock is waited for, and nobody's for longer than one notices
    with locked(journal.path), pytest.raises(JournalBusy):
        journal.propose(make_decision(1))
    assert journal.read.trials() == ()
    journal.propose(make_decision(1))
    journal.close()


def test_fault_74_the_age_of_the_oldest_call_is_known(tmp_path):
    """Under way or waiting behind it; nothing is asked of the journal's thread, which may hang."""
    going, let_go = threading.Event(), threading.Event()
    with JournalThread(lambda: open_journal(tmp_path, SetClock())) as thread:
        assert thread.oldest_call_s() == 0.0
        thread.submit(lambda _: (going.set(), let_go.wait()))
        waits = thread.submit(lambda j: j.beat())
        assert going.wait(120.0)
        first = thread.oldest_call_s()
        assert 0.0 < first < thread.oldest_call_s()
        assert waits.cancel()  # one that will never run is not waited for
        let_go.set()
        over = threading.Event()
        thread.submit(lambda j: j.read.starts()).add_done_callback(lambda _: over.set())
        assert over.wait(120.0)
        assert thread.oldest_call_s() == 0.0


def test_fault_68_a_journal_that_is_deleted_or_replaced_is_noticed(tmp_path):
    """Even while the journal's thread is busy."""
    with JournalThread(lambda: open_journal(tmp_path, SetClock())) as thread:
        path = tmp_path / "journal.sqlite"
        assert thread.still_there() == ""
        copy = path.read_bytes()
        path.unlink()
        deleted = thread.still_there()
        path.write_bytes(copy)
        assert deleted != thread.still_there() != ""
        assert deleted
