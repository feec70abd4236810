"""The ledger to the last digit: every path's whole line, and every limit at the number itself and the next one."""

import math
from dataclasses import replace
from decimal import Decimal

import pytest

from rigctl.campaign.ledger.charging import Interlude, baseless, charge, idle_between, idle_in_trial, total
from rigctl.campaign.ledger.lines import IdleLine, LedgerLine
from rigctl.campaign.ledger.plausibility import Consumption, PastCosts, PastLine
from rigctl.rig.metering import by_power
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

POWER = MeterSpec("energy", Decimal("0.31"), "mains", "power")
ACID = MeterSpec("volume", Decimal("0.0042"), "pump", "acid")
LABOUR = MeterSpec("time", Decimal("1.5"), name="labour")
WATER = MeterSpec("fixed", Decimal("0.05"), name="water")
UNCHECKED = "nothing to check it against: no rating, no power reading, too few trials before"
DEAD = Reading(math.nan, "kWh", 0.0, Severity.INVALID, "no answer")
HOUR_S = 3600.0


def kwh(value, at_s=0.0, severity=Severity.NONE, detail=""):
    return Reading(value, "kWh", at_s, severity, detail)


def ml(value):
    return Reading(value, "mL", 0.0)


def line_of(meter, before, after, elapsed_s=0.0, past=(), *, power=None, dense=True, **used):
    """The line of one meter that went from one reading to the other."""
    first, last = {meter.name: before}, {meter.name: after}
    if power is not None:
        first[by_power(meter.name)] = kwh(7.0)
        last[by_power(meter.name)] = kwh(7.0 + power, 0.0, Severity.NONE if dense else Severity.MINOR)
    (line,) = charge([meter], Consumption(first, last, elapsed_s, **used, began_s=0.0), ("a",), PastCosts.of(past))
    return line


# What a trial is charged ------------------------------------------------------------------------------------------


def test_every_kind_of_meter_makes_a_whole_line():
    """Name, kind, quantity, unit, amount, no estimate, and a word only where nothing could be checked."""
    used = Consumption({"power": kwh(1.0), "acid": ml(2.0)}, {"power": kwh(1.5), "acid": ml(4.0)}, 1800.0, began_s=0.0)
    lines = charge([POWER, ACID, LABOUR, WATER], used, ("a",), PastCosts())
    assert lines == (
        LedgerLine("power", "energy", 0.5, "kWh", 155_000, False, UNCHECKED),
        LedgerLine("acid", "volume", 2.0, "mL", 8_400, False, ""),
        LedgerLine("labour", "time", 0.5, "h", 750_000, False, ""),
        LedgerLine("water", "fixed", 1.0, "trial", 50_000, False, ""),
    )
    assert total(lines) == 963_400
    assert total(()) == 0


def test_a_meter_that_can_be_checked_says_nothing():
    """A rating, a largest amount, a power reading or three trials before."""
    three = [PastLine(("b",), "power", 155_000, HOUR_S)] * 3
    for meter, past, power in (
        (replace(POWER, rated_per_h=2.0), (), None),
        (replace(POWER, max_per_trial=2.0), (), None),
        (POWER, three, None),
        (POWER, (), 0.5),
    ):
        assert line_of(meter, kwh(1.25), kwh(1.75), HOUR_S, past, power=power).note == ""
    assert line_of(POWER, kwh(1.25), kwh(1.75), HOUR_S, three[:2]).note == UNCHECKED


@pytest.mark.parametrize(
    ("power", "dense", "quantity", "note"),
    [
        (0.3, True, 0.3, "power times time: the counter's steps of 0.1 kWh are too coarse for a trial"),
        (0.31, True, 0.1, ""),
        (0.3, False, 0.1, ""),
    ],
)
def test_power_times_time_is_charged_up_to_three_steps_of_a_coarse_counter(power, dense, quantity, note):
    """Where it was well sampled; it is a measurement, not an estimate."""
    line = line_of(POWER, kwh(412.7), kwh(412.8), HOUR_S, power=power, dense=dense)
    assert line == LedgerLine("power", "energy", quantity, "kWh", round(quantity * 310_000), False, note)


@pytest.mark.parametrize(("before", "after"), [(412.0, 412.25), (412.25, 413.0)])
def test_a_counter_s_steps_are_those_of_whichever_reading_shows_more_digits(before, after):
    """A reading that happens to end in zeros does not make the counter a coarse one."""
    line = line_of(POWER, kwh(before), kwh(after), HOUR_S, power=after - before)
    assert (line.quantity, line.note) == (after - before, "")


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (kwh(412.7, 0.0, Severity.MINOR, "taken over"), kwh(412.8), "taken over"),
        (kwh(412.7, 0.0, Severity.MAJOR), kwh(412.8), "MAJOR"),
        (kwh(412.7), kwh(412.8, 0.0, Severity.MINOR, "late"), "late"),
        (kwh(412.7, 0.0, Severity.MINOR, "taken over"), kwh(412.8, 0.0, Severity.MINOR, "late"), "taken over"),
    ],
)
def test_a_doubtful_reading_is_charged_by_whatever_the_power_says(before, after, note):
    """Marked with its reason, or with how bad it is."""
    line = line_of(POWER, before, after, HOUR_S, power=0.3)
    assert line == LedgerLine("power", "energy", 0.1, "kWh", 31_000, True, note)


@pytest.mark.parametrize(
    ("risen", "quantity", "estimated", "note"),
    [
        (69.9, 69.9, False, ""),
        (69.89, 70.0, True, "rose by 69.89 mL only; the sum of the trial's doses"),
        (70.0, 70.0, False, ""),
        (73.6, 73.6, False, ""),
    ],
)
def test_a_pump_s_counter_may_fall_short_of_its_doses_by_a_tenth_of_a_millilitre(risen, quantity, estimated, note):
    """Exactly that much is rounding, and a pump may give a twentieth more; less is a restart."""
    line = line_of(ACID, ml(0.0), ml(risen), booked_ml={"acid": 70.0})
    assert line == LedgerLine("acid", "volume", quantity, "mL", round(quantity * 4_200), estimated, note)


def test_a_trial_without_doses_is_charged_by_the_counter_all_the_same(golden):
    """No dose was booked: what the counter rose by is what was dispensed; doses of nothing demand nothing."""
    assert line_of(ACID, ml(0.0), ml(3.0), booked_ml={}).quantity == 3.0
    assert line_of(ACID, ml(0.0), ml(0.0), booked_ml={"acid": 0.0}).estimated is False
    fell = line_of(ACID, ml(3.0), ml(0.0), booked_ml={"acid": 0.0})
    assert replace(fell, note="") == LedgerLine("acid", "volume", 0.0, "mL", 0, True)
    golden(fell.note)


@pytest.mark.parametrize(
    ("elapsed_s", "unattended_s", "quantity", "note"),
    [
        (900.0, 2700.0, 0.25, "its share, by time, of 1.0 kWh; the rest was idle"),
        (-5.0, 2700.0, 0.0, "its share, by time, of 1.0 kWh; the rest was idle"),
        (900.0, 0.0, 1.0, UNCHECKED),
        (900.0, -1.0, 1.0, UNCHECKED),
        (0.5, 0.5, 0.5, "its share, by time, of 1.0 kWh; the rest was idle"),
    ],
)
def test_a_trial_pays_its_share_of_the_time(elapsed_s, unattended_s, quantity, note):
    """A clock that seems to go back has taken no time; with nobody away the whole rise is the trial's."""
    line = line_of(POWER, kwh(1.0), kwh(2.0), elapsed_s, unattended_s=unattended_s)
    shared = note != UNCHECKED
    assert line == LedgerLine("power", "energy", quantity, "kWh", round(quantity * 310_000), shared, note)


def test_the_nearest_evidence_there_is_makes_the_estimate():
    """One after the other is taken away: each says by name what it is, and only power times time is a quantity."""
    meter = replace(POWER, rated_per_h=2.0, max_per_trial=5.0)
    same, other = PastLine(("a",), "power", 10_001), PastLine(("b",), "power", 30_000)
    more = PastLine(("a",), "power", 10_002), PastLine(("a",), "acid", 77)
    why = "not read before the trial (no answer); "

    def estimate(meter, past, **how):
        return line_of(meter, DEAD, kwh(2.0), 1800.0, past, **how)

    past = [same, *more, other]
    for line, quantity, amount, how in (
        (estimate(meter, past, power=0.5), 0.5, 155_000, "power times time"),
        (estimate(meter, past, power=0.5, dense=False), None, 10_002, "mean of this control set's trials"),
        (estimate(meter, [other, more[1]], power=0.5, dense=False), None, 30_000, "mean of all trials"),
        (estimate(meter, more[1:], power=0.5, dense=False), 0.5, 155_000, "power times time, seldom sampled"),
        (estimate(meter, more[1:]), None, 310_000, "its rating times the time"),
        (estimate(replace(meter, rated_per_h=None), ()), None, 1_550_000, "the largest plausible amount"),
        (estimate(POWER, ()), None, 0, "nothing to estimate from, booked as zero"),
        (
            estimate(POWER, [replace(same, amount=0)], power=0.5, dense=False),
            None,
            0,
            why and "mean of this control set's trials",
        ),
    ):
        assert line == LedgerLine("power", "energy", quantity, "kWh", amount, True, why + how)


@pytest.mark.parametrize(
    ("meter", "quantity", "estimated", "past", "told"),
    [
        (POWER, None, True, (), True),
        (POWER, 0.2, True, (), False),
        (POWER, None, False, (), False),
        (replace(POWER, rated_per_h=2.0), None, True, (), False),
        (replace(POWER, max_per_trial=2.0), None, True, (), False),
        (POWER, None, True, (PastLine(("b",), "power", 1),), False),
    ],
)
def test_a_zero_for_want_of_anything_to_estimate_from_is_told_from_others(meter, quantity, estimated, past, told):
    """It was estimated, by no quantity, and there was no rating, no limit and no trial before."""
    line = LedgerLine("power", "energy", quantity, "kWh", 0, estimated, "why")
    assert baseless(meter, line, PastCosts.of(past)) is told


def test_a_rise_is_held_against_the_trials_of_its_own_control_set():
    """Half a kilowatt-hour is nothing beside what another set uses, and far too much for this one."""
    own, others = PastLine(("a",), "power", 3_100, HOUR_S), PastLine(("b",), "power", 310_000, HOUR_S)
    assert line_of(POWER, kwh(1.25), kwh(1.75), HOUR_S, [own, own, own, others, others, others]).estimated
    assert not line_of(POWER, kwh(1.25), kwh(1.75), HOUR_S, [own, own, others, others, others]).estimated


def test_a_mean_is_rounded_half_to_even_and_is_exact():
    """10_001 and 10_002 make 10_002, 10_002 and 10_003 too; sums beyond 2^53 lose nothing."""
    for pair, mean in (((10_001, 10_002), 10_002), ((10_002, 10_003), 10_002), ((2**60 + 1, 2**60 + 3), 2**60 + 2)):
        past = [PastLine(("a",), "power", amount) for amount in pair]
        assert line_of(POWER, DEAD, DEAD, past=past).amount == mean


# What no trial used -----------------------------------------------------------------------------------------------


def test_idle_in_a_trial_is_what_is_left_of_every_meter():
    """Time and counters, in their order; a doser's own counter and what is fixed belong to the trial."""
    before = {"power": kwh(10.0), "acid": ml(0.0), "flow": ml(100.0)}
    after = {"power": kwh(11.0, HOUR_S), "acid": ml(8.0), "flow": ml(140.0)}
    flow = replace(ACID, name="flow", price=Decimal("0.001"))
    used = Consumption(before, after, 900.0, {"acid": 8.0}, 2700.0, began_s=0.0)
    meters = [WATER, LABOUR, ACID, POWER, flow]
    lines = charge(meters, used, ("a",), PastCosts())
    assert [line.estimated for line in lines] == [False, False, False, True, True]
    assert idle_in_trial(meters, used, lines, PastCosts(), "while nobody looked") == (
        IdleLine("labour", "time", 0.75, "h", 1_125_000, "while nobody looked"),
        IdleLine("power", "energy", 0.75, "kWh", 232_500, "while nobody looked"),
        IdleLine("flow", "volume", 30.0, "mL", 30_000, "while nobody looked"),
    )


@pytest.mark.parametrize(("unattended_s", "meters"), [(0.0, 0), (-1.0, 0), (0.5, 1)])
def test_without_an_interruption_nothing_is_idle(unattended_s, meters):
    """Half a second is one."""
    used = Consumption({}, {}, 900.0, unattended_s=unattended_s, began_s=0.0)
    assert len(idle_in_trial([LABOUR], used, charge([LABOUR], used, ("a",), PastCosts()), PastCosts(), "why")) == meters


@pytest.mark.parametrize("unattended_s", [0.0, -1.0])
def test_what_a_coarse_counter_rose_beyond_its_power_is_nobody_s_idling(unattended_s):
    """Somebody was in charge all the time: the rounding of the counter is not booked beside the trial."""
    first = {"power": kwh(412.7), by_power("power"): kwh(7.0)}
    last = {"power": kwh(412.9, HOUR_S), by_power("power"): kwh(7.1, HOUR_S)}
    used = Consumption(first, last, HOUR_S, unattended_s=unattended_s, began_s=0.0)
    lines = charge([POWER], used, ("a",), PastCosts())
    assert lines[0].quantity == 0.1
    assert idle_in_trial([POWER], used, lines, PastCosts(), "why") == ()


def between(gap_s=HOUR_S, meter=POWER, was=12.25, now=12.5, **changes):
    """What is idle on one meter between two trials."""
    reading = ml if meter.kind == "volume" else kwh
    gap = Interlude({meter.name: (reading(was), gap_s)}, {meter.name: reading(now)}, 0.0)
    return idle_between([meter], replace(gap, **changes), PastCosts.of(changes.pop("past", ())))


def test_idle_between_trials_is_the_whole_rise():
    """A line says what was used, between trials; what did not move makes none."""
    assert between() == (IdleLine("power", "energy", 0.25, "kWh", 77_500, "between trials"),)
    assert between(meter=ACID, was=1.0, now=3.0) == (IdleLine("acid", "volume", 2.0, "mL", 8_400, "between trials"),)
    assert between(now=12.25) == ()
    assert between(meter=WATER) == ()


def test_a_meter_that_cannot_be_read_keeps_no_other_from_being_booked():
    """It will be read again; so will one that was never read, or that is not asked now."""
    names = ("dead", "unknown", "absent", "power")
    meters = [replace(POWER, name=name) for name in names]
    known = {name: (kwh(12.25), HOUR_S) for name in ("dead", "absent", "power")}
    gap = Interlude(known, {"dead": DEAD, "unknown": kwh(5.0), "power": kwh(12.5)}, 0.0)
    assert [line.meter for line in idle_between(meters, gap, PastCosts())] == ["power"]


def test_a_counter_that_fell_is_told_once():
    """Booked as zero with the reason; not again when something has been booked already."""
    fell = "between trials: not known, booked as zero: fell from 12.0 to 0.5 kWh"
    (line,) = between(was=12.0, now=0.5)
    assert line == IdleLine("power", "energy", None, "kWh", 0, fell)
    assert between(was=12.0, now=0.5, booked=[line]) == ()


def test_what_has_been_booked_is_not_booked_again():
    """The rest is, to the last micro-unit; of other meters nothing is taken off."""
    first = between(now=12.375)
    assert first == (IdleLine("power", "energy", 0.125, "kWh", 38_750, "between trials"),)
    other = IdleLine("acid", "volume", 99.0, "mL", 999_999, "")
    unknown = IdleLine("power", "energy", None, "kWh", 0, "")
    (rest,) = between(booked=[*first, other, unknown])
    assert (rest.quantity, rest.amount) == (0.125, 38_750)
    assert between(now=12.375, booked=first) == ()
    assert between(now=12.3125, booked=first) == ()


def test_a_free_meter_is_booked_too():
    """A quantity without a price is still a quantity."""
    assert between(meter=replace(POWER, price=Decimal(0)))[0] == IdleLine(
        "power", "energy", 0.25, "kWh", 0, "between trials"
    )


def test_what_was_charged_too_much_by_estimate_is_not_given_back():
    """A booked amount above the rise's leaves no line, though some quantity is left."""
    dear = IdleLine("power", "energy", 0.0, "kWh", 77_501, "")
    assert between(booked=[dear]) == ()
    assert len(between(booked=[replace(dear, amount=77_500)])) == 1


@pytest.mark.parametrize(
    ("quantity", "amount", "idle"),
    [(0.1, 31_000, (0.15, 46_500)), (None, 31_000, (0.25, 46_500)), (0.3, 93_000, None), (0.1, 93_000, (0.15, 0))],
)
def test_a_trial_that_was_estimated_pays_before_anything_is_idle(quantity, amount, idle):
    """Once its meter can be read again: what it was charged is taken off, never below nothing."""
    charged = {"power": LedgerLine("power", "energy", quantity, "kWh", amount, True, "estimated")}
    gap = Interlude({}, {"power": kwh(12.5)}, 0.0, (), {"power": (kwh(12.25), HOUR_S)}, charged)
    found = idle_between([POWER], gap, PastCosts())
    assert [(line.quantity, line.amount) for line in found] == ([idle] if idle else [])


def test_what_a_trial_paid_by_estimate_for_a_counter_that_was_read_is_no_part_of_what_follows():
    """A counter that was read after the trial, and not believed, goes on from that reading."""
    charged = {"power": LedgerLine("power", "energy", 0.1, "kWh", 31_000, True, "estimated")}
    gap = Interlude(
        {"power": (kwh(12.25), HOUR_S)}, {"power": kwh(12.5)}, 0.0, (), {"water": (ml(1.0), HOUR_S)}, charged
    )
    assert [(line.quantity, line.amount) for line in idle_between([POWER], gap, PastCosts())] == [(0.25, 77_500)]


def test_a_meter_without_a_charge_to_go_with_is_not_booked_from_before_its_trial():
    """Where the trial was metered after all, what lies before it is its own."""
    gap = Interlude({}, {"power": kwh(12.5)}, 0.0, (), {"power": (kwh(12.25), HOUR_S)}, {})
    assert idle_between([POWER], gap, PastCosts()) == ()


RATED = replace(POWER, rated_per_h=2.0)
DEAREST = [PastLine(("a",), "power", amount, HOUR_S) for amount in (310_000, 620_000, 155_000)]


@pytest.mark.parametrize(
    ("meter", "gap_s", "past", "most"),
    [
        (RATED, HOUR_S, (), "2.2"),
        (RATED, 2 * HOUR_S, DEAREST, "4.4"),
        (RATED, 60.0, (), "0.03666666666666666666666666667"),
        (RATED, 1.0, (), "0.03666666666666666666666666667"),
        (RATED, 120.0, (), "0.07333333333333333333333333333"),
        (POWER, HOUR_S, (), "30"),
        (POWER, 2 * HOUR_S, DEAREST[:2], "60"),
        (POWER, HOUR_S, DEAREST, "6"),
        (POWER, 2 * HOUR_S, DEAREST, "12"),
        (POWER, HOUR_S, [replace(p, amount=0) for p in DEAREST], "30"),
        (POWER, HOUR_S, [replace(p, meter="other") for p in DEAREST], "30"),
        (replace(POWER, price=Decimal(0)), HOUR_S, DEAREST, "30"),
        (replace(POWER, price=Decimal("0.62")), HOUR_S, DEAREST, "3"),
        (replace(ACID, rated_per_h=10.0), HOUR_S, (), "11"),
        (
            ACID,
            HOUR_S,
            [replace(p, meter="acid", amount=p.amount // 10) for p in DEAREST],
            "295.2380952380952380952380952",
        ),
    ],
)
def test_no_more_is_booked_as_idle_than_can_have_been_used(meter, gap_s, past, most, golden):
    """1.1 times its rating, three times the dearest hour (volumes: twenty), or 30 kW; a minute at least; and two steps.

    A volume counter whose words were swapped between two trials once spent the whole budget.
    """
    reading = ml if meter.kind == "volume" else kwh
    gap = Interlude({meter.name: (reading(12.3), gap_s)}, {meter.name: reading(1e6 + 0.3)}, 0.0)
    (line,) = idle_between([meter], gap, PastCosts.of(past))
    limit = Decimal(most) + Decimal("0.2")
    assert line.quantity == pytest.approx(float(limit), rel=1e-12)
    assert line.amount == pytest.approx(float(limit * meter.mean_price * 1_000_000), abs=1)
    golden(line.note)
    assert total(idle_between([meter], replace(gap, booked=[line]), PastCosts.of(past))) == 0
    within = Interlude(gap.before, {meter.name: reading(round(12.3 + math.floor(limit * 10) / 10, 1))}, 0.0)
    assert "limited" not in idle_between([meter], within, PastCosts.of(past))[0].note


def test_a_flow_meter_without_a_rating_is_limited_by_what_a_pipe_carries(golden):
    """Nothing else says how much it can be before trials do: two swapped words must not spend the budget."""
    (line,) = between(meter=ACID, was=100.0, now=100.0 + 3e8)
    golden(line.note)
    assert line.quantity == pytest.approx(1e8, rel=1e-6)
    (line,) = between(meter=ACID, was=0.0, now=1e6)
    assert (line.quantity, line.note) == (1e6, "between trials")


def test_what_a_trial_used_beyond_its_estimate_may_be_twenty_times_the_dearest():
    """A trial is in it: not three times only."""
    charged = {"power": LedgerLine("power", "energy", None, "kWh", 0, True, "")}
    gap = Interlude({}, {"power": kwh(1e6 + 0.3)}, 0.0, (), {"power": (kwh(12.3), HOUR_S)}, charged)
    (line,) = idle_between([POWER], gap, PastCosts.of(DEAREST))
    assert line.quantity == pytest.approx(40.2)


def test_the_counter_s_step_is_that_of_either_reading():
    """Two steps are forgiven beyond the limit, of the finer digit that was shown."""
    gap = Interlude({"power": (kwh(12.3), HOUR_S)}, {"power": kwh(99.25)}, 0.0)
    (line,) = idle_between([POWER], gap, PastCosts())
    assert line.quantity == pytest.approx(30.02)


@pytest.mark.parametrize(
    ("rested_s", "booked_h", "quantity", "note"),
    [
        (HOUR_S, 0.0, 1.0, "between trials"),
        (86_400.0, 0.0, 24.0, "between trials"),
        (86_400.5, 0.0, 24.0, "between trials: limited, it took 24.0 h"),
        (260_000.0, 20.0, 4.0, "between trials: limited, it took 72.2 h"),
        (36_000_000.0, 0.0, 24.0, "between trials: limited, it took 10000.0 h"),
        (HOUR_S, 0.25, 0.75, "between trials"),
        (HOUR_S, 1.0, None, ""),
        (HOUR_S, 1.5, None, ""),
        (0.0, 0.0, None, ""),
        (0.0000036, 0.0, None, ""),
        (0.0000072, 0.0, 2e-9, "between trials"),
        (260_000.0, 24.0, None, ""),
    ],
)
def test_idle_hours_are_booked_up_to_a_day_and_once(rested_s, booked_h, quantity, note):
    """A day itself is whole; a billionth of an hour is the rounding of what was booked before."""
    booked = [IdleLine("labour", "time", booked_h, "h", 0, ""), IdleLine("labour", "time", None, "h", 0, "")]
    found = idle_between([LABOUR], Interlude({}, {}, rested_s, booked), PastCosts())
    hours = [] if quantity is None else [IdleLine("labour", "time", quantity, "h", round(quantity * 1_500_000), note)]
    assert list(found) == hours
