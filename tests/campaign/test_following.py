"""A controlled variable that does not follow its setpoint is noticed, and what that means for its trials."""

import asyncio
from dataclasses import replace

import numpy as np
import pytest

from rigctl.campaign.acts import InService, void_misses
from rigctl.campaign.instruments import BEFORE, ENOUGH, allowed, astray, barred, follows_judged, states_now, to_json
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import State
from rigctl.errors import UsageError
from rigctl.rig.protocols import DeviceOptions, Severity
from rigctl.rig.spec import LAST, MISSES, DeviceSpec, FollowSpec, OutcomeSpec, VariableWiring
from rigctl.rig.values import Measurement
from tests.campaign.fakes import make_rig_spec, make_space, make_spec, open_journal
from tests.campaign.records import SetClock, give, restore
from tests.campaign.test_acts import ask, phases, soon
from tests.campaign.test_hands import WATCH

FOLLOWS = FollowSpec(most=0.1, least=0.03, unit="V")
WIRED = VariableWiring("b", "b_probe", "valve", 0.01, follows=FOLLOWS)
DEAD = {"b": Measurement(0.02, 0.01, 5)}
"""Whatever is set, `b` is measured here; only one setpoint in ten is as near as is allowed."""


def spec_of(*variables, **changes):
    """A campaign whose valve (and pump, if it is told) is compared with what its sensor measures."""
    pump = VariableWiring("a", "a_probe", "pump", 0.1)
    devices = {name: DeviceSpec(name, "fake", f"fake://{name}", DeviceOptions(), 1.0) for name in ("pump", "valve")}
    rig = make_rig_spec(watch=WATCH, devices=devices, variables=variables or (pump, WIRED))
    return make_spec(rig=rig, **changes)


def verdict(*distances, follows=FOLLOWS):
    """Judge a variable that was so far from its setpoint, trial by trial."""
    return follows_judged(WIRED, follows, list(enumerate(distances, start=1)))


# how far it may be ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "within"),
    [
        ([], 0.1),
        ([0.001] * (ENOUGH - 1), 0.1),
        ([0.001] * ENOUGH, 0.03),
        ([0.02] * ENOUGH, 0.04),
        ([0.02] * 18 + [0.9] * 2, 0.04),
        ([0.02] * 17 + [0.9] * 3, 0.1),
    ],
)
def test_a_variable_may_be_as_far_off_as_twice_what_past_trials_kept_to(before, within):
    """Nine in ten of them count, so that a few strays widen nothing; never nearer or further than the configuration."""
    assert allowed(FOLLOWS, before) == pytest.approx(within)


def test_what_the_configuration_says_holds_whatever_trials_say():
    """A declared `follows` is neither narrowed nor widened."""
    declared = FollowSpec(0.5, 0.5, "V")
    assert {allowed(declared, before) for before in ([], [0.001] * 20, [0.9] * 20)} == {0.5}


@pytest.mark.parametrize(
    ("distances", "misses"),
    [
        ((0.2, 0.2, 0.2), None),
        ((0.2, 0.2, 0.2, 0.2), (1, 2, 3, 4)),
        ((0.2, 0.2, 0.0, 0.2), None),
        ((0.2, 0.2, 0.0, 0.2, 0.2), (1, 2, 4, 5)),
        ((0.2, 0.2, 0.0, 0.0, 0.2, 0.2, 0.2), None),
        ((0.2, 0.2, 0.0, 0.0, 0.2, 0.2, 0.2, 0.2), (5, 6, 7, 8)),
        ((0.1, 0.1, 0.1, 0.1, 0.1), None),
        ((0.001,) * ENOUGH + (0.04,) * 4 + (0.0,), (11, 12, 13, 14)),
    ],
)
def test_four_misses_in_the_last_five_trials_are_a_fault(distances, misses):
    """Fewer may be chance, a distance that is just allowed is no miss, and past trials narrow what is allowed."""
    found = verdict(*distances)
    assert (None if found is None else tuple(found.misses)) == misses


def alarmed(distances):
    """After how many trials a variable that was so far off would be held; None: never."""
    for n in range(MISSES, len(distances) + 1):
        window = [(i, d) for i, d in enumerate(distances[:n])][-(BEFORE + LAST) :]
        if follows_judged(WIRED, FOLLOWS, window) is not None:
            return n
    return None


NOISES = {
    "normal, a tenth of the tolerance": lambda rng, n: rng.normal(0, 0.001, n),
    "normal": lambda rng, n: rng.normal(0, 0.02, n),
    "laplace": lambda rng, n: rng.laplace(0, 0.015, n),
    "student, three degrees": lambda rng, n: 0.012 * rng.standard_t(3, n),
    "an offset": lambda rng, n: 0.06 + rng.normal(0, 0.01, n),
    "grows with the setpoint": lambda rng, n: rng.normal(0, 0.03, n) * rng.random(n),
    "a drift within what is allowed": lambda rng, n: np.linspace(0, 0.09, n) + rng.normal(0, 0.002, n),
    "better, then as at first": lambda rng, n: rng.normal(0, 0.02, n) * np.where(np.arange(n) % 40 < 20, 0.5, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_a_healthy_variable_is_not_held(noise):
    """In a hundred campaigns that control it 200 times, each kind of healthy deviation raises at most one alarm."""
    rng = np.random.default_rng(83)
    assert sum(alarmed(np.abs(NOISES[noise](rng, 200))) is not None for _ in range(100)) <= 1


def test_a_variable_that_does_not_move_is_found_within_a_few_trials():
    """From the first trial on, or after forty good ones: half are found in 5 trials, nearly all in 12."""
    rng = np.random.default_rng(84)
    for good in (0, 40):
        took = []
        for _ in range(200):
            dead = np.abs(rng.random(40) - rng.random(40))
            took.append(alarmed(np.concatenate([np.abs(rng.normal(0, 0.005, good)), dead])) - good)
        assert np.quantile(took, 0.5) <= 5
        assert np.quantile(took, 0.95) <= 12


# what it means for a campaign ----------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_fault_83_its_control_sets_are_barred_and_its_trials_void(stage):
    """Four misses: a MAJOR alarm that stands, no trial controls it any more, the model learns from none of these."""
    spec = spec_of(max_trials=12)
    await stage.run(spec, measured=DEAD)
    with stage.journal() as journal:
        rows, history = journal.trials(), journal.history(make_space())
        found = astray(journal, spec.rig)
        assert {make_space().control_sets[i].label for i in barred(journal, spec.rig, make_space())} == {"b", "a+b"}
        (entry,) = to_json(spec.rig, states_now_of(stage, spec))
        assert all(not trial.differences for trial in replay(journal, spec))
        spent = journal.campaign().spent
    with_b = [row.trial for row in rows if "b" in row.control_set]
    misses = list(found["valve"].misses)
    assert with_b[-1] == misses[-1] < 9
    assert [row.trial for row in rows if row.voided] == misses
    assert all(row.state is State.RECORDED for row in rows)
    assert {(c.kind, c.who) for row in rows for c in row.corrected} == {("void", "rigctl")}
    voided = [o for o in history.observations if o.trial in misses]
    assert [(o.x, o.y, o.cost_known, o.cost > 0) for o in voided] == [(None, None, False, True)] * len(misses)
    assert spent == sum(row.cost for row in rows)
    assert [o["kind"] for o in entry["objections"] if o["holds"]] == ["does not follow"]
    assert [a.severity for a in stage.alarms() if a.source == "valve"] == [Severity.MAJOR]


def states_now_of(stage, spec):
    """What a process that runs the campaign next knows of the instruments."""
    journal = open_journal(stage.state, SetClock(stage.world.now_s))
    try:
        return states_now(journal, spec.rig)
    finally:
        journal.close()


@pytest.mark.slow
async def test_it_stays_held_after_a_restart_until_a_person_puts_it_back(stage):
    """Every process tells it anew; `in-service` needs no `out-of-service` before it, and is refused without cause."""
    await stage.run(spec_of(max_trials=12), measured=DEAD)
    await stage.run(spec := spec_of(max_trials=15), measured=DEAD)
    assert all(row.control_set == ("a",) for row in stage.trials()[12:])
    before = [row.trial for row in stage.trials() if row.voided]
    assert len([a for a in stage.alarms() if a.source == "valve"]) == 2
    journal = open_journal(stage.state, SetClock(stage.world.now_s))
    journal.begin(spec, "0.0")
    with pytest.raises(UsageError):
        InService(who="anna", device="pump").apply(journal, spec.rig)
    InService(who="anna", device="valve").apply(journal, spec.rig)
    with pytest.raises(UsageError):
        InService(who="anna", device="valve").apply(journal, spec.rig)
    journal.close()
    await stage.run(spec_of(max_trials=27))
    with stage.journal() as journal:
        assert sum("b" in row.control_set for row in journal.trials()[15:]) >= 6
        assert [row.trial for row in journal.trials() if row.voided] == before
        assert astray(journal, spec.rig) == {}
    assert len([a for a in stage.alarms() if a.source == "valve"]) == 2


@pytest.mark.slow
async def test_a_campaign_with_nothing_left_waits_for_a_person(stage):
    """Two exchanged sensors bar every control set: it holds, and goes on once both are back in service."""
    pump = VariableWiring("a", "a_probe", "pump", 0.1, follows=FollowSpec(1.0, 0.3, "mM"))
    exchanged = {"a": Measurement(0.5, 0.01, 5), **DEAD}

    async def mend():
        await soon(lambda: phases(stage)[-1:] == ["HOLDING"])
        stage.rig.measured.clear()
        for device in ("pump", "valve"):
            await ask(stage, "in-service", device=device, who="anna")

    mending = asyncio.create_task(mend())
    await stage.run(spec_of(pump, WIRED, max_trials=20), measured=exchanged)
    await mending
    assert phases(stage)[:2] == ["HOLDING", "RUNNING"]
    assert len(stage.trials()) == 20
    told = [(a.source, a.severity) for a in stage.alarms() if a.source in ("pump", "valve")]
    assert sorted(told[:2]) == [("pump", Severity.MAJOR), ("valve", Severity.MAJOR)]
    assert sorted(told[2:]) == [("pump", Severity.MINOR), ("valve", Severity.MINOR)]


@pytest.mark.slow
async def test_a_trial_that_a_person_has_taken_in_again_stays_in(stage):
    """Who knows that the sensor was right says so, and is not overruled before each trial."""
    spec = spec_of(max_trials=12)
    await stage.run(spec, measured=DEAD)
    journal = open_journal(stage.state, SetClock(stage.world.now_s))
    first = next(row.trial for row in journal.read.trials() if row.voided)
    restore(journal, first, "anna", "the sensor was right")
    assert void_misses(journal, spec.rig) is False
    assert not journal.read.trial(first).voided
    journal.close()


@pytest.mark.slow
async def test_a_trial_whose_outcome_is_awaited_is_voided_when_it_has_come(stage):
    """Until then the journal allows no correction of it; it is held all the same."""
    late = OutcomeSpec(name="y", unit="1", by="hand", within_s=86_400.0, at_end="end")
    spec = spec_of(max_trials=12)
    spec = replace(spec, rig=replace(spec.rig, outcomes=(late,)))
    await stage.run(spec, measured=DEAD)
    with stage.journal() as journal:
        misses = list(astray(journal, spec.rig)["valve"].misses)
        assert [row.trial for row in journal.trials() if row.voided] == []
        assert journal.trials()[-1].control_set == ("a",)
    journal = open_journal(stage.state, SetClock(stage.world.now_s))
    journal.begin(spec, "0.0")
    assert not void_misses(journal, spec.rig)
    give(journal, misses[0], {"y": 4.0}, "anna")
    assert void_misses(journal, spec.rig)
    assert [row.trial for row in journal.read.trials() if row.voided] == misses[:1]
    assert violations(journal.read) == ()
    journal.close()


@pytest.mark.slow
@pytest.mark.parametrize("severity", [Severity.NONE, Severity.INVALID])
async def test_only_a_reading_that_is_valid_says_that_it_does_not_follow(stage, severity):
    """A sensor that cannot be read fails its trial for that; nothing is known of the valve."""
    dead = {"b": replace(DEAD["b"], severity=severity)}
    await stage.run(spec_of(max_trials=9, max_failures=99), measured=dead)
    with stage.journal() as journal:
        assert bool(astray(journal, spec_of().rig)) is (severity is Severity.NONE)


@pytest.mark.slow
async def test_a_variable_without_a_sensor_of_its_own_is_not_judged(stage):
    """What only its actuator says of it is no evidence."""
    await stage.run(
        spec_of(VariableWiring("a", "a_probe", "pump", 0.1), replace(WIRED, follows=None), max_trials=12), measured=DEAD
    )
    assert not any(row.voided for row in stage.trials())
    assert sum("b" in row.control_set for row in stage.trials()) == 8
