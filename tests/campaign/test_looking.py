"""Trials that look first: prepared and read, then decided; at the journal and with a whole runner."""

from contextlib import closing
from dataclasses import dataclass, replace
from math import inf
from types import SimpleNamespace

import pytest

from rigctl.campaign.carry import outdated
from rigctl.campaign.decide import Question, decide
from rigctl.campaign.events import TrialLooked, TrialProposed, TrialStep
from rigctl.campaign.trial import Event, Looked, State, look_of, undecided
from rigctl.core.costs.beliefs import believe
from rigctl.core.experiment.history import ALONE, History, Look
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent, NotWorthIt
from rigctl.errors import DeviceError, DeviceTimeout, NoAnswer
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.metering import ASLEEP
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import PrepareStep
from rigctl.rig.values import Measurement
from tests.campaign.fake_looks import PREPARE_S
from tests.campaign.fakes import (
    INVALID,
    SETTLE_S,
    FakeClock,
    TenLines,
    ThreadDecider,
    charged,
    make_spec,
    metered,
    open_journal,
    sound,
)
from tests.campaign.looking import Seeing, looking_spec
from tests.campaign.records import STATES
from tests.profiles import slow_beyond

LOOKS = [Event.LOOK, Event.PROPOSE, Event.ARM, Event.RUN, Event.MEASURE, Event.RECORD]


async def test_fault_71_a_meter_that_is_gone_before_the_look_is_waited_for(stage):
    """No trial has begun that could fail; it was tried again at once, for ever, with an alarm each time."""

    def gone():
        if len(stage.rig.missing) or stage.rig.calls.count("meters") == 1:
            raise DeviceTimeout("no answer", device="mains")

    result = await stage.run(looking_spec(max_trials=1), fail={"meters": gone}, missing=[{"mains": "no answer"}] * 3)
    assert (result.recorded, stage.rig.calls.count("roll_call")) == (1, 4)
    assert [a.kind for a in stage.alarms() if a.source == "mains"].count("trial failed") == 1


async def test_a_look_that_cannot_begin_though_every_instrument_answers_ends_the_campaign(stage, golden):
    """After as many attempts as trials that fail."""
    with golden.raises(DeviceError):
        await stage.run(looking_spec(), fail={"meters": DeviceTimeout("mains: no answer")})


async def test_a_trial_looks_though_nobody_could_say_whether_it_is_worth_one(stage):
    """No answer before the look costs nothing: the decision after it is made as ever."""

    class Slow(ThreadDecider):
        async def decide(self, question, limit_s):
            if question.looks:
                raise NoAnswer("no decision")
            return await super().decide(question, limit_s)

    spec = looking_spec(max_trials=2)
    result = await stage.run(spec, decider=Slow())
    assert result.recorded == 2
    assert [row.origin for row in stage.trials()] == ["policy", "policy"]
    sound(stage, spec)


async def test_a_trial_is_prepared_and_read_before_it_is_decided(stage):
    """Meters, LOOK, prepare, read, decide, arm, control: prepared and metered once, decided by what was read."""
    spec = looking_spec(max_trials=2)
    await stage.run(spec)
    with stage.journal() as journal:
        first, second = journal.trials()
        assert [e.event for e in journal.events()] == LOOKS * 2
        assert (first.state, first.looks) == (State.RECORDED, {"a": Looked(4.1, 0.01), "b": Looked(0.25, 0.01)})
        assert first.setpoints == {"a": 4.1}
        assert second.setpoints == pytest.approx({"b": 0.42})
        seen = journal.history(spec.problem.space).observations
        assert seen[1].look == Look(pytest.approx((0.42, 0.25)), pytest.approx((0.001, 0.01)))
        assert set(journal.meter_readings(1, "before")) - {ASLEEP} == {"power", "acid"}
        took = {line.meter: line.quantity for line in journal.ledger(1)}
        assert took["labour"] == pytest.approx((PREPARE_S + 10.0 + 30.0 + SETTLE_S) / 3600.0)
        assert took["power"] == 0.1875
    doing = [c for c in stage.rig.calls if c in ("meters", "prepare", "look", "control", "measure")]
    assert doing == ["meters", "prepare", "look", "control", "measure", "meters", *doing[6:]]
    assert doing[6:] == ["prepare", "look", "control", "measure", "meters"]
    sound(stage, spec)


async def test_whoever_listens_is_told_of_the_look_before_the_decision(stage):
    """LOOKING, what was read, the proposal, then the steps that every trial has."""
    await stage.run(looking_spec(max_trials=1))
    kinds = (TrialStep, TrialLooked, TrialProposed)
    told = [e.state if isinstance(e, TrialStep) else type(e) for e in stage.told if isinstance(e, kinds)]
    assert told == [State.LOOKING, TrialLooked, TrialProposed, State.ARMED, State.RUNNING, State.MEASURED]


@pytest.mark.parametrize(("age_s", "told"), [(300.0, False), (300.5, True), (inf, True)])
def test_what_was_read_counts_for_as_long_as_it_says(age_s, told):
    """To its very end; not if nobody knows how old it is."""
    rig = looking_spec().rig
    trial = SimpleNamespace(trial=1, looks={"a": Looked(4.1, 0.01)})
    people = SimpleNamespace(moved_since=lambda at_s: None)
    reader = SimpleNamespace(people=people, events=lambda trial: [SimpleNamespace(at_s=0.0)])
    past = SimpleNamespace(looked_since=lambda trial: SimpleNamespace(certain_s=age_s))
    assert bool(outdated(SimpleNamespace(read=reader, past=past), rig, trial)) is told


@pytest.mark.parametrize(("moved_s", "told"), [(9.0, False), (10.0, True), (19.0, True)])
def test_what_was_read_does_not_count_once_somebody_has_moved_something_by_hand(moved_s, told):
    """Whoever did so since the look began, though it was before the decision."""
    act = SimpleNamespace(who="ada", argument="set valve 1")
    people = SimpleNamespace(moved_since=lambda at_s: act if moved_s >= at_s else None)
    reader = SimpleNamespace(people=people, events=lambda trial: [SimpleNamespace(at_s=s) for s in (10.0, 20.0)])
    past = SimpleNamespace(looked_since=lambda trial: SimpleNamespace(certain_s=1.0))
    trial = SimpleNamespace(trial=1, looks={"a": Looked(4.1, 0.01)})
    assert bool(outdated(SimpleNamespace(read=reader, past=past), looking_spec().rig, trial)) is told


@pytest.mark.parametrize(
    ("looks", "waits"), [(True, {State.LOOKING: ["prepare", "look"]}), (False, {State.ARMED: ["prepare"]})]
)
async def test_whoever_listens_is_told_of_a_preparation_where_it_is(stage, looks, waits):
    """The rig is prepared once: before the look, or else once the trial is decided."""
    seeing, plain = looking_spec(max_trials=1), make_spec(max_trials=1)
    timing = replace(seeing.rig.timing, prepare=(PrepareStep("pump", 1.0, PREPARE_S),))
    timing = timing if looks else replace(timing, look=None)
    await stage.run(replace(seeing if looks else plain, rig=replace(seeing.rig, timing=timing)))
    steps = [e for e in stage.told if isinstance(e, TrialStep)]
    before = {e.state: list(e.until_s) for e in steps if e.until_s and e.state is not State.RUNNING}
    assert before == waits


async def test_the_look_is_on_disk_before_anything_is_prepared(stage):
    """When the rig is told to prepare, the journal already says LOOKING, with the meters' readings."""
    seen = []

    def look():
        with stage.journal() as journal:
            row = journal.trial(1)
            seen.append((row.state, row.control_set, set(journal.meter_readings(1, "before")) - {ASLEEP}))

    await stage.run(looking_spec(max_trials=1), fail={"prepare": look})
    assert seen == [(State.LOOKING, (), {"power", "acid"})]


async def test_a_sensor_that_cannot_be_read_before_costs_a_note_and_no_trial(stage, golden):
    """Its value is None for the decision; the trial goes on, and a person is told."""
    spec = looking_spec(max_trials=1)
    await stage.run(spec, seen={"a": INVALID})
    with stage.journal() as journal:
        (seen,) = journal.history(spec.problem.space).observations
        assert journal.trial(1).state is State.RECORDED
    assert seen.look == Look((None, 0.25), (0.0, 0.01))
    told = [(a.source, a.message) for a in stage.alarms() if a.severity is Severity.MINOR]
    golden(told)
    sound(stage, spec)


@pytest.mark.parametrize("at", ["prepare", "look"])
async def test_an_instrument_that_fails_while_looking_fails_the_trial(stage, at):
    """FAILED and charged; nothing was controlled, and it says nothing of what a whole trial costs."""
    spec = looking_spec(max_trials=2)
    stop = {at: DeviceTimeout("a_probe: no answer")}

    def once():
        if at in stop:
            raise stop.pop(at)

    await stage.run(spec, fail={at: once})
    with stage.journal() as journal:
        failed, recorded = journal.trials()
        (lost, _) = journal.history(spec.problem.space).observations
    assert (failed.state, failed.control_set, recorded.state) == (State.FAILED, (), State.RECORDED)
    assert failed.cost > 0
    assert (lost.control_set, lost.cost_known, lost.y) == (ALONE, False, None)
    sound(stage, spec)


async def test_three_looks_that_fail_are_nobodys_control_set(stage):
    """The policy is asked all the same: no control set has been without an outcome so often."""
    spec = looking_spec(max_trials=4)
    left = [1, 2, 3]

    def thrice():
        if left:
            left.pop()
            raise DeviceTimeout("a_probe: no answer")

    await stage.run(spec, fail={"prepare": thrice})
    assert (stage.trial(4).state, stage.trial(4).origin) == (State.RECORDED, "policy")


class Passing(FakeClock):
    """A clock that has gone on whenever it is looked at, as clocks do."""

    def now_s(self):
        self.passed_s = getattr(self, "passed_s", 0.0) + 0.001
        return super().now_s() + self.passed_s


@pytest.mark.slow
async def test_a_trial_that_looks_is_carried_out_where_caps_have_room_though_time_passes(stage):
    """What fits now fits, also if now is a moment later than when that was asked."""
    limits = {"pump": ActuatorLimits(low=0.0, high=10.0, safe_state="off", per_dose_ml=50.0, per_day_ml=10_000.0)}
    stage.clock = lambda: Passing(stage.world)
    await stage.run(looking_spec(max_trials=4, rig=replace(looking_spec().rig, limits=limits), policy=TenLines()))
    rows = [(row.control_set, row.state, row.because) for row in stage.trials()]
    assert rows == [(names, State.RECORDED, "") for names in (("a",), ("b",), ("a", "b"), ("a",))]


class Content(Seeing):
    """Its own stopping rule fires after one trial."""

    def propose(self, state, problem, history, rng):
        if history:
            raise NotWorthIt("no trial is worth 0.5")
        return super().propose(state, problem, history, rng)


@pytest.mark.parametrize(
    ("changes", "ending"),
    [({"policy": Content()}, "finished"), ({"policy": Seeing(cost=9.9), "budget": 10}, "budget")],
)
async def test_a_look_after_which_nothing_is_decided_is_abandoned_and_charged(stage, changes, ending):
    """The campaign ends as it would have, and the preparation is paid."""
    spec = looking_spec(max_trials=None, **changes)
    result = await stage.run(spec)
    with stage.journal() as journal:
        done, last = journal.trials()
        assert result.spent == journal.campaign().spent == done.cost + last.cost
    assert (result.ending, result.trials) == (ending, 2)
    assert (last.state, last.control_set) == (State.ABANDONED, ())
    assert last.because.startswith("not decided: ")
    assert last.cost > to_micros(0.05)
    sound(stage, spec)


@pytest.mark.slow
async def test_nobody_looks_when_no_trial_fits_the_rest_of_the_budget_whatever_is_read(stage, golden):
    """The third is not even prepared; what is left stays in the budget."""
    spec = looking_spec(budget=0.6, max_trials=None, policy=Seeing(cost=0.1))
    result = await stage.run(spec)
    assert (result.ending, result.trials, stage.world.count("prepare")) == ("budget", 2, 2)
    golden(result.reason)
    assert [row.state for row in stage.trials()] == [State.RECORDED] * 2
    sound(stage, spec)


@dataclass(frozen=True)
class Choosy(Seeing):
    """Has use for the dearest control set alone, or, where it is told so, for another where `a` reads so much."""

    useful_from: float = 2.0

    def propose(self, state, problem, history, rng):
        dear = believe(problem, history, "hoeffding")[2].upper
        read = 0.0 if problem.look is None else problem.look.x[0]
        if len(history) >= 3 and dear > problem.budget - history.spent and read < self.useful_from:
            raise BudgetSpent("the only useful one is too dear")
        return super().propose(state, problem, history, rng)


@pytest.mark.parametrize(("useful_from", "looks"), slow_beyond(1, [(2.0, 3), (0.9, 4)], several=True))
async def test_nobody_looks_when_the_policy_has_no_use_for_the_rest_at_any_reading(stage, useful_from, looks, golden):
    """It is asked at readings to come; where one of them would let it go on, only the look can tell."""
    spec = looking_spec(budget=0.93, max_trials=None, policy=Choosy(cost=0.1, useful_from=useful_from))
    result = await stage.run(spec)
    golden(result.reason)
    assert result.ending == "budget"
    assert (result.trials, stage.world.count("prepare")) == (looks, looks)
    sound(stage, spec)


async def test_too_many_decisions_that_cannot_be_used_leave_no_trial_open(stage, golden):
    """The last look is ABANDONED, not lost to the next start."""

    class Broken(Seeing):
        def propose(self, state, problem, history, rng):
            raise ZeroDivisionError

    with golden.raises(Exception):
        await stage.run(looking_spec(max_trials=None, policy=Broken(), max_failures=2))
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.RECORDED, State.ABANDONED]
        assert journal.open_trial() is None


# Deaths -------------------------------------------------------------------------------------------------------------


SEEN = {"a": Measurement(4.1, 0.02, 4), "b": Measurement(0.25, 0.02, 4)}


def left_behind(stage, last, spec):
    """The journal of a process that died after this step of a trial that looks; a kilowatt-hour was used in it."""
    stage.state.mkdir()
    journal = open_journal(stage.state, stage.clock())
    journal.begin(spec, "0.0")
    before = {
        "power": Reading(stage.world.total("energy", "kwh"), "kWh", stage.world.now_s),
        "acid": Reading(stage.world.total("dose", "ml"), "mL", stage.world.now_s),
    }
    history = History()
    journal.look(undecided(1, spec.seed, spec.problem.budget, history), before)
    stage.world.do("prepare")
    stage.world.do("time", s=PREPARE_S + 10.0)
    stage.world.do("energy", kwh=1.0)
    journal.beat()
    if last != "begin":
        journal.keep_look(1, SEEN)
    if last == "propose":
        problem = replace(spec.problem, look=look_of(spec.problem.space, journal.read.trial(1).looks))
        journal.propose(decide(Question(spec.policy, problem, spec.seed, history, None)))
    journal.close()


@pytest.mark.parametrize("last", ["begin", "keep"])
async def test_a_trial_that_was_looking_is_lost_charged_and_never_repeated(stage, last):
    """LOST up to the last sign of life; the next trial is prepared for itself."""
    spec = looking_spec(max_trials=2)
    left_behind(stage, last, spec)
    stage.world.do("time", s=86_400.0)
    stage.world.do("energy", kwh=3.0)
    await stage.run(spec)
    with stage.journal() as journal:
        lost, done = journal.trials()
        assert (lost.state, lost.control_set, done.state) == (State.LOST, (), State.RECORDED)
        lines = {line.meter: line for line in journal.ledger(1)}
        assert lines["labour"].quantity == pytest.approx((PREPARE_S + 10.0) / 3600.0)
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
    assert stage.world.count("prepare") == 2
    sound(stage, spec)


@pytest.mark.slow
async def test_a_trial_that_was_lost_after_its_look_pays_from_the_look_on(stage):
    """Up to the last sign of life: not only from where it began to move."""
    spec = looking_spec(max_trials=2)
    left_behind(stage, "propose", spec)
    with closing(open_journal(stage.state, stage.clock())) as journal:
        journal.begin(spec, "0.0")
        journal.arm(1, {})
        journal.run(1, STATES)
        stage.world.do("time", s=60.0)
        journal.beat()
    stage.world.do("time", s=86_400.0)
    await stage.run(spec)
    with stage.journal() as journal:
        assert journal.trial(1).state is State.LOST
        lines = {line.meter: line for line in journal.ledger(1)}
        assert lines["labour"].quantity == pytest.approx((PREPARE_S + 10.0 + 60.0) / 3600.0)


@pytest.mark.slow
async def test_a_decision_by_a_look_goes_on_after_a_death_while_it_is_young(stage):
    """The same setting, nothing prepared or read twice; what passed meanwhile is no trial's."""
    spec = looking_spec(max_trials=1)
    left_behind(stage, "propose", spec)
    stage.world.do("time", s=200.0)
    stage.world.do("energy", kwh=0.5)
    await stage.run(spec)
    with stage.journal() as journal:
        row = journal.trial(1)
        assert (row.state, row.setpoints) == (State.RECORDED, {"a": 4.1})
        lines = {line.meter: line for line in journal.ledger(1)}
        assert lines["labour"].quantity == pytest.approx((PREPARE_S + 10.0 + 30.0 + SETTLE_S) / 3600.0)
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
    assert [stage.world.count(what) for what in ("prepare", "control")] == [1, 1]
    sound(stage, spec)


@pytest.mark.parametrize("why", slow_beyond(1, ["min old", "anna has done by hand", "going safe drives valve"]))
async def test_a_decision_by_a_look_that_counts_no_longer_is_abandoned_and_another_one_looks(stage, why):
    """What was read is too old, a person has moved something, or going safe has: charged, made safe, prepared anew."""
    spec = looking_spec(max_trials=2)
    left_behind(stage, "propose", spec)
    stage.world.do("time", s=301.0 if why == "min old" else 10.0)
    with closing(open_journal(stage.state, stage.clock())) as journal:
        if "anna" in why:
            journal.people.act("manual", "anna", "set valve 0.5", "", "holds 0.5")
    if "safe" in why:
        spec = replace(spec, rig=replace(spec.rig, limits={"valve": ActuatorLimits(low=0.0, high=1.0, safe_state=0.0)}))
    await stage.run(spec)
    old, new = stage.trials()
    assert (old.state, new.state) == (State.ABANDONED, State.RECORDED)
    assert old.cost > 0
    assert why in old.because
    assert [stage.world.count(what) for what in ("prepare", "control", "safe")] == [2, 1, 3]
    sound(stage, spec)


@pytest.mark.slow
async def test_a_sensor_that_is_known_to_be_frozen_decides_no_trial(stage):
    """Two trials read the same to the last digit, and so does the third one's look: it is decided without it."""
    spec, stuck = looking_spec(max_trials=4), Measurement(5.0, 0.0, 5)
    measured = {"a": stuck, "b": Measurement(0.25, 0.02, 4)}  # only the outcome says that anything changes

    def moves():
        stage.rig.measured, stage.rig.seen, stage.rig.reads = {}, {}, {"a": 5.5}

    result = await stage.run(spec, measured=measured, seen={"a": stuck}, reads={"a": 5.0}, fail={"roll_call": moves})
    rows = stage.trials()
    assert [row.state for row in rows] == [*[State.RECORDED] * 2, State.FAILED, State.RECORDED]
    assert [row.looks["a"].value for row in rows] == [5.0, 5.0, None, pytest.approx(4.4)]
    told = "trial 3: not read before the decision, so what is usual is taken: reads 5.0 to the last digit in 3 trials"
    assert [a.source for a in stage.alarms() if a.message.startswith(told)] == ["a"]
    assert result.ending == "trials"
    sound(stage, spec)
