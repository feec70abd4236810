"""A journal that a stranger has sent: it is read, or refused as damaged; nothing in it is carried out."""

import json
import shutil
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from rigctl.campaign.journal import database
from rigctl.campaign.journal.backup import back_up
from rigctl.campaign.journal.database import connect, guarded, open_for_reading, open_for_writing
from rigctl.campaign.journal.reader import at_one_instant
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.journal.verifying import verified
from rigctl.console.cli import app
from rigctl.console.options import Records
from rigctl.errors import JournalCorrupt
from rigctl.page.render import page
from rigctl.printable import printable
from tests.fixtures import FINISHED, unpacked
from tests.page.conftest import told
from tests.profiles import slow_beyond

DEEP = "[" * 100_000
HOSTILE = {
    "depth in a decision": "UPDATE trials SET proposal = :deep WHERE trial = 2",
    "depth in what is known": "UPDATE campaign SET identity = :deep",
    "a decision of another form": "UPDATE trials SET proposal = '[1, 2]' WHERE trial = 2",
    "a state that is none": "UPDATE trials SET state = char(27) || '[2J' WHERE trial = 2",
    "bytes for words": "UPDATE trials SET control_set = x'ff00' WHERE trial = 1",
    "a number without end": "UPDATE measurements SET value = 9e999",
    "a configuration without end": "UPDATE starts SET config = :long",
    "a configuration that runs": "UPDATE starts SET config = '!!python/object/apply:os.system [touch PWNED]'",
    "escapes in an alarm": "UPDATE alarms SET message = char(27) || ']52;c;cm0=' || char(7)",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON starts BEGIN SELECT load_extension('/tmp/evil.so'); END",
    "a view for a table": "DROP TABLE alarms;; CREATE VIEW alarms AS SELECT load_extension('/tmp/evil.so')",
    "a table that is no table": "DROP TABLE events;; CREATE VIEW events AS SELECT 1 AS x",
}  # fmt: skip
READS = (
    ("status",),
    *(("export", "--records", kind) for kind in Records),
    ("explain", "--quick"),
    ("replay",),
    ("verify",),
)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    return unpacked(FINISHED, tmp_path_factory.mktemp("sound"))


@pytest.fixture
def sent(sound, tmp_path, monkeypatch):
    """Makes the journal that was sent, after these statements; commands are run beside it."""
    directory = shutil.copytree(sound, tmp_path / "state")
    monkeypatch.chdir(tmp_path)

    def made(sql):
        with closing(sqlite3.connect(directory / "journal.sqlite", isolation_level=None)) as file:
            for statement in filter(None, sql.split(";; ")):
                given = {"deep": DEEP, "long": "#" * 5_000_000}
                file.execute(statement, {k: v for k, v in given.items() if f":{k}" in statement})
        return directory

    return made


@pytest.mark.slow
@pytest.mark.parametrize("kind", slow_beyond(5, HOSTILE))
def test_a_journal_from_a_stranger_is_read_or_refused(sent, kind):
    """Each command answers, or says what is wrong in words that can be printed; nothing runs."""
    directory = sent(HOSTILE[kind])
    for words in READS:
        done = CliRunner().invoke(app, [*words, "--state", str(directory)])
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        assert "--help`" not in done.output, words
        assert printable(done.output) == done.output, words
        assert len(done.output) < 100_000
    assert not (directory.parent / "PWNED").exists()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"


@pytest.mark.parametrize("table", slow_beyond(1, ("starts", "phases", "campaign", "seals")))
def test_fault_88_an_endless_view_in_a_tables_place_ends_in_time_with_our_error(sent, tmp_path, table):
    """For whoever starts, looks, verifies, backs up or recovers: what cannot be read is named, or told as lost."""
    path = sent("") / "journal.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
        file.execute(f"DROP TABLE {table}")
        file.execute(f"CREATE VIEW {table} AS {ENDLESS} {', '.join(f'i AS {name!r}' for name in columns)} FROM n")
    for reads in (open_for_reading, open_for_writing, lambda _: back_up(path, tmp_path / "copy.sqlite")):
        with pytest.raises(JournalCorrupt):
            reads(path)
    with pytest.raises(JournalCorrupt), at_one_instant(path.parent):
        pass
    assert [violation.table for violation in verified(path).violations] == ["file"]
    loss = recover_journal(path, tmp_path / "new", "Ada", "now")
    assert table == "seals" or loss.tables[table].lost


def test_fault_88_what_goes_on_without_end_is_cut_short(tmp_path, monkeypatch):
    """Whatever in a file makes it so: reading ends at a deadline, in an error that says so of the file."""
    monkeypatch.setattr(database, "LONGEST_S", 0.05)
    path = tmp_path / "journal.sqlite"
    sqlite3.connect(path).close()
    with closing(connect(path)) as file, pytest.raises(JournalCorrupt), guarded(path):
        file.execute(f"{ENDLESS} max(i) FROM n").fetchone()


def test_a_look_may_be_held_open_for_as_long_as_its_reader_computes(sent, monkeypatch):
    """What a recommendation takes on a busy machine is no damage of the journal that it reads."""
    monkeypatch.setattr(database, "STEPS", 1)
    now_s = [0.0]
    monkeypatch.setattr(database, "time", SimpleNamespace(monotonic=lambda: now_s[0], thread_time=lambda: now_s[0]))
    with at_one_instant(sent("")) as reader:
        now_s[0] = 1e9
        assert reader.trials()


def test_fault_88_a_look_without_end_is_cut_short(sent, monkeypatch, golden):
    """Pages of a damaged file may form a circle: a look that did not check it takes so many steps, and says so."""
    for name, value in (("STEPS", 1), ("MOST_STEPS", 10), ("STEPS_PER_BYTE", 0.0)):
        monkeypatch.setattr(database, name, value)
    with pytest.raises(JournalCorrupt) as refused, at_one_instant(sent("")) as reader:
        reader.trials()
    golden(refused.value)


@pytest.mark.parametrize("unseen", ["", "char(27) || ", "char(8203) || ", "char(8238) || char(8238) || "])
def test_a_spreadsheet_is_given_words(sent, unseen):
    """The formula that somebody put into an alarm is quoted, also behind signs that are taken out."""
    directory = sent(f"UPDATE alarms SET message = {unseen}'=cmd|''/C calc''!A0'")  # noqa: S608
    done = CliRunner().invoke(app, ["export", "--records", "alarms", "--state", str(directory)])
    assert ",'=cmd" in done.stdout
    assert ",=cmd" not in done.stdout


def test_what_a_drawing_says_can_be_printed(sent):
    """Signs that turn a line round, in the name of a meter, reach neither the page nor its drawings."""
    directory = sent("UPDATE ledger SET meter = 'a' || char(8238) || 'b' || char(27) || '[2J' WHERE meter = 'water'")
    with told(directory) as (facts, _):
        html = page(facts, None)
    assert "ab[2J" in html
    assert printable(html) == html


def test_what_is_sent_as_json_is_escaped(sent):
    """A program that prints what it was told prints text."""
    directory = sent(HOSTILE["escapes in an alarm"])
    done = CliRunner().invoke(app, ["export", "--records", "alarms", "--format", "jsonl", "--state", str(directory)])
    assert "\x1b" not in done.output
    assert all(json.loads(line) for line in done.stdout.splitlines())
