"""`rigctl journal verify`: what people and programs are told of a journal."""

import sqlite3
from contextlib import closing

import pytest

JOURNAL = "state/bench/journal.sqlite"


@pytest.mark.slow
def test_each_violation_says_table_row_what_and_remedy(ingested, golden):
    """For a person one per line, for a program as fields; exit 1."""
    with closing(sqlite3.connect(ingested.folder / JOURNAL)) as file, file:
        file.execute("DELETE FROM ledger WHERE trial = 3")
        file.execute("UPDATE starts SET config = 'rig: ['")
    told = ingested.rigctl("verify", code=1).out
    golden(told)
    assert told.endswith("3 violations\n")
    found = ingested.rigctl("verify", "--json", code=1).json
    assert {"table": "ledger", "row": "trial 3"}.items() <= found["violations"][-1].items()
    assert found["caps_not_checked_of_processes"] == [1]


@pytest.mark.slow
def test_a_backup_says_file_size_and_trials_and_old_ones_go(ingested):
    """By default beside the journal, named by its time; `--keep` is for a timer."""
    told = ingested.rigctl("backup", "bench.yaml").out
    assert " 5 trials," in told
    (first,) = (ingested.folder / "state/bench/backups").iterdir()
    assert first.name in told
    first.rename(first.with_name("20200101T000000Z.sqlite"))
    again = ingested.rigctl("backup", "--keep", "1", "--json").json
    assert again["removed"] == ["state/bench/backups/20200101T000000Z.sqlite"]
    assert (again["trials"], again["charged"], again["verified"]) == (5, 2.1, True)
    ingested.rigctl("verify", again["file"])


@pytest.mark.slow
def test_a_damaged_journal_is_recovered_and_what_is_lost_is_listed(ingested, golden):
    """Refused by every other verb, which names the way; the new state directory is good to go on from."""
    path = ingested.folder / JOURNAL
    data = path.read_bytes()
    place = data.rindex(b"INGEST_FAILED")
    path.write_bytes(data[:place] + b"\xff\xff" + data[place + 2 :])
    golden(ingested.rigctl("export", code=1).err)
    ingested.rigctl("verify", code=1)
    told = ingested.rigctl("recover", "state/bench", "--to", "state/new").out.splitlines()
    golden(told[0])
    golden(told[-2])
    golden(told[-1])
    ingested.rigctl("verify", "state/new/journal.sqlite")
    ingested.rigctl("ingest", "bench.yaml", "--state", "state/new", "--control-set", "ph", "--cost", "0.4")
    again = ingested.rigctl("recover", JOURNAL, "--to", "state/newer", "--json").json
    assert again["ok"]
    assert again["tables"]["events"]["lost"] == 1
    golden(ingested.rigctl("recover", JOURNAL, "--to", "state/newer", code=2).err)
    ingested.rigctl("recover", "bench.yaml", "--to", "state/newest", code=1)
