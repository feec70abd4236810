import shutil
import sqlite3
from contextlib import closing
from datetime import timedelta
from statistics import mean
from types import SimpleNamespace

import pytest
from scipy import stats

from rigctl.campaign.journal import Journal, open_reader
from rigctl.campaign.journal.rows import Amendment
from rigctl.campaign.ledger.lines import IdleLine
from rigctl.campaign.status import Status
from rigctl.campaign.trial import Event, State, undecided
from rigctl.console.standing import for_people
from rigctl.core.experiment.history import History
from rigctl.notify.chores import Looker, summary_of
from rigctl.page.facts import _money, gather, price_interval
from rigctl.page.words import headline
from rigctl.rig.protocols import Severity
from rigctl.rig.values import Alarm, Measurement
from tests.campaign.fakes import INVALID, make_spec
from tests.campaign.records import LINES, READINGS, STEPS, make_decision, record_trial
from tests.page.conftest import NOON, told


@pytest.fixture(scope="module")
def plain(finished, tmp_path_factory):
    """A copy of the same journal, as any program reads it."""
    copy = shutil.copytree(finished, tmp_path_factory.mktemp("plain") / "state")
    connection = sqlite3.connect(copy / "journal.sqlite")
    yield lambda sql: connection.execute(sql).fetchall()
    connection.close()


DISK = {"severity": "MINOR", "source": "disk", "message": "150 MiB left"}


def looked(directory, status=None, now=NOON, **options):
    """Facts of a journal whose configuration does not hold."""
    with open_reader(directory) as reader:
        return gather(reader, None, status and Status.of(status), now, **options)


def test_trials_are_those_of_the_journal(finished, plain):
    """Outcomes, costs, readings and states of all trials are what plain SQL finds."""
    with told(finished) as (facts, _):
        rows = facts.course.rows
    assert [(r.trial, r.state) for r in rows] == plain("SELECT trial, state FROM trials ORDER BY trial")
    outcomes = dict(plain("SELECT trial, value FROM measurements WHERE outcome = 1 AND severity < 3"))
    assert {r.trial: r.outcome for r in rows if r.outcome is not None} == outcomes
    costs = dict(plain("SELECT trial, sum(amount_micros) FROM ledger GROUP BY trial"))
    assert {r.trial: r.cost for r in rows} == costs
    read = plain("SELECT trial, name, value FROM measurements WHERE outcome = 0 AND severity < 3")
    assert {(r.trial, n, v) for r in rows for n, v in r.measured.items()} == set(read)


def test_money_is_that_of_the_journal(finished, plain):
    """Meters add up to what was spent, each to its own lines, the dearest first."""
    with told(finished) as (facts, _):
        money = facts.money
    lines = dict(plain("SELECT meter, sum(amount_micros) FROM (SELECT * FROM ledger) GROUP BY meter"))
    idle = dict(plain("SELECT meter, sum(amount_micros) FROM idle GROUP BY meter") if has_idle(plain) else [])
    expected = {meter: (lines.get(meter, 0) + idle.get(meter, 0)) / 1e6 for meter in {*lines, *idle}}
    assert {part.meter: part.cost for part in money.parts} == pytest.approx(expected)
    assert money.spent == pytest.approx(sum(expected.values()))
    assert [p.cost for p in money.parts] == sorted((p.cost for p in money.parts), reverse=True)


def has_idle(plain):
    return bool(plain("SELECT 1 FROM sqlite_master WHERE name = 'idle'"))


def test_the_choice_is_the_last_decision(finished, plain):
    """Control sets stand by price; one is chosen; trials and money of each are those before the decision."""
    with told(finished) as (facts, campaign):
        why, last = facts.why, campaign.reader.trials()[-1]
    assert why.trial == last.trial
    assert [s.control_set for s in why.sets if s.chosen] == [last.control_set]
    prices = [s.price for s in why.sets if s.price is not None]
    assert prices == sorted(prices)
    for s in why.sets:
        mine = [r for r in facts.course.rows if r.control_set == s.control_set and r.trial < why.trial]
        assert s.spend == pytest.approx(sum(r.cost for r in mine) / 1e6)
        known = [r.cost / 1e6 for r in mine if r.recorded and not r.estimated]
        assert s.price == pytest.approx(mean(known))


@pytest.mark.parametrize("prices", [[0.4, 0.5], [0.3, 0.31, 0.29, 0.35], [1.0] * 5])
def test_price_interval_is_student_s(prices):
    """The interval is that of Student's t, as SciPy has it."""
    price, half = price_interval(prices)
    assert price == pytest.approx(mean(prices))
    if len(set(prices)) == 1:
        assert half == 0
        return
    low, high = stats.t.interval(0.95, len(prices) - 1, loc=mean(prices), scale=stats.sem(prices))
    assert (price - half, price + half) == pytest.approx((low, high))


def test_one_price_has_no_interval():
    """One trial says nothing about how prices vary, and none says nothing."""
    assert price_interval([0.4]) == (0.4, None)
    assert price_interval([]) == (None, None)


@pytest.mark.slow
def test_a_look_goes_on_from_the_last(journal, tmp_path):
    """What is gathered on from the last look is what a new one gathers, and what had not changed is not read again."""
    facts = None
    for trial in range(1, 4):
        for step in STEPS.values():
            step(journal, trial)
            facts = looked(tmp_path, before=facts)
            fresh = looked(tmp_path)
            assert facts.course.rows == fresh.course.rows
            assert facts.course.meters == fresh.course.meters
            assert facts.money == fresh.money
    again = looked(tmp_path, before=facts)
    assert again.course is facts.course
    record_trial(journal, 4)
    later = looked(tmp_path, before=facts)
    assert all(new is old for new, old in zip(later.course.rows, facts.course.rows, strict=False))


def test_what_people_correct_shows(journal, tmp_path):
    """A trial that is voided no longer counts, one that is amended has its new values, also on from an earlier look."""
    for trial in (1, 2, 3):
        record_trial(journal, trial)
    before = looked(tmp_path)
    journal.people.correct(1, "void", Amendment(), Amendment(), who="eve", why="wrong tank")
    amended = Amendment(outcomes={"y": 2.5}, amount=10_000)
    journal.people.correct(2, "amend", Amendment(outcomes={"y": 1.7}, amount=80_000), amended, who="eve", why="typo")
    for facts in (looked(tmp_path), looked(tmp_path, before=before)):
        assert [(r.trial, r.outcome, r.cost) for r in facts.recorded] == [(2, 2.5, 10_000), (3, 1.7, 80_000)]
        assert facts.money.spent == pytest.approx(0.17)
        acts = [entry for entry in facts.log if entry.kind == "act"]
        assert [(a.source, a.text.split()[0]) for a in acts] == [("eve", "amend"), ("eve", "void")]
    assert [row.changed_s for row in facts.course.rows] == [row.changed_s for row in before.course.rows]


def test_idle_money_is_told(journal, tmp_path):
    """What no trial used is part of the meters' sums, and said."""
    record_trial(journal)
    journal.idle.book([IdleLine("power", "energy", 0.2, "kWh", 60_000, "held")])
    money = looked(tmp_path).money
    assert {p.meter: p.cost for p in money.parts} == {"power": pytest.approx(0.09), "water": pytest.approx(0.05)}
    assert money.idle == pytest.approx(0.06)
    assert money.spent == pytest.approx(0.14)


@pytest.mark.parametrize(
    ("status", "word", "abnormal", "severity"),
    [
        ({"phase": "running"}, "running", False, None),
        ({"phase": "holding", "why": "b_probe is stale"}, "holding", True, "MAJOR"),
        ({"phase": "waiting", "why": "pump cap"}, "waiting", False, None),
        ({"phase": "paused", "why": "paused by eve"}, "paused", False, None),
        ({"phase": "running", "active": [DISK]}, "running", False, "MINOR"),
        ({"phase": "running", "active": [{**DISK, "severity": "MAJOR"}, DISK]}, "running", False, "MAJOR"),
    ],
)
def test_the_state_in_a_word(journal, tmp_path, status, word, abnormal, severity):
    """A running campaign says how it is; what stands worst is named."""
    facts = looked(tmp_path, status)
    assert (facts.phase.word, facts.phase.abnormal) == (word, abnormal)
    assert (facts.worst and facts.worst.severity) == severity
    assert facts.asks


def test_a_trip_outweighs_all(journal, tmp_path):
    """While a trip is latched, it is the state and the alarm, whatever else is."""
    journal.trips.latch("ph below 3")
    facts = looked(tmp_path, {"phase": "running"})
    assert (facts.phase.word, facts.worst.severity, facts.worst.message) == ("tripped", "INVALID", "ph below 3")


def test_a_process_that_died_shows(journal, tmp_path):
    """Nobody answers and nobody has been seen for a minute: it is not running; before that, it does not answer."""
    assert looked(tmp_path, now=NOON + timedelta(seconds=30)).phase.word == "no answer"
    facts = looked(tmp_path, now=NOON + timedelta(seconds=90))
    assert (facts.phase.word, facts.worst.severity) == ("not running", "MAJOR")


def test_a_suggestion_after_a_process_that_died_is_no_end(journal, tmp_path):
    """Who was told what to try next has not ended the campaign: nobody has made the rig safe."""
    with closing(Journal(tmp_path, journal.time.clock, "boot-1", lambda: NOON)) as other:
        other.begin(make_spec(), "0.0")
        other.beat(ended="suggest")
    assert looked(tmp_path, now=NOON + timedelta(seconds=90)).phase.word == "not running"


@pytest.mark.parametrize(("alive", "word"), [(True, "no answer"), (False, "not running")])
@pytest.mark.parametrize("seconds", [1, 3600])
def test_whether_its_process_lives_is_known_at_once(journal, tmp_path, alive, word, seconds):
    """Where the page's server sees it: one that was killed is not called alive, nor one that hangs dead."""
    assert looked(tmp_path, now=NOON + timedelta(seconds=seconds), alive=alive).phase.word == word


@pytest.mark.parametrize(
    ("why", "safe", "severity"), [("budget", True, None), ("budget", False, "MAJOR"), ("interlock", True, "MINOR")]
)
def test_an_end_is_normal_if_all_is_safe(journal, tmp_path, why, safe, severity):
    """A campaign that has spent its budget and left all safe is no alarm; one that did not is."""
    journal.phase("ENDED", why)
    journal.beat(why, safe=safe)
    facts = looked(tmp_path)
    assert (facts.phase.word, facts.phase.why) == ("ended", why)
    assert (facts.worst and facts.worst.severity) == severity


def test_an_end_by_an_error_is_told_in_its_words_whatever_ended_before(journal, tmp_path):
    """A process that could note no phase, as it began nothing, has ended last; its error's class is for programs."""
    journal.phase("ENDED", "trials")
    journal.beat("trials", safe=True)
    journal.begin(make_spec(), "0.0")
    journal.beat("safe.json: cannot be written; free space, then run again", safe=True)
    facts = looked(tmp_path)
    words = "safe.json: cannot be written; free space, then run again"
    assert (facts.worst.severity, facts.worst.message) == ("MINOR", words)
    assert words in headline(facts, None)
    assert for_people({"ended": facts.phase.why}) == {"ended": words}
    assert words in summary_of(Looker(tmp_path).numbers_now())


def test_alarms_wait_to_be_acknowledged(journal, tmp_path, golden):
    """An alarm has a number until somebody acknowledges it; then it says who."""
    journal.alarms.add(Alarm(Severity.MAJOR, "pump", "stuck", kind="stuck"))
    facts = looked(tmp_path)
    assert (facts.unseen, facts.log[0].number, facts.log[0].severity) == (1, 1, "MAJOR")
    journal.alarms.acknowledge(1, "eve")
    facts = looked(tmp_path)
    alarm = next(entry for entry in facts.log if entry.kind == "alarm")
    golden(alarm.text)
    assert (facts.unseen, alarm.number) == (0, 0)


def test_the_log_of_one_trial(journal, tmp_path, golden):
    """Asked for one trial, the log has its lines and no other's, the newest first."""
    for trial in (1, 2):
        record_trial(journal, trial)
    facts = looked(tmp_path, log_of=1)
    assert {entry.trial for entry in facts.log} == {1}
    golden([e.text for e in facts.log])


@pytest.mark.parametrize(
    ("events", "lit"),
    [
        ([Event.PROPOSE], "prepare"),
        ([Event.PROPOSE, Event.ARM], "prepare"),
        ([Event.PROPOSE, Event.ARM, Event.RUN], "settle"),
        ([Event.PROPOSE, Event.ARM, Event.RUN, Event.MEASURE], "book"),
    ],
)
def test_the_step_that_is_lit(journal, tmp_path, events, lit):
    """A trial under way has one step lit, those before it done, those after it to come."""
    for event in events:
        STEPS[event](journal, 1)
    trial = looked(tmp_path).trial
    assert trial.under_way
    states = [step.state for step in trial.steps]
    assert [step.name for step in trial.steps if step.state == "now"] == [lit]
    assert states == sorted(states, key=["done", "now", "coming"].index)


def test_a_trial_that_looks_shows_what_was_read(journal, tmp_path, golden):
    """It has steps of its own, and no control set until it is decided."""
    journal.look(undecided(1, 7, 100_000_000, History()), READINGS)
    trial = looked(tmp_path).trial
    assert (trial.state, trial.control_set, trial.read, trial.under_way) == ("LOOKING", (), "", True)
    assert [step.name for step in trial.steps][:3] == ["prepare", "look", "decide"]
    journal.keep_look(1, {"a": Measurement(4.125, 0.02, 4), "b": INVALID})
    golden(looked(tmp_path).trial.read)


def test_a_running_campaign_knows_better(journal, tmp_path):
    """Step, time left and readings are the campaign's own where it tells them."""
    for event in (Event.PROPOSE, Event.ARM, Event.RUN):
        STEPS[event](journal, 1)
    told_of = {"trial": 1, "state": "RUNNING", "phase": "explore", "step": "measure", "step_left_s": 20.0}
    told_of["left_s"] = {"settle": -5.0, "measure": 20.0}
    trial = looked(tmp_path, {"phase": "running", "trial": told_of}).trial
    assert [step.name for step in trial.steps if step.state == "now"] == ["measure"]
    assert (trial.step_left_s, trial.left_s) == (20.0, 20.0)


def test_a_trial_that_failed_says_why(journal, tmp_path):
    """Over without an outcome, it says what it cost, and why."""
    for event in (Event.PROPOSE, Event.ARM):
        STEPS[event](journal, 1)
    journal.finish(1, "ARMED", Event.FAIL, LINES, detail="pump stuck")
    trial = looked(tmp_path).trial
    assert (trial.under_way, trial.state, trial.note, trial.cost) == (
        False,
        "FAILED",
        "pump stuck",
        pytest.approx(0.08),
    )


def test_without_a_configuration_names_come_from_the_journal(finished):
    """Names and units are known also where the configuration does not hold any more; limits are not."""
    with told(finished) as (facts, campaign):
        bare = gather(campaign.reader, None, None, NOON)
        assert bare.labels.units == facts.labels.units
        assert [o.name for o in bare.labels.outcomes] == [o.name for o in facts.labels.outcomes]
    assert bare.trial.left_s is None
    assert bare.bands == {}
    assert set(facts.bands) == set(facts.labels.units) - {"k"}  # which is learned


def test_a_forecast_is_by_the_last_trials(journal, tmp_path):
    """Trials left are what the rest of the budget buys at their prices."""
    for trial in range(1, 4):
        record_trial(journal, trial)
    money = looked(tmp_path, {"phase": "running"}).money
    assert money.per_trial == pytest.approx(0.08)
    assert money.trials_left == (int((money.budget - money.spent) / 0.08 + 1e-9),) * 2


def test_a_trial_cancelled_before_anything_moved_is_none_of_those_to_be_done(journal, tmp_path):
    """As the campaign counts them: of four, one was done."""
    record_trial(journal, 1)
    STEPS[Event.PROPOSE](journal, 2)
    journal.finish(2, State.PROPOSED, Event.ABANDON, (), detail="cancelled")
    with open_reader(tmp_path) as reader:
        facts = gather(reader, None, Status.of({"phase": "running"}), NOON)
        money = _money(reader, reader.campaign(), facts.course, SimpleNamespace(max_trials=4), going_on=True)
    assert money.trials_left == (3, 3)


def test_a_decision_before_any_outcome_has_no_numbers(journal, tmp_path):
    """A proposal whose sets were never modelled shows none."""
    journal.propose(make_decision(1))
    why = looked(tmp_path).why
    assert why.sets == ()
    assert why.reason
