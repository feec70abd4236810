"""Outcomes that are awaited while something else changes: configuration, money, instruments, what people correct."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from rigctl.campaign import awaiting
from rigctl.campaign.journal.recovering import recover_journal
from rigctl.campaign.journal.rows import Amendment
from rigctl.campaign.production import production
from rigctl.campaign.trial import State
from rigctl.core.experiment.money import to_micros
from rigctl.errors import UsageError
from rigctl.rig.protocols import Identity
from tests.campaign.fakes import Patient, make_rig_spec
from tests.campaign.looking import looking_spec
from tests.campaign.records import amend, give, void
from tests.campaign.test_awaiting import BY_HAND, BY_SENSOR, opened, sound, spec_with
from tests.campaign.test_awaiting_apart import Boots
from tests.campaign.test_looking import left_behind
from tests.campaign.test_operating import TRIALS, campaign, produced
from tests.campaign.test_recover import AT
from tests.campaign.test_verify import doctored
from tests.profiles import nightly_beyond, slow_beyond

NIGHT = replace(BY_SENSOR, at_end="end")
AT_ONCE = make_rig_spec().outcomes[0]
"""The campaign ends, and another process reads the sensor when it is due."""


@pytest.mark.slow
async def test_more_money_and_a_correction_are_known_while_outcomes_are_awaited(patient, golden):
    """Trials go on with both; what comes then is one more correction, and every decision comes out again."""
    spec = spec_with(BY_HAND, max_trials=3)
    await patient.run(spec)
    with closing(opened(patient.state)) as journal:
        give(journal, 1, {"y": 4.5}, "Ada")
        amend(journal, 1, Amendment(outcomes={"y": 1.5}), "Ada", "a slip of the pen")
    more = replace(spec, max_trials=4, problem=replace(spec.problem, budget=to_micros(500)))
    await patient.run(more)
    with closing(opened(patient.state)) as journal:
        give(journal, 2, {"y": 2.5}, "Ada")
        void(journal, 1, "Ada", "the probe hung in the air")
        with golden.raises(UsageError):
            amend(journal, 3, Amendment(outcomes={"y": 1.0}), "Ada", "too early")
    await patient.run(replace(more, max_trials=5))
    rows, history, _ = sound(patient, more)
    assert [row.corrections for row in rows] == [0, 0, 0, 2, 4]
    assert [(o.y, o.awaited) for o in history.observations] == [
        (None, False),
        (2.5, False),
        *[(None, True)] * 3,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("late", "days", "right"), [(BY_HAND, 3650, False), (NIGHT, 1, True), (BY_HAND, 1, True)])
async def test_a_clock_that_was_set_back_makes_nobody_wait_longer(patient, monkeypatch, late, days, right):
    """Across a boot campaign time counts as well: what is over by it is over."""
    boots = Boots(patient)
    monkeypatch.setattr(awaiting, "synchronised", lambda: right)
    spec = spec_with(late, max_trials=1)
    await patient.run(spec, boots.journal)
    boots.again(timedelta(days=-days))
    await patient.run(spec, boots.journal)
    assert sound(patient, spec)[0][0].state is State.AWAITING
    patient.world.do("time", s=late.due_s)
    await patient.run(spec, boots.journal)
    row = sound(patient, spec)[0][0]
    assert row.state is (State.FAILED if late.by == "hand" else State.RECORDED)


@pytest.mark.slow
async def test_an_exchanged_sensor_gives_no_outcome_of_a_trial_before_a_person_has_accepted_it(patient):
    """The trial waits meanwhile, and is read once it is."""
    pump, other = Identity("fake", serial="1"), Identity("fake", serial="2")
    spec = spec_with(NIGHT, max_trials=1)
    await patient.run(spec, found={"pump": pump})
    patient.world.do("time", s=3600.0)
    with pytest.raises(Exception, match="device accept"):
        await patient.run(spec, found={"pump": other})
    assert "measure late" not in patient.rig.calls
    assert sound(patient, spec)[0][0].state is State.AWAITING
    await patient.run(spec, found={"pump": pump})
    assert sound(patient, spec)[0][0].state is State.RECORDED


@pytest.mark.slow
@pytest.mark.parametrize("late", nightly_beyond(1, [replace(NIGHT, after_s=600.0), BY_HAND]), ids=["sensor", "hand"])
async def test_production_that_begins_while_outcomes_are_awaited_is_made_of_what_has_come(patient, late):
    """What comes of trials in its midst is theirs, and no batch's; the campaign that goes on afterwards knows it."""
    spec = campaign(rig=make_rig_spec(outcomes=(late,)))
    await patient.run(spec)
    with closing(opened(patient.state)) as journal:
        for trial in (n for n in (1, 2, 3) if journal.read.trial(n).state is State.AWAITING):
            give(journal, trial, {"y": 1.0 + trial}, "Ada")
    await patient.run(produced(spec, 2))
    with closing(opened(patient.state)) as journal:
        for row in journal.read.trials():
            if row.state is State.AWAITING and row.trial in (4, 7):
                give(journal, row.trial, {"y": 5.0}, "Ada")
        before = production(journal.read)
    assert (before.first, before.batches, before.recorded + before.awaited) == (7, 2, 2)
    await patient.run(produced(spec, 1))
    result = await patient.run(replace(spec, max_trials=TRIALS + 1))
    rows, history, _ = sound(patient, spec)
    assert [row.operated for row in rows] == [False] * 6 + [True] * 3 + [False]
    assert (history.uncharged, result.ending) == (3, "trials")
    assert not any(row.state is State.FAILED for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("late", [BY_HAND, NIGHT], ids=["hand", "sensor"])
async def test_a_campaign_goes_on_in_a_recovered_journal_and_waits_as_before(patient, late):
    """For what is awaited as long as it would have; what had come, and who said so, is there again."""
    spec = spec_with(late, max_trials=2)
    await patient.run(spec)
    with closing(opened(patient.state)) as journal:
        give(journal, 1, {"y": 1.5}, "Ada")
    assert recover_journal(patient.state / "journal.sqlite", patient.directory / "new", "Ada", AT).left == ()
    patient.state = patient.directory / "new"
    await patient.run(replace(spec, max_trials=3))
    rows, _, _ = sound(patient, spec)
    assert [row.state for row in rows] == [State.RECORDED, *[State.AWAITING] * 2]
    patient.world.do("time", s=late.due_s)
    await patient.run(replace(spec, max_trials=3))
    states = {row.state for row in sound(patient, spec)[0][1:]}
    assert states == {State.FAILED if late.by == "hand" else State.RECORDED}


@pytest.mark.slow
async def test_no_sensor_is_read_for_a_trial_of_which_nobody_knows_any_more_when_it_is_due(patient):
    """What it reads a minute after the trial is not what it would have an hour later; a person can still say it."""
    patient.clock = lambda: Patient(patient.world, speedup=1.0)
    spec = spec_with(NIGHT, max_trials=2)
    await patient.run(spec)
    doctored(patient.state / "journal.sqlite", "DELETE FROM awaited WHERE trial = 1")
    recover_journal(patient.state / "journal.sqlite", patient.directory / "new", "Ada", AT)
    patient.state = patient.directory / "new"
    await patient.run(spec)
    assert "measure late" not in patient.rig.calls
    with closing(opened(patient.state)) as journal:
        give(journal, 1, {"y": 2.0}, "Ada", "the book of the laboratory", force=True)
    rows, _, _ = sound(patient, spec)
    assert [(row.state, row.outcome) for row in rows] == [(State.RECORDED, 2.0), (State.AWAITING, None)]


@pytest.mark.slow
@pytest.mark.parametrize("last", slow_beyond(1, ["begin", "propose"]))
async def test_a_look_that_a_process_left_behind_comes_to_its_outcome_with_more_money(patient, last):
    """Lost while it looked; decided, it goes on as it was decided, and its outcome is read when it is due."""
    spec = looking_spec(max_trials=2, rig=replace(looking_spec().rig, outcomes=(NIGHT,)))
    left_behind(patient, last, spec)
    more = replace(spec, problem=replace(spec.problem, budget=to_micros(500)))
    await patient.run(more)
    patient.world.do("time", s=3600.0)
    await patient.run(more)
    rows, history, _ = sound(patient, more)
    first = State.LOST if last == "begin" else State.RECORDED
    assert [row.state for row in rows] == [first, State.RECORDED]
    assert rows[0].budget == spec.problem.budget < rows[1].budget
    assert not history.awaited.size
