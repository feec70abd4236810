"""What a trial cost: meter readings and prices -> ledger lines in whole micro-units. Pure.

A counter testifies only if it was read before and after, has not fallen, and has not risen by more than it can. If it
does not testify, its line is estimated and marked, never negative: the sum of the trial's doses if it is a doser's
counter (which may not say less than they do, either), else the mean of what the same control set's whole trials have
cost on this meter, else of all whole trials, else the price of the largest plausible rise, else nothing. A reading that
is doubtful (MINOR, MAJOR) is charged by, and the line is marked as estimated too, so that it teaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from math import isfinite

from rigctl.core.money import Micros, to_micros
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

SECONDS_PER_HOUR = Decimal(3600)
COUNTED = ("energy", "volume")
"""Kinds of meters that have a counter."""
SLACK_ML = 0.1
"""A pump's total is shown to 0.01 mL, and so is each dose: many small doses may add up to a little more than it."""
UNITS = {"energy": "kWh", "volume": "mL", "time": "h", "fixed": "trial"}


@dataclass(frozen=True, slots=True)
class LedgerLine:
    """One line of a trial's cost."""

    meter: str
    kind: str
    """A `MeterSpec` kind, or `manual` for a cost a person stated."""
    quantity: float | None
    """What was consumed, in `unit`; None where the meter could not testify."""
    unit: str
    amount: Micros
    estimated: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class PastLine:
    """What an earlier whole trial cost on one meter; estimates are made from these."""

    control_set: tuple[str, ...]
    meter: str
    amount: Micros


@dataclass(frozen=True, slots=True)
class Consumption:
    """The evidence of one trial's cost."""

    before: Mapping[str, Reading]
    """By meter name, from before the first actuator moved: as the last trial left them, else read afresh."""
    after: Mapping[str, Reading]
    elapsed_s: float
    """Rig seconds the trial took."""
    booked_ml: Mapping[str, float] = field(default_factory=dict)
    """By meter name: all doses of the trial, settled, where the meter is a doser's own counter."""


def charge(
    meters: Sequence[MeterSpec], used: Consumption, control_set: tuple[str, ...], past: Sequence[PastLine]
) -> tuple[LedgerLine, ...]:
    """The ledger lines of one trial, one per meter, in the order of `meters`."""

    def line(meter: MeterSpec) -> LedgerLine:
        if meter.kind == "fixed":
            return _exact(meter, Decimal(1))
        if meter.kind == "time":
            return _exact(meter, _decimal(max(0.0, used.elapsed_s)) / SECONDS_PER_HOUR)
        before, after = used.before.get(meter.name), used.after.get(meter.name)
        risen = _no_less_than_booked(_risen(meter, before, after), used.booked_ml.get(meter.name))
        if isinstance(risen, Decimal):
            return _exact(meter, risen, _doubt(before) or _doubt(after))
        if isinstance(risen, _Booked):
            return _exact(meter, risen.volume_ml, risen.note)
        return _estimate(meter, risen, control_set, past)

    return tuple(map(line, meters))


def total(lines: Sequence[LedgerLine]) -> Micros:
    """The trial's cost: the sum of its lines, exact."""
    return sum(line.amount for line in lines)


def _decimal(value: float) -> Decimal:
    """The shortest decimal that reads back as this float: a counter's own digits, so that differences are exact."""
    return Decimal(repr(float(value)))


def _exact(meter: MeterSpec, quantity: Decimal, doubt: str = "") -> LedgerLine:
    """This quantity at the meter's price; marked as estimated if it may be another trial's or nobody's in part."""
    amount = to_micros(quantity * meter.price)
    return LedgerLine(meter.name, meter.kind, float(quantity), UNITS[meter.kind], amount, bool(doubt), doubt)


@dataclass(frozen=True, slots=True)
class _Booked:
    """The doses testify in the counter's place."""

    volume_ml: Decimal
    note: str


def _no_less_than_booked(risen: Decimal | str, booked_ml: float | None) -> Decimal | str | _Booked:
    """A doser that restarted counts from zero again; the doses that were given are known all the same."""
    if booked_ml is None:
        return risen
    booked = _decimal(booked_ml)
    if isinstance(risen, Decimal) and risen >= booked - _decimal(SLACK_ML):
        return risen
    why = f"rose by {risen} mL only" if isinstance(risen, Decimal) else risen
    return _Booked(booked, f"{why}; the sum of the trial's doses")


def _doubt(reading: Reading | None) -> str:
    """Why a reading that can be used is doubtful all the same."""
    if reading is None or reading.severity is Severity.NONE:
        return ""
    return reading.detail or reading.severity.name


def _risen(meter: MeterSpec, before: Reading | None, after: Reading | None) -> Decimal | str:
    """How far the counter rose, in decimal arithmetic; or why that is not known."""
    if before is None or not before.valid:
        return "not read before the trial" + _detail(before)
    if after is None or not after.valid:
        return "not read after the trial" + _detail(after)
    if not (isfinite(before.value) and isfinite(after.value)):
        return f"went from {before.value} to {after.value}"
    risen = _decimal(after.value) - _decimal(before.value)
    if risen < 0:
        return f"fell from {before.value} to {after.value} {after.unit}"
    if meter.max_per_trial is not None and risen > _decimal(meter.max_per_trial):
        return f"rose by {risen} {after.unit}, more than the plausible {meter.max_per_trial}"
    return risen


def _detail(reading: Reading | None) -> str:
    return f" ({reading.detail})" if reading is not None and reading.detail else ""


def _estimate(meter: MeterSpec, why: str, control_set: tuple[str, ...], past: Sequence[PastLine]) -> LedgerLine:
    def mean(of: Callable[[PastLine], bool]) -> Micros | None:
        amounts = [p.amount for p in past if p.meter == meter.name and of(p)]
        return round(Fraction(sum(amounts), len(amounts))) if amounts else None

    def line(amount: Micros, how: str) -> LedgerLine:
        return LedgerLine(meter.name, meter.kind, None, UNITS[meter.kind], amount, True, f"{why}; {how}")

    same_set = mean(lambda p: p.control_set == control_set)
    if same_set is not None:
        return line(same_set, "mean of this control set's trials")
    all_sets = mean(lambda _: True)
    if all_sets is not None:
        return line(all_sets, "mean of all trials")
    if meter.max_per_trial is not None:
        return line(to_micros(_decimal(meter.max_per_trial) * meter.price), "the largest plausible amount")
    return line(0, "nothing to estimate from, booked as zero")
