"""What a trial costs, and what is idle beside it, if the machine was off and its clock says nonsense after that."""

from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from math import inf

import pytest

from rigctl.campaign.closing import DIED, UNKNOWN_OFF
from rigctl.campaign.journal import past
from rigctl.campaign.trial import Event, State
from tests.campaign import test_recovery
from tests.campaign.fakes import FakeClock, make_spec
from tests.campaign.looking import looking_spec
from tests.campaign.records import STATES
from tests.campaign.test_awaiting_apart import Boots
from tests.campaign.test_looking import left_behind as looked

HOURS = timedelta(hours=6)
YEARS = timedelta(days=3650)
UNSEEN_H = 0.1
"""From the last sign of life until the power was cut."""


async def lost(stage, monkeypatch, ahead, jump_kwh=0.0, *, right=False):
    """A trial in flight as the power was cut; the wall clock is so much ahead then. Idle lines, and what was spent."""
    stage.clock, boots = lambda: FakeClock(stage.world, speedup=1.0), Boots(stage)
    monkeypatch.setattr(test_recovery, "open_journal", boots.journal)
    monkeypatch.setattr(past, "synchronised", lambda: right, raising=False)
    test_recovery.left_behind(stage, Event.RUN)
    boots.again(ahead)
    counters = {"power": lambda reading: replace(reading, value=reading.value + jump_kwh)}
    await stage.run(make_spec(budget=1e6, max_trials=1), boots.journal, counters=counters)
    with stage.journal() as journal:
        assert journal.trial(1).state is State.LOST
        return {line.meter: line for line in journal.idle.rows()}, journal.campaign().spent


@pytest.mark.parametrize("ahead", [YEARS, -YEARS, timedelta(days=-1), timedelta(hours=-1)], ids=str)
async def test_no_hours_are_booked_by_a_clock_that_cannot_be_right(stage, monkeypatch, ahead):
    """A board without a battery comes back years ahead, or before the power was cut: the lines say what is unknown."""
    idle, _ = await lost(stage, monkeypatch, ahead)
    assert (idle["labour"].quantity, idle["labour"].note) == (UNSEEN_H, f"{DIED}; {UNKNOWN_OFF}")
    assert (idle["power"].quantity, idle["power"].note) == (1.0, f"{DIED}; {UNKNOWN_OFF}")


async def test_no_hours_are_booked_of_a_look_that_a_power_cut_has_ended(stage):
    """Years ahead, too: what was used meanwhile is idle, and its line says what is unknown."""
    stage.clock, boots, spec = lambda: FakeClock(stage.world, speedup=1.0), Boots(stage), looking_spec(max_trials=1)
    looked(stage, "propose", spec)
    boots.again(YEARS)
    await stage.run(spec, boots.journal)
    with stage.journal() as journal:
        assert {line.meter: line.note for line in journal.idle.rows()} == {"power": f"{DIED}; {UNKNOWN_OFF}"}


@pytest.mark.parametrize(
    ("since", "right", "longest_s", "charged"),
    [
        ((60.0, None), False, 60.0, (60.0, True)),
        ((-1e-9, None), False, -1e-9, (0.0, True)),
        ((60.0, 3600.0), False, 3600.0, (3600.0, True)),
        ((60.0, 59.0), False, 60.0, (86_460.0, False)),
        ((60.0, 59.0), True, 60.0, (60.0, True)),
        ((60.0, 86_461.0), False, 86_461.0, (86_460.0, False)),
        ((60.0, 86_461.0), True, 86_461.0, (86_461.0, True)),
    ],
)
def test_how_long_ago_something_was(monkeypatch, since, right, longest_s, charged):
    """By campaign time and, across a boot, the wall clock; nothing is certain then. Less than no time costs none."""
    monkeypatch.setattr(past, "synchronised", lambda: right)
    found = past.Since(*since)
    assert (found.longest_s, found.charged_s) == (longest_s, charged)
    assert found.certain_s == (since[0] if since[1] is None else inf)


async def test_the_hours_of_a_night_are_booked_by_a_clock_that_may_be_right(stage, monkeypatch):
    """Nobody keeps it right, but it has a battery, as it seems."""
    idle, _ = await lost(stage, monkeypatch, HOURS)
    assert (idle["labour"].quantity, idle["labour"].note) == (pytest.approx(6.0 + UNSEEN_H), DIED)


async def test_a_clock_that_is_kept_right_is_believed_over_a_holiday(stage, monkeypatch):
    """Hours are limited all the same, and the line says so."""
    idle, _ = await lost(stage, monkeypatch, timedelta(days=20), right=True)
    assert idle["labour"].quantity == 24.0
    assert idle["labour"].note.startswith(DIED)
    assert "480.1 h" in idle["labour"].note


@pytest.mark.parametrize("ahead", [YEARS, -YEARS], ids=str)
async def test_a_counter_that_jumped_in_a_power_cut_is_limited_whatever_the_clock_says(
    stage, monkeypatch, ahead, golden
):
    """To what a laboratory uses in a day: ten years would have allowed for all of it."""
    idle, spent = await lost(stage, monkeypatch, ahead, jump_kwh=1e6)
    golden(idle["power"].note)
    assert spent < 300_000_000


@pytest.mark.slow
async def test_what_a_machine_was_off_after_a_trial_was_measured_is_not_the_trials(stage):
    """Though another process had taken it up, of the same boot, after its look: it did not sleep through any of it."""
    stage.clock, boots, spec = lambda: FakeClock(stage.world, speedup=1.0), Boots(stage), looking_spec(max_trials=1)
    looked(stage, "propose", spec)
    with closing(boots.journal(stage.state, stage.clock())) as journal:
        journal.begin(spec, "0.0")
        journal.arm(1, {})
        journal.run(1, STATES)
        stage.world.do("time", s=120.0)
        journal.measure(1, test_recovery.MEASURED, ("y",), {})
    boots.again(HOURS)
    await stage.run(spec, boots.journal)
    with stage.journal() as journal:
        assert (journal.trial(1).state, journal.trial(1).because) == (State.RECORDED, "")
        assert journal.idle.rows() == ()


async def test_what_a_pump_gave_while_no_process_was_in_charge_is_booked_by_its_total(stage):
    """A person has filled a tube by its button; the doses know nothing of that, and were not watched."""
    await stage.run(make_spec(max_trials=1))
    stage.world.do("time", s=600.0)
    stage.world.do("dose", ml=7.0)
    await stage.run(make_spec(max_trials=2))
    with stage.journal() as journal:
        booked = {line.meter: line.quantity for line in journal.idle.rows()}
    assert booked["acid"] == 7.0
