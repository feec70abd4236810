import math
import re
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.ledger.charging import Interlude, charge, idle_between, idle_in_trial, total
from rigctl.campaign.ledger.plausibility import Consumption, PastCosts, PastLine
from rigctl.core.experiment.money import to_micros
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

POWER = MeterSpec("energy", Decimal("0.31"), "mains", "power", max_per_trial=5.0)
ACID = MeterSpec("volume", Decimal("0.0042"), "pump", "acid")
LABOUR = MeterSpec("time", Decimal("1.5"), name="labour")
WATER = MeterSpec("fixed", Decimal("0.05"), name="water")
DEAD = Reading(math.nan, "kWh", 0.0, Severity.INVALID, "no answer")


def kwh(value):
    return Reading(value, "kWh", 0.0)


def power_line(before, after, past=()):
    """The one line of a trial of `a`, metered by its power meter."""
    used = Consumption({"power": before} if before else {}, {"power": after} if after else {}, 0.0, began_s=0.0)
    (line,) = charge([POWER], used, ("a",), PastCosts.of(past))
    return line


def test_the_difference_of_two_readings_is_decimal():
    """12.3 - 12.1 is 0.2, where binary floats say 0.20000000000000107."""
    assert 12.3 - 12.1 != 0.2
    assert power_line(kwh(12.1), kwh(12.3)).quantity == 0.2


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (kwh(100.0), kwh(0.5), "fell from 100.0 to 0.5"),
        (kwh(0.0), kwh(5.1), "rose by 5.1 kWh, more than the plausible 5.0"),
        (DEAD, kwh(1.0), r"not read before the trial \(no answer\)"),
        (kwh(1.0), DEAD, r"not read after the trial \(no answer\)"),
        (None, kwh(1.0), "not read before the trial"),
        (kwh(1.0), None, "not read after the trial"),
        (kwh(1.0), kwh(math.inf), "went from 1.0 to inf"),
    ],
)
def test_fault_40_a_counter_that_cannot_be_believed_is_estimated_and_marked(before, after, why):
    """A fallen, jumped or unread counter never makes a cost negative or absurd."""
    line = power_line(before, after, [PastLine(("a",), "power", 40_000), PastLine(("a",), "power", 60_001)])
    assert line.estimated
    assert line.quantity is None
    assert line.amount == 50_000  # 50000.5, ties to even
    assert re.search(why, line.note), line.note


def test_a_clock_that_seems_to_go_back_costs_nothing():
    """A negative duration is charged as none."""
    (line,) = charge([LABOUR], Consumption({}, {}, -1.0, began_s=0.0), ("a",), PastCosts())
    assert line.amount == 0


def ml(value):
    return Reading(value, "mL", 0.0)


def acid_line(before, after, booked_ml, past=()):
    """The one line of a pump's own counter in a trial whose doses add up to `booked_ml`."""
    used = Consumption({"acid": before}, {"acid": after}, 0.0, {"acid": booked_ml}, began_s=0.0)
    (line,) = charge([ACID], used, ("a",), PastCosts.of(past))
    return line


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (ml(50.0), ml(70.0), "rose by 20.0 mL only"),
        (ml(90.0), ml(70.0), "fell from 90.0 to 70.0 mL"),
        (ml(50.0), Reading(math.nan, "mL", 0.0, Severity.INVALID, "no answer"), "not read after the trial"),
    ],
)
def test_a_pump_s_counter_never_says_less_than_its_doses(before, after, why, golden):
    """The pump restarted: the sum of the doses is charged, marked, whatever earlier trials have cost."""
    line = acid_line(before, after, 70.0, [PastLine(("a",), "acid", 77)])
    assert (line.quantity, line.amount, line.estimated) == (70.0, 294_000, True)
    assert why in line.note
    golden(line.note)


@pytest.mark.parametrize("risen", [73.7, 570.0])
def test_fault_90_a_pump_s_total_that_jumps_is_charged_by_its_doses_and_marked(risen):
    """What a pump gives unasked is booked as a dose, so a rise beyond all doses is none of the trial's."""
    line = acid_line(ml(0.0), ml(risen), 70.0)
    assert (line.quantity, line.amount, line.estimated) == (70.0, 294_000, True)


def test_fault_90_what_a_pump_gave_beyond_its_doses_while_no_process_lived_is_idle():
    """A hand may have run the pump then: the trial pays for its doses, and the rest is booked to nobody's trial."""
    used = Consumption({"acid": ml(0.0)}, {"acid": ml(90.0)}, 600.0, {"acid": 70.0}, 600.0, began_s=0.0)
    lines = charge([ACID], used, ("a",), PastCosts())
    (idle,) = idle_in_trial([ACID], used, lines, PastCosts(), "no process")
    assert (lines[0].quantity, lines[0].estimated, idle.quantity) == (70.0, True, 20.0)


def test_a_doubtful_reading_marks_the_line_and_charges_it():
    """A reading that was taken over from a process that died: charged in full, but no evidence of a trial's cost."""
    line = power_line(Reading(1.0, "kWh", 0.0, Severity.MINOR, "while nobody looked"), kwh(1.5))
    assert (line.quantity, line.amount, line.estimated, line.note) == (0.5, 155_000, True, "while nobody looked")


reading = st.one_of(
    st.just(DEAD), st.none(), st.floats(allow_nan=True, allow_infinity=True).map(kwh), st.floats(0, 1e9).map(kwh)
)


@given(before=reading, after=reading, elapsed=st.floats(-1e6, 1e9), past=st.lists(st.integers(0, 10**9), max_size=5))
def test_no_reading_whatever_makes_a_negative_cost(before, after, elapsed, past):
    """For any pair of readings the lines are whole, non-negative micro-units that add up."""
    used = Consumption({"power": before} if before else {}, {"power": after} if after else {}, elapsed, began_s=0.0)
    lines = charge([POWER, LABOUR, WATER], used, ("a",), PastCosts.of(PastLine(("a",), "power", p) for p in past))
    assert all(isinstance(line.amount, int) and line.amount >= 0 for line in lines)
    assert total(lines) == sum(line.amount for line in lines)


# What no trial used -----------------------------------------------------------------------------------------------

FREE = MeterSpec("energy", Decimal("0.31"), "mains", "power")


def between(before, after, gap_s, meter=FREE, booked=()):
    """What is idle on one meter between two trials."""
    gap = Interlude({meter.name: (before, gap_s)}, {meter.name: after}, 0.0, booked)
    return idle_between([meter, LABOUR], gap, PastCosts())


@pytest.mark.parametrize(
    ("after", "doses_ml", "quantity"),
    [(550.0, 0.0, None), (557.0, 7.0, 7.0), (52.0, 7.0, 7.0), (0.0, 7.0, 7.0), (57.2, 7.0, 7.2), (50.05, 0.0, 0.05)],
)
def test_fault_90_between_trials_a_pump_is_charged_by_its_doses_where_its_total_denies_them(after, doses_ml, quantity):
    """Beyond the doses, short of them, or anew from 0; a total that agrees with them is charged as it is."""
    gap = Interlude({"acid": (ml(50.0), 60.0)}, {"acid": ml(after)}, 0.0, booked_ml={"acid": doses_ml})
    lines = idle_between([ACID], gap, PastCosts())
    assert [line.quantity for line in lines] == ([] if quantity is None else [pytest.approx(quantity)])
    again = idle_between([ACID], replace(gap, booked=lines), PastCosts())
    assert again == ()


steps = st.lists(
    st.tuples(st.integers(0, 400), st.sampled_from(["idle", "whole", "slept", "books twice"]), st.floats(0.0, 1.0)),
    min_size=1,
    max_size=12,
)


@given(steps=steps, start=st.integers(0, 10**7), price=st.decimals("0.01", "9.99", places=4))
def test_trials_and_idle_together_are_the_counter_s_rise(steps, start, price):
    """Whatever lies between readings, and whoever was in charge: no gap, nothing twice, to the last micro-unit."""
    meter = MeterSpec("energy", price, "mains", "power")
    counter, lines, exact = start, [], 0
    for rise, what, awake in steps:
        before, after = kwh(counter / 1000), Reading((counter + rise) / 1000, "kWh", 3600.0)
        counter += rise
        exact += to_micros(Decimal(rise) / 1000 * price)
        if what == "idle":
            lines += between(before, after, 3600.0, meter)
        elif what == "books twice":
            half = kwh((counter - rise + rise // 2) / 1000)
            first = between(before, half, 1800.0, meter)
            lines += [*first, *between(before, after, 3600.0, meter, booked=first)]
        else:
            asleep_s = 3600.0 * (1.0 - awake) if what == "slept" else 0.0
            used = Consumption(
                {"power": before}, {"power": after}, 3600.0 - asleep_s, unattended_s=asleep_s, began_s=0.0
            )
            charged = charge([meter], used, ("a",), PastCosts())
            lines += [*charged, *idle_in_trial([meter], used, charged, PastCosts(), "asleep")]
    assert sum(line.amount for line in lines) == exact
    assert math.fsum(line.quantity for line in lines) == pytest.approx((counter - start) / 1000, abs=1e-9)
    assert all(line.amount >= 0 for line in lines)
