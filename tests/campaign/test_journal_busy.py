"""The journal's file and others: its lock is held (fault 73), it is deleted (fault 68), a call hangs (fault 74)."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing, contextmanager

import pytest

from rigctl.campaign import obstacles, safe_file
from rigctl.campaign.journal import JournalThread, database
from rigctl.campaign.trial import State
from rigctl.errors import JournalBusy, JournalUnwritable
from tests.campaign.fakes import make_spec, open_journal
from tests.campaign.records import SetClock, make_decision


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


async def test_fault_73_the_campaign_goes_safe_waits_and_goes_on(stage, monkeypatch):
    """The lock is held from the middle of a trial on: everything safe, no trial fails, and it ends as it should."""
    monkeypatch.setattr(obstacles, "RETRY_UNWRITABLE_S", 0.0)
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)
    held, seen = [], []

    def hold():
        if not held:
            held.append(locked(stage.state / "journal.sqlite"))
            held[0].__enter__()

    def look():
        if held and not seen:
            seen.append(stage.world.count("control"))
            held[0].__exit__(None, None, None)

    result = await stage.run(make_spec(max_trials=3), journal=hasty, fail={"measure": hold, "safe": look})
    assert (result.ending, result.trials, seen) == ("trials", 3, [1])
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.ABANDONED, State.RECORDED, State.RECORDED]
    assert [a.state for a in stage.alarms() if a.source == "journal"] == ["stands", "over"]


def test_fault_74_the_age_of_the_oldest_call_is_known(tmp_path):
    """Under way or waiting behind it; nothing is asked of the journal's thread, which may hang."""
    going, let_go = threading.Event(), threading.Event()
    with JournalThread(lambda: open_journal(tmp_path, SetClock())) as thread:
        assert thread.oldest_call_s() == 0.0
        thread.submit(lambda _: (going.set(), let_go.wait()))
        waits = thread.submit(lambda j: j.beat())
        assert going.wait(10.0)
        first = thread.oldest_call_s()
        assert 0.0 < first < thread.oldest_call_s()
        assert waits.cancel()  # one that will never run is not waited for
        let_go.set()
        over = threading.Event()
        thread.submit(lambda j: j.read.starts()).add_done_callback(lambda _: over.set())
        assert over.wait(10.0)
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
