"""Prices that go by the hour: each part of what was used costs the rate that held while it was. Pure.

A counter is read at every change of its rate. Where it was not, or much too late, the rise is divided by time, and the
line is estimated. Time itself is divided exactly. Parts are added up as fractions and rounded once, so a line is right
to the micro-unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

from rigctl.campaign.ledger.plausibility import Consumption, decimal
from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros
from rigctl.rig.calendar import Rate, Tariff
from rigctl.rig.metering import CIVIL, at_change, by_power
from rigctl.rig.protocols import Reading
from rigctl.rig.spec import MeterSpec

LATE_S, LATE_SHARE = 60.0, 0.05
"""A counter read so many seconds after a change, or so much of the time in question, still tells what was before."""
BY_TIME = "divided by time, for the counter was not read at the change of its rate"
UNDATED = "at the mean of its rates, for the hour is not known"
TIMED = ("time", "fixed")
"""Kinds of meters whose parts go by time alone."""


@dataclass(frozen=True, slots=True)
class Spell:
    """Says when something was used, civil time in seconds since 1970, and where the counter stood in between."""

    begin_s: float
    end_s: float
    marks: Mapping[float, Decimal]
    """At both ends and at changes of the rate; empty where there is no counter."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Says what a quantity costs, at which rates, and what is doubtful about it."""

    amount: Micros
    rates: str
    doubt: str = ""


def cost(meter: MeterSpec, tariff: Tariff, quantity: Decimal, spell: Spell | None) -> Cost:
    """Return what a quantity costs that was used in this spell; None: nobody knows when."""
    if spell is None:
        return Cost(_micros(Fraction(quantity) * Fraction(tariff.mean())), "", UNDATED)
    shares, by_counter = _shares(tariff, spell)
    parts: dict[str, Fraction] = {}
    for rate, share in shares:
        parts[rate.name] = parts.get(rate.name, Fraction(0)) + share * Fraction(quantity)
    amount = _micros(sum((share * Fraction(quantity) * Fraction(rate.price) for rate, share in shares), Fraction(0)))
    if len(parts) == 1:
        return Cost(amount, next(iter(parts)))
    told = ", ".join(f"{name} {float(part):.4g}" for name, part in parts.items())
    return Cost(amount, told, "" if by_counter or meter.kind in TIMED else BY_TIME)


def price(meter: MeterSpec, spell: Spell | None) -> Decimal:
    """Return the mean price of what was used in this spell."""
    tariff = meter.tariff
    if tariff is None or spell is None:
        return meter.mean_price
    mean = sum((share * Fraction(rate.price) for rate, share in _shares(tariff, spell)[0]), Fraction(0))
    return Decimal(mean.numerator) / Decimal(mean.denominator)


def _micros(amount: Fraction) -> Micros:
    return round(amount * MICROS_PER_UNIT)


def _shares(tariff: Tariff, spell: Spell) -> tuple[Sequence[tuple[Rate, Fraction]], bool]:
    """Return how much of it was used at each rate, in order, and whether the counter says so."""
    divided = tariff.divided(spell.begin_s, spell.end_s)
    if len(divided) < 2:
        return [(tariff.at(spell.begin_s), Fraction(1))], True
    edges = [begin_s for begin_s, _, _ in divided] + [spell.end_s]
    if all(edge in spell.marks for edge in edges):
        values = [Fraction(spell.marks[edge]) for edge in edges]
        rises = [after - before for before, after in pairwise(values)]
        if min(rises) >= 0 < sum(rises):
            return [(rate, rise / sum(rises)) for (_, _, rate), rise in zip(divided, rises, strict=True)], True
    whole = Fraction(spell.end_s) - Fraction(spell.begin_s)
    return [(rate, (Fraction(end_s) - Fraction(begin_s)) / whole) for begin_s, end_s, rate in divided], False


# when something was used ------------------------------------------------------------------------------------------


def spell_of(meter: MeterSpec, used: Consumption, *, power: bool = False) -> Spell | None:
    """Return when a trial used what this meter says; with `power`, by power times time instead of the counter."""
    attended = used.unattended_s <= 0
    dated = (used.after if attended else used.before).get(CIVIL)
    if meter.tariff is None or dated is None:
        return None
    if meter.kind in TIMED:
        begin_s = dated.value + used.began_s - dated.time_s
        return Spell(begin_s, begin_s + used.elapsed_s, {})
    name = by_power(meter.name) if power else meter.name
    before, after = used.ends(name)
    if before is None or after is None:  # it could not be read, so by time
        return Spell(dated.value - max(0.0, used.elapsed_s), dated.value, {})
    if attended:
        return _counted(name, before, after, {**used.before, **used.after}, dated)
    begin_s = dated.value + before.time_s - dated.time_s
    return Spell(begin_s, begin_s + max(0.0, used.elapsed_s), {})


def spell_before(meter: MeterSpec, seconds: float, was: Reading | None, now: Mapping[str, Reading]) -> Spell | None:
    """Return when something was used in the last so many seconds before these readings, from where the counter was."""
    dated, after = now.get(CIVIL), now.get(meter.name)
    if meter.tariff is None or dated is None:
        return None
    if was is None or after is None:
        return Spell(dated.value - seconds, dated.value, {})
    since = Reading(was.value, was.unit, after.time_s - seconds)  # a boot may lie between, with a clock of its own
    return _counted(meter.name, since, after, now, dated)


def _counted(name: str, before: Reading, after: Reading, found: Mapping[str, Reading], dated: Reading) -> Spell:
    def civil(reading: Reading) -> float:
        return dated.value + reading.time_s - dated.time_s

    begin_s, end_s = civil(before), civil(after)
    late_s = max(LATE_S, LATE_SHARE * (end_s - begin_s))
    marks = {begin_s: decimal(before.value), end_s: decimal(after.value)} if before.valid and after.valid else {}
    for key, reading in found.items():
        change_s = at_change(key, name)
        if change_s is not None and reading.valid and 0.0 <= civil(reading) - change_s <= late_s:
            marks[change_s] = decimal(reading.value)
    return Spell(begin_s, end_s, marks)
