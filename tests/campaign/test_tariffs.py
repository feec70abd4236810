"""Prices by time of use, held against a sum that is taken minute by minute."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rigctl.campaign.ledger.charging import Interlude, charge, idle_between, idle_in_trial
from rigctl.campaign.ledger.lines import IdleLine
from rigctl.campaign.ledger.plausibility import Consumption, PastCosts
from rigctl.campaign.ledger.rates import BY_TIME, UNDATED
from rigctl.rig.calendar import Rate, Tariff, hours_of_week, instant
from rigctl.rig.metering import CIVIL
from rigctl.rig.protocols import Reading
from rigctl.rig.spec import MeterSpec

BERLIN = "Europe/Berlin"
PRICES = {"night": Decimal("0.123457"), "day": Decimal("0.312349"), "sunday": Decimal("0.09")}
TARIFF = Tariff(
    BERLIN,
    (
        Rate("night", PRICES["night"], tuple(map(hours_of_week, ("Mon-Sat 22:00-24:00", "Mon-Sat 00:00-06:00")))),
        Rate("sunday", PRICES["sunday"], (hours_of_week("Sun"),)),
        Rate("day", PRICES["day"]),
    ),
)
POWER = MeterSpec("energy", TARIFF, "mains", "power", rated_per_h=10.0)
LABOUR = MeterSpec("time", TARIFF, name="labour")
AT_SIX = instant("2026-06-10T06:00+02:00")


def by_the_clock(at_s):
    """Which price a clock on the wall calls for: the same tariff in another form."""
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=at_s)).astimezone(ZoneInfo(BERLIN))
    if local.weekday() == 6:
        return PRICES["sunday"]
    return PRICES["day"] if 6 <= local.hour < 22 else PRICES["night"]


def trial(begin_s, minutes, rise=None, changes=(), late_s=0.0):
    """A trial from an instant on; the counter rose by as much, and stood somewhere at changes of the rate."""
    after = {CIVIL: Reading(begin_s + 60.0 * minutes, "s", 60.0 * minutes)}
    before = {CIVIL: Reading(begin_s, "s", 0.0)}
    if rise is not None:
        before["power"], after["power"] = Reading(100.0, "kWh", 0.0), Reading(100.0 + rise, "kWh", 60.0 * minutes)
    for at_s, value in changes:
        after[f"power (at {at_s:.0f})"] = Reading(value, "kWh", at_s - begin_s + late_s)
    return Consumption(before, after, 60.0 * minutes, began_s=0.0)


@pytest.mark.slow
@given(
    day=st.sampled_from(("2026-10-24T20:00+02:00", "2026-03-28T20:00+01:00", "2026-06-13T03:00+02:00")),
    wait=st.integers(0, 1500),
    minutes=st.integers(1, 3000),
)
@settings(max_examples=20)
def test_time_costs_to_the_micro_unit_what_each_minute_costs(day, wait, minutes):
    """Over nights, Sundays and days of 23 and 25 hours, against an independent sum minute by minute."""
    begin_s = instant(day) + 60 * wait
    (line,) = charge([LABOUR], trial(begin_s, minutes), ("a",), PastCosts())
    truth = sum((Fraction(by_the_clock(begin_s + 60 * i)) for i in range(minutes)), Fraction(0)) / 60
    assert line.amount == round(truth * 1_000_000)
    assert not line.estimated


@pytest.mark.parametrize(("day", "hours"), [("2026-10-25T00:00+02:00", 25), ("2026-03-29T00:00+01:00", 23)])
def test_a_day_of_a_change_costs_as_many_hours_as_it_has(day, hours):
    """Midnight to midnight on the two Sundays of the year that have no 24 hours."""
    (line,) = charge([LABOUR], trial(instant(day), 60 * hours), ("a",), PastCosts())
    assert (line.amount, line.quantity, line.note) == (hours * 90_000, float(hours), "sunday")


def test_energy_is_divided_by_the_counter_where_it_was_read_at_the_change(golden):
    """0.25 kWh before six and 0.5 after; the line adds up to the micro-unit, says so, and is no estimate."""
    used = trial(AT_SIX - 600.0, 30, 0.75, [(AT_SIX, 100.25)], late_s=5.0)
    (line,) = charge([POWER], used, ("a",), PastCosts())
    assert line.amount == round(1_000_000 * (Decimal("0.25") * PRICES["night"] + Decimal("0.5") * PRICES["day"]))
    assert (line.quantity, line.estimated) == (0.75, False)
    golden(line.note)


@pytest.mark.parametrize("changes", [(), [(AT_SIX + 3600.0, 100.25)], [(AT_SIX, 100.9)], [(AT_SIX, 99.0)]], ids=str)
def test_energy_is_divided_by_time_where_the_counter_says_nothing(changes):
    """A third of the time was before six; the line is marked, and teaches nothing."""
    (line,) = charge([POWER], trial(AT_SIX - 600.0, 30, 0.75, changes), ("a",), PastCosts())
    assert line.amount == round(1_000_000 * (Decimal("0.25") * PRICES["night"] + Decimal("0.5") * PRICES["day"]))
    assert line.estimated
    assert line.note.endswith(BY_TIME)


@pytest.mark.parametrize(("minutes", "late_s", "counts"), [(30, 89.0, True), (30, 91.0, False), (12, 59.0, True)])
def test_a_counter_that_was_read_much_too_late_says_nothing_of_the_change(minutes, late_s, counts):
    """Later than a twentieth of the trial, or than a minute in a short one."""
    used = trial(AT_SIX - 600.0, minutes, 0.75, [(AT_SIX, 100.4)], late_s=late_s)
    (line,) = charge([POWER], used, ("a",), PastCosts())
    assert line.estimated != counts


def test_nobody_knows_when_so_the_mean_is_charged():
    """Readings without their civil time are charged at the mean of the rates, as an estimate."""
    used = trial(AT_SIX, 30, 0.75)
    used = replace(used, before={"power": used.before["power"]}, after={"power": used.after["power"]})
    (line,) = charge([POWER], used, ("a",), PastCosts())
    assert (line.amount, line.estimated) == (round(1_000_000 * Decimal("0.75") * TARIFF.mean()), True)
    assert line.note.endswith(UNDATED)


def test_what_no_trial_used_is_charged_at_its_own_hours():
    """Two hours between trials, one of them at night: by the counter, which was read at six; and time of its own."""
    before = {"power": (Reading(100.0, "kWh", 0.0), 7200.0)}
    now = {
        "power": Reading(103.0, "kWh", 7200.0),
        f"power (at {AT_SIX:.0f})": Reading(102.0, "kWh", 3600.0),
        CIVIL: Reading(AT_SIX + 3600.0, "s", 7200.0),
    }
    power, labour = idle_between([POWER, LABOUR], Interlude(before, now, 5400.0), PastCosts())
    assert power.amount == round(1_000_000 * (2 * PRICES["night"] + PRICES["day"]))
    assert labour.amount == round(1_000_000 * (Decimal("0.5") * PRICES["night"] + PRICES["day"]))


@pytest.mark.parametrize("booked_at_h", [(3.0,), (1.0, 3.0), (1.0, 1.5, 2.0, 2.5, 3.0)])
def test_hours_that_no_trial_used_cost_what_they_do_however_often_they_are_booked(booked_at_h):
    """A campaign waits from an hour before the rate changes on, and looks now and then: each hour at its own rate."""
    booked: list[IdleLine] = []
    for hours in booked_at_h:
        now = {CIVIL: Reading(AT_SIX + 3600.0 * (hours - 1.0), "s", 3600.0 * hours)}
        booked += idle_between([LABOUR], Interlude({}, now, 3600.0 * hours, booked), PastCosts())
    exact = 1_000_000 * (PRICES["night"] + 2 * PRICES["day"])
    assert sum(line.amount for line in booked) == pytest.approx(float(exact), abs=len(booked))


def test_energy_that_no_trial_used_costs_what_it_does_however_often_it_is_booked():
    """What was read at six is told once. A minute later nearly nothing more was used, which costs nearly nothing."""
    before = {"power": (Reading(100.0, "kWh", 0.0), 7200.0)}
    night = {
        "power": Reading(110.0, "kWh", 7200.0),
        f"power (at {AT_SIX:.0f})": Reading(109.0, "kWh", 3600.0),
        CIVIL: Reading(AT_SIX + 3600.0, "s", 7200.0),
    }
    first = idle_between([POWER], Interlude(before, night, 7200.0), PastCosts())
    minute = {"power": Reading(110.25, "kWh", 7260.0), CIVIL: Reading(AT_SIX + 3660.0, "s", 7260.0)}
    gap = Interlude({"power": (before["power"][0], 7260.0)}, minute, 7260.0, first, booked_ago_s={"power": 60.0})
    (more,) = idle_between([POWER], gap, PastCosts())
    assert first[0].amount == round(1_000_000 * (9 * PRICES["night"] + PRICES["day"]))
    assert (more.quantity, more.amount) == (0.25, round(250_000 * PRICES["day"]))


def test_a_lost_trial_is_charged_at_the_hours_it_ran():
    """It died at half past five; what was used until somebody came at seven is idle, at the rates of that time."""
    used = replace(trial(AT_SIX - 3600.0, 120, 1.5), elapsed_s=1800.0, unattended_s=5400.0)
    lines = charge([POWER, LABOUR], used, ("a",), PastCosts())
    assert [line.note.partition(";")[0] for line in lines] == ["night", "night"]
    assert lines[1].amount == round(1_000_000 * PRICES["night"] / 2)
    assert lines[0].amount == round(1_000_000 * Decimal("1.5") / 4 * PRICES["night"])
    power, labour = idle_in_trial([POWER, LABOUR], used, lines, PastCosts(), "died")
    assert labour.amount == round(1_000_000 * (PRICES["night"] / 2 + PRICES["day"]))
    assert power.amount + lines[0].amount == round(1_000_000 * Decimal("0.75") * (PRICES["night"] + PRICES["day"]))
