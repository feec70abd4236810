"""What a trial cost, and what was used while nobody was in charge of one: readings and prices -> lines. Pure.

A counter testifies if nothing contradicts it (see `plausibility`). If it does not, its line is estimated and marked,
never negative, from the nearest evidence: the sum of the trial's doses if it is a doser's counter (which may not say
less than they do, either), power times time, what whole trials have cost, what can have been used at most. An estimated
line teaches nothing. Doubtful readings (MINOR, MAJOR) are charged by, and the line is marked too.

What no trial used, within one or between two, is booked to lines of its own, which count in what the campaign has spent
and never in what a control set costs. Trials and idle lines together are the counters' rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction

from rigctl.campaign.ledger.lines import COUNTED, UNITS, IdleLine, LedgerLine
from rigctl.campaign.ledger.plausibility import (
    BENCH_KWH_PER_H,
    DEARER,
    PIPE_ML_PER_H,
    RATED_SLACK,
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
    risen,
    step,
)
from rigctl.campaign.ledger.rates import Cost, cost, price, spell_before, spell_of
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_micros
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


# What no trial used -------------------------------------------------------------------------------------------------


IDLE_DEARER = 3
"""Between trials less is used than in one: what exceeds so many times the dearest one's rate is not booked."""
IDLE_LIMIT_S = 86_400.0
"""Rig seconds of one interruption that are booked on a meter of time at most."""
LEAST_HOURS = Decimal("1e-9")
"""What is less is the rounding of what was booked before."""
IDLE_LEAST_S = 60.0
"""An interruption shorter than this limits nothing: readings have their own delays."""
BETWEEN = "between trials"


def idle_in_trial(
    meters: Sequence[MeterSpec], used: Consumption, lines: Sequence[LedgerLine], past: PastCosts, why: str
) -> tuple[IdleLine, ...]:
    """Return what was used between a trial's two readings while nobody was in charge; `lines` are the trial's own."""
    charged = {line.meter: line for line in lines}

    def found() -> Iterator[IdleLine]:
        for meter in meters:
            if meter.kind == "time":
                yield from _idle_time(meter, used.unattended_s - used.guessed_s, (), why, used.after)
            elif meter.kind in COUNTED and (
                meter.name not in used.booked_ml or not isinstance(risen(*used.ends(meter.name)), str)
            ):
                spell = spell_before(meter, used.span_s(meter.name), used.before.get(meter.name), used.after)
                rise = _Rise(*used.ends(meter.name), used.unattended_s, price(meter, spell), charged[meter.name])
                yield from _idle(meter, rise, (), past, why)

    return tuple(found()) if used.unattended_s > 0 else ()


@dataclass(frozen=True, slots=True)
class Interlude:
    """Holds what is known of the time between two trials."""

    before: Mapping[str, tuple[Reading, float]]
    """Where the meters stood after the last trial that was metered, and the rig seconds since then."""
    after: Mapping[str, Reading]
    """Where they stand now; the very same readings where the next trial goes on from them."""
    rested_s: float
    """Rig seconds in which the campaign had the rig and ran no trial."""
    booked: Sequence[IdleLine] = ()
    """What of it has been booked before."""
    unread: Mapping[str, tuple[Reading, float]] = field(default_factory=dict)
    """As `before`, of meters that could not be read after that trial: where they stood before it."""
    charged: Mapping[str, LedgerLine] = field(default_factory=dict)
    """What that trial was charged by estimate; of meters that could be read after it nothing is taken off for that."""
    booked_ago_s: Mapping[str, float] = field(default_factory=dict)
    """Rig seconds since something of it was last booked, by meter."""
    booked_ml: Mapping[str, float] = field(default_factory=dict)
    """Doses since then, by meter that is a doser's own counter; of pumps that were watched all the time."""


def idle_between(meters: Sequence[MeterSpec], gap: Interlude, past: PastCosts) -> tuple[IdleLine, ...]:
    """Return what was used between two trials, from the last one's end to the next one's beginning.

    And what a trial used beyond its estimate, once a meter that was away after it can be read again.
    """
    known = {**gap.before, **{name: since for name, since in gap.unread.items() if name in gap.charged}}

    def found() -> Iterator[IdleLine]:
        for meter in meters:
            booked = [line for line in gap.booked if line.meter == meter.name]
            if meter.kind == "time":
                yield from _idle_time(meter, gap.rested_s, booked, BETWEEN, gap.after)
            elif meter.kind in COUNTED and meter.name in known and meter.name in gap.after:
                (was, seconds), now = known[meter.name], gap.after[meter.name]
                if not now.valid:  # it will be read again before the next trial
                    continue
                each = price(meter, spell_before(meter, *_unbooked(gap, meter.name, was, seconds, booked), gap.after))
                part = None if meter.name in gap.before else gap.charged.get(meter.name)
                rise = _Rise(was, now, seconds, each, part, gap.booked_ml.get(meter.name))
                yield from _idle(meter, rise, booked, past, BETWEEN)

    return tuple(found())


def _unbooked(
    gap: Interlude, meter: str, was: Reading, seconds: float, booked: Sequence[IdleLine]
) -> tuple[float, Reading]:
    """Return the rig seconds of which nothing of a counter's rise is booked yet, and where it stood before them."""
    if not booked or meter not in gap.booked_ago_s:
        return seconds, was
    risen_since = sum(line.quantity or 0.0 for line in booked)
    return gap.booked_ago_s[meter], replace(was, value=was.value + risen_since)


@dataclass(frozen=True, slots=True)
class _Rise:
    was: Reading | None
    now: Reading | None
    seconds: float
    price: Decimal
    """Mean price of what is not booked yet."""
    trial: LedgerLine | None = None
    """What of the rise is a trial's."""
    doses_ml: float | None = None
    """All that was given meanwhile; None: it is not known."""

    def rest(self, rise: Decimal) -> tuple[Decimal, Micros]:
        """Return what is left for nobody, so that it and the trial's part together cost what the rise does."""
        trial = self.trial
        if trial is None:
            return rise, to_micros(rise * self.price)
        left = max(Decimal(0), rise - decimal(trial.quantity or 0.0))
        return left, max(0, to_micros(rise * self.price) - trial.amount)


def _idle(meter: MeterSpec, gap: _Rise, booked: Sequence[IdleLine], past: PastCosts, why: str) -> Iterator[IdleLine]:
    """Book the counter's rise, at most what can have been used in that time, less what has been booked of it."""
    unit, rise = UNITS[meter.kind], risen(gap.was, gap.now)
    by_doses = "" if gap.doses_ml is None else denied(rise, gap.doses_ml)
    if by_doses:
        rise, why = decimal(gap.doses_ml or 0.0), f"{why}: {by_doses}; the sum of the doses"
    if isinstance(rise, str):
        if not booked:
            yield IdleLine(meter.name, meter.kind, None, unit, 0, f"{why}: not known, booked as zero: {rise}")
        return
    (quantity, amount), most = gap.rest(rise), _most_idle(meter, gap, past)
    if quantity > most and not by_doses:
        quantity, amount = most, to_micros(most * gap.price)
        why = f"{why}: limited, the counter rose by {rise} {unit}"
    quantity -= sum((decimal(line.quantity or 0.0) for line in booked), Decimal(0))
    # what was booked before was at the rates of its own hours, so nothing is settled up then
    at_once = meter.tariff is None or not booked
    amount = amount - sum(line.amount for line in booked) if at_once else to_micros(quantity * gap.price)
    if quantity > 0 and amount >= 0:
        yield IdleLine(meter.name, meter.kind, float(quantity), unit, amount, why)


def _most_idle(meter: MeterSpec, gap: _Rise, past: PastCosts) -> Decimal:
    """Return the most that can have been used in an interruption."""
    seconds, rates = max(gap.seconds, IDLE_LEAST_S), past.on(meter.name)
    most, slack = rated(meter, seconds), 2 * step(gap.was, gap.now)
    if most is not None:
        return most * RATED_SLACK + slack
    energy = meter.kind == "energy"
    if rates.telling and meter.mean_price > 0:
        # a pump that somebody else has run may give more than trials do
        dearer = IDLE_DEARER if energy and gap.trial is None else DEARER
        return dearer * rates.dearest * hours(seconds) / meter.mean_price / MICROS_PER_UNIT + slack
    return (BENCH_KWH_PER_H if energy else PIPE_ML_PER_H) * hours(seconds) + slack


def _idle_time(
    meter: MeterSpec, seconds: float, booked: Sequence[IdleLine], why: str, now: Mapping[str, Reading]
) -> Iterator[IdleLine]:
    """Book the hours in which the campaign kept the rig from others, up to a limit, less those booked already.

    What is left came last, so it is at the rates of the last hours.
    """
    quantity = hours(min(seconds, IDLE_LIMIT_S)) - sum((decimal(i.quantity or 0.0) for i in booked), Decimal(0))
    if quantity > LEAST_HOURS:
        why = f"{why}: limited, it took {seconds / 3600.0:.1f} h" if seconds > IDLE_LIMIT_S else why
        amount = to_micros(quantity * price(meter, spell_before(meter, float(quantity) * 3600.0, None, now)))
        yield IdleLine(meter.name, meter.kind, float(quantity), UNITS[meter.kind], amount, why)
