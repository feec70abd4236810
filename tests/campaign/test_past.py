import math
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from rigctl.campaign import safe_file
from rigctl.campaign.closing import SLEPT
from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.past import booked_ago_s
from rigctl.campaign.ledger.lines import IdleLine
from rigctl.campaign.replay import replay
from rigctl.campaign.trial import Event, State
from rigctl.errors import DeviceTimeout
from rigctl.rig.protocols import Reading, Severity
from tests.campaign.fakes import METERS, charged, make_rig_spec, make_spec, metered, open_journal
from tests.campaign.records import SetClock, begun, make_decision
from tests.campaign.test_recovery import left_behind, lines_of


@pytest.mark.slow
async def test_what_is_used_between_trials_is_charged_to_the_next(stage):
    """A trial's `before` is the last one's `after`: the ledger adds up to the meter's rise."""

    def fault():
        if stage.rig.calls.count("measure") == 2:
            raise DeviceTimeout("pump: no answer")

    await stage.run(make_spec(max_trials=4), idle_kwh=0.5, fail={"measure": fault})
    with stage.journal() as journal:
        assert [row.state.name for row in journal.trials()] == ["RECORDED", "FAILED", "RECORDED", "RECORDED"]
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
        assert not any(line.estimated for line in journal.ledger())
    assert stage.rig.calls.count("meters") == 5


def dead_once(stage, at, used_kwh=0.0):
    """The counter of the mains, which one of its readings finds dead, while something uses energy."""

    def read(reading):
        if stage.rig.calls.count("meters") == at:
            stage.world.do("energy", kwh=used_kwh)
            return Reading(math.nan, reading.unit, reading.time_s, Severity.INVALID, "no answer")
        return reading

    return {"power": read}


async def test_a_meter_that_could_not_be_read_after_a_trial_is_read_afresh(stage):
    """Only what was read is taken over; an estimated trial's use is not charged again to the next."""
    await stage.run(make_spec(max_trials=2), idle_kwh=0.5, counters=dead_once(stage, 2))
    with stage.journal() as journal:
        first, second = (line for line in journal.ledger() if line.meter == "power")
    assert (first.estimated, second.estimated, second.quantity) == (True, False, pytest.approx(0.5 + 0.125))


@pytest.mark.slow
async def test_what_a_trial_used_beyond_its_estimate_is_idle_once_the_meter_is_back(stage):
    """Nothing that the counter shows is lost because it could not be read in time; the estimate is not paid twice."""
    await stage.run(make_spec(max_trials=3), counters=dead_once(stage, 3, used_kwh=0.25))
    with stage.journal() as journal:
        paid = [line for line in (*journal.ledger(), *journal.idle.rows()) if line.meter == "power"]
        used_kwh = [journal.meter_readings(*at)["power"].value for at in ((1, "before"), (3, "after"))]
    assert sum(line.amount for line in paid) == pytest.approx((used_kwh[1] - used_kwh[0]) * 300_000)
    assert [line.estimated for line in paid[:3]] == [False, True, False]


def power_lines(stage):
    with stage.journal() as journal:
        assert charged(journal, "power") == pytest.approx(metered(journal, "power"))
        return [(line.quantity, line.estimated) for line in journal.ledger() if line.meter == "power"]


def idle_lines(stage):
    with stage.journal() as journal:
        return [(line.before_trial, line.meter, line.quantity) for line in journal.idle.rows()]


NIGHT_S = 8 * 3600.0


def a_night(stage, kwh=3.0):
    """Eight hours in which something goes on using energy."""
    stage.world.do("energy", kwh=kwh)
    stage.world.do("time", s=NIGHT_S)


@pytest.mark.slow
async def test_fault_70_what_was_used_while_no_process_was_in_charge_is_idle(stage):
    """Killed between two trials: energy and hours are lines of their own, the next trial costs what it costs."""
    left_behind(stage, Event.MEASURE)
    a_night(stage)
    result = await stage.run(make_spec(max_trials=3))
    assert power_lines(stage) == [(1.0, False), (0.125, False), (0.125, False)]
    assert idle_lines(stage) == [(2, "power", 3.0), (2, "labour", 8.0)]
    with stage.journal() as journal:
        history = journal.history(make_spec().problem.space)
        assert [o.cost_known for o in history.observations] == [True, True, True]
        assert result.spent == journal.campaign().spent == history.spent + 900_000 + 16_000_000


@pytest.mark.slow
async def test_what_is_idle_counts_before_the_next_decision(stage):
    """The decision after a night knows the budget without what the night has cost, and replay agrees with it."""
    left_behind(stage, Event.MEASURE)
    a_night(stage)
    await stage.run(make_spec(max_trials=2))
    with stage.journal() as journal:
        assert journal.trial(2).budget == 100_000_000 - journal.idle.spent() < 100_000_000
        assert [t.differences for t in replay(journal, make_spec()) if t.trial == 2] == [()]


async def test_a_budget_that_idling_has_used_up_ends_the_campaign(stage):
    """Nothing more is decided on money that is gone."""
    await stage.run(make_spec(budget=10, max_trials=1))
    a_night(stage, kwh=40.0)
    result = await stage.run(make_spec(budget=10))
    assert (result.ending, result.trials) == ("budget", 1)
    assert result.spent > 10_000_000


@pytest.mark.slow
async def test_a_start_that_fails_does_not_lose_what_was_used(stage):
    """Only the process that metered a trial can end its account cleanly, not one that never had the rig in hand."""
    left_behind(stage, Event.MEASURE)
    a_night(stage)
    with pytest.raises(DeviceTimeout):
        await stage.run(fail={"open": DeviceTimeout("meter: silent")})
    await stage.run(make_spec(max_trials=2))
    assert power_lines(stage)[1] == (0.125, False)
    assert idle_lines(stage) == [(2, "power", 3.0), (2, "labour", 8.0)]


@pytest.mark.slow
async def test_a_counter_that_jumps_in_the_night_is_booked_up_to_what_a_trial_uses(stage):
    """A million kilowatt-hours between two trials: limited by three times the dearest trial's rate, and said so."""
    await stage.run(make_spec(max_trials=3, budget=1000))
    a_night(stage)
    jumped = {"power": lambda r: replace(r, value=r.value + 1e6)}
    await stage.run(make_spec(max_trials=4, budget=1000), counters=jumped)
    ((_, _, quantity),) = idle_lines(stage)
    assert quantity == pytest.approx(3 * (0.125 / 90.0) * NIGHT_S, rel=0.1)


def enter(journal, phase, at_s):
    """The campaign goes into another state of its own."""
    with transaction(journal._connection):
        journal._connection.execute(
            "INSERT INTO phases (phase, why, utc, at_s, start) VALUES (?, 'a test', '', ?, 1)", (phase, at_s)
        )


def nap(stage, seconds, kwh):
    """The machine is suspended; the rig goes on as it was left."""
    stage.world.do("asleep", s=seconds)
    stage.world.do("energy", kwh=kwh)
    stage.world.do("time", s=seconds)


async def test_fault_70_a_trial_the_machine_slept_through_fails_and_pays_for_its_own_time(stage):
    """Thirty minutes of suspend in mid-settle: FAILED, its hours and its share of the energy; the rest is idle."""

    def sleep_once():
        if stage.rig.calls.count("measure") == 1:
            nap(stage, 1800.0, 0.5)

    result = await stage.run(make_spec(max_trials=2), fail={"measure": sleep_once})
    lines = lines_of(stage, 1)
    with stage.journal() as journal:
        first, second = journal.trials()
        idle = {i.meter: i for i in journal.idle.rows()}
        history = journal.history(make_spec().problem.space)
    assert first.state is State.FAILED
    assert second.state is State.RECORDED
    assert not history.observations[0].cost_known
    assert lines["labour"].quantity == pytest.approx(90.0 / 3600.0)
    assert idle["labour"].quantity == 0.5
    assert lines["power"].quantity == pytest.approx(0.625 * 90.0 / 1890.0)
    assert lines["power"].amount + idle["power"].amount == 187_500
    assert result.spent == history.spent + sum(i.amount for i in idle.values())


FIXED, TIMED = METERS[3], replace(METERS[2], price=Decimal(36))


@pytest.mark.parametrize("meters", [(FIXED,), (TIMED,), (FIXED, TIMED), ()], ids=["fixed", "time", "both", "none"])
@pytest.mark.parametrize("naps_in", [1, 2])
async def test_fault_84_a_trial_slept_through_fails_though_no_counter_tells(stage, meters, naps_in):
    """Suspend is known by the clock: also where costs are fixed or by the hour the trial is FAILED, its sleep idle."""

    def sleep_once():
        if stage.rig.calls.count("measure") == naps_in:
            nap(stage, 1800.0, 0.0)

    spec = make_spec(rig=make_rig_spec(meters=meters), max_trials=3)
    result = await stage.run(spec, fail={"measure": sleep_once}, metered=())
    with stage.journal() as journal:
        rows, idle = journal.trials(), {line.meter: line for line in journal.idle.rows()}
    assert [row.state is State.FAILED for row in rows] == [number == naps_in for number in (1, 2, 3)]
    own = 900_000 * (TIMED in meters) + 50_000 * (FIXED in meters)  # 90 s of its own
    assert [row.cost for row in rows] == [own, own, own]
    assert {name: line.quantity for name, line in idle.items()} == ({"labour": 0.5} if TIMED in meters else {})
    assert all(line.note.startswith(SLEPT) for line in idle.values())
    assert result.spent == 3 * own + 18_000_000 * (TIMED in meters)


@pytest.mark.slow
async def test_the_hours_slept_between_two_trials_are_idle_where_nothing_is_counted(stage):
    """They are booked before the next trial is decided, for its budget is what they leave."""

    def slept(journal):
        if len(journal.read.history(make_spec().problem.space)) == 1:
            nap(stage, 1800.0, 0.0)

    spec = make_spec(rig=make_rig_spec(meters=(TIMED,)), max_trials=2)
    await stage.run(spec, journal=interrupted(stage, slept), metered=())
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.RECORDED, State.RECORDED]
        assert [(line.before_trial, line.quantity) for line in journal.idle.rows()] == [(2, 0.5)]
        assert journal.trial(1).budget - journal.trial(2).budget == 18_000_000


def held(phase):
    """The campaign waits for half an hour."""

    def after(stage, journal):
        enter(journal, phase, stage.world.now_s)
        stage.world.do("energy", kwh=0.25)
        stage.world.do("time", s=1800.0)
        enter(journal, "RUNNING", stage.world.now_s)

    return after


@pytest.mark.parametrize(
    "after",
    [held("HOLDING"), held("WAITING"), lambda stage, _: nap(stage, 1800.0, 0.25)],
    ids=["held", "waits", "asleep"],
)
async def test_what_is_used_between_two_trials_is_idle(stage, after):
    """In a hold, or with the lid closed: energy and hours are nobody's; the next trial starts from fresh readings."""

    def once(journal):
        if len(journal.read.history(make_spec().problem.space)) == 1:
            after(stage, journal)

    await stage.run(make_spec(max_trials=2), journal=interrupted(stage, once))
    assert power_lines(stage) == [(0.125, False), (0.125, False)]
    assert idle_lines(stage) == [(2, "power", 0.25), (2, "labour", 0.5)]


@pytest.mark.slow
async def test_after_a_clean_end_energy_is_idle_and_nobody_waits(stage):
    """What the rig used while the campaign rested is booked, but no hours: everything was safe and given back."""
    await stage.run(make_spec(max_trials=1))
    a_night(stage)
    await stage.run(make_spec(max_trials=2))
    assert power_lines(stage) == [(0.125, False), (0.125, False)]
    assert idle_lines(stage) == [(2, "power", 3.0)]


async def test_a_nap_of_seconds_changes_nothing(stage):
    """Shorter than anybody would notice: the trial counts as it is."""

    def sleep_once():
        if stage.rig.calls.count("measure") == 1:
            nap(stage, 4.0, 0.0)

    await stage.run(make_spec(max_trials=1), fail={"measure": sleep_once})
    assert power_lines(stage) == [(0.125, False)]
    assert idle_lines(stage) == []


def interrupted(stage, what):
    """Opens a journal that has `what` done to it whenever a trial has been recorded."""

    def opened(directory, clock):
        journal = open_journal(directory, clock)
        finish = journal.finish

        def finish_and_more(*args, **kwargs):
            finish(*args, **kwargs)
            what(journal)

        journal.finish = finish_and_more
        return journal

    return opened


async def test_a_pump_that_restarted_in_a_lost_trial_is_charged_by_its_doses(stage):
    """The counter starts from zero with the pump; eight millilitres were booked, and eight are charged."""
    left_behind(stage, Event.RUN)
    restarted = {"acid": lambda r: Reading(2.0, r.unit, r.time_s)}
    await stage.run(make_spec(max_trials=1), counters=restarted)
    line = lines_of(stage, 1)["acid"]
    assert (line.quantity, line.amount, line.estimated) == (8.0, 80_000, True)


@pytest.mark.parametrize("proposed", [False, True])
def test_what_is_idle_lies_before_the_trial_that_really_comes_next(tmp_path, proposed):
    """A proposal that a dead process left behind is the next trial: else the same idle time is taken off twice."""
    with closing(begun(tmp_path, 1)) as journal:
        if proposed:
            journal.propose(make_decision(2))
        journal.idle.book([IdleLine("power", "energy", 0.5, "kWh", 150_000, "")])
        assert [row.before_trial for row in journal.read.idle.rows()] == [2]


def test_when_something_was_booked_last_is_known_by_meter(tmp_path):
    """From then on it is priced; across a boot by the wall clock, if that says more."""
    wall = [datetime(2026, 6, 1, tzinfo=UTC)]
    with closing(begun(tmp_path, wall=lambda: wall[0])) as journal:
        for meter in ("power", "water", "power"):
            journal.idle.book([IdleLine(meter, "energy", 0.5, "kWh", 150_000, "")])
            journal.time.clock.at_s += 100.0
        assert booked_ago_s(journal.past) == {"power": 100.0, "water": 200.0}
    wall[0] += timedelta(hours=1)
    with closing(begun(tmp_path, 0, SetClock(10.0), "boot-2", wall=lambda: wall[0])) as journal:
        assert booked_ago_s(journal.past) == {"power": 3600.0, "water": 3600.0}


async def test_what_lies_apart_stays_so_until_a_trial_has_read_its_meters(stage, monkeypatch):
    """Used while the safe state was not confirmed; the trial that follows cannot read its meter, the next pays not."""
    monkeypatch.setattr(safe_file, "FIRST_RETRY_S", 0.0)
    calls = {"safe": 0, "measure": 0, "unread": 0}

    def measure():
        calls["measure"] += 1
        if calls["measure"] == 1:
            raise DeviceTimeout("scale: no answer")

    def safe():
        calls["safe"] += 1
        if calls["safe"] == 3:  # the second attempt after the failure
            stage.world.do("energy", kwh=1.0)

    def power(reading):
        once = calls["safe"] == 3 and not calls["unread"]
        calls["unread"] += once
        return replace(reading, value=math.nan, severity=Severity.INVALID) if once else reading

    faults = {"fail": {"measure": measure, "safe": safe}, "counters": {"power": power}}
    await stage.run(make_spec(max_trials=3), unsafe=[{}, {"valve": "no answer"}], **faults)
    with stage.journal() as journal:
        assert [row.state for row in journal.trials()] == [State.FAILED, State.FAILED, State.RECORDED]
        (used,) = [line.quantity for line in journal.ledger(3) if line.meter == "power"]
    assert used == pytest.approx(0.125)
