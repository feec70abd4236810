"""`rigctl journal verify`: what people and programs are told of a journal."""

import sqlite3
from contextlib import closing

import pytest

from tests.console.conftest import TRIALS

JOURNAL = "state/bench/journal.sqlite"


@pytest.fixture
def kept(bench):
    """A bench with five trials done by hand."""
    bench.rigctl("ingest", "bench.yaml", bench.write("trials.csv", TRIALS))
    return bench


@pytest.mark.slow
def test_a_journal_is_verified_by_its_configuration_its_directory_or_its_file(kept, golden):
    """Whatever names it; exit 0 while everything holds."""
    for which in (("bench.yaml",), ("--state", "state/bench"), (JOURNAL,), ()):
        told = kept.rigctl("verify", *which)
        golden(told.out)
    told = kept.rigctl("verify", "--json").json
    assert told["ok"]
    assert told["trials"] == 5
    assert told["charged"] == 2.1
    assert told["violations"] == []
    kept.rigctl("verify", "nothing.sqlite", code=2)


@pytest.mark.parametrize("which", ["nothing.sqlite", "empty.sqlite", "folder"])
def test_what_is_no_journal_is_refused_without_advice_to_start_a_campaign(bench, which):
    """Whoever verifies a file has no use for a new campaign; nothing is made."""
    bench.write("empty.sqlite", "")
    (bench.folder / "folder").mkdir()
    there = sorted(bench.folder.rglob("*"))
    told = bench.rigctl("verify", which, code=2)
    assert which in told.err
    assert "rigctl run" not in told.err
    assert sorted(bench.folder.rglob("*")) == there


@pytest.mark.slow
def test_each_violation_says_table_row_what_and_remedy(kept, golden):
    """For a person one per line, for a program as fields; exit 1."""
    with closing(sqlite3.connect(kept.folder / JOURNAL)) as file, file:
        file.execute("DELETE FROM ledger WHERE trial = 3")
        file.execute("UPDATE starts SET config = 'rig: ['")
    told = kept.rigctl("verify", code=1).out
    golden(told)
    assert told.endswith("3 violations\n")
    found = kept.rigctl("verify", "--json", code=1).json
    assert {"table": "ledger", "row": "trial 3"}.items() <= found["violations"][-1].items()
    assert found["caps_not_checked_of_processes"] == [1]


@pytest.mark.slow
def test_a_backup_says_file_size_and_trials_and_old_ones_go(kept):
    """By default beside the journal, named by its time; `--keep` is for a timer."""
    told = kept.rigctl("backup", "bench.yaml").out
    assert " 5 trials," in told
    (first,) = (kept.folder / "state/bench/backups").iterdir()
    assert first.name in told
    first.rename(first.with_name("20200101T000000Z.sqlite"))
    again = kept.rigctl("backup", "--keep", "1", "--json").json
    assert again["removed"] == ["state/bench/backups/20200101T000000Z.sqlite"]
    assert (again["trials"], again["charged"], again["verified"]) == (5, 2.1, True)
    kept.rigctl("verify", again["file"])


@pytest.mark.slow
def test_a_damaged_journal_is_recovered_and_what_is_lost_is_listed(kept, golden):
    """Refused by every other verb, which names the way; the new state directory is good to go on from."""
    path = kept.folder / JOURNAL
    data = path.read_bytes()
    place = data.rindex(b"INGEST_FAILED")
    path.write_bytes(data[:place] + b"\xff\xff" + data[place + 2 :])
    golden(kept.rigctl("export", code=1).err)
    kept.rigctl("verify", code=1)
    told = kept.rigctl("recover", "state/bench", "--to", "state/new").out.splitlines()
    golden(told[0])
    golden(told[-2])
    golden(told[-1])
    kept.rigctl("verify", "state/new/journal.sqlite")
    kept.rigctl("ingest", "bench.yaml", "--state", "state/new", "--control-set", "ph", "--cost", "0.4")
    again = kept.rigctl("recover", JOURNAL, "--to", "state/newer", "--json").json
    assert again["ok"]
    assert again["tables"]["events"]["lost"] == 1
    golden(kept.rigctl("recover", JOURNAL, "--to", "state/newer", code=2).err)
    kept.rigctl("recover", "bench.yaml", "--to", "state/newest", code=1)
