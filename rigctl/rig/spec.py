"""What a rig is made of, as plain frozen values: the configuration's answer, the rig's input.

Every quantity is in the unit its name says; nothing here knows YAML. A `Section` is read from the file as it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Final, Literal

from annotated_types import Ge, Le, Lt

from rigctl.kinds import (
    ActuatorName,
    Amount,
    Clash,
    Duration,
    Effect,
    FrozenAfter,
    Label,
    Late,
    MeterName,
    Name,
    Number,
    PositiveDuration,
    PositiveSpan,
    PositiveVolume,
    PumpName,
    Range,
    Rate,
    Rated,
    Section,
    SensorName,
    Used,
    Volume,
    Whole,
    Worth,
)
from rigctl.rig.calendar import Hours, Price, Tariff
from rigctl.rig.conditions import Condition
from rigctl.rig.limits import ActuatorLimits, CapSpec, TankSpec, caps_of
from rigctl.rig.protocols import DeviceOptions

Statistic = Literal["median", "mean"]
USUALLY_VALID: Final = 10.0
"""So many times as long as a look takes what was read is valid, where nothing is declared."""
USUALLY_FROZEN: Final = 3
"""Trials of identical readings, while something else changed, after which a sensor counts as frozen."""
BY_HAND_WITHIN_S: Final = 7 * 86_400.0
"""Rig seconds that a person has to say an outcome, where nothing is declared."""
SENSOR_PATIENCE: Final = 2.0
"""So many times as long as until it is due a sensor is tried, where nothing is declared."""


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """One instrument."""

    name: str
    driver: str
    url: str
    """The line's URL; devices with equal URLs share a bus."""
    options: DeviceOptions
    timeout_s: float
    """Wall seconds for one exchange."""


@dataclass(frozen=True, slots=True)
class DosingSpec(Section):
    """How a pump brings a sensor to a setpoint, dose by dose. The key is the pump."""

    sensor: SensorName
    """Device that judges the dose."""
    effect_per_ml: Effect
    """Change of the reading per volume, e.g. -0.04 pH/mL for an acid."""
    tolerance: PositiveSpan
    """Near enough, sensor's unit."""
    mix_s: Duration
    """Time between a dose and the reading that judges it."""
    max_doses: Annotated[Whole, Ge(1)]
    """After as many without success the trial fails."""
    treatment: ActuatorName | None = None
    """Actuator that is on while this variable is controlled."""
    treat_s: Duration | None = None
    """How long the treatment is on before the first dose; steps of `trial.prepare` that come between count. Default: no
    time; with a look, which prepares before it, it must be given."""
    with_: Mapping[PumpName, Number] = field(default_factory=dict)
    """Pumps that dose along with it, with mL of each per mL of this one; the effect is that of all together."""

    def clashes(self) -> Iterator[Clash]:
        """A time is that of a treatment."""
        if self.treat_s and self.treatment is None:
            yield Clash("treat", "", lead="but no treatment is named that it could be")


@dataclass(frozen=True, slots=True)
class VolumeSpec(Section):
    """The pump whose volume, given once in a trial, is the variable."""

    pump: PumpName
    """The pump; it needs caps in safety.limits."""
    otherwise_ml: Volume = 0.0
    """What it gives while the variable is not controlled."""
    mix_s: Duration = 0.0
    """Time after it, before other pumps dose by what their probes read."""
    with_: Mapping[PumpName, Number] = field(default_factory=dict)
    """Pumps that dose along with it, with mL of each per mL of this one: {feed_b: 1}."""


_DOSES: Final = {"type": "string", "pattern": r"^\s*\d+\s*(doses?)?\s*$"}
_MANY: Final = {"anyOf": [{"type": "integer", "minimum": 0}, _DOSES]}


@dataclass(frozen=True, slots=True)
class InventorySpec(Section):
    """A pump's bottle, counted since `rigctl device refilled`; a pump with too little for a trial is not used."""

    volume_ml: PositiveVolume
    """What a full bottle holds."""
    warn_at: Annotated[int, Late("doses", _MANY, 0, in_unit=False)] = 20
    """An alarm is raised when so many usual doses are left."""


@dataclass(frozen=True, slots=True)
class TubingSpec(Section):
    """A pump's tubing, with the mL pumped since `rigctl device replaced PUMP tubing`."""

    replace_after_ml: PositiveVolume
    """An alarm is raised when it has seen so much."""


@dataclass(frozen=True, slots=True)
class CalibrationSpec(Section):
    """How often a device is calibrated: since `rigctl device calibrated`, or since it said so itself."""

    every_s: PositiveDuration | None = None
    """A probe by which doses are judged is not used when it is overdue; others only raise an alarm."""
    slope: tuple[Number, Number] = (85.0, 105.0)
    """What a probe's slopes must be, percent of an ideal probe's; outside doses are not judged by it."""

    def clashes(self) -> Iterator[Clash]:
        """Slopes rise."""
        if not 0 <= self.slope[0] < self.slope[1]:
            yield Clash("slope", "must be two rising percentages")


@dataclass(frozen=True, slots=True)
class CareSpec:
    """Supplies, wear and calibration of one device; None: not counted."""

    inventory: InventorySpec | None = None
    tubing: TubingSpec | None = None
    calibration: CalibrationSpec = CalibrationSpec()


MISSES, LAST = 4, 5
"""So many misses in the last so many trials that controlled a variable: it does not follow."""


@dataclass(frozen=True, slots=True)
class FollowSpec:
    """How far a controlled variable may be measured from its setpoint, engineering units."""

    most: float
    """While nothing is known of it; beyond this it never may."""
    least: float
    """It always may be as far off as this; equal to `most` where the configuration says how far."""
    unit: str
    """As shown; empty for none."""


@dataclass(frozen=True, slots=True)
class VariableWiring:
    """Which instruments serve a variable."""

    name: str
    sensor: str
    actuator: str | None
    read_back_tolerance: float
    """How far a setpoint read back may be from the one sent, engineering units."""
    second: str | None = None
    """A second pump, that moves the variable the other way than the first: pH down and pH up."""
    follows: FollowSpec | None = None
    """None: it cannot be controlled, or no sensor of its own tells whether it follows."""

    @property
    def actuators(self) -> tuple[str, ...]:
        """Return what imposes it, the first one first; nothing where it can only be measured."""
        return tuple(name for name in (self.actuator, self.second) if name is not None)


Action = Literal["warn", "fail", "hold", "safe", "trip"]
"""What follows when an interlock fires: an alarm; this trial fails; everything safe until it is clear; the campaign
ends; the trip is latched."""


_When = Annotated[Condition, Late("condition", {"type": "string"}, in_unit=False)]


@dataclass(frozen=True, slots=True)
class InterlockSpec(Section):
    """A condition that must not hold."""

    name: Name
    """As alarms call it."""
    when: _When
    """Comparisons of variables, outcomes or sensors with quantities, joined by and, or, not: ph < 4.5 pH."""
    then: Action
    """`warn`: an alarm; `fail`: this trial does; `hold`: safe until it is clear; `safe`: the end; `trip`: latched."""
    for_s: Duration = 0.0
    """How long it must have held, rig time."""
    until: _When | None = None
    """What ends it (hysteresis), of the same readings; default: that `when` holds no longer."""


@dataclass(frozen=True, slots=True)
class SensorRules(Section):
    """What the watch expects of a sensor."""

    max_rate_per_s: Rate | None = None
    """Fastest change there can be, e.g. 0.5 pH/min; a faster step is not believed before it is confirmed."""
    frozen_after: FrozenAfter | None = None
    """A fault is taken for granted after identical readings for as long ("30 min"), or in as many trials ("3 trials",
    the default); `off`: never."""
    stale_after_s: PositiveDuration | None = None
    """Wall time after which a reading of the watch is too old; default: three periods and the device's timeout."""
    watch_every_s: PositiveDuration | None = None
    """Wall time between readings of the watch; default: 2 s where an interlock needs them, else none but a trial's."""

    @property
    def frozen_after_s(self) -> float | None:
        return None if self.frozen_after is None else self.frozen_after[0]

    @property
    def frozen_after_trials(self) -> int | None:
        return USUALLY_FROZEN if self.frozen_after is None else self.frozen_after[1]


@dataclass(frozen=True, slots=True)
class WatchedSensor:
    """A device that only interlocks look at: neither a variable's sensor nor an outcome's."""

    name: str
    rules: SensorRules = SensorRules()


@dataclass(frozen=True, slots=True)
class WatchPace(Section):
    """How often the watch looks, and when a held campaign goes on."""

    every_s: PositiveDuration = 1.0
    """Wall time between two looks."""
    clear_for_s: PositiveDuration = 60.0
    """Rig time a condition must be gone before a held campaign goes on."""


@dataclass(frozen=True, slots=True)
class WatchSpec(WatchPace):
    """The watch."""

    interlocks: tuple[InterlockSpec, ...] = ()
    sensors: tuple[WatchedSensor, ...] = ()
    rules: Mapping[str, SensorRules] = field(default_factory=dict)
    """By variable or outcome."""


@dataclass(frozen=True, slots=True)
class StartsSpec(Section):
    """When a campaign whose process dies again and again waits for a person."""

    at_most: Annotated[Whole, Ge(1)] = 5
    """Starts in a row that end badly (killed, crashed, with an error), after which the next holds everything safe."""
    good_after_s: PositiveDuration = 600.0
    """Wall time after which a start has gone well and those before it count no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSpec(SensorRules):
    """What is to be made as large or as small as possible."""

    name: Name
    """Its name in tables and CSV files."""
    label: Label | None = None
    """What people read instead of its name, such as Growth rate; default: the name."""
    unit: str
    """Its unit; "1" for none."""
    sensor: SensorName | None = None
    """Device that measures it; needed as soon as there are devices, unless a person says it."""
    direction: Literal["maximise", "minimise"] = "maximise"
    """Which way is better."""
    floor: Amount | None = None
    """The worst value it can take; without it a bound from the data is used."""
    at_most: Amount | None = None
    """A further outcome's upper limit: a setting is recommended only where single trials are likely to keep it."""
    at_least: Amount | None = None
    """Its lower limit."""
    probability: Annotated[Number, Ge(0.5), Lt(1)] = 0.9
    """How likely a trial must be to keep the limit."""
    plausible: Range | None = None
    """Readings outside are INVALID: the trial fails, its cost is charged."""
    worth: Worth | None = None
    """What one unit of it in a trial is worth, the first outcome only: 0.3 EUR/g, 0.02 EUR/(cm2/day); 3 EUR without a
    unit. Where less is better, what one unit less is worth. It changes what a rule is said to be worth, not a trial."""
    by: Literal["sensor", "hand"] = "sensor"
    """Who gives it: a sensor, or a person with `rigctl trial outcome` after the rig has done its part: by: hand."""
    after_s: PositiveDuration | None = None
    """Time after the rig's part at which the sensor is read, e.g. 20 h; default: in the trial."""
    within_s: PositiveDuration | None = None
    """Time after the rig's part for the outcome; then the trial is closed without it. Default 7 d, or twice `after`."""
    then: Literal["go-on", "hold"] = "go-on"
    """What the campaign does meanwhile: begin the next trial, or hold until the outcome has come."""
    pending: Annotated[Whole, Ge(1), Le(1000)] = 16
    """Trials at most whose outcomes are awaited when another one begins."""
    at_end: Literal["wait", "end"] = "wait"
    """What a campaign does that is over while outcomes are awaited: wait for them, or end."""

    def clashes(self) -> Iterator[Clash]:
        """A person or a sensor gives it, and a sensor is tried again for some time."""
        if self.by == "hand" and self.sensor is not None:
            yield Clash("sensor", "", (), "but a person says it (by: hand)", "take one of them out")
        if self.by != "hand" and self.after_s is not None and self.until_s <= self.after_s:
            yield Clash(
                "within", "must be more than `after`, {after}: the sensor is tried again until then", ("after",)
            )

    @property
    def comes_later(self) -> bool:
        """Tell whether it comes after the rig has done its part of a trial."""
        return self.by == "hand" or self.after_s is not None

    @property
    def until_s(self) -> float:
        """Return the rig seconds after the rig's part after which nobody waits for it any more."""
        usual_s = BY_HAND_WITHIN_S if self.by == "hand" else SENSOR_PATIENCE * (self.after_s or 0.0)
        return usual_s if self.within_s is None else self.within_s

    @property
    def due_s(self) -> float:
        """Return the rig seconds after the rig's part at which somebody must act: read it, or give it up."""
        return self.until_s if self.by == "hand" else self.after_s or 0.0


@dataclass(frozen=True, slots=True)
class PrepareStep(Section):
    """Something done in every trial before settling: after the setpoints are imposed, or before a look."""

    actuator: ActuatorName
    """Device that does it."""
    value: Number
    """What it is set to; it is released after `wait`."""
    wait_s: Duration
    """How long."""


@dataclass(frozen=True, slots=True)
class MeasureSpec(Section):
    """A window of samples per sensor, reduced to one number."""

    for_s: Duration
    """Length of the window."""
    every_s: PositiveDuration
    """Time between samples."""
    statistic: Statistic = "median"
    """How the samples become one number."""
    min_count: Annotated[Whole, Ge(1)] = 1
    """With fewer valid samples the trial fails."""

    @property
    def samples(self) -> int:
        """Return how many samples a window holds when nothing is late."""
        return max(self.min_count, int(self.for_s / self.every_s + 1e-9), 1)

    @property
    def takes_s(self) -> float:
        return max(self.for_s, self.samples * self.every_s)

    def clashes(self) -> Iterator[Clash]:
        """The window must have room for its samples."""
        if self.every_s > self.for_s:
            yield Clash("every", "must be at most the window, for: {for}", ("for",))
        elif self.min_count > self.for_s / self.every_s + 1:
            most = int(self.for_s / self.every_s + 1)
            yield Clash("min_count", f"must be at most {most}, the samples that fit into the window", ("for", "every"))


@dataclass(frozen=True, slots=True)
class LookSpec(Section):
    """A look at all variables before a trial is decided: after `prepare`, while nothing is controlled."""

    for_s: Duration
    """Length of the window in which the variables' sensors are read."""
    every_s: PositiveDuration
    """Time between samples."""
    after_s: Duration = 0.0
    """Time between the last step of `prepare` and the first reading."""
    valid_for_s: PositiveDuration | None = None
    """After a restart, a decision goes on only if what was read is not older; default: ten times `after` and `for`."""

    def clashes(self) -> Iterator[Clash]:
        """The window must have room for a sample."""
        return MeasureSpec(self.for_s, self.every_s).clashes()

    @property
    def counts_for_s(self) -> float:
        """Return the rig seconds after which what was read no longer counts."""
        usual_s = USUALLY_VALID * (self.after_s + self.for_s)
        return usual_s if self.valid_for_s is None else self.valid_for_s


@dataclass(frozen=True, slots=True)
class TrialTiming(Section):
    """Steps of every trial."""

    settle_s: Duration
    """Time between imposing the setpoints and measuring."""
    measure: MeasureSpec
    """How sensors are read."""
    prepare: tuple[PrepareStep, ...] = ()
    """Steps before settling, in order."""
    look: LookSpec | None = None
    """Prepare the rig and read the variables first, then decide; default: decide first, and prepare when it is set."""

    @property
    def look_window(self) -> MeasureSpec | None:
        """Return the window of the look, if there is one: of each sensor one sample at least."""
        return None if self.look is None else MeasureSpec(self.look.for_s, self.look.every_s, self.measure.statistic)

    @property
    def prepare_s(self) -> float:
        """Return the rig seconds that all steps of preparation wait."""
        return sum(step.wait_s for step in self.prepare)

    @property
    def look_s(self) -> float:
        """Return the rig seconds that a look takes before the trial is decided; 0 where nobody looks."""
        return 0.0 if self.look is None or self.look_window is None else self.look.after_s + self.look_window.takes_s

    @property
    def takes_s(self) -> float:
        """Return the rig seconds that a trial takes at least."""
        return self.prepare_s + self.look_s + self.settle_s + self.measure.takes_s


@dataclass(frozen=True, slots=True)
class MeterSpec(Section):
    """One line of a trial's cost."""

    kind: Literal["energy", "volume", "time", "fixed"]
    """`energy` and `volume` read a counter before and after, `time` is per hour, `fixed` per trial."""
    price: Price
    """Per energy, volume or time; exact. By time of use: a list of prices, each `during` hours of the zone."""
    device: MeterName | None = None
    """The meter or pump, for energy and volume."""
    name: Name = ""
    """Its name in the ledger; default: the device, or the kind."""
    max_per_trial: Used | None = None
    """A larger difference cannot be true: the trial's cost then counts as estimated."""
    rated_per_h: Rated | None = None
    """The most that can be used at a time: a power for energy (3 kW), a flow for volume (58.5 mL/min)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or self.device or self.kind)

    def clashes(self) -> Iterator[Clash]:
        """What is counted is counted by a device."""
        counted = self.kind in ("energy", "volume")
        if counted and self.device is None:
            yield Clash("device", f"must name the device that counts this {self.kind}", lead="is missing")
        if not counted and self.device is not None:
            yield Clash("device", "", lead=f"but {self.kind} is read from no device")

    @property
    def tariff(self) -> Tariff | None:
        """Return the prices by time of use; None: the price is always the same."""
        return self.price if isinstance(self.price, Tariff) else None

    @property
    def mean_price(self) -> Decimal:
        """Return the price, over a week: currency units per kWh, mL, hour or trial, by its kind; exact."""
        return self.price.mean() if isinstance(self.price, Tariff) else self.price


@dataclass(frozen=True, slots=True)
class RigSpec:
    """The whole rig."""

    name: str
    devices: Mapping[str, DeviceSpec]
    variables: tuple[VariableWiring, ...]
    outcomes: tuple[OutcomeSpec, ...]
    """The first one is what the experiment is for; the order is that in which policies know them."""
    timing: TrialTiming
    meters: tuple[MeterSpec, ...]
    limits: Mapping[str, ActuatorLimits]
    """For every actuator, doser and prepared actuator."""
    dosing: Mapping[str, DosingSpec] = field(default_factory=dict)
    volumes: Mapping[str, VolumeSpec] = field(default_factory=dict)
    """Per pump whose volume is a variable."""
    plausible: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """Per sensor: readings outside are INVALID."""
    speedup: float = 1.0
    watch: WatchSpec = WatchSpec()
    safe_within_s: float | None = None
    """Wall seconds within which everything must be told to go safe, or the rig is refused; None: only a warning."""
    unanswered_doses: int = 6
    """Doses of one pump without response, over all trials since the last that had one, after which it is latched."""
    tanks: Mapping[str, TankSpec] = field(default_factory=dict)
    care: Mapping[str, CareSpec] = field(default_factory=dict)
    """Per device of which something is counted."""
    starts: StartsSpec | None = None
    """None: however often it dies, the next start goes on."""
    allowed: Hours | None = None
    """When trials may run; None: always."""
    begins_s: float | None = None
    """Civil time at which a simulated campaign begins, seconds since 1970; None: the wall clock's then."""
    expected_s: float = 0.0
    """Rig seconds that a trial is expected to take."""

    @property
    def calendar(self) -> bool:
        """Tell whether anything of it goes by civil time."""
        hours = (self.allowed, *(limits.allowed for limits in self.limits.values()))
        return any(h is not None for h in hours) or any(m.tariff is not None for m in self.meters)

    def wiring_of(self, variable: str) -> VariableWiring:
        return next(v for v in self.variables if v.name == variable)

    def served_by(self, actuator: str) -> VariableWiring | None:
        """Return the variable that an actuator imposes; None: it is a switch, or a pump that doses along."""
        return next((v for v in self.variables if actuator in v.actuators), None)

    def device_of(self, name: str) -> str:
        """Return the device of this name, or the sensor of the variable or outcome of this name; empty: none."""
        if name in self.devices:
            return name
        sensors = {v.name: v.sensor for v in self.variables}
        return {**sensors, **{o.name: o.sensor or "" for o in self.outcomes}}.get(name, "")

    @property
    def outcome_name(self) -> str:
        """Return the name of the first outcome; empty for a rig that only goes safe."""
        return self.outcomes[0].name if self.outcomes else ""

    @property
    def outcome_label(self) -> str:
        """Return what people read for the first outcome."""
        return (self.outcomes[0].label or self.outcomes[0].name) if self.outcomes else ""

    @property
    def outcome_names(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.outcomes)

    @property
    def late(self) -> OutcomeSpec | None:
        """Return the first outcome, which says how all are awaited that come later; None: all are measured in a trial.

        A person who does the trials by hand tells each with its outcomes.
        """
        return self.outcomes[0] if self.devices and self.outcomes and self.outcomes[0].comes_later else None

    @property
    def late_names(self) -> tuple[str, ...]:
        """Return the outcomes that come after the rig has done its part; the others are measured in the trial."""
        if self.late is None:
            return ()
        return tuple(o.name for o in self.outcomes if self.late.by != "hand" or o.by == "hand")

    @property
    def partners(self) -> Mapping[str, Mapping[str, float]]:
        """Return, by pump, the pumps that dose along with it: mL of each per mL of this one."""
        judged = {name: d.with_ for name, d in self.dosing.items()}
        return judged | {name: v.with_ for name, v in self.volumes.items()}

    @property
    def pumps(self) -> tuple[str, ...]:
        """Return every pump, each once: those of variables first, then those that dose along with them."""
        return tuple(dict.fromkeys([*self.partners, *(p for along in self.partners.values() for p in along)]))

    @property
    def caps(self) -> tuple[CapSpec, ...]:
        return caps_of(self.limits, self.tanks)

    def pumps_of(self, variable: VariableWiring) -> tuple[str, ...]:
        """Return the pumps that move while this variable is controlled."""
        own = [name for name in variable.actuators if name in self.partners]
        return tuple(dict.fromkeys([*own, *(p for name in own for p in self.partners[name])]))
