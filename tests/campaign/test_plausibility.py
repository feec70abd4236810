"""Which counters are believed; every rule with a counter that breaks it and one that just does not."""

import struct
from dataclasses import replace
from decimal import Decimal

import pytest

from rigctl.campaign.ledger.charging import charge
from rigctl.campaign.ledger.plausibility import (
    Consumption,
    PastCosts,
    PastLine,
    believed,
    doubts,
    slept_s,
    slept_through,
    step,
)
from rigctl.rig.metering import ASLEEP, by_power
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

POWER = MeterSpec("energy", Decimal("0.31"), "mains", "power")
RATED = replace(POWER, rated_per_h=2.0)
FLOW = MeterSpec("volume", Decimal("0.001"), "flow", "water")
HOUR_S = 3600.0
JUMP_KWH = 1e6


def kwh(value, at_s=0.0):
    return Reading(value, "kWh", at_s)


def trial(before, after, *, by_power_kwh=None, dense=True, hours=1.0, meter="power"):
    """A trial of an hour in which the counter went from one value to another."""
    took_s = hours * HOUR_S
    first, last = {meter: kwh(before)}, {meter: kwh(after, took_s)}
    if by_power_kwh is not None:
        severity = Severity.NONE if dense else Severity.MINOR
        first[by_power(meter)] = kwh(7.0)
        last[by_power(meter)] = Reading(7.0 + by_power_kwh, "kWh", took_s, severity)
    return Consumption(first, last, took_s, began_s=0.0)


def an_hour(rise, meter="power", price="0.31"):
    """What a trial of `a` has cost that took an hour."""
    return PastLine(("a",), meter, int(Decimal(repr(rise)) * Decimal(price) * 1_000_000), HOUR_S)


USUAL = tuple(an_hour(rise) for rise in (0.4, 0.5, 0.6))


@pytest.mark.parametrize(
    ("meter", "used", "past", "why"),
    [
        (RATED, trial(100.0, 102.5), (), "rated 2 kWh/h for 3600 s"),
        (RATED, trial(100.0, 100.0 + JUMP_KWH), (), "rated 2 kWh/h"),
        (replace(FLOW, rated_per_h=600.0), trial(0.0, 700.0, meter="water"), (), "rated 600 kWh/h"),
        (POWER, trial(412.7, 412.7 + JUMP_KWH, by_power_kwh=0.5), (), "power times time is 0.5 kWh"),
        (POWER, trial(412.75, 414.3, by_power_kwh=0.5), (), "power times time is 0.5 kWh"),
        (POWER, trial(412.751, 412.8, by_power_kwh=0.5), (), "power times time is 0.5 kWh"),
        (POWER, trial(0.41275, 0.41325, by_power_kwh=0.5), (), "power times time is 0.5 kWh"),
        (POWER, trial(412.75, 425.3, by_power_kwh=0.5, dense=False), (), "power times time is 0.5 kWh"),
        (POWER, trial(412.7, 412.7 + JUMP_KWH), (), "which no connection carries"),
        (FLOW, trial(5122.0, 5122.0 * 65536, meter="water"), (), "which no pipe carries"),
        (POWER, trial(412.75, 426.0), USUAL, "more than 20 times what the dearest trial"),
        (POWER, trial(412.75, 444.0), [replace(p, control_set=("b",)) for p in USUAL], "more than 20 times"),
        (POWER, trial(0.41275, 0.41325), USUAL, "less than 1/100 of what this control set"),
        (FLOW, trial(0.0, 500.0, meter="water"), [an_hour(20.0, "water", "0.001")] * 3, "more than 20 times"),
    ],
)
def test_fault_69_a_rise_that_contradicts_what_is_known_is_not_believed(meter, used, past, why):
    """Rating, power times time, a connection's capacity, the trials before: each finds a jump or a wrong unit."""
    said = believed(meter, used, ("a",), PastCosts.of(past))
    assert isinstance(said, str)
    assert why in said
    (line,) = charge([meter], used, ("a",), PastCosts.of(past))
    assert line.estimated
    assert 0 <= line.amount <= 1_000_000


def test_what_costs_nothing_is_held_against_no_price():
    """A meter without a price, and a trial that took no time, say nothing of the trials before."""
    free = replace(POWER, price=Decimal(0))
    assert believed(free, trial(412.75, 413.25), ("a",), PastCosts.of(an_hour(0.5, price="0") for _ in range(3))) == 0.5
    assert believed(POWER, trial(412.75, 412.75, hours=0.0), ("a",), PastCosts.of(USUAL)) == 0


@pytest.mark.parametrize(
    ("meter", "used", "past"),
    [
        (RATED, trial(100.0, 102.15), ()),  # a rating is a round figure
        (RATED, trial(100.25, 101.5), USUAL),
        (POWER, trial(412.75, 414.27, by_power_kwh=0.5), ()),  # three times, and two steps of the counter
        (POWER, trial(412.75, 412.95, by_power_kwh=0.5), USUAL),
        (POWER, trial(412.75, 412.94, by_power_kwh=0.6), ()),  # a third of it, but for one step of the counter
        (POWER, trial(412.75, 420.0, by_power_kwh=0.5, dense=False), ()),
        (POWER, trial(412.7, 412.7, by_power_kwh=0.2), ()),  # shown to 0.1 kWh
        (POWER, trial(412.75, 440.0), ()),  # nothing to check it against
        (POWER, trial(412.75, 440.0), USUAL[:2]),  # too few
        (POWER, trial(412.75, 440.0), [replace(p, control_set=("b",)) for p in USUAL]),  # another set may be dearer
        (POWER, trial(412.75, 412.751), [replace(p, control_set=("b",)) for p in USUAL]),  # or cheaper
        (FLOW, trial(0.0, 0.0, meter="water"), [an_hour(20.0, "water", "0.001")] * 3),  # not every trial takes water
    ],
)
def test_a_rise_that_nothing_contradicts_is_believed(meter, used, past):
    """Factors leave room for what differs from trial to trial."""
    name = meter.name
    assert believed(meter, used, ("a",), PastCosts.of(past)) == Decimal(repr(used.after[name].value)) - Decimal(
        repr(used.before[name].value)
    )


@pytest.mark.parametrize(
    ("meter", "before", "most", "too_much"),
    [
        (replace(POWER, max_per_trial=5.0), 100.0, 105.0, 105.1),
        (RATED, 100.0, 102.22, 102.23),
        (POWER, 100.1, 1100.3, 1100.4),
        (FLOW, 0.1, 100_000_000.3, 100_000_000.4),
    ],
)
def test_a_limit_itself_is_believed_and_the_next_step_is_not(meter, before, most, too_much):
    """The largest plausible rise, a rating, a connection and a pipe: two steps of the counter are forgiven, no more."""
    said = [believed(meter, trial(before, after, meter=meter.name), ("a",), PastCosts()) for after in (most, too_much)]
    assert [isinstance(rise, Decimal) for rise in said] == [True, False]


def test_power_times_time_stands_in_for_a_counter_that_cannot_be_believed(golden):
    """The line is what the power says, marked; earlier trials are asked only where the power was sampled too seldom."""
    jumped = trial(412.75, 412.75 + JUMP_KWH, by_power_kwh=0.5)
    (line,) = charge([POWER], jumped, ("a",), PastCosts.of([an_hour(0.25)]))
    assert (line.quantity, line.amount, line.estimated) == (0.5, 155_000, True)
    golden(line.note)
    seldom = trial(412.75, 412.75 + JUMP_KWH, by_power_kwh=0.5, dense=False)
    (line,) = charge([POWER], seldom, ("a",), PastCosts.of([an_hour(0.25)]))
    assert (line.amount, line.estimated) == (77_500, True)
    (line,) = charge([POWER], seldom, ("a",), PastCosts())
    assert (line.quantity, line.amount, line.estimated) == (0.5, 155_000, True)


def test_a_first_trial_s_estimate_is_what_can_have_been_used_at_most(golden):
    """Nothing has been learned yet: rating times time, else the largest plausible amount; not zero."""
    fell = trial(412.7, 0.2, hours=0.5)
    (line,) = charge([RATED], fell, ("a",), PastCosts())
    assert (line.amount, line.estimated) == (310_000, True)
    golden(line.note)
    (line,) = charge([replace(POWER, max_per_trial=5.0)], fell, ("a",), PastCosts())
    assert (line.amount, line.estimated) == (1_550_000, True)


def single(value):
    """As a meter with float32 registers gives it."""
    return struct.unpack("f", struct.pack("f", value))[0]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((412.7, 412.81), Decimal("0.01")),
        ((single(412.7), single(412.81)), Decimal("0.01")),
        ((single(1_000_000.0625), single(1_000_000.125)), Decimal(2) ** -4),  # all that float32 can tell
        ((1_000_000.01, 1_000_000.03), Decimal("0.01")),  # more than float32 holds
        ((2.0**-40, 2.0**-39), Decimal("1e-10")),  # no more decimals than ten are looked at
    ],
)
def test_a_counter_s_step_is_read_off_its_values(values, expected):
    """The last digit shown, or the distance between neighbouring float32 values."""
    before, after = map(kwh, values)
    assert step(before, after) == expected


def test_a_counter_too_coarse_for_a_trial_is_replaced_by_power_times_time(golden):
    """At 100 000 kWh float32 moves in steps of 8 Wh: a trial of 5 Wh is measured by its power, not booked as zero."""
    stood = trial(single(100_000.02), single(100_000.02), by_power_kwh=0.005)
    (line,) = charge([POWER], stood, ("a",), PastCosts())
    assert (round(line.quantity, 6), line.amount, line.estimated) == (0.005, 1550, False)
    golden(line.note)


def test_a_rise_that_nothing_can_be_checked_against_says_so(golden):
    """Believed all the same, or nothing would ever be learned; the note is honest about it."""
    notes = [
        charge([m], trial(1.25, 1.75), ("a",), PastCosts.of(past))[0]
        for m, past in ((POWER, ()), (RATED, ()), (POWER, USUAL))
    ]
    assert [(line.estimated, bool(line.note)) for line in notes] == [(False, True), (False, False), (False, False)]
    golden(notes[0].note)


# Meters that are not believed any more ----------------------------------------------------------------------------

SWITCHED = trial(0.4127, 0.4132, by_power_kwh=0.5)
FINE = trial(412.7, 413.2, by_power_kwh=0.5)


@pytest.mark.parametrize(
    ("recent", "why"),
    [
        ([SWITCHED, SWITCHED], "two trials in a row"),
        ([FINE, trial(412.7, 0.4209)], "from 412.7 to 0.4209 kWh in a trial: its unit was switched"),
        ([FINE, trial(40.0, 0.0405, by_power_kwh=0.5)], "its unit was switched"),
        ([trial(0.4127, 413.2)], "its unit was switched"),
        ([trial(1.0, 1.0 + JUMP_KWH, by_power_kwh=0.5)] * 2, "two trials in a row"),
    ],
)
def test_fault_41_a_counter_in_another_unit_is_not_believed_any_more(recent, why):
    """Caught in the trial in which it is switched, or after two trials that cost a thousandth."""
    found = doubts([POWER, FLOW], [(used, ("a",)) for used in recent], PastCosts())
    assert list(found) == ["power"]
    assert why in found["power"]


@pytest.mark.parametrize(
    "recent",
    [
        [],
        [FINE, FINE],
        [SWITCHED],
        [SWITCHED, FINE],
        [FINE, SWITCHED],
        [FINE, trial(412.7, 0.1, by_power_kwh=0.5)],  # a reset
        [FINE, trial(412.7, 412.7 + JUMP_KWH, by_power_kwh=0.5)],  # a jump
        [FINE, trial(999_999.9, 0.3, by_power_kwh=0.5)],  # it wrapped
    ],
)
def test_one_reset_or_jump_makes_no_meter_unbelievable(recent):
    """What happens once is estimated, and the campaign goes on."""
    assert doubts([POWER, FLOW], [(used, ("a",)) for used in recent], PastCosts()) == {}


def test_without_any_power_reading_a_switched_unit_is_seen_in_the_trials_before(golden):
    """Two trials at a thousandth of what this control set has used."""
    recent = [(trial(0.4127, 0.4132), ("a",))] * 2
    golden(doubts([POWER], recent, PastCosts.of(USUAL))["power"])
    assert doubts([POWER], recent, PastCosts()) == {}


# Suspend ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slept", "found"), [(0.0, 0.0), (4.0, 0.0), (1800.0, 1800.0), (-3.0, 0.0)])
def test_little_sleep_is_overlooked(slept, found):
    """Clocks are read at slightly different instants."""
    before, after = ({ASLEEP: Reading(100.0 + s, "s", 0.0)} for s in (0.0, slept))
    assert slept_s(before, after) == found
    assert slept_s({}, after) == slept_s(before, {}) == 0.0


@pytest.mark.parametrize(("slept", "settle_s", "told"), [(59.0, 30.0, False), (60.0, 30.0, True), (60.0, 90.0, False)])
def test_a_long_sleep_spoils_a_trial(slept, settle_s, told, golden):
    """From a minute on, or the settling time if that is longer."""
    assert bool(slept_through(slept, settle_s)) is told
    golden(slept_through(1800.0, settle_s))
