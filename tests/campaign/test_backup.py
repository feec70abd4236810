"""`rigctl journal backup`: the copy is whole and good by itself, whoever writes meanwhile, or there is none."""

import os
import shutil
import sqlite3
import stat
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from rigctl.campaign.journal import backup as backing_up
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.backup import back_up, keep_newest, named
from rigctl.campaign.journal.verifying import verified
from rigctl.errors import JournalCorrupt, JournalUnwritable, UsageError
from tests.campaign.fakes import unsynced
from tests.campaign.records import begun, make_decision, record_trial


@pytest.fixture
def journal(tmp_path):
    """One with trials in it, that its process has open."""
    made = unsynced(begun(tmp_path / "state", 20))
    yield made
    made.close()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.slow
def test_a_backup_of_a_running_campaign_is_a_journal_by_itself(journal, tmp_path):
    """All that was committed, a trial under way too; only its owner may read it, and a campaign can go on from it."""
    journal.propose(make_decision(21))
    (tmp_path / "safe").mkdir()
    target = tmp_path / "safe" / "journal.sqlite"
    made = back_up(journal.path, target)
    assert (made.holds.trials, made.holds.last_event, made.holds.spent) == (21, 101, 20 * 80_000)
    assert made.size == target.stat().st_size
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert names(target.parent) == ["journal.sqlite"]
    with open_reader(target) as copy:
        assert copy.trials() == journal.read.trials()
    assert not [v for v in verified(target).violations if v.table not in ("ledger", "events")]  # records are by hand
    with closing(begun(target.parent)) as going_on:
        assert going_on.read.open_trial().trial == 21


@pytest.mark.slow
def test_whoever_writes_meanwhile_is_not_held_up_and_not_in_the_copy(journal, tmp_path, monkeypatch):
    """At every step of the copying a trial is recorded; the copy is of the instant at which it began."""
    wrote = []

    def meanwhile(_):
        record_trial(journal, 21 + len(wrote))
        wrote.append(threading.get_ident())

    monkeypatch.setattr(backing_up, "PAGES", 4)
    monkeypatch.setattr(backing_up.time, "sleep", meanwhile)
    made = back_up(journal.path, tmp_path / "copy.sqlite")
    assert len(wrote) > 5
    assert made.holds.trials == 20
    assert len(journal.read.trials()) == 20 + len(wrote)


@pytest.mark.slow
def test_nothing_is_overwritten_even_if_it_comes_in_between(journal, tmp_path, monkeypatch):
    """What has the name keeps it."""
    target = tmp_path / "copy.sqlite"
    monkeypatch.setattr(backing_up, "_verify", lambda *_: target.write_text("first"))
    for _ in range(2):
        with pytest.raises(UsageError):
            back_up(journal.path, target)
        assert target.read_text() == "first"
    assert names(tmp_path) == ["copy.sqlite", "state"]
    with pytest.raises(UsageError):
        back_up(journal.path, tmp_path / "nowhere" / "copy.sqlite")


@pytest.mark.slow
def test_where_links_are_not_to_be_had_it_is_renamed(journal, tmp_path, monkeypatch):
    """As on a memory stick; of a journal that is closed, and has no log any more."""
    journal.close()

    def no_links(*_):
        raise OSError("Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    assert back_up(journal.path, tmp_path / "copy.sqlite").holds.trials == 20
    assert names(tmp_path) == ["copy.sqlite", "state"]


@pytest.mark.slow
def test_a_copy_that_is_not_whole_is_removed(journal, tmp_path, monkeypatch):
    """A bit that flips on the way, rows that are missing, a disk that is full: no backup, and what is wrong is said."""
    copied = backing_up._copy

    def spoilt(source, passing):
        copied(source, passing)
        data = passing.read_bytes()
        passing.write_bytes(data.replace(b"its turn", b"its tuRn", 1))

    def full(*_):
        raise OSError(28, "No space left on device")

    for copy, error in ((spoilt, JournalCorrupt), (lambda *_: None, JournalCorrupt), (full, JournalUnwritable)):
        monkeypatch.setattr(backing_up, "_copy", copy)
        with pytest.raises(error):
            back_up(journal.path, tmp_path / "copy.sqlite")
    assert names(tmp_path) == ["state"]


def test_a_journal_that_has_lost_its_log_is_not_backed_up(journal, tmp_path):
    """The copy would look whole."""
    lost = tmp_path / "lost" / "journal.sqlite"
    lost.parent.mkdir()
    shutil.copy(journal.path, lost)
    with closing(sqlite3.connect(lost)) as file:
        assert file.execute("SELECT closed FROM starts").fetchall() == [(0,)]
    with pytest.raises(JournalCorrupt) as error:
        back_up(lost, tmp_path / "copy.sqlite")
    assert error.value.damage == "no-log"


@pytest.mark.slow
def test_only_the_oldest_that_are_named_by_their_time_are_removed(journal, tmp_path):
    """By their names; what a person has put beside them stays, and what cannot be read."""
    first, folder = datetime(2026, 11, 22, 14, 30, tzinfo=UTC), tmp_path / "kept"
    folder.mkdir()
    files = [named(folder, first + timedelta(hours=hours)) for hours in range(4)]
    for file in (*files, folder / "before the rebuild.sqlite"):
        back_up(journal.path, file)
    (folder / "20200101T000000Z.sqlite").write_text("x")
    assert keep_newest(files[-1], 5) == ()
    assert keep_newest(files[-1], 2) == tuple(files[:2])
    left = ["20200101T000000Z.sqlite", *(file.name for file in files[2:]), "before the rebuild.sqlite"]
    assert names(folder) == left


@pytest.mark.slow
def test_backups_of_another_campaign_in_the_same_directory_stay(journal, tmp_path):
    """Those of one that has ended, and whose only copies they are by now, among them."""
    first, other, folder = datetime(2026, 11, 22, tzinfo=UTC), tmp_path / "other", tmp_path / "kept"
    folder.mkdir()
    with closing(begun(other, wall=lambda: first)) as made:
        back_up(made.path, named(folder, first))
    for days in (1, 2, 3):
        back_up(journal.path, newest := named(folder, first + timedelta(days=days)))
    keep_newest(newest, 1)
    assert names(folder) == ["20261122T000000Z.sqlite", "20261125T000000Z.sqlite"]
