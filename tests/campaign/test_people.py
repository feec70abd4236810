"""What people do is kept for good: acts, acknowledged alarms, suggestions, corrections."""

import pytest

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.rows import Amendment, Pin
from rigctl.campaign.trial import State
from rigctl.core.experiment.history import Observation
from rigctl.errors import UsageError
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm
from tests.campaign.fakes import make_space
from tests.campaign.records import make_decision, record_trial


@pytest.fixture
def journal(journal):
    """A journal with a campaign begun and two ordinary trials."""
    record_trial(journal, 1)
    record_trial(journal, 2)
    return journal


def test_an_act_is_kept_with_who_when_and_why(journal):
    """In order, also by another process that only reads."""
    journal.people.act("pause", "Ada", why="lunch", outcome="paused")
    journal.people.act("wrong token", "10.0.0.7", argument="safe", outcome="denied")
    with open_reader(journal.path) as read:
        kept = [(a.act, a.verb, a.who, a.argument, a.why, a.outcome, a.at_s) for a in read.people.acts()]
    assert kept == [
        (1, "pause", "Ada", "", "lunch", "paused", 1000.0),
        (2, "wrong token", "10.0.0.7", "safe", "", "denied", 1000.0),
    ]


def test_a_reset_trip_and_an_accepted_device_are_in_the_audit(journal):
    """With the same commit: who, of what; where nothing was latched or nobody said so, nothing."""
    journal.trips.reset("Ada")
    journal.pins.keep([Pin("pump", "EZO-PMP", "ACID", "")])
    assert journal.read.people.acts() == ()
    journal.trips.latch("pump runs on")
    journal.trips.reset("Ada")
    journal.pins.keep([Pin("pump", "EZO-PMP", "NEW", "")], accepted_by="Bob")
    acts = [(act.verb, act.who, act.argument) for act in journal.read.people.acts()]
    assert acts == [("reset-trip", "Ada", ""), ("accept-device", "Bob", "pump")]


def test_an_alarm_is_acknowledged_once(journal):
    """By whom, when and with what note; the act is in the audit."""
    journal.alarms.add(Alarm(Severity.MINOR, "pump", "slow", kind="slow"))
    journal.alarms.add(Alarm(Severity.MAJOR, "pump", "stuck", kind="stuck"))
    journal.alarms.acknowledge(2, "Ada", "hose was bent")
    kept = [(a.alarm, a.acknowledged, a.acknowledgement, a.acknowledged_utc != "") for a in journal.read.alarms.rows()]
    assert kept == [(1, "", "", False), (2, "Ada", "hose was bent", True)]
    assert [(a.verb, a.argument) for a in journal.read.people.acts()] == [("ack", "alarm 2")]
    for alarm in (2, 9):
        with pytest.raises(UsageError):
            journal.alarms.acknowledge(alarm, "Bob")
    assert len(journal.read.people.acts()) == 1


def test_a_void_trial_teaches_nothing_and_stays_paid(journal):
    """It keeps its place among the trials, so that numbers stay; taken in again it is as it was."""
    before, spent = journal.read.history(make_space()).observations, journal.read.campaign().spent
    journal.people.correct(1, "void", Amendment(), Amendment(), who="Ada", why="tap open")
    first, second = journal.read.history(make_space()).observations
    assert first == Observation(1, 0, None, None, 80_000, cost_known=False)
    assert second == before[1]
    assert journal.read.campaign().spent == spent
    row = journal.read.trial(1)
    assert (row.voided, row.outcome, row.corrected[0].who, row.corrected[0].why) == (True, 1.7, "Ada", "tap open")
    journal.people.correct(1, "restore", Amendment(), Amendment(), who="Ada", why="it was the other tap")
    assert journal.read.history(make_space()).observations == before
    assert [a.verb for a in journal.read.people.acts()] == ["void", "restore"]


def test_an_amended_trial_reads_as_amended_and_keeps_what_it_was(journal):
    """Values, outcome and cost; the history, the row and what was spent agree; the record itself is untouched."""
    raw = [tuple(r) for r in journal._connection.execute("SELECT * FROM measurements")]
    becomes = Amendment({"b": 0.4}, {"y": 2.5}, 100_000, "typo")
    was = Amendment({"b": 0.3}, {"y": 1.7}, 80_000, "")
    journal.people.correct(2, "amend", was, becomes, who="Ada", why="read the wrong line")
    row, history = journal.read.trial(2), journal.read.history(make_space())
    assert (row.measured, row.outcome, row.cost) == ({"a": 5.01, "b": 0.4}, 2.5, 100_000)
    assert (row.corrected[0].was, row.corrected[0].becomes) == (was, becomes)
    assert history.observations[1] == Observation(2, 0, (0.501, 0.4), 2.5, 100_000)
    assert journal.read.campaign().spent == history.spent == 180_000
    assert [tuple(r) for r in journal._connection.execute("SELECT * FROM measurements")] == raw
    assert journal.read.trials(corrections=0)[1].outcome == 1.7
    taken = Amendment(outcomes={"y": None})
    journal.people.correct(2, "amend", becomes, taken, who="Ada", why="sample lost")
    assert (journal.read.trial(2).state, journal.read.trial(2).outcome) == (State.FAILED, None)
    journal.people.correct(2, "amend", taken, becomes, who="Ada", why="sample found")
    assert (journal.read.trial(2).state, journal.read.trial(2).outcome) == (State.RECORDED, 2.5)


def test_a_suggestion_is_kept_once(journal):
    """The same decision asked for twice is one; another one made for the same trial counts from then on."""
    assert journal.people.suggest(make_decision(3)) == journal.people.suggest(make_decision(3)) == 1
    assert journal.people.suggest(make_decision(3, ("a", "b"))) == 2
    kept = journal.read.people.suggestion_for(3)
    assert (kept.suggestion, kept.control_set, kept.policy_state) == (2, ("a", "b"), {"asked": 3})
    assert journal.read.people.suggestion_for(4) is None
