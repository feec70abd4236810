from __future__ import annotations

import math
import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.campaign.ledger import Consumption, PastLine, charge, total
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

POWER = MeterSpec("power", "energy", "mains", Decimal("0.31"), max_per_trial=5.0)
ACID = MeterSpec("acid", "volume", "pump", Decimal("0.0042"))
LABOUR = MeterSpec("labour", "time", None, Decimal("1.5"))
WATER = MeterSpec("water", "fixed", None, Decimal("0.05"))
DEAD = Reading(math.nan, "kWh", 0.0, Severity.INVALID, "no answer")


def kwh(value):
    return Reading(value, "kWh", 0.0)


def power_line(before, after, past=(), meter=POWER, control_set=("a",)):
    """The one line of a trial metered by `meter`."""
    used = Consumption({"power": before} if before else {}, {"power": after} if after else {}, 0.0)
    (line,) = charge([meter], used, control_set, past)
    return line


def test_a_trial_costs_the_sum_of_its_exact_lines():
    """Energy, volume, time and fixed lines are decimal products of quantity and price."""
    before = {"power": kwh(12.1), "acid": Reading(100.0, "mL", 0.0)}
    after = {"power": kwh(12.3), "acid": Reading(107.5, "mL", 0.0)}
    lines = charge([POWER, ACID, LABOUR, WATER], Consumption(before, after, 1800.0), ("a",), ())
    assert [line.amount for line in lines] == [62_000, 31_500, 750_000, 50_000]
    assert [line.quantity for line in lines] == [0.2, 7.5, 0.5, 1.0]
    assert total(lines) == 893_500
    assert not any(line.estimated for line in lines)


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


def test_an_estimate_comes_from_the_nearest_evidence():
    """This control set's trials, else all trials', else the largest plausible amount, else nothing."""
    same, other = PastLine(("a",), "power", 10_000), PastLine(("b",), "power", 30_000)
    unrelated = PastLine(("a",), "acid", 77)
    assert power_line(DEAD, DEAD, [same, other, unrelated]).amount == 10_000
    assert power_line(DEAD, DEAD, [other, unrelated]).amount == 30_000
    assert power_line(DEAD, DEAD, [unrelated]).amount == 1_550_000
    unlimited = MeterSpec("power", "energy", "mains", Decimal("0.31"))
    nothing = power_line(DEAD, DEAD, [], unlimited)
    assert (nothing.amount, nothing.estimated) == (0, True)
    assert "nothing to estimate from" in nothing.note


def test_a_clock_that_seems_to_go_back_costs_nothing():
    """A negative duration is charged as none."""
    (line,) = charge([LABOUR], Consumption({}, {}, -1.0), ("a",), ())
    assert line.amount == 0


reading = st.one_of(
    st.just(DEAD), st.none(), st.floats(allow_nan=True, allow_infinity=True).map(kwh), st.floats(0, 1e9).map(kwh)
)


@given(before=reading, after=reading, elapsed=st.floats(-1e6, 1e9), past=st.lists(st.integers(0, 10**9), max_size=5))
def test_no_reading_whatever_makes_a_negative_cost(before, after, elapsed, past):
    """For any pair of readings the lines are whole, non-negative micro-units that add up."""
    used = Consumption({"power": before} if before else {}, {"power": after} if after else {}, elapsed)
    lines = charge([POWER, LABOUR, WATER], used, ("a",), [PastLine(("a",), "power", p) for p in past])
    assert all(isinstance(line.amount, int) and line.amount >= 0 for line in lines)
    assert total(lines) == sum(line.amount for line in lines)
