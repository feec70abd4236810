"""Production: batches by the rule, after a campaign, on the fake rig."""

import asyncio
import shutil
from contextlib import closing
from dataclasses import dataclass, fields, replace

import pytest

from rigctl.campaign.acts import InService, OutOfService
from rigctl.campaign.closing import SLEPT
from rigctl.campaign.production import for_production, production, said, told_by
from rigctl.campaign.trial import State
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions, Problem, ReferenceTrials
from rigctl.core.operating.playing import remembered
from rigctl.core.operating.policy import Operating
from rigctl.errors import DeviceTimeout, JournalError, NoAnswer, PolicyError, UsageError
from rigctl.rig.values import Measurement
from tests.campaign.fakes import (
    Stage,
    TenLines,
    ThreadDecider,
    make_space,
    make_spec,
    open_journal,
    sound,
    unsynced,
)
from tests.campaign.looking import looking_spec
from tests.campaign.reaper import one_life
from tests.profiles import slow_beyond

MODEL = ModelOptions(
    hyperparameters="fixed", kernel="matern-5/2", lengthscales=(0.5, 0.5), signal_sd=4.0, noise_sd=0.3, mean=4.0
)
TRIALS = 6


def campaign(**changes):
    """A campaign of a few trials, under a model that need not be learned; every third repeats a setting."""
    problem = Problem(make_space(), to_micros(100), model=MODEL, reference=ReferenceTrials(3))
    return make_spec(**{"problem": problem, "max_trials": TRIALS, **changes})


def seeing():
    """The same on a rig that looks first."""
    spec = looking_spec(max_trials=TRIALS, policy=TenLines())
    return replace(spec, problem=replace(spec.problem, model=MODEL))


def produced(spec, batches, **wish):
    """The same campaign, its rig run for production."""
    return for_production(spec, Operating(spec.policy, 0.05, spec.seed, **wish), batches)


@pytest.mark.slow
async def test_a_campaign_that_was_stopped_early_is_replayed_and_does_not_end_production(stage):
    """No trial is worth its cost from the third outcome on; every decision comes out again from the journal alone."""
    spec = campaign()
    spec = replace(spec, problem=replace(spec.problem, stop_worth=1e-9))
    first = await stage.run(spec)
    assert first.ending == "finished"
    assert first.spent < spec.problem.budget
    sound(stage, spec)
    result = await stage.run(produced(spec, 2))
    assert (result.ending, result.reason[:6]) == ("trials", "2 of 2")


@pytest.mark.slow
@pytest.mark.parametrize("spec", [campaign(), seeing()])
async def test_batches_play_what_was_recommended_and_cost_no_budget(stage, spec):
    """The same setting batch after batch, as many as asked for; in the ledger, and no part of what was spent."""
    first = await stage.run(spec)
    result = await stage.run(produced(spec, 3))
    assert (result.ending, result.reason[:6], result.trials) == ("trials", "3 of 3", 9)
    with stage.journal() as journal:
        rows = journal.trials()
        assert [row.operated for row in rows] == [False] * 6 + [True] * 3
        assert {row.proposal.phase for row in rows[6:]} == {"operate"}
        assert len({tuple(row.setpoints.items()) for row in rows[6:]}) == 1
        history = journal.history(spec.problem.space)
        assert result.spent == first.spent == history.spent == journal.campaign().spent
        assert journal.campaign().operated == sum(row.cost for row in rows[6:]) == result.operated
        found = production(journal)
    assert (found.first, found.made_of, found.batches, found.recorded, found.drifts) == (7, 6, 3, 3, ())
    assert found.outcome == pytest.approx(sum(row.outcome for row in rows[6:]) / 3)
    assert found.expected == pytest.approx(sum(row.proposal.sets[0].mean for row in rows[6:]) / 3)
    assert found.cost == pytest.approx(sum(row.cost for row in rows[6:]) / 3e6)
    sound(stage, spec)


@pytest.mark.slow
async def test_a_campaign_that_goes_on_has_its_own_memory_and_budget_and_production_then_begins_anew(stage):
    """Its policy remembers what it did; the next production is made of all that is known by then."""
    spec = campaign()
    await stage.run(spec)
    await stage.run(produced(spec, 2))
    kept_on = await stage.run(produced(spec, 1))
    result = await stage.run(replace(spec, max_trials=TRIALS + 1))
    again = await stage.run(produced(spec, 1))
    rows = stage.trials()
    memories = [remembered(row.policy_state) for row in rows]
    assert [m and (m.begun, m.since) for m in memories[6:]] == [(7, 6), (7, 6), (7, 6), None, (11, 10)]
    assert rows[9].policy_state["asked"] == rows[5].policy_state["asked"] + 1
    assert result.spent == kept_on.spent + rows[9].cost == again.spent
    sound(stage, spec)


@pytest.mark.slow
async def test_what_is_used_after_a_batch_is_productions(stage):
    """A campaign that goes on pays for no night in which production held: it would eat the rest of its budget."""
    spec = campaign()
    before = await stage.run(spec)
    await stage.run(produced(spec, 1), idle_kwh=4.0)
    result = await stage.run(replace(spec, max_trials=TRIALS + 1))
    with stage.journal() as journal:
        around = [line.amount for line in journal.idle.rows()]  # before and after the batch
        night = sum(line.amount for line in journal.idle.rows() if line.before_trial == TRIALS + 2)
        assert night > 0
        assert result.spent == before.spent + journal.trials()[-1].cost
        assert journal.campaign().operated == journal.trials()[TRIALS].cost + sum(around)
    sound(stage, spec)


@pytest.mark.slow
async def test_what_is_used_in_a_trial_that_slept_after_a_batch_is_the_campaigns(stage):
    """It was no production that kept the rig then: it counts in what is spent of the budget."""
    spec = campaign()
    before = await stage.run(spec)
    await stage.run(produced(spec, 1))

    def nap():
        for what in ("asleep", "time"):
            stage.world.do(what, s=600.0)

    result = await stage.run(replace(spec, max_trials=TRIALS + 1), fail={"measure": nap})
    with stage.journal() as journal:
        slept = sum(line.amount for line in journal.idle.rows() if line.note.startswith(SLEPT))
        assert slept > 0
        assert result.spent == before.spent + journal.trials()[-1].cost + slept
        lines = (*journal.ledger(), *journal.idle.rows())
        assert result.spent + journal.campaign().operated == sum(line.amount for line in lines)
    sound(stage, spec)


def unarmed(directory, clock):
    """A journal that ends the process once a trial was decided."""

    def arm(*_):
        raise JournalError("not armed")

    journal = open_journal(directory, clock)
    journal.arm = arm
    return journal


WISHES = {"campaign": None, "rule": {}, "told": {"fixed": (("b", 0.5),)}}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("left", "then", "goes_on"),
    [("campaign", "rule", False), ("told", "rule", False), ("rule", "campaign", False), ("rule", "rule", True)],
)
async def test_what_was_decided_for_something_else_is_not_run(stage, left, then, goes_on):
    """A trial that a process left before anything moved explores, or is what was told then; each runs its own."""
    spec = campaign(max_trials=TRIALS + 1)
    told = {n: spec if wish is None else produced(spec, 1, **wish) for n, wish in WISHES.items()}
    await stage.run(replace(spec, max_trials=TRIALS))
    with pytest.raises(JournalError, match="not armed"):
        await stage.run(told[left], journal=unarmed)
    result = await stage.run(told[then])
    with stage.journal() as journal:
        waited, *after = journal.trials()[TRIALS:]
        assert production(journal) is None or production(journal).instead == 0
    assert waited.state is (State.RECORDED if goes_on else State.ABANDONED)
    assert (waited.cost > 0) is goes_on
    assert [(row.state, row.operated) for row in after] == [(State.RECORDED, then != "campaign")] * (not goes_on)
    assert then == "campaign" or result.reason.startswith("1 of 1 ")
    sound(stage, spec)


@pytest.mark.slow
async def test_anew_makes_the_rule_of_all_that_is_known_by_then(stage):
    """So does a process that is told to learn, after every batch while there are few."""
    spec = campaign()
    await stage.run(spec)
    await stage.run(produced(spec, 2))
    await stage.run(produced(spec, 2, at_least=8))
    await stage.run(produced(spec, 2, learn=0.5))
    memories = [remembered(row.policy_state) for row in stage.trials()[6:]]
    assert [(m.begun, m.since) for m in memories] == [(7, 6), (7, 6), (7, 8), (7, 8), (7, 10), (7, 11)]
    assert memories[-1].gained > 0
    sound(stage, spec)


async def test_a_setting_that_was_told_is_run_without_any_campaign(stage):
    """Nothing is recommended, nothing is expected; as the campaign's first trials later it is evidence."""
    spec = campaign()
    await stage.run(produced(spec, 2, fixed=(("a", 2.5), ("b", 0.5))))
    with stage.journal() as journal:
        assert [row.setpoints for row in journal.trials()] == [{"a": 2.5, "b": 0.5}] * 2
        assert journal.campaign().spent == 0
    sound(stage, spec)


@pytest.mark.slow
async def test_what_is_run_belongs_to_the_plant_it_was_learned_on(stage):
    """A changed wiring is refused, as in a campaign; nothing has moved."""
    spec = campaign()
    await stage.run(spec)
    changed = replace(spec.rig, outcomes=(replace(spec.rig.outcomes[0], sensor="other scale"),))
    with pytest.raises(UsageError, match=r"outcome\.sensor"):
        await stage.run(produced(replace(spec, rig=changed), 1))
    assert "control" not in stage.rig.calls


@pytest.mark.slow
async def test_no_budget_ends_production_and_a_batch_that_fails_is_charged_and_not_explored_away(stage):
    """With nothing of the budget left; after three failures of one setting it is run again all the same."""
    spec = campaign(problem=Problem(make_space(), to_micros(1.1), model=MODEL), max_trials=None)
    spent = await stage.run(spec)
    assert spent.ending == "budget"
    left = [1, 2, 3]

    def thrice():
        if left:
            left.pop()
            raise DeviceTimeout("a_probe: no answer")

    result = await stage.run(produced(spec, 5), fail={"measure": thrice})
    rows = [row for row in stage.trials() if row.operated]
    assert [row.state for row in rows] == [State.FAILED] * 3 + [State.RECORDED] * 2
    assert len({tuple(row.setpoints.items()) for row in rows}) == 1
    assert all(row.cost > 0 for row in rows)
    assert result.spent == spent.spent
    sound(stage, spec)


@pytest.mark.slow
async def test_a_rule_that_needs_what_is_out_of_service_gives_way_to_the_best_that_can_be_played(stage, golden):
    """As long as it is out: nothing explored, nobody asked; it is played again when the pump is back."""
    spec = campaign()
    await stage.run(spec)
    await stage.run(produced(spec, 1))
    for kind in (OutOfService, InService):
        with closing(open_journal(stage.state, stage.clock())) as journal:
            kind(device="pump", who="anna").apply(journal, spec.rig)
        await stage.run(produced(spec, 1))
    before, without, after = stage.trials()[TRIALS:]
    assert "a" in before.control_set
    assert without.control_set == ("b",)
    golden(without.proposal.reason)
    assert (after.control_set, after.setpoints) == (before.control_set, before.setpoints)
    assert not [a for a in stage.alarms() if a.source.startswith("policy")]
    sound(stage, spec)


class Unanswered(ThreadDecider):
    """Gives no answer, or the policy's is an error, when as many decisions have been made."""

    def __init__(self, silent=(), broken=()):
        self.silent, self.broken, self.asked = silent, broken, 0

    async def decide(self, question, limit_s):
        if question.looks:
            return await super().decide(question, limit_s)
        self.asked += 1
        if self.asked in self.silent:
            raise NoAnswer("no decision within 60 s")
        if self.asked in self.broken:
            unable = Broken(**{f.name: getattr(question.policy, f.name) for f in fields(Operating)})
            question = replace(question, policy=unable)
        return await super().decide(question, limit_s)


@dataclass(frozen=True)
class Broken(Operating):
    """Cannot decide."""

    def propose(self, state, problem, history, rng):
        raise FloatingPointError("overflow")


@pytest.mark.slow
@pytest.mark.parametrize("spec", [campaign(), seeing()])
async def test_a_batch_that_is_not_decided_is_run_as_before(stage, spec, golden):
    """Never explored, nor an exploring batch repeated: the same setting, with an alarm; a replay agrees."""
    await stage.run(spec)
    await stage.run(produced(spec, 4, learn=0.9), decider=Unanswered(silent=(2, 4)))
    with stage.journal() as journal:
        rows = journal.trials()[TRIALS:]
        assert [row.proposal.phase == "unchanged" for row in rows] == [False, True, False, True]
        for before, row in ((rows[0], rows[1]), (rows[2], rows[3])):
            stands = remembered(before.policy_state).ways[0]
            assert (row.control_set, row.setpoints) == (stands.control_set, pytest.approx(stands.at))
        assert production(journal).instead == 2
    golden([a.message.split("; ")[1] for a in stage.alarms() if a.source == "policy operate"])
    sound(stage, spec)


@pytest.mark.slow
async def test_a_decision_that_fails_runs_what_stands_for_as_long_as_it_fails(stage):
    """The policy's error is in the alarm; the batches are the one before, and production does not end of it."""
    spec = campaign()
    batches = spec.max_failures + 3
    await stage.run(spec)
    result = await stage.run(produced(spec, batches), decider=Unanswered(broken=range(2, batches + 1)))
    assert result.reason.startswith(f"{batches} of {batches} ")
    before, *after = stage.trials()[TRIALS:]
    assert {row.origin for row in after} == {"rejected"}
    assert all("FloatingPointError" in row.note for row in after)
    assert all((row.control_set, row.setpoints) == (before.control_set, before.setpoints) for row in after)


@pytest.mark.slow
@pytest.mark.parametrize("decider", slow_beyond(1, [Unanswered(silent=(1,)), Unanswered(broken=(1,))]))
async def test_without_anything_decided_nothing_is_run_but_a_setting_that_was_told(stage, decider, golden):
    """What to run is asked once; no answer, and no batch begins."""
    spec = campaign()
    await stage.run(spec)
    with golden.raises(PolicyError):
        await stage.run(produced(spec, 1), decider=decider)
    decider.asked = 0
    await stage.run(produced(spec, 1, fixed=(("b", 0.5),)), decider=decider)
    assert [row.setpoints for row in stage.trials()[TRIALS:]] == [{"b": 0.5}]


@pytest.mark.slow
async def test_a_response_that_has_changed_is_an_alarm_once_which_stands(stage, golden):
    """By its source, with the remedy; not a word while the plant is what it was."""
    spec = campaign()
    await stage.run(spec)
    count = [0]

    def later():
        count[0] += 1
        if count[0] > 15:
            stage.rig.measured["y"] = Measurement(2.0 + 0.001 * count[0], 0.01, 5)

    await stage.run(produced(spec, 15), fail={"measure": later})
    assert [a for a in stage.alarms() if a.source == "response"] == []
    count[0] = 15
    await stage.run(produced(spec, 5), fail={"measure": later})
    (alarm,) = [a for a in stage.alarms() if a.source == "response"]
    golden(alarm.message)
    assert alarm.state == "stands"
    golden(alarm.message)
    with stage.journal() as journal:
        assert [d.source for d in production(journal).drifts] == ["response"]
    sound(stage, spec)


@pytest.mark.parametrize(
    "wish", [{}, {"learn": 0.05}, {"fixed": (("a", 0.1), ("b", 1 / 3))}, {"learn": 0.0, "at_least": 12}, {"full": True}]
)
def test_the_audit_says_what_a_process_was_told_to_the_last_bit(wish):
    """So that replay asks the same policy."""
    told = Operating(TenLines(), 0.05, 7, **wish)
    assert told_by(said(told), TenLines(), 7) == told


def life(directory, spec, kill_at=None):
    """One process's life on the stage."""

    def live(reaper):
        stage = Stage(directory, reaper)
        watched = lambda *where: reaper.watch(unsynced(open_journal(*where)))  # noqa: E731
        asyncio.run(stage.run(spec, journal=watched))

    return one_life(live, kill_at)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shares", "wish"),
    [((0.5,), {"full": True}), ((0.15, 0.5, 0.6, 0.9), {})],
)
async def test_production_that_is_killed_goes_on_with_the_same_rule(tmp_path, shares, wish):
    """Nothing repeated, nothing lost, nothing spent of the budget, every decision recomputed."""
    spec = seeing()
    begun, producing = tmp_path / "begun", produced(spec, 2, **wish)
    begun.mkdir()
    assert life(begun, spec)[0] == 0
    whole = shutil.copytree(begun, tmp_path / "whole")
    status, instants = life(whole, producing)
    assert (status, instants > 50) == (0, True)
    for share in shares:
        directory = shutil.copytree(begun, tmp_path / f"{share}")
        assert life(directory, producing, round(share * instants))[0] < 0
        assert life(directory, producing)[0] == 0
        stage = Stage(directory)
        with stage.world as world, stage.journal() as journal:
            intents = [entry["intent"] for entry in world.log if entry["what"] == "dose"]
            assert len(intents) == len(set(intents)), "a dose was repeated"
            batches = [row for row in journal.trials() if row.operated]
            assert [row.trial for row in batches] == list(range(TRIALS + 1, TRIALS + 1 + len(batches)))
            assert 2 <= len(batches) <= 4
            assert {row.state for row in batches} <= {State.RECORDED, State.LOST, State.ABANDONED}
            assert len({tuple(row.setpoints.items()) for row in batches if row.control_set}) == 1
            assert journal.campaign().spent == journal.history(spec.problem.space).spent + journal.idle.spent()
            everything = sum(line.amount for line in (*journal.ledger(), *journal.idle.rows()))
            assert journal.campaign().spent + journal.campaign().operated == everything
        sound(stage, spec)
