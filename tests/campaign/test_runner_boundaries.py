"""The runner where one thing just ends and the next begins."""

import asyncio
from types import SimpleNamespace

import pytest

from rigctl.campaign import awaiting
from rigctl.campaign.carry import kept
from rigctl.campaign.events import PhaseChanged, TrialProposed
from rigctl.campaign.trial import State
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.errors import DeviceError, DeviceTimeout, TrialsStopped, Tripped
from rigctl.rig.spec import InterlockSpec, OutcomeSpec, WatchSpec
from tests.campaign.fakes import METERS, TenLines, ThreadDecider, make_rig_spec, make_spec
from tests.campaign.test_holding import ACID, Brief, phases, reads, watching
from tests.profiles import slow_beyond

pytestmark = pytest.mark.usefixtures("quick_roll_calls")


class HeldWhileDeciding(ThreadDecider):
    """The interlock fires during the first decision, which is broken off."""

    def __init__(self, stage):
        self.stage = stage
        self.asked = 0

    async def decide(self, question, limit_s):
        self.asked += 1
        if self.asked == 1:
            self.stage.rig.shows = reads(0.5)
            await asyncio.Event().wait()
        return await super().decide(question, limit_s)


async def test_a_hold_that_broke_off_a_decision_excuses_no_later_failure(stage, golden):
    """Nothing had moved, so no trial failed for the hold: the next one that fails is a failure like any other."""

    def fine_again():
        stage.rig.shows = reads(3.0)

    spec = watching(ACID, max_trials=None, max_failures=1)
    fail = {"measure": DeviceTimeout("scale: no answer"), "safe": fine_again}
    with golden.raises(DeviceError):
        await stage.run(spec, decider=HeldWhileDeciding(stage), shows=reads(3.0), fail=fail)
    assert stage.world.count("control") == 1


@pytest.mark.slow
async def test_a_hold_excuses_the_trial_that_it_broke_off_and_no_other(stage, golden):
    """One trial is broken off by a hold, the next two fail by themselves: two failures, the limit."""
    measured = []

    async def measure():
        measured.append(stage.rig.calls.count("measure"))
        if len(measured) == 1:
            stage.rig.shows = reads(0.5)
            await asyncio.Event().wait()
        raise DeviceTimeout("scale: no answer")

    def fine_again():
        stage.rig.shows = reads(3.0)

    spec = watching(ACID, max_trials=None, max_failures=2)
    with golden.raises(DeviceError):
        await stage.run(spec, shows=reads(3.0), fail={"measure": measure, "safe": fine_again})
    assert [row.state for row in stage.trials()] == [State.FAILED] * 3
    golden(stage.trial(1).because)


@pytest.mark.parametrize(
    ("budget", "trials"), slow_beyond(1, [("0.15", 3), ("0.150001", 4), ("0.149999", 3)], several=True)
)
async def test_the_campaign_ends_when_exactly_all_is_spent(stage, budget, trials):
    """The policy pays no attention: with a micro-unit left one more trial runs, with none it does not."""
    water = make_rig_spec(meters=METERS[3:])
    result = await stage.run(make_spec(budget=budget, rig=water, policy=TenLines(cost=-1e9), max_trials=None))
    assert (result.ending, result.trials, result.spent) == ("budget", trials, trials * to_micros("0.05"))


@pytest.mark.parametrize("limit", slow_beyond(1, [0, 1, 2]))
async def test_as_many_trials_run_as_were_asked_for(stage, limit):
    """None for none; those of an earlier run count."""
    assert (await stage.run(make_spec(max_trials=limit))).trials == limit
    assert (await stage.run(make_spec(max_trials=limit))).trials == limit
    assert stage.world.count("control") == limit


@pytest.mark.parametrize("failures", [1, 2])
async def test_the_last_failure_that_is_allowed_ends_it_and_not_the_one_before(stage, failures):
    """Of `max_failures` in a row exactly so many are tried; a good one in between starts the count again."""
    trials = []

    def measure():
        trials.append(1)
        if len(trials) != failures:
            raise DeviceTimeout("scale: no answer")

    with pytest.raises(TrialsStopped, match=f"{failures} trials? .* {2 * failures}:"):
        await stage.run(make_spec(max_trials=None, max_failures=failures), fail={"measure": measure})
    assert len(trials) == 2 * failures


@pytest.mark.parametrize(("budget", "trials"), slow_beyond(1, [("0.1125", 1), ("0.112501", 2)], several=True))
async def test_what_was_used_between_trials_may_be_the_last_of_the_budget(stage, budget, trials):
    """A trial takes 0.25 kWh and the time until the next start 0.125: no trial begins on money that is gone."""
    power = make_rig_spec(meters=METERS[:1])
    spec = {"budget": budget, "rig": power, "policy": TenLines(cost=-1e9)}
    await stage.run(make_spec(**spec, max_trials=1), idle_kwh=0.125)
    result = await stage.run(make_spec(**spec, max_trials=None), idle_kwh=0.125)
    assert (result.ending, result.trials) == ("budget", trials)


@pytest.mark.parametrize("then", ["hold", "trip"])
async def test_what_is_found_while_it_is_asked_what_is_awaited_keeps_the_next_trial_from_beginning(
    stage, monkeypatch, then, golden
):
    """The journal takes its time to say so; nobody would break off a trial for what was found before it began."""
    brief, asked = Brief(), awaiting.Awaiting.in_the_way

    async def slowly(self):
        why = await asked(self)
        if brief.looks < 0:
            brief.begin()
            await brief.over()
        return why

    monkeypatch.setattr(awaiting.Awaiting, "in_the_way", slowly)
    late = OutcomeSpec(name="y", unit="1", by="hand", within_s=3 * 86400.0, at_end="end")
    watch = WatchSpec(every_s=0.01, clear_for_s=0.0, interlocks=(InterlockSpec("acid", ACID.when, then),))
    run = stage.run(make_spec(rig=make_rig_spec(watch=watch, outcomes=(late,)), max_trials=1), shows=brief)
    if then == "trip":
        with golden.raises(Tripped):
            await run
        assert stage.world.count("control") == 0
    else:
        assert (await run).trials == 1
        told = [event for event in stage.told if isinstance(event, PhaseChanged | TrialProposed)]
        assert isinstance(told[0], PhaseChanged)
        assert phases(stage)[:2] == ["HOLDING", "RUNNING"]


@pytest.mark.parametrize(("known", "left"), [(None, 5), (4, 5), (5, 3)])
def test_a_process_keeps_the_end_of_a_history_that_whoever_decides_has_whole(known, left):
    """Else all of it: what has been forgotten there must be told again."""
    history = History()
    for trial in range(1, 6):
        history = history.append(Observation(trial, 0, (0.5, 0.5), 1.0, 100_000))
    part = kept(history, SimpleNamespace(known=lambda _: known))
    assert (len(part), [seen.trial for seen in part.observations]) == (5, list(range(6 - left, 6)))
