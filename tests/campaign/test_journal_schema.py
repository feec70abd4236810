"""What the journal's tables forbid, and what nobody vouches for."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.errors import JournalCorrupt
from tests.campaign.journal_page import PAGE, page
from tests.campaign.test_journal_integrity import clean, opened, written


@pytest.fixture
def path(tmp_path):
    return written(tmp_path)


def test_one_trial_at_most_is_under_way(path):
    """Any number of trials may await their outcomes beside it."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE trials SET state = 'AWAITING'")
        file.execute("UPDATE trials SET state = 'LOOKING' WHERE trial = 1")
        with pytest.raises(sqlite3.IntegrityError):
            file.execute("UPDATE trials SET state = 'RUNNING' WHERE trial = 2")


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
    with pytest.raises(JournalCorrupt), open_reader(path):
        pass
    clean(path)
    with pytest.raises(JournalCorrupt):
        opened(path.parent)
    assert path.read_bytes() == before


def test_the_page_of_the_tables_is_up_to_date():
    """docs/journal.md has every table and column; `python -m tests.campaign.journal_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
