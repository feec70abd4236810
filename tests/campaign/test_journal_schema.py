"""What a declaration makes a table, what the journal's tables forbid, and what nobody vouches for."""

import re
import sqlite3
from contextlib import closing
from typing import Literal

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.database import fetch
from rigctl.campaign.journal.integrity import lay_out
from rigctl.campaign.journal.rows import TrialRecord
from rigctl.campaign.journal.table import column, table, table_of
from rigctl.codec import fields_of
from rigctl.core.experiment.money import Micros
from rigctl.errors import JournalCorrupt
from tests.campaign.journal_page import page
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


def test_what_the_page_asks_a_journal_has_an_answer(path):
    """Every query on it runs, and finds something."""
    (queries,) = re.findall(r"```sql\n(.*?)```", page(), re.DOTALL)
    with closing(sqlite3.connect(path)) as file:
        for query in queries.split(";\n")[:-1]:
            assert file.execute(query).fetchall(), query


@table("filters", "filters that people changed", kept=True, act=("", "{device} {which}"))
class FilterRow:
    """A kind of row that is declared here alone."""

    number: int = column(name="id")
    device: str
    which: Literal["intake", "vent"]
    trial: int | None = column("the last one with the old filter", names=TrialRecord)
    amount: Micros
    pores: tuple[float, ...] = (0.5,)


def test_a_declaration_is_a_table():
    """Its definition, what it refuses, what is written and read, what its rows name, and the act they come with."""
    declared, row = table_of(FilterRow), FilterRow(1, "pump", "intake", 3, 2_500_000, (0.1, 0.2))
    with closing(sqlite3.connect(":memory:")) as file:
        lay_out(file)
        for statement in declared.definition():
            file.execute(statement)
        cells = declared.cells(fields_of(row))
        insert = f"INSERT INTO filters ({', '.join(cells)}) VALUES ({', '.join('?' * len(cells))})"  # noqa: S608
        file.execute(insert, tuple(cells.values()))
        assert fetch(file, FilterRow, "SELECT * FROM filters") == (row,)
        for column_name, cell in (("which", "exit"), ("amount_micros", 0.5), ("amount_micros", -1), ("device", None)):
            with pytest.raises(sqlite3.IntegrityError):
                file.execute(insert, tuple({**cells, "id": 2, column_name: cell}.values()))
        with pytest.raises(sqlite3.IntegrityError):
            file.execute("UPDATE filters SET device = 'x'")
    assert {name: there.name for name, there in declared.references.items()} == {"trial": "trials"}
    assert [one.name for one in declared.columns.values() if one.json] == ["pores"]
    assert [declared.columns["trial"].fits(cell) for cell in (3, None, "3")] == [True, True, False]
    assert [declared.columns["device"].fits(cell) for cell in ("x", None, 3)] == [True, False, False]
    assert declared.audited_as(cells) == ("", f"{row.device} {row.which}")
