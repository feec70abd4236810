"""What the disk does to a journal: a bit flipped (fault 80), the log lost (fault 79); and what people do to it."""

import os
import re
import shutil
import signal
import sqlite3
from contextlib import closing

import pytest
from structlog.testing import capture_logs

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.database import open_for_reading, open_for_writing, transaction
from rigctl.campaign.journal.integrity import SealingConnection, broken_seal, unsealed
from rigctl.campaign.journal.rows import TABLES, Amendment, ByHand, ImportRow, Pin
from rigctl.campaign.trial import Event
from rigctl.codec import fields_of
from rigctl.core.experiment.policy import Proposal
from rigctl.errors import JournalCorrupt, UsageError
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.fakes import make_spec
from tests.campaign.flips import held
from tests.campaign.reaper import one_life
from tests.campaign.records import SetClock, begun, make_decision, record_trial
from tests.fixtures import LEFT, unpacked

INSTANTS = ("BEGIN", "COMMIT", "PRAGMA journal_mode", "PRAGMA wal", "CREATE TABLE seals")


def opened(directory):
    return Journal(directory, SetClock(), "boot-1")


def told(connection):
    """Everything that the tables hold."""
    return {t: connection.execute(f"SELECT * FROM {t} ORDER BY 1, 2").fetchall() for t in TABLES}  # noqa: S608


def read(path):
    """The same of a file."""
    with closing(open_for_reading(path)) as connection:
        return told(connection)


def write_something(journal):
    """Something in (nearly) every table."""
    journal.begin(make_spec(), "0.0")
    for trial in range(1, 4):
        record_trial(journal, trial)
        dose = journal.doses.intend("pump", 5.0, 0.0)
        journal.doses.settle(dose, "DONE", 5.0, "by the counter")
        journal.doses.answered("pump", "ph", 0.0, -0.2, answered=False)
    journal.trips.latch("pump runs on")
    journal.trips.reset()
    journal.pins.keep([Pin("pump", "EZO-PMP", "ACID", "")])
    journal.phase("HOLDING", "no meter", 60.0)
    journal.alarms.add(Alarm(Severity.MINOR, "pump", "slow", kind="slow"))
    write_what_people_did(journal)
    journal.beat(ended="done", safe=True)


def write_what_people_did(journal):
    journal.alarms.acknowledge(1, "Ada", "seen")
    journal.people.correct(2, "void", Amendment(), Amendment(), who="Ada", why="tap open")
    proposal = Proposal(4, "ten-lines", "explore", 0, (0.5,), "by hand")
    journal.people.suggest(make_decision(4, proposal=proposal))
    with transaction(journal._connection):
        journal._insert(ImportRow, fields_of(ImportRow(1, "old.csv", "0" * 64, 1, 0.5, 1.0, "Ada", "")))
        journal._insert(ByHand, {"trial": 3, **fields_of(ByHand(batch="B7", imported=1, amount=1_500_000))})


def written(directory):
    """A journal with a little of everything, closed in good order."""
    journal = opened(directory)
    write_something(journal)
    journal.close()
    return journal.path


@pytest.fixture
def path(tmp_path):
    return written(tmp_path)


# One bit --------------------------------------------------------------------------------------------------------------


def clean(path):
    """Nothing but the file."""
    for other in path.parent.iterdir():
        if other != path:
            other.unlink()


@pytest.mark.slow
@pytest.mark.parametrize("flips", [150, pytest.param(500, marks=pytest.mark.nightly)])
def test_fault_80_one_bit_flipped_anywhere_is_found_or_changes_nothing(path, flips):
    """In header, schema, tables and indexes: refused with advice, or read and written as if nothing had been."""
    assert held(path.parent, flips, seed=80) > flips / 20  # the rest is room that nothing has been written to yet


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("campaign", ["finished", "unfinished"])
def test_fault_33_a_flipped_bit_of_todays_journal_is_told_or_harmless(tmp_path, campaign):
    """Never a traceback, never another value; the file is kept as it was found. Most of a file is read by nobody."""
    state = unpacked(LEFT / campaign, tmp_path / "state")
    Journal(state, SetClock(), "boot-1").close()
    assert held(state, 160, seed=34) > 20


@pytest.mark.slow
@pytest.mark.parametrize("column", ["digest", "place"])
@pytest.mark.parametrize("value", [b"\x01\x02", 0.5])
def test_fault_80_a_checksum_that_is_no_whole_number_any_more_is_damage(path, column, value):
    """One bit in a record's head makes bytes or a fraction of it."""
    whole = path.read_bytes()
    for name in TABLES:
        with closing(sqlite3.connect(path)) as other, other:
            other.execute(f"UPDATE seals SET {column} = ? WHERE name = ?", [value, name])  # noqa: S608 - our own names
        for opens in (read, lambda file: opened(file.parent)):
            with pytest.raises(JournalCorrupt):
                opens(path)
        clean(path)
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("table", "words", "keys"),
    [
        ("measurements", bytes.fromhex("40140a3d70a3d70a"), {1, 2, 3}),  # 5.01
        ("trials", b"its turn", {1, 2, 3}),
        ("doses", b"by the counter", {1, 2, 3}),
        ("starts", b"rig: fake", {1}),
        ("pins", b"ACID", {1}),
        ("corrections", b"tap open", {1}),
        ("by_hand", b"B7", {3}),
    ],
)
def test_fault_80_what_stands_in_a_row_is_sealed(path, table, words, keys):
    """SQLite's own check would let it pass: it looks at the structure around it. The row is named."""
    data = path.read_bytes()
    position = data.rindex(words)
    path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    with pytest.raises(JournalCorrupt) as error, open_reader(path):
        pass
    assert error.value.table == table
    assert error.value.key in keys


def test_fault_80_a_row_that_is_gone_is_named_and_of_many_none(path):
    """The differences of two sums give the key of one row; of more they give nothing that could be one."""
    with closing(sqlite3.connect(path)) as file, file:
        kept = file.execute("SELECT digest, place FROM seals WHERE name = 'ledger'").fetchone()
    for change, key in (("DELETE FROM ledger WHERE id = 4", 4), ("UPDATE ledger SET note = 'x'", None)):
        with closing(sqlite3.connect(path)) as file, file:
            file.execute(change)
            file.execute("UPDATE seals SET digest = ?, place = ? WHERE name = 'ledger'", kept)
        with pytest.raises(JournalCorrupt) as error:
            opened(path.parent)
        assert (error.value.table, error.value.key) == ("ledger", key)


def test_the_seals_hold_through_every_kind_of_change(tmp_path):
    """Rows that come, change and go, in transactions that are rolled back too."""
    journal = opened(tmp_path)
    write_something(journal)
    with pytest.raises(sqlite3.IntegrityError):
        journal.doses._connection.execute("INSERT INTO doses (id) VALUES (1)")
    journal.propose(make_decision(4))
    assert broken_seal(journal._connection) is None
    assert not unsealed(journal._connection)
    journal.close()
    assert not unsealed(opened(tmp_path)._connection)


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS id FROM n"


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("CREATE TRIGGER later AFTER INSERT ON alarms BEGIN DELETE FROM doses; END", "trigger later"),
        ("CREATE VIEW doubled AS SELECT * FROM trials, trials", "view doubled"),
        ("CREATE TABLE notes (id INTEGER)", "table notes"),
        ("CREATE INDEX by_time ON alarms (at_s)", "index by_time"),
        (f"DROP TABLE phases; CREATE VIEW phases AS {ENDLESS}", "table phases"),
        (f"DROP TABLE seals; CREATE VIEW seals AS {ENDLESS}", "table seals"),
    ],
)
def test_fault_88_whatever_was_added_to_the_schema_is_found_before_it_is_read(path, planted, name):
    """Read, verified and opened to write: damage that names it; an endless view in a table's place is never asked."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(planted)
    for opens in (open_for_reading, open_for_writing):
        with pytest.raises(JournalCorrupt, match=name):
            opens(path)


def test_a_journal_that_a_person_has_edited_is_read_and_sealed_again(path, golden):
    """An edit through SQLite, or statistics that it keeps, are no damage; from the next start on they are sealed."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE ledger SET note = 'paid by the neighbour' WHERE id = 1")
        file.execute("ANALYZE")
    golden(read(path)["ledger"][0][-1])
    opened(path.parent).close()
    data = path.read_bytes()
    path.write_bytes(data.replace(b"neighbour", b"neighbouR"))
    with pytest.raises(JournalCorrupt) as error:
        opened(path.parent)
    assert error.value.table == "ledger"


def test_a_recovered_journal_is_accepted_once_a_person_says_so(path):
    """By the statements that the advice gives: without its seals it is taken as it is, and sealed."""
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("DELETE FROM trips")
        file.execute("UPDATE seals SET digest = 1 WHERE name = 'trips'")
    with pytest.raises(JournalCorrupt) as error:
        opened(path.parent)
    (accept,) = re.findall(r"'(DELETE FROM seals[^']*)'", str(error.value))
    with closing(sqlite3.connect(path)) as file, file:
        file.executescript(accept)
    opened(path.parent).close()
    with closing(open_for_reading(path)) as connection:
        assert told(connection)["trips"] == []
        assert not unsealed(connection)


# The log --------------------------------------------------------------------------------------------------------------


def life(directory, work, kill_at):
    """A process that does this with the journals it opens, killed at an instant; how many instants there were."""

    def live(reaper):
        SealingConnection.__init__ = lambda self, *a, **k: (
            sqlite3.Connection.__init__(self, *a, **k),
            self.set_trace_callback(lambda sql: reaper(sql) if sql.startswith(INSTANTS) else None),
        )[0]
        work(directory)

    return one_life(live, kill_at)


def campaign(directory):
    """Started, one trial, ended in good order."""
    journal = begun(directory)
    under_way = journal.read.open_trial()
    if under_way is not None:
        journal.finish(under_way.trial, under_way.state, Event.FAIL, ())
    number = len(journal.read.trials()) + 1
    record_trial(journal, number)
    journal.beat(ended="done", safe=True)
    journal.close()


def half_a_trial(directory):
    """Started, and killed in mid-trial."""
    journal = begun(directory)
    journal.propose(make_decision(len(journal.read.trials()) + 1))
    os.kill(os.getpid(), signal.SIGKILL)


def trip_reset(directory):
    """A verb that opens the journal without starting the campaign."""
    journal = opened(directory)
    journal.trips.reset()
    journal.close()


def without_log(directory, target):
    """A copy of what a crash left, its log lost."""
    target.mkdir()
    shutil.copy(directory / "journal.sqlite", target)
    return target


@pytest.mark.parametrize(
    ("past", "work"),
    [
        ("crashed", trip_reset),
        pytest.param("none", campaign, marks=pytest.mark.slow),
        *(pytest.param(past, campaign, marks=pytest.mark.nightly) for past in ("ended", "crashed")),
        *(pytest.param(past, trip_reset, marks=pytest.mark.nightly) for past in ("none", "ended")),
    ],
)
def test_fault_79_a_log_that_is_there_is_never_missed_and_a_lost_one_always(tmp_path, work, past):
    """Killed around every step: with its log it opens; without, it is refused, or nothing that matters is gone."""
    base = tmp_path / "base"
    base.mkdir()
    if past != "none":
        campaign(base)
    if past == "crashed":
        assert life(base, half_a_trial, None)[0] == -signal.SIGKILL
    status, instants = life(shutil.copytree(base, tmp_path / "whole"), work, None)
    assert status == 0
    refused = 0
    for instant in range(1, instants + 1):
        directory = shutil.copytree(base, tmp_path / str(instant))
        assert life(directory, work, instant)[0] == -signal.SIGKILL
        lost = without_log(directory, tmp_path / f"{instant}-lost")
        journal = opened(directory)
        there = told(journal._connection)
        journal.close()
        opened(directory).close()
        try:
            journal = opened(lost)
        except JournalCorrupt:
            refused += 1
            continue
        left = told(journal._connection)
        journal.close()
        assert left["trials"] == there["trials"], instant
        assert left["doses"] == there["doses"], instant
        assert left["ledger"] == there["ledger"], instant
    assert refused > 0 or (work is trip_reset and past != "crashed")


def crashed(directory):
    """What a process leaves that is killed in its first trial."""
    assert life(directory, half_a_trial, None)[0] == -signal.SIGKILL
    return directory / "journal.sqlite"


def test_fault_79_what_is_left_can_be_read_and_the_loss_still_shows_afterwards(tmp_path):
    """Queries warn and make no new log, which would hide that there is none; a person may accept what is left."""
    path = crashed(tmp_path)
    (tmp_path / "journal.sqlite-wal").unlink()
    (tmp_path / "journal.sqlite-shm").unlink()
    with capture_logs() as logs, open_reader(path) as reader:
        assert len(reader.starts()) == 1
        assert reader.trials() == ()
    assert [log["log_level"] for log in logs] == ["warning"]
    assert [p.name for p in tmp_path.iterdir()] == ["journal.sqlite"]
    with pytest.raises(JournalCorrupt) as error:
        opened(tmp_path)
    assert error.value.damage == "no-log"
    (accept,) = re.findall(r"'(UPDATE starts[^']*)'", str(error.value))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(accept)
    opened(tmp_path).close()


@pytest.mark.parametrize("why", ["locked", "full"])
def test_a_log_whose_end_cannot_be_noted_is_kept(tmp_path, why):
    """Another program holds the lock, or the disk is full: the log stays, so that nothing is taken for lost."""
    journal = begun(tmp_path / "here", 1)
    journal._connection.execute("PRAGMA busy_timeout = 0")
    denied = {"locked": (), "full": (sqlite3.SQLITE_UPDATE,)}[why]
    journal._connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action in denied else sqlite3.SQLITE_OK
    )
    with closing(sqlite3.connect(journal.path, isolation_level=None)) as other:
        if why == "locked":
            other.execute("BEGIN IMMEDIATE")
        journal.close()
        there = shutil.copytree(tmp_path / "here", tmp_path / "there")
    assert (there / "journal.sqlite-wal").exists()
    with closing(opened(there)) as again:
        assert len(again.read.trials()) == 1


def test_a_journal_whose_making_was_broken_off_is_none_yet(tmp_path):
    """Killed while the file was made, before there was a log: whoever reads is told that no campaign has begun."""
    made = tmp_path / "made.sqlite"
    with closing(sqlite3.connect(made, isolation_level=None)) as file:
        file.execute("CREATE TABLE t (x)")
        file.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the transaction ends
        file.execute("BEGIN")
        file.executemany("INSERT INTO t VALUES (zeroblob(4000))", [()] * 50)
        state = tmp_path / "state"
        state.mkdir()
        for suffix in ("", "-journal"):
            shutil.copy(f"{made}{suffix}", state / f"journal.sqlite{suffix}")
        file.execute("ROLLBACK")
    with pytest.raises(UsageError), open_reader(state):
        pass
