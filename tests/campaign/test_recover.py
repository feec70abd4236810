"""`rigctl journal recover`: a damaged journal becomes one that holds, or it is told why not; it stays as it is."""

import asyncio
import errno
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.journal.verifying import verified
from rigctl.campaign.trial import State
from rigctl.errors import JournalCorrupt, UsageError
from tests.campaign.fakes import Stage, make_spec, open_journal
from tests.campaign.records import SetClock, begun, make_decision
from tests.campaign.test_verify import CASES, by_hand, doctored, sound  # noqa: F401 - a fixture

PAGE = 4096
AT = "2026-11-22T14:30:00+00:00"


def recovered(path, directory):
    """What is lost, once the new journal holds and the damaged file is what it was."""
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()}
    try:
        loss = recover_journal(path, directory, "Ada", AT)
    finally:
        assert {file.name: file.read_bytes() for file in path.parent.iterdir() if file.is_file()} == before
    assert verified(directory / "journal.sqlite").violations == loss.left == ()
    return loss


def dump(path):
    """All rows by table, but for what says that they were recovered."""
    with closing(sqlite3.connect(path)) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = {table: file.execute(f"SELECT * FROM {table} ORDER BY 1, 2, 3").fetchall() for table in tables}  # noqa: S608
    rows["starts"] = [row[:-4] for row in rows["starts"]]
    rows["acts"] = [row for row in rows["acts"] if row[1] != "recover"]
    return {table: found for table, found in rows.items() if table != "seals"}


def copied(sound, tmp_path):  # noqa: F811
    (tmp_path / "damaged").mkdir(exist_ok=True)
    return Path(shutil.copy(sound, tmp_path / "damaged"))


@pytest.mark.parametrize("spoilt", [0, 100], ids=["whole", "without its header"])
def test_of_a_journal_that_is_whole_nothing_is_lost(sound, tmp_path, spoilt):  # noqa: F811
    """Every row is there again, sealed; who has recovered it stands among the acts, and safety is to be confirmed."""
    path = copied(sound, tmp_path)
    path.write_bytes(b"\0" * spoilt + path.read_bytes()[spoilt:])
    loss = recovered(path, tmp_path / "new")
    assert loss.nothing
    assert dump(tmp_path / "new" / "journal.sqlite") == dump(sound)
    with open_reader(tmp_path / "new") as journal:
        act = journal.people.acts()[-1]
        assert (act.verb, act.argument, act.who) == ("recover", "journal.sqlite", "Ada")
        assert journal.starts()[-1].safe is False


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=(pytest.mark.slow, pytest.mark.nightly)[: n % 4]) for n, case in enumerate(CASES)],
    ids=lambda case: case["check"],
)
def test_whatever_cannot_be_is_made_to_hold_or_left_out(sound, tmp_path, case):  # noqa: F811
    """Each row that no rigctl would write: what comes of it holds, and a campaign without its row is told."""
    path = copied(sound, tmp_path)
    doctored(path, *case["sql"])
    if case["sql"] == ["DELETE FROM campaign"]:
        assert recover_journal(path, tmp_path / "new", "Ada", AT).left[0].table == "campaign"
        return
    loss = recovered(path, tmp_path / "new")
    assert not loss.nothing or any(table.mended for table in loss.tables.values())


def flips(size, count, seed):
    """Bits all over a file, and all over its first page."""
    some = random.Random(seed)
    return [(some.randrange(size if n % 4 else PAGE), some.randrange(8)) for n in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("count", [12, pytest.param(60, marks=pytest.mark.nightly)])
def test_fault_80_a_flipped_bit_is_put_back_or_told(sound, tmp_path, count):  # noqa: F811
    """Anywhere: the new journal holds; most often it is the very same as before the flip."""
    path, whole, same, hopeless = copied(sound, tmp_path), sound.read_bytes(), 0, 0
    for number, (place, bit) in enumerate(flips(len(whole), count, 80)):
        data = bytearray(whole)
        data[place] ^= 1 << bit
        path.write_bytes(data)
        try:
            loss = recovered(path, tmp_path / str(number))
        except JournalCorrupt as error:
            assert error.damage == "hopeless"  # noqa: PT017 - how it may also end
            hopeless += 1
            continue
        is_same = dump(tmp_path / str(number) / "journal.sqlite") == dump(sound)
        assert is_same or not loss.nothing, (place, bit)
        same += is_same
    assert same >= 0.75 * count
    assert hopeless <= 0.05 * count


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut off", "zeros", "noise"])
def test_fault_80_pages_that_are_gone_cost_their_rows_and_no_more(sound, tmp_path, how):  # noqa: F811
    """The end of the file, or a page in its middle: what is left holds, or it is told that nothing can be read."""
    path, whole, kept, hopeless = copied(sound, tmp_path), sound.read_bytes(), [], 0
    pages = len(whole) // PAGE
    spoilt = {"zeros": b"\0" * PAGE, "noise": random.Random(1).randbytes(PAGE)}
    for page in range(1, pages, 6):
        rest = b"" if how == "cut off" else spoilt[how] + whole[(page + 1) * PAGE :]
        path.write_bytes(whole[: page * PAGE] + rest)
        try:
            loss = recover_journal(path, tmp_path / str(page), "Ada", AT)
        except JournalCorrupt:
            hopeless += 1
            continue
        kept.append(loss.trials)
        assert not [v for v in loss.left if v.table != "campaign" and "the campaign's" not in v.what], page
    assert max(kept) == 8
    assert hopeless <= 1


def test_fault_79_without_its_log_it_is_said_that_the_end_may_be_missing(tmp_path):
    """What was checkpointed is kept; a trial that was under way then has lost its end."""
    journal = begun(tmp_path / "crashed")
    journal.propose(make_decision())
    journal.doses.intend("pump", 5.0, 0.0)
    journal._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    lost = tmp_path / "lost"
    lost.mkdir()
    shutil.copy(journal.path, lost)
    loss = recovered(lost / "journal.sqlite", tmp_path / "new")
    journal.close()
    assert loss.tail
    assert (loss.closed, loss.booked_ml) == ((1,), 5.0)
    with open_reader(tmp_path / "new") as new:
        assert new.trial(1).state is State.LOST
        (dose,) = new.doses.rows()
        assert (dose.state, dose.dispensed_ml) == ("UNKNOWN", 5.0)
        assert dose.note


def test_a_log_that_is_there_is_read_too(tmp_path):
    """What a crash leaves: the last commits are in the log alone, and none of them is lost."""
    journal = begun(tmp_path / "crashed")
    journal.propose(make_decision())
    shutil.copytree(tmp_path / "crashed", tmp_path / "left")
    journal.close()
    loss = recovered(tmp_path / "left" / "journal.sqlite", tmp_path / "new")
    assert (loss.trials, loss.closed, loss.tail) == (1, (), "")
    with open_reader(tmp_path / "new") as new:
        assert new.open_trial().trial == 1


@pytest.mark.slow
def test_what_is_put_in_is_an_estimate_or_booked_in_full_and_says_so(sound, tmp_path):  # noqa: F811
    """A line of cost by the mean of the others; of a dose whose number alone is left, as much as its pump ever gave."""
    path = copied(sound, tmp_path)
    doctored(path, "DELETE FROM ledger WHERE trial = 4 AND meter = 'water'", "DELETE FROM doses WHERE id = 1")
    loss = recovered(path, tmp_path / "new")
    assert loss.estimated == 50_000
    with open_reader(tmp_path / "new") as new, open_reader(sound) as old:
        most = max(dose.volume_ml for dose in old.doses.rows() if dose.dose != 1)
        (water,) = (line for line in new.ledger(4) if line.meter == "water")
        assert (water.amount, water.estimated, water.quantity) == (50_000, True, None)
        assert new.doses.rows()[0].dispensed_ml == loss.booked_ml == most
        assert new.campaign().spent == old.campaign().spent
    assert {name for name, table in loss.tables.items() if table.lost} == {"ledger", "doses"}


@pytest.mark.slow
def test_a_row_that_names_what_is_lost_names_nothing_from_then_on(sound, tmp_path):  # noqa: F811
    """A suggestion that cannot be read costs no trial what is known of it besides."""
    path = copied(sound, tmp_path)
    with closing(Journal(path.parent, SetClock(1e9), "boot-1")) as journal:
        journal.ingest([by_hand(9, batch="B9", suggestion=journal.people.suggest(make_decision(9)))], ("y",))
    doctored(path, "DELETE FROM suggestions")
    recovered(path, tmp_path / "new")
    with open_reader(tmp_path / "new") as new:
        known = new.people.by_hand("trial = ?", 9)[9]
    assert (known.batch, known.suggestion) == ("B9", None)


@pytest.mark.slow
def test_a_campaign_goes_on_from_what_was_recovered(tmp_path):
    """After a trial's decision and another's end are lost, and a trip that may have been latched is reset."""
    stage = Stage(tmp_path)
    asyncio.run(stage.run(make_spec(max_trials=4)))
    path = stage.state / "journal.sqlite"
    doctored(path, "DELETE FROM trials WHERE trial = 2", "DELETE FROM events WHERE trial = 3 AND event <> 'PROPOSE'")
    doctored(path, "UPDATE trials SET state = 'RUNNING' WHERE trial = 3", "UPDATE starts SET ended = NULL, safe = NULL")
    loss = recovered(path, tmp_path / "new")
    assert (loss.undecided, loss.closed) == ((2,), (3,))
    stage.state = tmp_path / "new"
    result = asyncio.run(stage.run(make_spec(max_trials=6), journal=open_journal))
    assert (result.trials, result.ending) == (6, "trials")
    assert result.safe.ok
    assert [row.state for row in stage.trials()[:4]] == [State.RECORDED, State.FAILED, State.LOST, State.RECORDED]
    assert verified(tmp_path / "new" / "journal.sqlite").violations == ()


def test_a_trip_that_could_not_be_read_is_taken_for_one(sound, tmp_path):  # noqa: F811
    """Nothing may move until a person has looked."""
    path = copied(sound, tmp_path)
    with closing(Journal(path.parent, SetClock(1e9), "boot-1")) as journal:
        journal.trips.latch("the door is open")
    data = path.read_bytes()
    place = data.rindex(b"the door is open")
    path.write_bytes(data[:place] + b"\xff\xff\xff" + data[place + 3 :])
    recovered(path, tmp_path / "new")
    with closing(Journal(tmp_path / "new", SetClock(2e9), "boot-1")) as journal:
        assert journal.trips.latched() is not None


def test_a_full_disk_leaves_no_cut_word_of_what_is_driven(sound, tmp_path, monkeypatch):  # noqa: F811
    """Without it `rigctl safe` goes by the configuration; half of one it could not read."""
    path, copying = copied(sound, tmp_path), shutil.copyfile
    path.with_name("safe.json").write_text("{}", encoding="utf-8")

    def full(old, new):
        if Path(old).name != "safe.json":
            return copying(old, new)
        Path(new).write_text("{", encoding="utf-8")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", full)
    recovered(path, tmp_path / "new")
    assert {file.name.partition("-")[0] for file in (tmp_path / "new").iterdir()} == {"journal.sqlite"}


def test_nothing_is_put_where_something_is_or_made_of_nothing(sound, tmp_path):  # noqa: F811
    """A directory that is in use, a file that is not there, one of another program, one of noise."""
    path = copied(sound, tmp_path)
    for file, to in ((path, path.parent), (tmp_path / "none.sqlite", tmp_path / "new")):
        with pytest.raises(UsageError):
            recover_journal(file, to, "Ada", AT)
    for data in (b"", b"x" * 50, random.Random(2).randbytes(20 * PAGE)):
        path.write_bytes(data)
        with pytest.raises(JournalCorrupt):
            recover_journal(path, tmp_path / "new", "Ada", AT)
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other, other:
        other.execute("CREATE TABLE recipes (id INTEGER)")
    with pytest.raises(JournalCorrupt):
        recover_journal(tmp_path / "other.sqlite", tmp_path / "new", "Ada", AT)
    assert not (tmp_path / "new").exists()
