"""What the journal's tables forbid, and what nobody vouches for."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.errors import JournalCorrupt
from tests.campaign.journal_page import PAGE, page
from tests.campaign.test_journal_integrity import clean, opened, read, written


@pytest.fixture
def path(tmp_path):
    return written(tmp_path)


def test_one_trial_at_most_is_under_way(path):
    """Any number of trials may await their outcomes beside it."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE trials SET state = 'AWAITING'")
        file.execute("UPDATE trials SET state = 'LOOKING' WHERE trial = 1")
        with pytest.raises(sqlite3.IntegrityError, match="trials_open"):
            file.execute("UPDATE trials SET state = 'RUNNING' WHERE trial = 2")


def test_what_people_did_to_instruments_stays(path):
    """No program deletes a row of it."""
    journal = opened(path.parent)
    journal.upkeep.keep("refilled", "pump", verb="refilled", who="anna", volume_ml=10.0)
    journal.close()
    with closing(sqlite3.connect(path)) as file, pytest.raises(sqlite3.IntegrityError, match="kept as they were"):
        file.execute("DELETE FROM upkeep")


@pytest.mark.parametrize("spoilt", [0, 100], ids=["whole", "without its header"])
def test_a_journal_is_recovered_with_or_without_its_header(path, tmp_path, spoilt):
    """Every row is kept."""
    tables = read(path)
    path.write_bytes(b"\0" * spoilt + path.read_bytes()[spoilt:])
    loss = recover_journal(path, tmp_path / "new", "Ada", "2026-11-22T14:30:00+00:00")
    assert [name for name, table in loss.tables.items() if table.lost] == []
    new = read(tmp_path / "new" / path.name)
    for name in ("starts", "trials", "events", "measurements", "doses"):
        assert len(new[name]) == len(tables[name]) > 0
    charged = [row for row in tables["ledger"] if row[1] != 3]  # an imported trial is charged nothing
    assert set(charged) <= set(new["ledger"])


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE trials SET proposal = 'no JSON' WHERE trial = 2",
        "UPDATE trials SET setpoints = '[1' WHERE trial = 2",
        "UPDATE trials SET state = 'RECORDEE' WHERE trial = 2",
        "UPDATE campaign SET identity = '{'",
        "UPDATE events SET event = 'x' WHERE id = 1",
    ],
)
def test_what_no_checksum_vouches_for_is_read_before_it_is_believed(path, edit):
    """After another program has changed it: refused with advice, left as it was, never a traceback."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(edit)
    before = path.read_bytes()
    with pytest.raises(JournalCorrupt, match=r"\.recover"), open_reader(path):
        pass
    clean(path)
    with pytest.raises(JournalCorrupt, match=r"\.recover"):
        opened(path.parent)
    assert path.read_bytes() == before


def test_the_page_of_the_tables_is_up_to_date():
    """docs/journal.md has every table and column; `python -m tests.campaign.journal_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
