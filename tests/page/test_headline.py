"""The sentence at the top of the page is true in every phase; its instants are of one clock."""

import re
import time
from dataclasses import replace

import pytest

from rigctl.campaign.answered import GivenAnswer, keep
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.glance import MeterSum
from rigctl.campaign.journal.rows import Amendment
from rigctl.campaign.status import Status
from rigctl.campaign.trial import Event, State, undecided
from rigctl.console.standing import for_people
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.notify.texts import Words
from rigctl.page.facts import gather
from rigctl.page.figures import fuel
from rigctl.page.render import sections
from rigctl.page.shown import Phase, Study
from rigctl.page.words import STILL, clock, headline
from rigctl.rig.protocols import Severity
from rigctl.rig.spec import OutcomeSpec
from rigctl.rig.values import Alarm
from rigctl.text import told_utc
from tests.campaign.records import READINGS, STEPS, record_trial
from tests.page.conftest import NOON


@pytest.fixture
def in_kathmandu(monkeypatch):
    """This machine's zone."""
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def facts(directory, phase, **told):
    with open_reader(directory) as reader:
        return gather(reader, None, Status.of({"phase": phase, "why": "", "trial": None, **told}), NOON)


def said(directory, phase):
    return headline(facts(directory, phase), None)


@pytest.mark.parametrize("phase", ["paused", "waiting", "holding", "starting"])
def test_nothing_is_said_to_be_controlled_while_everything_is_safe(journal, tmp_path, phase, golden):
    """Between two trials, for whatever reason."""
    record_trial(journal)
    golden(said(tmp_path, phase))
    assert "Controls" not in said(tmp_path, phase)


def test_what_is_not_confirmed_safe_is_not_said_to_be_safe(journal, tmp_path, golden):
    """Until it is confirmed."""
    unconfirmed = Alarm(Severity.MAJOR, "safe state", "valve: stuck", kind="unconfirmed", state="stands")
    journal.alarms.add(unconfirmed)
    golden(said(tmp_path, "holding"))
    journal.alarms.add(replace(unconfirmed, state="over"))
    assert said(tmp_path, "holding") == STILL["holding"]


def test_while_a_trial_looks_nothing_is_said_to_be_controlled(journal, tmp_path, golden):
    """What the trial before it controlled is let go."""
    record_trial(journal)
    assert "Controls" in said(tmp_path, "running")
    journal.look(undecided(2, 7, 100_000_000, History()), READINGS)
    found = facts(tmp_path, "running")
    golden(headline(found, None))
    assert found.why.trial == 1  # the decision before stays to be seen
    journal.finish(2, State.LOOKING, Event.FAIL, ())
    assert "Controls" not in said(tmp_path, "running")


def test_production_that_looks_says_which_batch_it_is(journal, tmp_path, golden):
    """As it does while it controls."""
    journal.look(undecided(1, 7, 100_000_000, History()), READINGS)
    found = replace(facts(tmp_path, "running"), batches=3)
    assert found.trial.state == "LOOKING"
    golden(headline(found, None))


def test_the_open_part_of_the_gauge_is_what_is_left_of_the_budget(journal, tmp_path):
    """Also beside production, which may cost more than the whole budget."""
    record_trial(journal)
    spent = facts(tmp_path, "running").money
    parts = (*spent.parts, MeterSum("labour", "time", "h", 1.0, to_micros(300), estimated=False))
    drawn = str(fuel(replace(spent, budget=100.0, operated=300.0, parts=parts), "EUR"))
    filled = sum(float(width) for width in re.findall(r'<rect class="fill-\d" x="[\d.]+%" width="([\d.]+)%"', drawn))
    assert filled == pytest.approx(100 * (300.0 + spent.spent) / 400.0, abs=0.1)


def test_instants_of_the_page_are_utc(journal, tmp_path, in_kathmandu, golden):
    """As it says, wherever its server is; in a terminal they are this machine's, or name their zone."""
    for event in list(STEPS)[:4]:
        STEPS[event](journal, 1)
    journal.finish(
        1, State.MEASURED, Event.AWAIT, (), awaiting=OutcomeSpec(name="y", unit="1", by="hand", within_s=3600.0)
    )
    found = facts(tmp_path, "waiting")
    golden(found.trial.note)
    due = found.awaited[0].due
    assert clock(due, NOON) == "13:00"
    assert clock(due, NOON.astimezone()) == "18:45"
    assert told_utc(due) == "2026-03-01 18:45 +0545"


@pytest.mark.parametrize("failed", ["", "the disk is full"])
def test_who_finds_a_process_dead_is_not_sent_from_production_to_a_campaign(failed):
    """On the page, by `status` and in a message alike: `rigctl run` there would explore, at the budget's cost."""
    told = (
        STILL["not running"],
        for_people({"ended": None})["ended"],
        Words("rig").of_silence(failed, started=True).body,
    )
    assert all("`rigctl run`" in words and "`rigctl operate`" in words for words in told)


def test_until_the_model_has_answered_the_last_answer_stands_in(journal, tmp_path, golden):
    """With the trial that it is as of; not once something was corrected, nor beside what the model says."""
    record_trial(journal)
    answer = "From now on, control a."
    keep(tmp_path, GivenAnswer(answer, 1, 0))
    found = facts(tmp_path, "running")
    for shown in (headline(replace(found, phase=Phase("ended", "budget")), None), sections(found, None)["advice"]):
        assert answer in shown
        golden(re.search(f"{answer}[^<]*", shown)[0])
    assert answer not in sections(found, Study(1, 0, None, trouble="no numbers"))["advice"]
    journal.people.correct(1, "void", Amendment(), Amendment(), who="Anna", why="spilt")
    assert facts(tmp_path, "running").answered is None
