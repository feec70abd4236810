"""The ledger, worked out once more from the journal's readings, doses and steps, by other code than the program's.

What the program makes of its own counts need not agree with the plant while meters are spoilt. It has to agree with
what it read: a line is what its meter rose by, or the trial's doses, or the mean of the lines before; a trial and the
idle lines around it are the whole rise between two readings.
"""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from rigctl.rig.calendar import Tariff
from rigctl.rig.spec import MeterSpec, RigSpec
from tests.simulation.books import CHARGED, Violation
from tests.simulation.worlds import NIGHT_MIN

ASLEEP: Final = "(asleep)"
CIVIL: Final = "(civil)"
POWER: Final = " (by power)"
LITTLE_SLEEP_S: Final = 5.0
NEAR: Final = 1e-6
LATE_S: Final = 20.0
"""What was read is booked within this, though the disk is slow."""
COARSE_KWH: Final = 0.05
COARSE: Final = 5e-7
"""A rise by no more than this, and this share of the counter, may be charged by power times time: it has steps."""
DOSES_ML: Final = 0.1
DOSES: Final = 0.05
"""A counter may differ from the sum of its doses by this, and rise by this share more."""
IDLE: Final = """
SELECT meter, before_trial, at_s, quantity, amount_micros, 86400.0 * (julianday(utc) - 2440587.5) FROM idle"""
MOVED: Final = ("LOOKING", "ARMED")


class Line(NamedTuple):
    """What one meter adds to a trial's cost."""

    number: int
    quantity: float | None
    micros: int
    estimated: bool


class Idle(NamedTuple):
    """What one meter adds beside trials."""

    before: int
    at_s: float
    quantity: float | None
    micros: int
    civil_s: float


class Said(NamedTuple):
    """What a meter said, and when, campaign time; None: it could not be read."""

    value: float | None
    at_s: float


@dataclass
class Facts:
    """What the journal has of one trial that was charged."""

    trial: int
    names: str
    steps: list[tuple[str, float, int]]
    """State, campaign time and process of every step from the first move on."""
    said: Mapping[str, dict[str, Said]] = field(default_factory=lambda: {"before": {}, "after": {}})
    lines: dict[str, Line] = field(default_factory=dict)
    doses_ml: dict[str, float] = field(default_factory=dict)

    @property
    def begun_s(self) -> float:
        return self.steps[0][1]

    @property
    def metered_s(self) -> float:
        return next(at_s for state, at_s, _ in self.steps if state in ("MEASURED", *CHARGED))

    @property
    def measured(self) -> bool:
        return any(state == "MEASURED" for state, _, _ in self.steps)

    @property
    def start(self) -> int:
        return self.steps[0][2]

    @property
    def whole(self) -> bool:
        """Tell whether one process ran it until it was measured, or to its end."""
        until = 1 + next(i for i, step in enumerate(self.steps) if step[0] in ("MEASURED", *CHARGED))
        return len({start for _, _, start in self.steps[:until]}) == 1

    def rise(self, meter: str) -> float | None:
        ends = self.said["before"].get(meter), self.said["after"].get(meter)
        values = [said.value for said in ends if said is not None and said.value is not None]
        return values[1] - values[0] if len(values) == 2 else None

    @property
    def slept_s(self) -> float:
        slept_s = self.rise(ASLEEP) or 0.0
        return slept_s if slept_s > LITTLE_SLEEP_S else 0.0


class Audit:
    """Holds ledger and idle lines against what they are made of."""

    def __init__(self, rig: RigSpec) -> None:
        self._rig = rig
        self.met: Counter[str] = Counter()

    def check(self, connection: sqlite3.Connection, *, sound: bool, awake: bool) -> None:
        """Work out every line anew; raises `Violation`.

        Args:
            connection: to the journal.
            sound: whether no meter was ever spoilt, so that nothing is booked up to a limit only.
            awake: whether the computer never slept.
        """
        trials, idle = _read(connection), _idle(connection)
        self.met.clear()
        for facts in trials:
            for meter in self._rig.meters:
                if meter.name in facts.lines and (wrong := self._wrong(meter, facts, trials)):
                    raise Violation(f"trial {facts.trial}, {meter.name}: {facts.lines[meter.name]}, {wrong}")
        metered = [facts for facts in trials if facts.said["before"]]
        for meter in (m for m in self._rig.meters if m.kind == "energy" and sound):
            self._all_is_booked(meter, metered, idle[meter.name])
        for meter in (m for m in self._rig.meters if m.kind == "time" and awake):
            self._waits_are_booked(connection, meter, metered, idle[meter.name])

    # one line -------------------------------------------------------------------------------------------------------

    def _wrong(self, meter: MeterSpec, facts: Facts, trials: Sequence[Facts]) -> str:
        line = facts.lines[meter.name]
        self.met[f"{meter.kind} line"] += 1
        if meter.kind == "fixed":
            return "" if line.quantity == 1.0 else "once a trial"
        if meter.kind == "time":
            return self._timed(line, facts)
        return self._by_doses(meter, line, facts) or (
            self._estimated(meter, line, facts, trials) if line.estimated else self._counted(meter, line, facts)
        )

    def _timed(self, line: Line, facts: Facts) -> str:
        took_s, said_s = facts.metered_s - facts.begun_s, 3600.0 * (line.quantity or 0.0)
        alive_s = max(at_s for state, at_s, _ in facts.steps if state not in CHARGED) - facts.begun_s
        least_s = max(0.0, (took_s if facts.measured else alive_s) - facts.slept_s) if facts.whole else 0.0
        most_s = least_s if facts.whole and facts.measured else took_s
        fits = least_s - 1e-3 <= said_s <= most_s + 1e-3
        return "" if fits else f"{said_s:.3f} s, {least_s:.3f} to {most_s:.3f} s passed"

    def _by_doses(self, meter: MeterSpec, line: Line, facts: Facts) -> str:
        """A pump's own counter says what was dosed, or is not gone by."""
        if meter.device not in self._rig.pumps or line.quantity is None:
            return ""
        ml = facts.doses_ml.get(meter.device or "", 0.0)
        beyond = line.quantity - ml
        self.met["line held against its doses"] += 1
        fits = abs(beyond) < NEAR if line.estimated else -DOSES_ML - NEAR < beyond < DOSES_ML + DOSES * ml + NEAR
        return "" if fits else f"{ml:g} mL were dosed"

    def _counted(self, meter: MeterSpec, line: Line, facts: Facts) -> str:
        rise, power = facts.rise(meter.name), facts.rise(meter.name + POWER)
        if rise is None:
            never = all(meter.name not in facts.said[phase] for phase in ("before", "after"))
            return "" if meter.device in self._rig.pumps and never else "and it was not read"
        if line.quantity is None:
            return "without a quantity"
        if abs(line.quantity - rise) > NEAR * max(1.0, abs(rise)):
            coarse_kwh = COARSE_KWH + COARSE * (facts.said["after"][meter.name].value or 0.0)
            fits = power is not None and rise < coarse_kwh and abs(line.quantity - power) < NEAR
            return "" if fits else f"it rose by {rise:g}, by power {power}"
        return self._at_rate(meter, line, facts)

    def _at_rate(self, meter: MeterSpec, line: Line, facts: Facts) -> str:
        """What was used at one rate costs that rate."""
        civil, ends = facts.said["after"].get(CIVIL), [facts.said[phase][meter.name] for phase in ("before", "after")]
        if meter.tariff is None or civil is None or civil.value is None or not facts.whole or facts.slept_s:
            return ""
        price = _only_rate(meter.tariff, *(civil.value + said.at_s - civil.at_s for said in ends))
        if price is None:
            return ""
        right = round(Fraction(repr(line.quantity)) * price * 1_000_000)
        self.met["line at one rate"] += 1
        return "" if abs(line.micros - right) <= 1 else f"{right} at {float(price)}"

    def _estimated(self, meter: MeterSpec, line: Line, facts: Facts, trials: Sequence[Facts]) -> str:
        """Where a counter cannot testify, and nothing else does, it is the mean of what trials have cost before."""
        if line.quantity is not None or meter.device in self._rig.pumps:
            return ""
        past = [
            (other.names, other.lines[meter.name].micros)
            for other in trials
            if other.measured and meter.name in other.lines and not other.lines[meter.name].estimated
            if other.lines[meter.name].number < line.number
        ]
        own = [micros for names, micros in past if names == facts.names] or [micros for _, micros in past]
        if not own:
            return ""
        self.met["line by the mean"] += 1
        mean = round(Fraction(sum(own), len(own)))
        return "" if line.micros == mean else f"the mean of {len(own)} before is {mean}"

    # beside trials --------------------------------------------------------------------------------------------------

    def _all_is_booked(self, meter: MeterSpec, trials: Sequence[Facts], idle: Sequence[Idle]) -> None:
        """Trials and idle lines together are the counter's rise."""
        for facts in trials:
            inside = [i for i in idle if i.before == facts.trial and i.at_s >= facts.metered_s]
            rise, quantity = facts.rise(meter.name), facts.lines[meter.name].quantity or 0.0
            if inside and rise is not None:
                self._sums(meter, inside, max(0.0, rise - quantity), f"in trial {facts.trial}")
        for facts, after in pairwise(trials):
            left, found = facts.said["after"].get(meter.name), after.said["before"].get(meter.name)
            if left is None or found is None or left.value is None or found.value is None:
                continue
            between = list(_between(idle, facts, after))
            self._sums(meter, between, found.value - left.value, f"before trial {after.trial}")
            price = None if meter.tariff is not None else Fraction(meter.mean_price)
            if meter.tariff is not None and len(between) == 1 and facts.start == after.start:
                ends_s = between[0].civil_s
                begins_s = ends_s - between[0].at_s + left.at_s
                price = _only_rate(meter.tariff, begins_s - LATE_S, ends_s)
                self.met["idle at one rate"] += price is not None
            amount, used = sum(i.micros for i in between), sum(i.quantity or 0.0 for i in between)
            if price is not None and abs(amount - used * float(price) * 1e6) > 1.0 + len(between):
                raise Violation(f"{meter.name} before trial {after.trial}: {amount} for {used:g} at {price}")

    def _sums(self, meter: MeterSpec, lines: Sequence[Idle], rise: float, where: str) -> None:
        self.met["idle energy"] += 1
        booked = sum(line.quantity or 0.0 for line in lines)
        if abs(booked - rise) > NEAR:
            raise Violation(f"{meter.name}: {booked:g} idle {where}, it rose by {rise:g}: {lines}")

    def _waits_are_booked(
        self, connection: sqlite3.Connection, meter: MeterSpec, trials: Sequence[Facts], idle: Sequence[Idle]
    ) -> None:
        """While one process holds, waits or is paused between two trials the rig is kept from others, and no longer."""
        phases = connection.execute("SELECT start, phase, at_s FROM phases ORDER BY id").fetchall()
        for facts, after in pairwise(trials):
            if not facts.whole or facts.start != after.start:
                continue
            own = [(phase, at_s) for start, phase, at_s in phases if start == facts.start]
            waited_s = sum(
                max(0.0, min(until_s, after.begun_s) - max(at_s, facts.metered_s))
                for (phase, at_s), (_, until_s) in pairwise([*own, ("", after.begun_s)])
                if phase != "RUNNING"
            )
            said_s = 3600.0 * sum(line.quantity or 0.0 for line in _between(idle, facts, after))
            self.met["idle time"] += 1
            if abs(said_s - waited_s) > 1.0:
                told = f"{said_s:.3f} s idle, {waited_s:.3f} s waited"
                raise Violation(f"{meter.name} before trial {after.trial}: {told}")


def _only_rate(tariff: Tariff, begins_s: float, ends_s: float) -> Fraction | None:
    """Return the price of all that was used between two instants, civil time; None: its rate has changed meanwhile."""
    begins, ends = begins_s / 60.0 % 60.0, ends_s / 60.0 % 60.0
    changes = [0.0, *(minute for spell in NIGHT_MIN for minute in spell), 60.0]
    if ends_s - begins_s > 3000.0 or not any(one < begins <= ends < next_ for one, next_ in pairwise(changes)):
        return None
    night = any(one < begins < next_ for one, next_ in NIGHT_MIN)
    return next(Fraction(rate.price) for rate in tariff.rates if (rate.name == "night") == night)


def _between(idle: Iterable[Idle], one: Facts, next_: Facts) -> Iterator[Idle]:
    for line in idle:
        if one.trial < line.before <= next_.trial and (line.before < next_.trial or line.at_s <= next_.begun_s + NEAR):
            yield line


def _read(connection: sqlite3.Connection) -> list[Facts]:
    steps: defaultdict[int, list[tuple[str, float, int]]] = defaultdict(list)
    for trial, state, at_s, start in connection.execute("SELECT trial, state, at_s, start FROM events ORDER BY id"):
        if state in MOVED or trial in steps:
            steps[trial].append((state, at_s, start))
    rows = connection.execute("SELECT trial, control_set, state FROM trials ORDER BY trial")
    charged = [(trial, names) for trial, names, state in rows if trial in steps and state in CHARGED]
    facts = {trial: Facts(trial, names, steps[trial]) for trial, names in charged}
    for trial, meter, phase, value, at_s, invalid in connection.execute(
        "SELECT trial, meter, phase, value, at_s, severity >= 3 FROM meter_readings"
    ):
        if trial in facts:
            facts[trial].said[phase][meter] = Said(None if invalid else value, at_s)
    for number, trial, meter, quantity, micros, estimated in connection.execute(
        "SELECT id, trial, meter, quantity, amount_micros, estimated FROM ledger"
    ):
        if trial in facts:
            facts[trial].lines[meter] = Line(number, quantity, micros, bool(estimated))
    for trial, pump, ml in connection.execute(
        "SELECT trial, actuator, sum(coalesce(dispensed_ml, volume_ml)) FROM doses GROUP BY trial, actuator"
    ):
        if trial in facts:
            facts[trial].doses_ml[pump] = ml
    return [one for one in facts.values() if one.lines]


def _idle(connection: sqlite3.Connection) -> Mapping[str, list[Idle]]:
    found: defaultdict[str, list[Idle]] = defaultdict(list)
    for meter, *line in connection.execute(IDLE):
        found[meter].append(Idle(*line))
    return found
