"""Whether a counter can be believed: how far it rose, against all else that is known of the same trial. Pure.

A rise testifies if it was read at both ends, is not negative, and agrees with the best evidence there is:

1. the meter's rating times the time, and the largest plausible rise, where they are declared;
2. power times time, where the meter can say what power it sees: within a factor of 3, or of 20 where the power was
   sampled too seldom to say more;
3. without either, what the trials before have used in an hour, and what no connection or pipe of a bench can carry.

A meter that contradicts its evidence twice in a row, or fell or rose to a thousandth or a thousandfold of itself (its
unit was switched), is no longer believed at all: see `doubts`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from math import floor, isfinite, log2

from rigctl.core.experiment.money import MICROS_PER_UNIT, Micros
from rigctl.rig.metering import ASLEEP, by_power
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.spec import MeterSpec

SECONDS_PER_HOUR = Decimal(3600)
RATED_SLACK = Decimal("1.1")
"""A rating is a round figure."""
DENSE, SPARSE = 3, 20
"""How far a rise and power times time may be apart, by factor: well sampled, or sampled at a few instants only."""
RESOLVED = 3
"""A counter's rise of so many steps can be told from another."""
ENOUGH = 3
"""Trials before, from which something can be said of the next one."""
DEARER, CHEAPER = 20, 100
"""Against earlier trials of the same control set, by factor and per hour."""
BENCH_KWH_PER_H, SUPPLY_KWH_PER_H = 30, 1000
"""Above the first, a rise must not be far above all trials before; above the second it cannot be true at all. An
interruption is booked up to the first, until enough trials say more."""
PIPE_ML_PER_H = 10**8
"""The second for volumes: 100 m3 an hour, as wide pipes carry; two swapped words are mostly far above it."""
SWITCHED, SWITCHED_WITHIN = 1000, 0.02
LITTLE_SLEEP_S, LONG_SLEEP_S = 5.0, 60.0
"""Rig seconds of suspend in mid-trial that are overlooked; and that spoil the trial, or its settling time if longer."""


@dataclass(frozen=True, slots=True)
class PastLine:
    """Says what an earlier whole trial cost on one meter; estimates are made from these."""

    control_set: tuple[str, ...]
    meter: str
    amount: Micros
    elapsed_s: float = 0.0
    """Rig seconds between the two readings; 0 where that is not known."""
    line: int = 0
    """Its number in the ledger."""


@dataclass(slots=True)
class Tally:
    """Sums up past lines of one meter, in the order they were charged; mutable."""

    lines: int = 0
    amount: Micros = 0
    timed: int = 0
    """How many of them say how long it took."""
    rates: Decimal = Decimal(0)
    """The sum of what these cost, micro-units per rig hour."""
    dearest: Decimal = Decimal(0)
    """The highest of them."""

    def add(self, line: PastLine) -> None:
        self.lines += 1
        self.amount += line.amount
        if line.elapsed_s > 0:
            rate = line.amount / hours(line.elapsed_s)
            self.timed += 1
            self.rates += rate
            self.dearest = max(self.dearest, rate)

    @property
    def telling(self) -> bool:
        """Tell whether something can be said of the next trial's rate: there are enough, and not all cost nothing."""
        return self.timed >= ENOUGH and self.dearest > 0


@dataclass(slots=True)
class PastCosts:
    """Sums up what earlier whole trials have cost: to ask it takes the same however many there are; mutable."""

    _tallies: dict[tuple[str, tuple[str, ...] | None], Tally] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[PastLine]) -> PastCosts:
        costs = cls()
        for line in lines:
            costs.add(line)
        return costs

    def add(self, line: PastLine) -> None:
        """Take in one more line; they come in the order they were charged in."""
        for key in ((line.meter, line.control_set), (line.meter, None)):
            self._tallies.setdefault(key, Tally()).add(line)

    def on(self, meter: str, control_set: tuple[str, ...] | None = None) -> Tally:
        """Return the sums of one meter, of all trials or of those of one control set."""
        return self._tallies.get((meter, control_set)) or Tally()


@dataclass(frozen=True, slots=True)
class Consumption:
    """Holds the evidence of one trial's cost."""

    before: Mapping[str, Reading]
    """By meter name, from before the first actuator moved: as the last trial left them, else read afresh."""
    after: Mapping[str, Reading]
    elapsed_s: float
    """Rig seconds the trial took, as far as somebody was in charge of it."""
    booked_ml: Mapping[str, float] = field(default_factory=dict)
    """By meter name: all doses of the trial, settled, where the meter is a doser's own counter."""
    unattended_s: float = 0.0
    """Rig seconds between the readings in which nobody was: the machine slept, or the process had died."""
    guessed_s: float = 0.0
    """Of these, for how long the machine is taken to have been off, as nobody knows: no hours are booked for that."""
    began_s: float = field(kw_only=True)
    """When the trial was armed, in the readings' time."""

    def ends(self, meter: str) -> tuple[Reading | None, Reading | None]:
        return self.before.get(meter), self.after.get(meter)

    def span_s(self, meter: str) -> float:
        """Return the rig seconds between a meter's two readings, at least what the trial took."""
        took_s = max(0.0, self.elapsed_s) + max(0.0, self.unattended_s)
        before, after = self.ends(meter)
        return took_s if before is None or after is None else max(took_s, after.time_s - before.time_s)


@dataclass(frozen=True, slots=True)
class Integral:
    """Holds power times time, of one trial."""

    kwh: Decimal
    dense: bool
    """Whether it was sampled often enough to be a measurement."""


def decimal(value: float) -> Decimal:
    """Return the shortest decimal that reads back as this float: a counter's own digits, so differences are exact."""
    return Decimal(repr(float(value)))


def believed(meter: MeterSpec, used: Consumption, control_set: tuple[str, ...], past: PastCosts) -> Decimal | str:
    """Return how far the counter rose; or why that is not known, or cannot be believed."""
    rise = risen(*used.ends(meter.name))
    return rise if isinstance(rise, str) else _contradiction(meter, used, control_set, past, rise) or rise


def is_checked(meter: MeterSpec, used: Consumption, past: PastCosts) -> bool:
    """Tell whether there is anything to check an energy meter's rise against, but for what no connection carries."""
    if meter.kind != "energy" or meter.max_per_trial is not None or meter.rated_per_h is not None:
        return True
    return integral(meter, used) is not None or past.on(meter.name).timed >= ENOUGH


def risen(before: Reading | None, after: Reading | None) -> Decimal | str:
    """Return how far a counter rose, in decimal arithmetic; or why that is not known."""
    if before is None or not before.valid:
        return "not read before the trial" + _detail(before)
    if after is None or not after.valid:
        return "not read after the trial" + _detail(after)
    if not (isfinite(before.value) and isfinite(after.value)):
        return f"went from {before.value} to {after.value}"
    if after.value < before.value:
        return f"fell from {before.value} to {after.value} {after.unit}"
    return decimal(after.value) - decimal(before.value)


def _detail(reading: Reading | None) -> str:
    return f" ({reading.detail})" if reading is not None and reading.detail else ""


def step(before: Reading | None, after: Reading | None) -> Decimal:
    """Return the counter's smallest step, as its readings look: their last digit, or what float32 can tell apart.

    Of the lower one, for the higher may be what a jump has made of it.
    """
    values = [r.value for r in (before, after) if r is not None and isfinite(r.value)]
    digits = max(map(_digits, values), default=0)
    return max(Decimal(1).scaleb(-digits), min(map(_spacing, values), default=Decimal(0)))


def _digits(value: float) -> int:
    """Count the decimals shown; of a value that fits float32, those that float32 has kept."""
    single = _single(value)
    if single != value:
        return max(0, -int(decimal(value).normalize().as_tuple().exponent))
    return next((d for d in range(10) if _single(round(value, d)) == single), 10)


def _spacing(value: float) -> Decimal:
    """Return the step between float32 values here; 0 where the value has more digits than those."""
    if value == 0 or _single(value) != value:
        return Decimal(0)
    return Decimal(2) ** (floor(log2(abs(value))) - 23)


def _single(value: float) -> float | None:
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return None
    return float(single)


def integral(meter: MeterSpec, used: Consumption) -> Integral | None:
    """Return power times time between the two readings, where it was kept all the time."""
    before, after = used.ends(by_power(meter.name))
    rise = risen(before, after)
    if after is None or isinstance(rise, str):
        return None
    return Integral(rise, after.severity is Severity.NONE)


def rated(meter: MeterSpec, seconds: float) -> Decimal | None:
    """Return the most that the meter's rating allows in this time; None where it has none."""
    return None if meter.rated_per_h is None else decimal(meter.rated_per_h) * hours(seconds)


def hours(seconds: float) -> Decimal:
    """Convert seconds to hours, never fewer than none."""
    return decimal(max(0.0, seconds)) / SECONDS_PER_HOUR


# What contradicts a rise ------------------------------------------------------------------------------------------


def _contradiction(
    meter: MeterSpec, used: Consumption, control_set: tuple[str, ...], past: PastCosts, rise: Decimal
) -> str:
    """Say why the rise cannot be believed; nothing if nothing speaks against it."""
    unit = used.after[meter.name].unit
    smallest, span_s = step(*used.ends(meter.name)), used.span_s(meter.name)
    most = rated(meter, span_s)
    if meter.max_per_trial is not None and rise > decimal(meter.max_per_trial):
        return f"rose by {rise} {unit}, more than the plausible {meter.max_per_trial}"
    if most is not None and rise > most * RATED_SLACK + 2 * smallest:
        return f"rose by {rise} {unit}, rated {meter.rated_per_h:g} {unit}/h for {span_s:.0f} s"
    power = integral(meter, used) if meter.kind == "energy" else None
    if power is not None:
        return _against_power(rise, power, smallest)
    most_per_h, way = (SUPPLY_KWH_PER_H, "connection") if meter.kind == "energy" else (PIPE_ML_PER_H, "pipe")
    if span_s > 0 and rise > most_per_h * hours(span_s) + 2 * smallest:
        return f"rose by {rise} {unit} in {span_s:.0f} s, which no {way} carries"
    return _against_the_past(meter, used, control_set, past, rise)


def _against_power(rise: Decimal, power: Integral, smallest: Decimal) -> str:
    factor = DENSE if power.dense else SPARSE
    high = rise > factor * power.kwh + 2 * smallest
    low = power.kwh > RESOLVED * factor * smallest and rise < power.kwh / factor - smallest
    return f"rose by {rise} kWh, power times time is {power.kwh:.3g} kWh" if high or low else ""


def _against_the_past(
    meter: MeterSpec, used: Consumption, control_set: tuple[str, ...], past: PastCosts, rise: Decimal
) -> str:
    same, every = past.on(meter.name, control_set), past.on(meter.name)
    took_h, smallest = hours(used.span_s(meter.name)), step(*used.ends(meter.name))
    rose = f"rose by {rise} {used.after[meter.name].unit}"
    per_unit = meter.mean_price * MICROS_PER_UNIT
    if min(took_h, per_unit) <= 0:
        return ""
    bench = BENCH_KWH_PER_H * per_unit if meter.kind == "energy" else 0
    ceilings = [max(lowest, DEARER * c.dearest) for c, lowest in ((same, 0), (every, bench)) if c.telling]
    unrated = meter.rated_per_h is None
    if unrated and rise > DEARER * smallest and any(rise * per_unit > ceiling * took_h for ceiling in ceilings):
        return f"{rose}, more than {DEARER} times what the dearest trial so far has used in that time"
    if meter.kind == "energy" and same.timed >= ENOUGH:
        usual = same.rates / same.timed * took_h / per_unit
        if usual > RESOLVED * CHEAPER * smallest and rise < usual / CHEAPER:
            return f"{rose} only, less than 1/{CHEAPER} of what this control set has used in that time"
    return ""


# Meters that are not believed any more ----------------------------------------------------------------------------


def doubts(
    meters: Sequence[MeterSpec], recent: Sequence[tuple[Consumption, tuple[str, ...]]], past: PastCosts
) -> Mapping[str, str]:
    """Return why, by meter, no trial should be charged by it before a person has looked at it.

    `recent` are the last two trials that were metered, in order, with their control sets; `past` says what trials
    have cost.
    """
    suspects = [meter for meter in meters if meter.kind == "energy" and recent]
    whys = {m.name: _switched(m, recent[-1][0]) or _twice(m, recent, past) for m in suspects}
    return {name: why for name, why in whys.items() if why}


def _switched(meter: MeterSpec, used: Consumption) -> str:
    """Say so if the counter went to a thousandth or a thousandfold of itself: it counts in another unit."""
    before, after = used.ends(meter.name)
    if before is None or after is None or not (before.valid and after.valid):
        return ""
    power = integral(meter, used)
    used_kwh = 0.0 if power is None else min(float(power.kwh), before.value / 10.0)
    within = SWITCHED_WITHIN * before.value + DENSE * used_kwh
    if any(abs(after.value * factor - before.value) < within for factor in (SWITCHED, 1 / SWITCHED)):
        return f"went from {before.value:g} to {after.value:g} {after.unit} in a trial: its unit was switched"
    return ""


def _twice(meter: MeterSpec, recent: Sequence[tuple[Consumption, tuple[str, ...]]], past: PastCosts) -> str:
    """Say so if it moved on in two trials in a row and contradicted all else that is known."""
    whys = []
    for used, control_set in recent:
        rise = risen(*used.ends(meter.name))
        whys.append("" if isinstance(rise, str) else _contradiction(meter, used, control_set, past, rise))
    return f"contradicts all else in two trials in a row: {'; '.join(whys)}" if len(whys) == 2 and all(whys) else ""


# Suspend ----------------------------------------------------------------------------------------------------------


def slept_s(before: Mapping[str, Reading], after: Mapping[str, Reading]) -> float:
    """Return the rig seconds of suspend between two rounds of readings of one boot; 0 if it was not long."""
    first, last = before.get(ASLEEP), after.get(ASLEEP)
    if first is None or last is None:
        return 0.0
    slept = last.value - first.value
    return slept if slept > LITTLE_SLEEP_S else 0.0


def slept_through(slept: float, settle_s: float) -> str:
    """Say why a trial in which the machine slept so long says nothing of its setting; nothing if it does."""
    too_long = slept >= max(LONG_SLEEP_S, settle_s)
    return f"the machine slept {slept / 60.0:.0f} min in mid-trial" if too_long else ""
