"""What a trial cost: meter readings and prices -> lines in whole micro-units. Pure.

A counter testifies if nothing contradicts it (see `plausibility`). If it does not, its line is estimated and marked,
never negative, from the nearest evidence: the sum of the trial's doses if it is a doser's counter (which may not say
less than they do, either), power times time, what whole trials have cost, what can have been used at most. An estimated
line teaches nothing. Doubtful readings (MINOR, MAJOR) are charged by, and the line is marked too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from rigctl.campaign.ledger.lines import UNITS, LedgerLine
from rigctl.campaign.ledger.plausibility import (
    RESOLVED,
    Consumption,
    PastCosts,
    Tally,
    believed,
    decimal,
    hours,
    integral,
    is_checked,
    rated,
    step,
)
from rigctl.campaign.ledger.rates import Cost, cost, price, spell_of
from rigctl.core.experiment.money import Micros, to_micros
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

SLACK_ML, SLACK = 0.1, Decimal("0.05")
"""A pump's total is shown to 0.01 mL, and so is each dose: many small doses may add up to a little more than it. And
the share of them by which the total may rise further."""
UNCHECKED = "nothing to check it against: no rating, no power reading, too few trials before"


def charge(
    meters: Sequence[MeterSpec], used: Consumption, control_set: tuple[str, ...], past: PastCosts
) -> tuple[LedgerLine, ...]:
    """Return the ledger lines of one trial, one per meter, in the order of `meters`."""

    def line(meter: MeterSpec) -> LedgerLine:
        if meter.kind == "fixed":
            return _exact(meter, Decimal(1), used)
        if meter.kind == "time":
            return _exact(meter, hours(used.elapsed_s), used)
        rise, doses_ml = believed(meter, used, control_set, past), used.booked_ml.get(meter.name)
        if doses_ml is not None and used.ends(meter.name) == (None, None):  # the pump was out of service throughout
            return _exact(meter, decimal(doses_ml), used)
        why = denied(rise, doses_ml)
        if not (why or isinstance(rise, str)):
            return _metered(meter, used, rise, past)
        if doses_ml is None:
            return _estimate(meter, why, used, control_set, past)
        # a doser that restarted counts from zero again; what it dispensed is known all the same
        return _exact(meter, decimal(doses_ml), used, f"{why}; the sum of the trial's doses")

    return tuple(map(line, meters))


def denied(rise: Decimal | str, doses_ml: float | None) -> str:
    """Say why a counter cannot testify by itself, or against the doses of its pump; empty if it can."""
    if isinstance(rise, str) or doses_ml is None:
        return rise if isinstance(rise, str) else ""
    beyond = rise - decimal(doses_ml)
    if beyond < -decimal(SLACK_ML):
        return f"rose by {rise} mL only"
    return f"rose by {rise} mL" if beyond > decimal(SLACK_ML) + decimal(doses_ml) * SLACK else ""


def total(lines: Sequence[LedgerLine]) -> Micros:
    """Return the trial's cost: the sum of its lines, exact."""
    return sum(line.amount for line in lines)


def _exact(
    meter: MeterSpec, quantity: Decimal, used: Consumption, doubt: str = "", *, power: bool = False
) -> LedgerLine:
    """Price this quantity; with a doubt it is estimated, for it may be another trial's or nobody's in part."""
    if meter.tariff is None:
        found = Cost(to_micros(quantity * meter.mean_price), "")
    else:
        found = cost(meter, meter.tariff, quantity, spell_of(meter, used, power=power))
    doubt = "; ".join(filter(None, (doubt, found.doubt)))
    note = "; ".join(filter(None, (found.rates, doubt)))
    return LedgerLine(meter.name, meter.kind, float(quantity), UNITS[meter.kind], found.amount, bool(doubt), note)


def _metered(meter: MeterSpec, used: Consumption, rise: Decimal, past: PastCosts) -> LedgerLine:
    share = _share(meter, used)
    if share < 1:
        return _exact(
            meter, rise * share, used, f"its share, by time, of {rise} {UNITS[meter.kind]}; the rest was idle"
        )
    before, after = used.ends(meter.name)
    doubt, power, smallest = _doubt(before) or _doubt(after), integral(meter, used), step(before, after)
    if power is not None and power.dense and power.kwh <= RESOLVED * smallest and not doubt:
        why = f"power times time: the counter's steps of {smallest:.1g} kWh are too coarse for a trial"
        return _noted(_exact(meter, power.kwh, used, power=True), why)
    line = _exact(meter, rise, used, doubt)
    return line if doubt or is_checked(meter, used, past) else _noted(line, UNCHECKED)


def _noted(line: LedgerLine, why: str) -> LedgerLine:
    return replace(line, note="; ".join(filter(None, (line.note, why))))


def _share(meter: MeterSpec, used: Consumption) -> Decimal:
    """Return the part of a rise that is the trial's: all of it where somebody was in charge, and of its doses."""
    if used.unattended_s <= 0 or meter.name in used.booked_ml:
        return Decimal(1)
    took_s, idle_s = decimal(max(0.0, used.elapsed_s)), decimal(used.unattended_s)
    return took_s / (took_s + idle_s)


def _doubt(reading: Reading | None) -> str:
    """Say why a reading that can be used is doubtful all the same."""
    if reading is None or reading.severity is Severity.NONE:
        return ""
    return reading.detail or reading.severity.name


def _estimate(
    meter: MeterSpec, why: str, used: Consumption, control_set: tuple[str, ...], past: PastCosts
) -> LedgerLine:
    """Estimate from the first evidence there is, the nearest first."""

    def mean(of: Tally) -> Micros | None:
        return round(Fraction(of.amount, of.lines)) if of.lines else None

    def priced(quantity: Decimal | None) -> Micros | None:
        return None if quantity is None else to_micros(quantity * price(meter, spell_of(meter, used)))

    power = integral(meter, used)
    measured = power.kwh if power is not None and power.dense else None
    seldom = power.kwh if power is not None else None
    most = None if meter.max_per_trial is None else decimal(meter.max_per_trial)
    evidence = (
        (priced(measured), measured, "power times time"),
        (mean(past.on(meter.name, control_set)), None, "mean of this control set's trials"),
        (mean(past.on(meter.name)), None, "mean of all trials"),
        (priced(seldom), seldom, "power times time, seldom sampled"),
        (priced(rated(meter, used.elapsed_s)), None, "its rating times the time"),
        (priced(most), None, "the largest plausible amount"),
        (0, None, "nothing to estimate from, booked as zero"),
    )
    amount, quantity, how = next((a, q, h) for a, q, h in evidence if a is not None)
    known = None if quantity is None else float(quantity)
    return LedgerLine(meter.name, meter.kind, known, UNITS[meter.kind], amount or 0, True, f"{why}; {how}")


def baseless(meter: MeterSpec, line: LedgerLine, past: PastCosts) -> bool:
    """Tell whether a line is zero because there was nothing to estimate it from; such a line is no past cost."""
    unlimited = meter.rated_per_h is None and meter.max_per_trial is None
    return line.estimated and line.quantity is None and unlimited and not past.on(meter.name).lines
