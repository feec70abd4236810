"""What a trial cost: meter readings and prices -> ledger lines in whole micro-units. Pure.

A counter testifies only if it was read before and after, has not fallen, and has not risen by more than it can. If it
does not testify, its line is estimated and marked, never negative: the mean of what the same control set's whole
trials have cost on this meter, else of all whole trials, else the price of the largest plausible rise, else nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from rigctl.core.money import Micros, to_micros
from rigctl.rig.protocols import Reading
from rigctl.rig.spec import MeterSpec

SECONDS_PER_HOUR = Decimal(3600)
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
    """By meter name, from before the first actuator moved."""
    after: Mapping[str, Reading]
    elapsed_s: float
    """Rig seconds the trial took."""


def charge(
    meters: Sequence[MeterSpec], used: Consumption, control_set: tuple[str, ...], past: Sequence[PastLine]
) -> tuple[LedgerLine, ...]:
    """The ledger lines of one trial, one per meter, in the order of `meters`."""

    def line(meter: MeterSpec) -> LedgerLine:
        if meter.kind == "fixed":
            return _exact(meter, Decimal(1))
        if meter.kind == "time":
            return _exact(meter, Decimal(repr(max(0.0, used.elapsed_s))) / SECONDS_PER_HOUR)
        risen = _risen(meter, used.before.get(meter.name), used.after.get(meter.name))
        return _exact(meter, risen) if isinstance(risen, Decimal) else _estimate(meter, risen, control_set, past)

    return tuple(map(line, meters))


def total(lines: Sequence[LedgerLine]) -> Micros:
    """The trial's cost: the sum of its lines, exact."""
    return sum(line.amount for line in lines)


def _exact(meter: MeterSpec, quantity: Decimal) -> LedgerLine:
    return LedgerLine(meter.name, meter.kind, float(quantity), UNITS[meter.kind], to_micros(quantity * meter.price))


def _risen(meter: MeterSpec, before: Reading | None, after: Reading | None) -> Decimal | str:
    """How far the counter rose, in decimal arithmetic; or why that is not known."""
    if before is None or not before.valid:
        return "not read before the trial" + _detail(before)
    if after is None or not after.valid:
        return "not read after the trial" + _detail(after)
    risen = Decimal(repr(after.value)) - Decimal(repr(before.value))
    if not risen.is_finite():
        return f"went from {before.value} to {after.value}"
    if risen < 0:
        return f"fell from {before.value} to {after.value} {after.unit}"
    if meter.max_per_trial is not None and risen > Decimal(repr(meter.max_per_trial)):
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
        return line(to_micros(Decimal(repr(meter.max_per_trial)) * meter.price), "the largest plausible amount")
    return line(0, "nothing to estimate from, booked as zero")
