"""Journals of older versions are read as they are, and taken over when they are written."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import chain

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.database import open_for_reading
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.journal.schema import (
    APPLICATION_ID,
    MIGRATIONS,
    SEALED_TABLES,
    VERSION,
    has_table,
    lay_out,
    sealed_tables,
)
from rigctl.campaign.journal.seals import seal, unsealed
from rigctl.errors import JournalCorrupt
from rigctl.rig.abilities import Calibration
from tests.campaign.journal_page import PAGE, page
from tests.campaign.test_journal_integrity import clean, opened, read, write_something


@pytest.fixture
def path(tmp_path):
    """A journal with a little of everything, closed in good order."""
    journal = opened(tmp_path)
    write_something(journal)
    journal.close()
    return journal.path


def first_version(path, edit="SELECT 1"):
    """The same journal as the first version of rigctl would have left it, edited."""
    return of_version(path, 1, SEALED_TABLES[:11], edit)


def of_version(path, version, names, edit="SELECT 1"):
    tables, old = read(path), path.with_name("old")
    with closing(sqlite3.connect(old)) as file, file:
        file.execute("PRAGMA journal_mode = WAL")
        for statement in chain(*MIGRATIONS[:version]):
            file.execute(statement)
        for table in names:
            width = len(file.execute(f"PRAGMA table_info({table})").fetchall())
            rows = [row[:width] for row in tables[table]]
            file.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)  # noqa: S608
        file.execute(edit)
        file.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        file.execute(f"PRAGMA user_version = {version}")
        if version >= 4:
            seal(file, version)
    old.replace(path)
    return tables


def test_a_journal_of_the_first_version_is_taken_over(path):
    """Its tables get what they lack and are sealed; it can be read before that, too."""
    tables = first_version(path)
    with open_reader(path) as reader:
        assert len(reader.trials()) == 3
        assert [(a.detail, a.acknowledged) for a in reader.alarms()] == [("", "")]
        assert reader.idle.rows() == ()
        assert reader.beside.pins() == {}
    opened(path.parent).close()
    assert read(path)["ledger"] == tables["ledger"]
    with closing(open_for_reading(path)) as connection:
        assert not unsealed(connection)
        assert connection.execute("PRAGMA user_version").fetchone() == (VERSION,)


def test_a_journal_of_the_version_before_is_read_sealed_and_taken_over(path):
    """Its seals are held against the tables it has; then it gets those of what people do."""
    tables = of_version(path, 4, sealed_tables(4))
    with open_reader(path) as reader:
        assert not unsealed(reader._connection)
        assert [row.voided for row in reader.trials()] == [False] * 3
        people = reader.people
        assert (people.acts(), people.corrections(), people.last_correction(), people.adjustment()) == ((), (), 0, 0)
        assert (people.by_hand(), people.imports(), people.suggestions()) == ({}, {}, {})
    data = path.read_bytes()
    at = data.index(b"its turn")
    path.write_bytes(data[:at] + b"jts turn" + data[at + 8 :])
    with pytest.raises(JournalCorrupt, match="the checksum of its table trials does not hold"), open_reader(path):
        pass
    path.write_bytes(data)
    clean(path)
    opened(path.parent).close()
    assert read(path)["ledger"] == tables["ledger"]
    with closing(open_for_reading(path)) as connection:
        assert not unsealed(connection)


def test_a_journal_of_version_5_is_read_sealed_and_taken_over(path):
    """It knows of no upkeep, and every control set could be played; then it gets what it lacks."""
    tables = of_version(path, 5, sealed_tables(5))
    with open_reader(path) as reader:
        assert not unsealed(reader._connection)
        assert (reader.upkeep.rows(), reader.upkeep.calibrations(), reader.upkeep.calibrated()) == ((), {}, {})
        assert [row.unavailable for row in reader.trials()] == [{}] * 3
    journal = opened(path.parent)
    journal.upkeep.keep("refilled", "pump", verb="refilled", who="anna", volume_ml=10.0)
    assert journal.upkeep.read({"probe": Calibration(2, (99.0, 98.5), "Cal,2")}) == ()
    assert journal.upkeep.read({"probe": Calibration(2, (99.0, 98.0), "Cal,2")}) == ("probe",)
    journal.close()
    after = read(path)
    assert after["ledger"] == tables["ledger"]
    assert [row[:-1] for row in after["trials"]] == [row[:-1] for row in tables["trials"]]
    with open_reader(path) as reader:
        assert [(row.kind, row.volume_ml, row.who) for row in reader.upkeep.rows()] == [("refilled", 10.0, "anna")]
        assert reader.upkeep.calibrated()["probe"].slopes == (99.0, 98.0)
    with closing(sqlite3.connect(path)) as file, pytest.raises(sqlite3.IntegrityError, match="kept as they were"):
        file.execute("DELETE FROM upkeep")


def test_a_journal_of_version_6_is_read_sealed_and_taken_over(path):
    """Nothing was looked at and nothing is awaited; then a trial that looks is the only one under way."""
    tables = of_version(path, 6, sealed_tables(6))
    with open_reader(path) as reader:
        assert not unsealed(reader._connection)
        assert len(reader.trials()) == 3
    opened(path.parent).close()
    after = read(path)
    assert {name: after[name] for name in ("trials", "ledger", "events")} == {
        name: tables[name] for name in ("trials", "ledger", "events")
    }
    with closing(open_for_reading(path)) as connection:
        assert not unsealed(connection)
        assert connection.execute("PRAGMA user_version").fetchone() == (8,) == (VERSION,)
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE trials SET state = 'AWAITING'")  # any number of them
        file.execute("UPDATE trials SET state = 'LOOKING' WHERE trial = 1")
        with pytest.raises(sqlite3.IntegrityError, match="trials_open"):
            file.execute("UPDATE trials SET state = 'RUNNING' WHERE trial = 2")


@pytest.mark.parametrize("spoilt", [0, 100], ids=["whole", "without its header"])
@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_journal_of_any_version_is_recovered(path, tmp_path, version, spoilt):
    """Also where the header, which says the version, is gone: its tables tell."""
    with closing(sqlite3.connect(":memory:")) as ideal:
        lay_out(ideal, version)
        tables = of_version(path, version, [table for table in SEALED_TABLES if has_table(ideal, table)])
    path.write_bytes(b"\0" * spoilt + path.read_bytes()[spoilt:])
    loss = recover_journal(path, tmp_path / "new", "Ada", "2026-11-22T14:30:00+00:00")
    assert (loss.left, [name for name, table in loss.tables.items() if table.lost]) == ((), [])
    new = read(tmp_path / "new" / path.name)
    for name in ("starts", "trials", "events", "measurements", "doses", "alarms"):
        assert len(new[name]) == len(tables[name]) > 0
    assert set(tables["ledger"]) <= set(new["ledger"])


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
    """In a journal of an older version: refused with advice, left as it was, never a traceback."""
    first_version(path, edit)
    before = path.read_bytes()
    with pytest.raises(JournalCorrupt, match=r"\.recover"), open_reader(path):
        pass
    clean(path)
    with pytest.raises(JournalCorrupt, match=r"\.recover"):
        opened(path.parent)
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA user_version").fetchone() == (1,)
    assert path.read_bytes() == before


def test_the_page_of_the_tables_is_up_to_date():
    """docs/journal.md has every table and column; `python -m tests.campaign.journal_page` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
