"""Hours in which trials may run, in civil time that rig time carries on."""

import asyncio
from dataclasses import replace

import pytest

from rigctl.campaign.events import PhaseChanged
from rigctl.campaign.trial import Event, State
from rigctl.campaign.watchman import Wall
from rigctl.core.experiment.space import Space
from rigctl.errors import UsageError
from rigctl.rig.calendar import Hours, hours_of_week, instant, told
from rigctl.rig.clocks import Civil, SteppedClock
from rigctl.rig.limits import ActuatorLimits
from rigctl.rig.spec import OutcomeSpec, WatchSpec
from rigctl.rig.testing import ManualClock
from rigctl.rig.values import RigGlance
from tests.campaign.fakes import RestingClock, make_rig_spec, make_spec
from tests.campaign.test_acts import phases

BERLIN = "Europe/Berlin"
OFFICE = Hours(BERLIN, (hours_of_week("Mon-Fri 08:00-16:00"),), "Mon-Fri 08:00-16:00")
FRIDAY = instant("2026-10-23T15:00+02:00")
"""Before the weekend of a change of the clock."""


def office(**changes):
    """A campaign of two trials of 45 minutes, from Friday afternoon on."""
    watch = WatchSpec(every_s=0.005, clear_for_s=0.0)
    rig = make_rig_spec(watch=watch, allowed=OFFICE, begins_s=FRIDAY, expected_s=2700.0, speedup=1e7, **changes)
    return make_spec(rig=rig, max_trials=2)


@pytest.fixture
def restful(stage, monkeypatch):
    """The same stage with a clock whose waits pass in the world."""
    clock = RestingClock(stage.world)
    monkeypatch.setattr(stage, "clock", lambda: clock)
    return stage


def takes(stage, minutes):
    return {"control": lambda: stage.world.do("time", s=60.0 * minutes)}


def began(stage, event=Event.ARM):
    """When each trial was armed, in civil time."""
    with stage.journal() as journal:
        first = journal.starts()[0].at_s
        steps = [e for row in journal.trials() for e in journal.events(row.trial) if e.event is event]
        return [told(BERLIN, FRIDAY + step.at_s - first) for step in steps]


async def test_a_trial_that_cannot_end_within_its_hours_waits_for_the_next_ones(restful):
    """After an hour of Friday the next trial begins on Monday at eight, over a weekend that is an hour longer."""
    result = await restful.run(office(), fail=takes(restful, 40))
    assert result.recorded == 2
    assert began(restful) == ["Fri 2026-10-23 15:00 CEST", "Mon 2026-10-26 08:00 CET"]
    waits = [e.why for e in restful.told if isinstance(e, PhaseChanged) and e.phase == "WAITING"]
    assert any(began(restful)[1] in why for why in waits) == bool(waits)
    assert "safe" in restful.rig.calls


@pytest.mark.slow
async def test_a_wait_for_hours_ends_by_the_clock_that_was_set_right_meanwhile(restful):
    """A board began in the past waits for Monday; the network says that it is Monday morning."""
    clock = restful.clock()
    clock.speedup = 1800.0
    rest, waited_s = clock.rest, []

    async def rest_and_hear(seconds):
        await rest(seconds)
        if phases(restful)[-1:] == ["WAITING"]:
            waited_s.append(clock.now_s())
            if len(waited_s) == 3:
                clock.civil.set(clock.now_s(), instant("2026-10-26T09:00+01:00"))

    clock.rest = rest_and_hear
    await restful.run(office(), fail=takes(restful, 40))
    with restful.journal() as journal:
        armed_s = [e.at_s for e in journal.events(2) if e.event is Event.ARM]
    assert armed_s[0] - waited_s[2] < 4 * 3600.0


@pytest.mark.slow
async def test_an_outcome_is_read_when_it_is_due_though_trials_wait(restful):
    """On Saturday, while the rig rests over the weekend; on Monday it would be too late."""
    restful.clock().speedup = 1800.0
    late = OutcomeSpec(name="y", unit="1", sensor="scale", within_s=30 * 3600.0, after_s=20 * 3600.0)
    result = await restful.run(office(outcomes=(late,)), fail=takes(restful, 40))
    assert result.recorded == 2
    assert began(restful, Event.RECORD)[0].startswith("Sat 2026-10-24 11:")


@pytest.mark.slow
async def test_a_restart_goes_on_in_the_same_civil_time(restful):
    """A second process reckons from the first one's beginning, not from its own."""
    await restful.run(replace(office(), max_trials=1), fail=takes(restful, 40))
    restful.world.do("time", s=600.0)
    await restful.run(office(), fail=takes(restful, 40))
    assert began(restful) == ["Fri 2026-10-23 15:00 CEST", "Mon 2026-10-26 08:00 CET"]


async def test_hours_that_close_by_surprise_end_the_trial(restful, golden):
    """An actuator that is still driven when its hours are over fails the trial, with the reason, and all is safe."""
    limits = {"valve": ActuatorLimits(low=0.0, high=1.0, safe_state="off", allowed=OFFICE)}
    spec = office(limits=limits)
    spec = replace(spec, rig=replace(spec.rig, allowed=None), max_trials=1)

    async def slow():
        if restful.rig.calls.count("control") == 1:
            restful.world.do("time", s=7200.0)
            restful.rig.shows = RigGlance(driven={"valve": 0.5})
            await asyncio.Event().wait()

    def released():
        restful.rig.shows = RigGlance()

    await restful.run(spec, fail={"control": slow, "safe": released})
    with restful.journal() as journal:
        row = journal.trials()[0]
    assert row.state is State.FAILED
    golden(row.because)


def limited(**allowed):
    """A campaign without hours of its own, whose actuators have some; three trials."""
    limits = {
        name: ActuatorLimits(low=0.0, high=10.0, safe_state="off", allowed=hours) for name, hours in allowed.items()
    }
    spec = office(limits=limits)
    return replace(spec, rig=replace(spec.rig, allowed=None), max_trials=3)


def chosen(stage):
    return [row.control_set for row in stage.trials()]


@pytest.mark.slow
async def test_control_sets_whose_actuator_may_not_be_driven_are_not_offered(restful):
    """Too late on Friday for the valve, so the pump's set is played again and again; nobody waits."""
    result = await restful.run(limited(valve=OFFICE), fail=takes(restful, 40))
    assert result.recorded == 3
    assert chosen(restful)[1:] == [("a",), ("a",)]
    assert began(restful)[-1] == "Fri 2026-10-23 16:25 CEST"


@pytest.mark.slow
async def test_a_campaign_waits_for_the_first_actuator_that_may_be_driven(restful):
    """With both closed on the weekend, the valve's hours come first: Sunday at noon."""
    sunday = Hours(BERLIN, (*OFFICE.daily, hours_of_week("Sun 12:00-13:00")), "Mon-Fri 08:00-16:00, Sun 12:00-13:00")
    await restful.run(limited(valve=sunday, pump=OFFICE), fail=takes(restful, 40))
    assert began(restful)[1] == "Sun 2026-10-25 12:00 CET"
    assert chosen(restful)[1] == ("b",)


@pytest.mark.parametrize("others", [True, False])
async def test_sets_whose_pump_has_given_all_it_may_are_over(restful, others, golden):
    """Once less is left than a trial may take, its sets are not chosen; if there are no others, the campaign ends."""
    spec = limited()
    limits = {"pump": ActuatorLimits(low=0.0, high=10.0, safe_state="off", per_campaign_ml=30.0)}
    spec = replace(spec, rig=replace(spec.rig, limits=limits), max_trials=6)
    if not others:
        space = Space.of(spec.problem.space.variables, [["a"], ["a", "b"]])
        spec = replace(spec, problem=replace(spec.problem, space=space))
    result = await restful.run(spec)
    assert restful.world.total("dose", "ml") <= 30.0
    if others:
        assert (result.ending, chosen(restful)[-3:]) == ("trials", [("b",)] * 3)
    else:
        assert (result.ending, 0 < result.recorded < 6) == ("finished", True)
        golden(result.reason)


async def test_hours_need_a_clock_that_carries_civil_time(restful, golden):
    """A clock that cannot say what civil time it is is refused before anything moves."""
    del restful.clock().civil
    with golden.raises(UsageError):
        await restful.run(office())
    assert "control" not in restful.rig.calls


@pytest.mark.parametrize(
    ("jump_s", "right", "said", "follows"),
    [
        (0.5, False, "", True),
        (-21_600.0, False, "do not follow it before it is synchronised", False),
        (21_600.0, True, "it is synchronised, so hours and tariffs follow it", True),
    ],
)
def test_fault_35_a_jump_of_the_wall_clock_is_told_and_followed_only_if_plausible(jump_s, right, said, follows):
    """Small corrections are followed silently; a jump is told, and believed once the system vouches for its clock."""
    clock, civil = ManualClock(), Civil()
    civil.set(0.0, FRIDAY)
    wall = Wall(civil, clock, lambda: FRIDAY + clock.now_s() + jump_s, lambda: right)
    clock.sleep(100.0)
    assert said in (found := wall.compare())
    assert bool(found) == bool(said)
    assert civil.at(clock.now_s()) == FRIDAY + 100.0 + (jump_s if follows else 0.0)
    assert bool(wall.compare()) == (not follows)


def test_a_stepped_clock_is_compared_with_no_wall():
    """It stands still while anybody computes, and then catches up: no wall was set."""
    clock = SteppedClock(1.0, lambda _: asyncio.sleep(0))
    clock.civil.set(0.0, FRIDAY)
    wall = Wall(clock.civil, clock, lambda: FRIDAY - 36.0, lambda: False)
    assert wall.compare() == ""
    assert clock.civil.at(0.0) == FRIDAY
