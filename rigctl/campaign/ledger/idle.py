"""What was used while nobody was in charge of a trial: in one, and between two. Pure.

It is booked to lines of its own, which count in what the campaign has spent and never in what a control set costs.
Trials and idle lines together are the counters' rise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from rigctl.campaign.ledger.charging import denied
from rigctl.campaign.ledger.lines import COUNTED, UNITS, IdleLine, LedgerLine
from rigctl.campaign.ledger.plausibility import (
    BENCH_KWH_PER_H,
    DEARER,
    PIPE_ML_PER_H,
    RATED_SLACK,
    Consumption,
    PastCosts,
    decimal,
    hours,
    rated,
    risen,
    step,
)
from rigctl.campaign.ledger.rates import price, spell_before
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros, to_micros
from rigctl.rig.protocols import Reading
from rigctl.rig.spec import MeterSpec

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
