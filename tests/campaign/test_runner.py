import asyncio
import math
import threading
from dataclasses import dataclass

import pytest

from rigctl.campaign.events import CampaignResult, CampaignStarted, Dosed, TrialEnded, TrialProposed, TrialStep
from rigctl.campaign.trial import Event, State
from rigctl.core.asking import validate
from rigctl.core.experiment.policy import Proposal
from rigctl.errors import DeviceError, DeviceTimeout, GuardRefused, JournalError, PolicyError, Tripped
from rigctl.rig.metering import ASLEEP
from rigctl.rig.protocols import Reading, Severity
from tests.campaign.fakes import INVALID, SoonContent, TenLines, make_spec

STEPS = [Event.PROPOSE, Event.ARM, Event.RUN, Event.MEASURE, Event.RECORD]


@pytest.mark.slow
async def test_a_campaign_runs_trials_and_ends_safe(stage):
    """Three trials, each with every step, every cost metered, and everything in its safe state at the end."""
    result = await stage.run(make_spec(max_trials=3))
    assert (result.ending, result.trials, result.safe.ok) == ("trials", 3, True)
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.RECORDED] * 3
        assert [e.event for e in journal.events()] == STEPS * 3
        assert result.spent == sum(line.amount for line in journal.ledger()) == journal.campaign().spent
        assert journal.starts()[0].ended == "trials"
    assert stage.rig.calls[:2] == ["open", "safe"]
    assert stage.rig.calls[-2:] == ["safe", "close"]


async def test_whoever_listens_is_told_every_step_in_order(stage):
    """Started, proposed, each state, the dose, ended; and the last event is the result."""
    result = await stage.run(make_spec(max_trials=1))
    kinds = [type(event) for event in stage.told]
    steps = [TrialProposed, TrialStep, Dosed, TrialStep, TrialStep, TrialEnded]
    assert kinds == [CampaignStarted, *steps, CampaignResult]
    assert stage.told[-1] == result
    assert [e.state for e in stage.told if isinstance(e, TrialStep)] == [State.ARMED, State.RUNNING, State.MEASURED]
    assert stage.told[-2].spent == result.spent


async def test_a_listener_that_fails_does_not_disturb_the_campaign(stage):
    """Fault 46: whatever watches may break."""

    class Broken(list):
        def append(self, event):
            raise OSError("display gone")

    stage.told = Broken()
    assert (await stage.run(make_spec(max_trials=1))).trials == 1


async def test_intent_is_on_disk_before_anything_moves(stage):
    """When the rig is told to move, the journal already says ARMED, with the meters' readings."""
    seen = []

    def look():
        with stage.journal() as journal:
            seen.append((journal.trial(1).state, set(journal.meter_readings(1, "before")) - {ASLEEP}))

    await stage.run(make_spec(max_trials=1), fail={"control": look})
    assert seen == [(State.ARMED, {"power", "acid"})]


async def test_only_the_chosen_setpoints_reach_the_rig(stage):
    """Each trial's setpoints are those of its control set and nothing else."""
    await stage.run(make_spec(max_trials=3))
    asked = [set(entry["setpoints"]) for entry in stage.world.log if entry["what"] == "control"]
    assert asked == [{"a"}, {"b"}, {"a", "b"}]


# How it ends --------------------------------------------------------------------------------------------------------


async def test_when_the_policy_says_nothing_fits_the_campaign_ends(stage, golden):
    """BudgetSpent ends it with the policy's reason."""
    result = await stage.run(make_spec(budget=1, policy=TenLines(cost=0.9), max_trials=None))
    golden(result.reason)
    assert result.ending == "budget"


async def test_when_the_policys_stopping_rule_fires_the_campaign_ends(stage, golden):
    """NotWorthIt is no failed decision: nothing is explored in its place, and the reason names the rule."""
    result = await stage.run(make_spec(policy=SoonContent(), max_trials=None))
    assert (result.ending, result.trials) == ("finished", 2)
    golden(result.reason)


async def test_a_policy_that_ignores_the_budget_is_ended_too(stage):
    """No trial starts once everything is spent, whatever the policy says."""
    result = await stage.run(make_spec(budget=0.4, policy=TenLines(cost=-1e9), max_trials=None))
    assert result.ending == "budget"
    assert result.trials == 2


# Instruments that fail ----------------------------------------------------------------------------------------------


async def test_fault_48_an_invalid_outcome_fails_the_trial_and_the_campaign_goes_on(stage):
    """FAILED, its cost charged, its inputs kept; the next trial is an ordinary one."""
    first = {"y": INVALID}
    spec = make_spec(max_trials=2)
    measured = dict(first)
    await stage.run(spec, measured=measured, fail={"meters": lambda: clear_after(stage, 2, measured)})
    failed, recorded = stage.trials()
    assert (failed.state, failed.outcome, failed.because.partition(":")[0]) == (State.FAILED, None, "y")
    assert failed.cost == failed_cost(failed) > 0
    assert set(failed.measured) == {"a", "b"}
    assert recorded.state is State.RECORDED


def failed_cost(row):
    """0.125 kWh, its dose, 90 s and a fixed part."""
    return 37_500 + round(row.setpoints["a"] * 2 * 10_000) + 50_000 + 50_000


def clear_after(stage, calls, measured):
    if stage.rig.calls.count("meters") >= calls:
        measured.clear()


async def test_an_invalid_input_fails_the_trial(stage):
    """A variable that could not be measured never reaches the model."""
    await stage.run(make_spec(max_trials=1), measured={"b": INVALID})
    with stage.journal() as journal:
        assert journal.trial(1).because.startswith("b: ")
        (seen,) = journal.history(make_spec().problem.space).observations
    assert (seen.x, seen.y, seen.cost_known) == (None, None, True)


@pytest.mark.parametrize("where", ["control", "control end", "measure"])
@pytest.mark.parametrize("error", [DeviceTimeout("pump: no answer"), GuardRefused("pump: over its cap")])
async def test_a_device_error_fails_the_trial_charges_it_and_makes_safe(stage, where, error):
    """What was used up to the failure is charged; everything goes safe before the next trial."""
    once = [error]

    def fault():
        if once:
            raise once.pop()

    result = await stage.run(make_spec(max_trials=2), fail={where: fault})
    with stage.journal() as journal:
        failed, recorded = journal.trials()
        lines = {line.meter: line for line in journal.ledger(1)}
    assert (failed.state, failed.because, recorded.state) == (State.FAILED, str(error), State.RECORDED)
    assert lines["acid"].quantity == (0.0 if where == "control" else pytest.approx(failed.setpoints["a"] * 2))
    assert lines["water"].amount == 50_000
    assert stage.rig.calls.index("safe", 2) < len(stage.rig.calls) - 1 - stage.rig.calls[::-1].index("control")
    assert result.spent == failed.cost + recorded.cost
    assert any(str(error) in alarm.message for alarm in stage.alarms())


async def test_a_dose_left_open_by_a_failure_is_settled_before_the_trial_is_charged(stage):
    """The pump's counter says what the broken-off dose dispensed; the ledger charges it."""

    def broken():
        raise DeviceTimeout("gone in mid-dose")

    stage.world.at = lambda what: broken() if what == "after dose" else None
    result = await stage.run(make_spec(max_trials=1))
    with stage.journal() as journal:
        (dose,) = journal.doses.rows()
        (acid,) = [line for line in journal.ledger(1) if line.meter == "acid"]
    assert dose.state == "DONE"
    assert dose.dispensed_ml == acid.quantity == stage.world.total("dose", "ml") > 0
    assert result.trials == 1


async def test_a_meter_that_cannot_be_read_before_a_trial_keeps_it_from_starting(stage, golden):
    """A trial whose cost could not be metered does not move anything, and costs nothing; its meter is to blame."""
    dead = {"power": lambda r: Reading(math.nan, r.unit, r.time_s, Severity.INVALID, "no answer")}
    with golden.raises(DeviceError):
        await stage.run(make_spec(max_trials=None), counters=dead)
    assert stage.world.count("control") == 0
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.FAILED] * 6
        assert journal.campaign().spent == 0


async def test_fault_40_a_counter_reset_in_a_trial_is_estimated_from_earlier_ones(stage):
    """The fallen counter's line is the mean of earlier trials, marked; the trial's cost stays out of the model."""
    reset = {"power": lambda r: Reading(r.value - 0.4 if r.value > 0.37 else r.value, r.unit, r.time_s)}
    await stage.run(make_spec(max_trials=3), counters=reset)
    with stage.journal() as journal:
        (line,) = [line for line in journal.ledger(3) if line.meter == "power"]
        observations = journal.history(make_spec().problem.space).observations
    assert (line.amount, line.estimated) == (37_500, True)
    assert line.note.startswith("fell ")
    assert [o.cost_known for o in observations] == [True, True, False]


async def test_consecutive_failures_stop_the_campaign_with_a_clear_error(stage, golden):
    """After max_failures in a row nothing more is tried, and everything is safe."""
    with golden.raises(DeviceError):
        await stage.run(make_spec(max_trials=None, max_failures=3), fail={"measure": DeviceTimeout("no answer")})
    assert stage.rig.calls[-2:] == ["safe", "close"]
    with stage.journal() as journal:
        golden(journal.starts()[0].ended)


async def test_a_trip_ends_the_campaign_with_the_trial_charged(stage):
    """Tripped goes through to the caller; the trial is FAILED and paid for."""
    with pytest.raises(Tripped, match="acid"):
        await stage.run(make_spec(), fail={"control end": Tripped("interlock acid")})
    assert stage.trial(1).state is State.FAILED
    assert stage.trial(1).cost > 0


async def test_an_unexpected_error_leaves_everything_safe(stage, golden):
    """A defect of ours still ends with the safe state; the trial is lost to the next start, charged."""
    with golden.raises(JournalError):
        await stage.run(make_spec(), fail={"measure": JournalError("a defect of our own")})
    assert stage.rig.calls[-2:] == ["safe", "close"]
    await stage.run(make_spec(max_trials=1))
    assert stage.trial(1).state is State.LOST


async def test_no_trial_starts_before_a_rig_is_confirmed_safe(stage):
    """Nothing is commanded while an actuator cannot be confirmed safe; once it is, trials begin."""
    from rigctl.rig.values import SafeReport

    spec, factory, tried = make_spec(), stage.make_rig, []

    def stubborn(**faults):
        make = factory(**faults)

        def made(doses, news):
            rig = make(doses, news)

            async def safe():
                tried.append(stage.world.count("control"))  # it stays until it is confirmed, then goes on
                return SafeReport(("pump",), {} if len(tried) > 3 else {"valve": "no answer"})

            rig.safe = safe
            return rig

        return made

    stage.make_rig = stubborn
    await stage.run(spec)
    assert tried[:4] == [0] * 4
    assert stage.world.count("control") > 0


# Decisions that cannot be used --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sometimes(TenLines):
    """Every second proposal is what `bad` makes of it."""

    bad: object = None

    def propose(self, state, problem, history, rng):
        proposal, after = super().propose(state, problem, history, rng)
        if len(history) % 2:
            return self.bad(proposal), {"asked": -1, "best": 0.0}
        return proposal, after


def with_setting(*setting):
    return lambda p: Proposal(p.trial, p.policy, p.phase, p.control_set, setting, p.reason)


def raises(error):
    def bad(_):
        raise error

    return bad


BAD = {
    "nan": with_setting(math.nan),
    "out of range": with_setting(1.5),
    "wrong length": with_setting(0.1, 0.2, 0.3),
    "no such set": lambda p: Proposal(p.trial, p.policy, p.phase, 99, (0.5,), p.reason),
    "cannot decide": raises(PolicyError("matrix not positive definite")),
    "crashes": raises(ZeroDivisionError("division by zero")),
    "not JSON": lambda p: Proposal(p.trial, p.policy, object(), p.control_set, p.setting, p.reason),
}


@pytest.mark.parametrize("kind", BAD)
async def test_fault_42_an_unusable_proposal_is_replaced_by_safe_exploration(stage, kind):
    """Rejected, an alarm raised, the set tried least played inside its range; the policy's memory untouched."""
    spec = make_spec(max_trials=3, policy=Sometimes(bad=BAD[kind]))
    await stage.run(spec)
    rows = stage.trials()
    assert [row.origin for row in rows] == ["policy", "rejected", "policy"]
    assert validate(rows[1].proposal, spec.problem) == []
    assert rows[1].policy_state is None
    assert rows[1].control_set == ("b",)
    assert rows[1].note in stage.alarms()[0].message
    assert rows[2].policy_state["asked"] == 2


@pytest.mark.parametrize("state", [{"asked": object()}, {"asked": {1, 2}}, None])
async def test_a_memory_that_cannot_be_kept_is_a_proposal_that_cannot_be_used(stage, state):
    """What is not JSON could not be replayed, so the proposal that came with it is not played."""

    @dataclass(frozen=True)
    class Forgetful(TenLines):
        def propose(self, problem_state, problem, history, rng):
            return super().propose(problem_state, problem, history, rng)[0], state

    await stage.run(make_spec(max_trials=1, policy=Forgetful()))
    assert stage.trial(1).origin == "rejected"


async def test_only_decisions_that_are_unusable_in_a_row_end_a_campaign(stage):
    """Those that are not consecutive may go on for ever."""
    spec = make_spec(max_trials=4, max_failures=2, policy=Sometimes(bad=BAD["nan"]))
    assert (await stage.run(spec)).trials == 4
    assert [row.origin for row in stage.trials()].count("rejected") == 2


@pytest.mark.slow
async def test_only_what_goes_wrong_in_a_row_ends_a_campaign(stage):
    """Neither unusable decisions nor failed trials that are not consecutive, nor both together."""

    def every_other():
        if stage.rig.calls.count("measure") % 2:
            raise DeviceTimeout("no answer")

    spec = make_spec(max_trials=16, max_failures=2, policy=Sometimes(bad=BAD["nan"]))
    assert (await stage.run(spec, fail={"measure": every_other})).trials == 16


@pytest.mark.slow
async def test_decisions_that_stay_unusable_end_the_campaign(stage, golden):
    """A policy that never decides is not covered up for ever."""
    broken = TenLines(cost="not a number")
    with golden.raises(PolicyError):
        await stage.run(make_spec(max_trials=None, policy=broken))
    assert len(stage.trials()) == 4


@pytest.mark.slow
async def test_fault_50_a_late_decision_is_replaced_and_the_loop_never_waits(stage, golden):
    """Past its limit a decision is not waited for, whatever makes it; the loop turns all the while."""
    release, ticks, asked = threading.Event(), [], []

    @dataclass(frozen=True)
    class Slow(TenLines):
        def propose(self, state, problem, history, rng):
            asked.append(len(history))
            release.wait(30)
            return super().propose(state, problem, history, rng)

    async def tick():
        while True:
            ticks.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0.001)

    ticking = asyncio.create_task(tick())
    try:
        await stage.run(make_spec(max_trials=2, policy=Slow(), decision_limit_s=0.5))
    finally:
        release.set()
        ticking.cancel()
    rows = stage.trials()
    assert [(row.origin, row.state) for row in rows] == [("timed-out", State.RECORDED)] * 2
    golden(rows[0].note)
    assert len(ticks) > 10
    assert asked == [0, 1]


async def test_nothing_that_fits_is_the_end_for_the_fallback_too(stage, golden):
    """If even safe exploration cannot pay a trial, the campaign ends as spent."""

    @dataclass(frozen=True)
    class Useless(TenLines):
        def propose(self, state, problem, history, rng):
            if not len(history):
                return super().propose(state, problem, history, rng)
            raise PolicyError("no idea")

    result = await stage.run(make_spec(budget=0.3, policy=Useless(cost=0.0), max_trials=None))
    assert (result.ending, result.trials) == ("budget", 1)
    golden(result.reason)


async def test_fault_50_exploration_in_a_late_decision_s_place_has_no_limit(stage):
    """Whatever the limit, the fallback is waited for; a bare TimeoutError never ends a campaign."""
    await stage.run(make_spec(max_trials=2, decision_limit_s=0.0))
    assert [(row.origin, row.state) for row in stage.trials()] == [("timed-out", State.RECORDED)] * 2
