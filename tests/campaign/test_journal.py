import math
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.ledger.plausibility import PastCosts
from rigctl.campaign.trial import Event, State
from rigctl.codec import to_json
from rigctl.core.experiment.history import Observation
from rigctl.errors import JournalError, UsageError
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.values import Alarm, Measurement, OpenDose
from tests.campaign.fakes import INVALID, make_rig_spec, make_space, make_spec
from tests.campaign.records import LINES, MEASURED, READINGS, STEPS, SetClock, make_decision, record_trial, rows


def reopened(journal, clock, boot="boot-1"):
    journal.close()
    return Journal(journal.path.parent, clock, boot)


def test_what_is_written_is_read_back_exactly(journal, clock):
    """Every part of a trial comes back as it went in, from a second opening of the file."""
    record_trial(journal)
    with open_reader(journal.path.parent) as read:
        row = read.trial(1)
        assert (row.state, row.control_set, row.setpoints) == (State.RECORDED, ("a",), {"a": 5.0})
        assert row.proposal == make_decision().proposal
        assert (row.measured, row.outcome, row.cost) == ({"a": 5.01, "b": 0.3}, 1.7, 80_000)
        assert [(e.event, e.state) for e in read.events(1)] == [
            (Event.PROPOSE, State.PROPOSED),
            (Event.ARM, State.ARMED),
            (Event.RUN, State.RUNNING),
            (Event.MEASURE, State.MEASURED),
            (Event.RECORD, State.RECORDED),
        ]
        assert {(s["variable"], bool(s["controlled"]), s["setpoint"]) for s in rows(read, "states")} == {
            ("a", True, 5.0),
            ("b", False, None),
        }
        assert read.meter_readings(1, "before") == READINGS == read.meter_readings(1, "after")
        assert [(r.meter, r.quantity, r.amount) for r in read.ledger()] == [
            (line.meter, line.quantity, line.amount) for line in LINES
        ]
        assert {m.name: (m.value, m.spread, m.count, m.invalid, m.is_outcome) for m in read.measurements(1)} == {
            name: (m.value, m.spread, m.count, m.invalid, name == "y") for name, m in MEASURED.items()
        }
        campaign = read.campaign()
        assert (campaign.rig, campaign.spent, campaign.budget) == ("fake", 80_000, 100_000_000)
        assert campaign.config_text == "rig: fake\n"
        assert read.history(make_space()).observations == (Observation(1, 0, (0.501, 0.3), 1.7, 80_000),)


def test_a_commit_is_synced_and_references_are_checked(journal):
    """WAL, synchronous=FULL and foreign keys are on, in the connection that writes."""
    pragma = {name: journal._connection.execute(f"PRAGMA {name}").fetchone()[0] for name in PRAGMAS}
    assert pragma == PRAGMAS


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def dump(journal):
    return list(journal._connection.iterdump())


REFUSED = {
    "a decision on an old history": (list(STEPS), lambda j: j.propose(make_decision(1))),
    "a meter charged twice": (
        list(STEPS)[:-1],
        lambda j: j.finish(1, State.MEASURED, Event.RECORD, [LINES[0], LINES[0]]),
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_is_refused_and_nothing_is_written(journal, what):
    """A trial's number is the next one, and each meter has one line in it; `test_journal_machine` has the rest."""
    steps, write = REFUSED[what]
    for event in steps:
        STEPS[event](journal, 1)
    before = dump(journal)
    with pytest.raises(JournalError):
        write(journal)
    assert dump(journal) == before


def test_an_invalid_reading_reaches_neither_the_history_nor_the_row(journal):
    """INVALID measurements are kept, and never handed to a policy."""
    for event in (Event.PROPOSE, Event.ARM, Event.RUN):
        STEPS[event](journal, 1)
    journal.measure(1, {**MEASURED, "b": INVALID, "y": Measurement(math.inf, 0.0, 1, 0, Severity.INVALID)}, ("y",), {})
    journal.finish(1, State.MEASURED, Event.FAIL, LINES, detail="b: no answer")
    row, (seen,) = journal.read.trial(1), journal.read.history(make_space()).observations
    assert (row.measured, row.outcome, row.because) == ({"a": 5.01}, None, "b: no answer")
    assert seen == Observation(1, 0, None, None, 80_000, cost_known=True)
    assert {m.name: m.value for m in journal.read.measurements(1)}["b"] is None


@pytest.mark.parametrize(
    ("last", "event"),
    [(Event.ARM, Event.LOSE), (Event.RUN, Event.ABANDON), (Event.RUN, Event.FAIL), (Event.ARM, Event.FAIL)],
)
def test_a_trial_cut_short_is_charged_but_says_nothing_of_what_trials_cost(journal, last, event):
    """Lost, abandoned and failed trials count for the budget, not for the belief about costs."""
    for step in list(STEPS)[: list(STEPS).index(last) + 1]:
        STEPS[step](journal, 1)
    journal.finish(1, journal.read.trial(1).state, event, LINES, after=READINGS)
    (seen,) = journal.read.history(make_space()).observations
    assert (seen.x, seen.y, seen.cost, seen.cost_known) == (None, None, 80_000, False)
    assert journal.costs() == PastCosts()


def test_a_trial_done_by_hand_is_recorded_whole(journal):
    """`ingest` records values, outcome and cost in one transaction, and the policy's memory if there is one."""
    decision = make_decision(1, ("a", "b"), origin="manual", proposal=None, policy_state=None)
    journal.ingest([ManualTrial(decision, {"a": 2.0, "b": 0.5}, 3.25, 1_200_000)], ("y",))
    (seen,) = journal.read.history(make_space()).observations
    assert seen == Observation(1, 2, (0.2, 0.5), 3.25, 1_200_000)
    assert [(e.event, e.state) for e in journal.read.events()] == [(Event.INGEST, State.RECORDED)]
    assert journal.read.policy_state() is None
    journal.ingest([ManualTrial(make_decision(2, origin="manual"), {"a": 2.0}, None, 5)], ("y",))
    assert journal.read.trial(2).state is State.FAILED
    assert journal.read.policy_state() == {"asked": 2}
    assert journal.read.campaign().spent == 1_200_005


def test_a_policys_memory_is_that_of_the_last_decision_it_took_part_in(journal):
    """Floats, infinities and nesting survive; trials without the policy are passed over."""
    state = {"best": -math.inf, "third": 1 / 3, "nested": {"list": [1, 2.5, None]}}
    journal.propose(make_decision(1, policy_state=state))
    journal.finish(1, State.PROPOSED, Event.ABANDON, ())
    journal.propose(make_decision(2, policy_state=None, origin="rejected"))
    assert journal.read.policy_state() == state
    assert journal.read.policy_state(before=1) is None


def test_a_raised_budget_is_taken_over_and_a_lowered_one_refused(journal, clock):
    """A campaign may be given more money, not less."""
    again = reopened(journal, clock)
    again.begin(make_spec(budget=150), "0.0")
    assert again.read.campaign().budget == 150_000_000
    with pytest.raises(UsageError):
        again.begin(make_spec(budget=100), "0.0")
    again.close()


ALONE = make_spec()
ALONG = make_spec(
    rig=make_rig_spec(dosing={"pump": replace(ALONE.rig.dosing["pump"], with_={"valve": 0.5})}),
)


@pytest.mark.parametrize(
    ("was", "is_", "changed"),
    [
        (ALONE, make_spec(seed=8, currency="CHF"), ["seed", "currency"]),
        (ALONE, ALONG, ["wiring.a.along"]),
        (ALONG, ALONE, ["wiring.a.along"]),
    ],
    ids=["seed", "a pump comes", "a pump goes"],
)
def test_another_configuration_is_refused_by_name(tmp_path, clock, was, is_, changed):
    """Every key that changed is named, and nothing is written."""
    with closing(Journal(tmp_path, clock, "boot-1")) as journal:
        journal.begin(was, "0.0")
        before = dump(journal)
        with pytest.raises(UsageError) as refusal:
            journal.begin(is_, "0.0")
        assert all(f"{key}: was " in str(refusal.value) for key in changed)
        assert dump(journal) == before


def test_an_option_that_a_newer_version_adds_is_no_change(journal, clock):
    """A key that only one side knows does not stop a campaign from going on."""
    known = dict(journal.read.campaign().identity)
    del known["model.nodes"]
    changed = to_json({**known, "old.option": "1"})
    journal._connection.execute("UPDATE campaign SET identity = ?", (changed,))
    journal.begin(make_spec(), "0.0")
    assert len(journal.read.starts()) == 2


def test_every_start_is_remembered_with_its_end(journal, clock):
    """A start knows when it was last alive and why it ended; one that died has no end."""
    again = reopened(journal, clock)
    again.begin(make_spec(), "0.1")
    again.beat(ended="budget", safe=True)
    again.beat()  # the watch's last look, while the campaign is told what came of it
    assert [(s.version, s.ended) for s in again.read.starts()] == [("0.0", None), ("0.1", "budget")]
    assert again.past.was_left_safe()
    again.close()


def test_an_alarm_is_kept_with_the_trial_under_way(journal):
    """Alarms name the trial they were raised in, or none."""
    journal.alarms.add(Alarm(Severity.MINOR, "pump", "slow", kind="slow"))
    journal.propose(make_decision(1))
    journal.alarms.add(Alarm(Severity.MAJOR, "pump", "stuck", kind="stuck"))
    kept = [(a.trial, a.severity, a.source, a.message) for a in journal.read.alarms.rows()]
    assert kept == [(None, Severity.MINOR, "pump", "slow"), (1, Severity.MAJOR, "pump", "stuck")]


# Doses --------------------------------------------------------------------------------------------------------------


def test_a_dose_is_open_until_it_is_settled_once(journal):
    """Intent, sent, settled; a second settlement is refused and changes nothing."""
    STEPS[Event.PROPOSE](journal, 1)
    STEPS[Event.ARM](journal, 1)
    dose = journal.doses.intend("pump", 12.5, 100.0)
    assert journal.doses.open() == (OpenDose(dose, "pump", 12.5, 100.0),)
    journal.doses.sent(dose)
    assert [(row.dose, row.state) for row in journal.doses.rows(1)] == [(dose, "SENT")]
    assert journal.doses.open() == (OpenDose(dose, "pump", 12.5, 100.0),)
    journal.doses.settle(dose, "DONE", 12.25, "short")
    assert journal.doses.open() == ()
    with pytest.raises(JournalError):
        journal.doses.settle(dose, "UNKNOWN", 12.5, "")
    with pytest.raises(JournalError):
        journal.doses.sent(dose)
    (row,) = journal.read.doses.rows(1)
    assert (row.trial, row.state, row.dispensed_ml, row.note) == (1, "DONE", 12.25, "short")


def test_caps_hold_across_a_reboot(journal, clock):
    """Rig time starts anew with a boot; the doses of the boot before still count as recent."""
    clock.at_s = 50_000.0
    journal.doses.intend("pump", 10.0, 0.0)
    STEPS[Event.PROPOSE](journal, 1)
    again = reopened(journal, SetClock(now_s=30.0), boot="boot-2")
    again.begin(make_spec(), "0.0")
    assert again.time.now_s() == 50_000.0
    assert again.doses.given_ml(["pump"], 30.0 - 86_400.0) == 10.0
    assert again.doses.given_ml(["pump"], 31.0) == 0.0
    assert again.doses.given_ml(["pump"], -math.inf) == 10.0
    again.arm(1, {"power": Reading(1.0, "kWh", time_s=25.0)})
    assert again.read.meter_readings(1, "before")["power"].time_s == 49_995.0
    again.close()


@pytest.mark.parametrize(("boot", "rig_s"), [("boot-2", 30.0), ("boot-1", 50_000.0)])
def test_campaign_time_never_goes_back_behind_anything_that_was_written(journal, clock, boot, rig_s):
    """Within a boot and across one: a person's act may be the last there is before a power loss."""
    clock.at_s = 50_000.0
    journal.people.act("resume", "anna")
    with closing(reopened(journal, SetClock(now_s=rig_s), boot)) as again:
        assert again.time.now_s() == 50_000.0


# Reading ------------------------------------------------------------------------------------------------------------


def test_the_journal_can_be_read_while_it_is_written(journal):
    """A reader sees the last commit and cannot write."""
    with open_reader(journal.path.parent) as read:
        assert read.trials() == ()
        journal.propose(make_decision(1))
        assert [row.state for row in read.trials()] == [State.PROPOSED]
        with pytest.raises(sqlite3.OperationalError):
            read._connection.execute("DELETE FROM trials")


def test_reading_what_is_not_there_says_so(tmp_path):
    """No journal, no campaign and no such trial are three different answers."""
    with pytest.raises(UsageError), open_reader(tmp_path):
        pass
    with closing(Journal(tmp_path, SetClock(), "boot-1")) as opened:
        for question in (opened.read.campaign, lambda: opened.read.trial(3)):
            with pytest.raises(UsageError):
                question()
