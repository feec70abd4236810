"""The shape of a configuration file: its sections, keys and the form of each value.

A form is one pydantic validator with the JSON schema an editor sees, never a union: a union would report one mistake
once per member. Quantities of one unit are converted as they are read (`rigctl.kinds`); names are looked up, and what
is in the unit of a variable is converted, afterwards (`problem`, `hardware`). Each docstring goes into the JSON schema,
so into the editor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, WithJsonSchema

from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import numbered
from rigctl.core.policies.registry import USUAL_POLICY
from rigctl.flaws import Flaw, got, require
from rigctl.kinds import (
    LABEL,
    PER_TRIAL,
    QUANTITY,
    Amount,
    DeviceName,
    Label,
    Late,
    Name,
    PositiveDuration,
    PositiveSpan,
    PumpName,
    Range,
    Section,
    SensorName,
    Span,
    Worth,
    amount_like,
    key_of,
)
from rigctl.rig.calendar import HoursOfWeek
from rigctl.rig.limits import LimitSpec, TankSpec
from rigctl.rig.spec import (
    CalibrationSpec,
    DosingSpec,
    InterlockSpec,
    InventorySpec,
    MeterSpec,
    OutcomeSpec,
    SensorRules,
    StartsSpec,
    TrialTiming,
    TubingSpec,
    VolumeSpec,
    WatchPace,
)
from rigctl.telling import MetricsSpec, NotifySpec

_NUMBER: Final = {"type": "number"}


def _control_sets(value: Any) -> Literal["all"] | list[list[str]]:
    if value == "all":
        return "all"
    sets = value if isinstance(value, list) else []
    if sets and all(isinstance(s, list) and s and all(isinstance(m, str) for m in s) for s in sets):
        return sets
    flat = sets and all(isinstance(m, str) for m in sets)
    remedy = f"write [{', '.join(f'[{m}]' for m in sets)}]" if flat else ""
    must = 'must be "all" or a list of lists of variables such as [[ph], [ph, calcium]]'
    raise ValueError(got(value, must, remedy))


def _currency(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 3 or not (value.isascii() and value.isalpha() and value.isupper()):
        raise ValueError(got(value, "must be a three-letter code such as EUR"))
    return value


def one_of(kinds: str) -> Callable[[Any], Any]:
    """Take `uniform` for `{uniform: }`, `learned` for `{learned: }`."""

    def one_key(value: Any) -> Any:
        if isinstance(value, str):
            return {value: None}
        require(isinstance(value, dict) and len(value) == 1, value, f"must be exactly one of {kinds}")
        return value

    return one_key


def or_words(*words: str) -> Callable[[dict[str, Any]], None]:
    """Let a schema take these words beside a mapping."""

    def rewritten(schema: dict[str, Any]) -> None:
        mapping = dict(schema)
        schema.clear()
        schema["anyOf"] = [*({"const": word} for word in words), mapping]

    return rewritten


def _actuators(value: Any) -> str | list[str]:
    two = isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)
    if isinstance(value, str) or two:
        return value  # type: ignore[no-any-return]
    raise ValueError(
        got(value, "must be a device, or two pumps that move it down and up such as [acid_pump, base_pump]")
    )


NOT_OF_CATEGORIES: Final = (
    *("unit", "range", "step", "natural_range", "plausible", "doses", "read_back_tolerance", "follows", "max_rate"),
)
"""Keys of a variable that say what numbers are; a category has its levels."""


def _levels(value: Any) -> dict[str, float]:
    words = list(value) if isinstance(value, list | dict) else []
    if not words or not all(isinstance(w, str) and re.fullmatch(LABEL, w) and not set(w) & set(",=") for w in words):
        must = "must be words without commas such as [fine, flat], or {fine: 1, flat: 2} where instruments know numbers"
        raise ValueError(got(value, must, "put words such as on, off and 10 in quotes" if words else ""))
    numbers = value.values() if isinstance(value, dict) else ()
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise ValueError(got(value, "must give each word a number"))
    return numbered(value)


def of_levels(section: Any) -> Any:
    """Give a category the range of its levels' numbers, one step from each to the next."""
    if not isinstance(section, dict) or section.get("levels") is None:
        return section
    for key in NOT_OF_CATEGORIES:
        if key in section:
            raise ValueError(got(section[key], "must be left out: a category has its levels", "remove it", where=key))
    try:
        low, *others, high = _levels(section["levels"]).values()
    except ValueError:
        return {**section, "unit": "1", "range": [0, 1]}  # told of the key itself
    step = (high - low) / (len(others) + 1)
    plausible = [low - step / 2, high + step / 2]  # what reads a level may be noisy
    return {**section, "unit": "1", "range": [low, high], "step": step, "plausible": plausible}


def either(schema: dict[str, Any]) -> None:
    """Let a schema ask for levels, or for what a number needs."""
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["levels"]}]


_WORDS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 2}
_NUMBERED: Final = {"type": "object", "additionalProperties": _NUMBER, "minProperties": 2}
LevelNumbers = Annotated[dict[str, float], PlainValidator(_levels), WithJsonSchema({"anyOf": [_WORDS, _NUMBERED]})]
Money = Annotated[Micros, Late("money", amount_like(PER_TRIAL.example), 0, in_unit=False)]
_MONEY: Final = amount_like("40 EUR")
_SUMMANDS: Final = {
    "type": "object",
    "additionalProperties": _MONEY,
    "description": "What each variable adds, and each trial.",
}
KnownCost = Annotated[Micros | dict[str, Micros], Late("known_cost", {"anyOf": [_MONEY, _SUMMANDS]}, 0, in_unit=False)]
_LIMITS: Final = {"total": "Limit of the whole campaign.", "max_per_trial": "Limit of each trial."}
_AMOUNTS: Final = {name: {**_MONEY, "description": meaning} for name, meaning in _LIMITS.items()}
_BUDGET: Final = {"type": "object", "properties": _AMOUNTS, "required": ["total"], "additionalProperties": False}
_ONE_OR_BOTH: Final = {"anyOf": [_MONEY, _BUDGET]}
Budget = Annotated[tuple[Micros, Micros | None], Late("budget", _ONE_OR_BOTH, (1, None), in_unit=False)]
"""Of the campaign, and of a trial."""
Trials = Annotated[int, Late("trials", amount_like("25 trials"), 25, in_unit=False)]
Actuators = Annotated[
    str | list[str],
    PlainValidator(_actuators),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}]}
    ),
]
_SAFE: Final = {"anyOf": [{"const": "off"}, _NUMBER]}
SafeState = Annotated[Literal["off"] | float, Late("safe_state", _SAFE, "off", in_unit=False)]
Currency = Annotated[str, PlainValidator(_currency), WithJsonSchema({"type": "string", "pattern": "^[A-Z]{3}$"})]
_COLUMN: Final = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "description": "A CSV file; its path is from the configuration's folder."},
        "column": {"type": "string", "description": "The name of its column, as the first row has it."},
    },
    "description": "Measured values in a column of a CSV file.",
    "required": ["file", "column"],
    "additionalProperties": False,
}
_SAMPLE: Final = {"anyOf": [{"type": "array", "items": QUANTITY, "minItems": 1}, _COLUMN]}
Samples = Annotated[tuple[float, ...], Late("sample", _SAMPLE, ())]
_SETS: Final = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "minItems": 1, "items": {"type": "string"}},
}
ControlSets = Annotated[
    Literal["all"] | list[list[str]],
    PlainValidator(_control_sets),
    WithJsonSchema({"anyOf": [{"const": "all"}, _SETS]}),
]


# the sections ----------------------------------------------------------------------------------------------------


class FileSection(BaseModel):
    """A mapping of the file: unknown keys are errors, numbers are no text and text is no number."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        allow_inf_nan=False,
        alias_generator=key_of,
        defer_build=True,
    )


class OpenSection(FileSection):
    """A mapping whose other keys belong to a driver or policy, and are checked by it."""

    model_config = ConfigDict(extra="allow")


class TruncatedNormalNatural(FileSection):
    """A normal distribution cut at the variable's natural range; give mean and sd, or loc and scale."""

    mean: Amount | None = None
    """Mean of the variable itself, as measured."""
    sd: Span | None = None
    """Standard deviation of the variable itself, as measured."""
    loc: Amount | None = None
    """Mean of the normal distribution before it is cut."""
    scale: Span | None = None
    """Standard deviation of the normal distribution before it is cut."""


class UniformNatural(FileSection):
    """All values between two alike."""

    low: Amount | None = None
    """Default: the lowest of the natural range."""
    high: Amount | None = None
    """Default: the highest of the natural range."""


class DeclaredNatural(FileSection):
    """A distribution: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform"))

    truncated_normal: TruncatedNormalNatural | None = None
    """Normal, cut at the natural range."""
    uniform: UniformNatural | None = None
    """All alike, in the whole natural range or a part of it."""
    empirical: Samples | None = None
    """Measured values, as a list or as {file, column} of a CSV file beside the configuration."""
    shares: dict[str, Annotated[float, Field(ge=0)]] | None = None
    """Of a category: how often each level occurs, such as {fine: 0.7, flat: 0.3}; the others never do."""


class LearnedNatural(FileSection):
    """Learned from the readings of trials that left the variable alone."""

    prior: Annotated[DeclaredNatural, BeforeValidator(one_of("truncated_normal, uniform, empirical, shares"))] = Field(
        default_factory=lambda: DeclaredNatural(uniform=UniformNatural())
    )
    """What is believed until there are enough readings, and again after the supply has changed; default: uniform."""
    at_least: int = Field(default=8, ge=2)
    """How many readings are enough."""


class NaturalSection(DeclaredNatural):
    """How a variable varies when it is left alone: exactly one of these."""

    model_config = ConfigDict(json_schema_extra=or_words("uniform", "learned"))

    learned: LearnedNatural | None = None
    """From readings; a supply that changes is noticed."""


def _hides_urls(value: Any) -> Any:
    """Refuse a URL in the open, and what may be one: it would be shown, and copied into the journal."""
    if _holds_url(value):
        must = "must not stand in a configuration, which is copied into the journal"
        remedy = "write it into a file, `chmod 600` it, and name it here: {file: PATH}"
        raise ValueError(Flaw("", must, remedy, got="a URL in the open"))
    if not isinstance(value, dict) or not isinstance(value.get("alive", {}), dict):
        must = "must be a mapping such as {urls: {file: PATH}, alive: {url: {env: NAME}}}"
        raise ValueError(Flaw("", must, got="something else"))  # noqa: TRY004  # pydantic collects ValueErrors only
    return value


def _holds_url(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_url(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(map(_holds_url, value))
    return isinstance(value, str) and "://" in value


class SettingSection(FileSection):
    """Setpoints of variables that are controlled together."""

    control: list[str] = Field(default_factory=list)
    """Variables that are controlled; none: everything is left alone."""
    at: dict[str, Amount] = Field(default_factory=dict)
    """Setpoint of each."""


class TodaySection(SettingSection):
    """How the rig is run today, for recommendations to be compared with."""


class ReferenceSection(SettingSection):
    """A setting that is played again every so many trials, for what changes in between to show."""

    every: Trials
    """How many trials lie between two of them: 25 trials."""
    control: list[str] = Field(default_factory=list)
    """Variables that are controlled in it, one of the control sets; none: what would be recommended at the first."""
    second_sensor: str | None = None
    """The one of `further_outcomes` that another sensor of the first outcome measures: tells a sensor that ages."""


class StopSection(FileSection):
    """What ends a campaign before its budget is spent."""

    worth: Worth
    """What one unit of a better outcome is worth in all later use: 12 EUR/(cm2/day). The campaign ends once no trial is
    expected to be worth its cost. `outcome.worth` is what it is worth in one trial."""


class ClockSection(FileSection):
    """How fast rig time runs."""

    speedup: float = Field(default=1.0, gt=0)
    """Rig seconds per wall second: simulated rigs only, leave out on a real one."""
    begins: str | None = None
    """Civil time at which a simulated campaign begins, with its offset: 2026-10-10T00:00+02:00; default: now."""


class PolicySection(OpenSection):
    """Who decides; the other keys are the policy's own options."""

    name: str = USUAL_POLICY
    """An installed policy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariableSection(SensorRules):
    """A quantity that is measured in every trial and, at a price, controlled in some."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {**Section.__pydantic_config__, "json_schema_extra": either}

    levels: LevelNumbers | None = None
    """A category, in place of unit and range: words without an order such as [fine, flat, cone], or {fine: 1, flat: 2,
    cone: 3} by the numbers that its sensor and actuator know them by; a list counts from 0."""
    unit: str
    """Unit of range, setpoints and readings; "1" for none."""
    label: Label | None = None
    """What people read instead of its name, such as Calcium; default: the name."""
    range: Range
    """Lowest and highest setpoint."""
    step: Span | None = None
    """Between two setpoints, the first of which is the lowest; 1 for whole numbers. Default: every value can be set."""
    natural_range: Range | None = None
    """Lowest and highest value when it is left alone, where that is not the range of setpoints: [7.2, 8.4]."""
    natural: Annotated[
        NaturalSection | None, BeforeValidator(one_of("truncated_normal, uniform, empirical, shares, learned"))
    ] = None
    """How it varies when it is left alone; needed unless it is what a pump `doses`."""
    sensor: SensorName | None = None
    """Device that measures it; needed as soon as there are devices."""
    actuator: Actuators | None = None
    """Device that imposes it, or two pumps, one down and one up; without one it can only be measured."""
    doses: VolumeSpec | None = None
    """It is the volume that a pump gives once in a trial: instead of sensor, actuator and natural."""
    plausible: Range | None = None
    """Readings outside are INVALID and never used."""
    read_back_tolerance: Span | None = None
    """How far the actuator may say it is from where it was sent; default 1 % of the range."""
    follows: PositiveSpan | None = None
    """How far from its setpoint it may be measured while it is controlled; after 4 misses in 5 trials its control sets
    are held. Default: twice what past trials kept to, between 3 tolerances of the actuator and a tenth of the range."""

    @property
    def actuators(self) -> tuple[str, ...]:
        """Return the devices that impose it, by name."""
        if self.doses is not None:
            return (self.doses.pump,)
        return (self.actuator,) if isinstance(self.actuator, str) else tuple(self.actuator or ())


class DeviceSection(OpenSection):
    """An instrument; the other keys are its driver's own options."""

    driver: str
    """An installed driver, see `rigctl tools drivers`."""
    bus: str
    """A bus from `buses`, or a URL such as serial:///dev/serial/by-id/usb-..."""
    profile: str | None = None
    """The driver's options for one make of instrument, e.g. julabo/bath; see `rigctl tools drivers --profiles`."""
    timeout: PositiveDuration = 2.0
    """Longest wait for one answer, wall time."""
    inventory: InventorySpec | None = None
    """Contents of a pump's bottle; default: not counted."""
    tubing: TubingSpec | None = None
    """Life of a pump's tubing; default: not counted."""
    calibration: CalibrationSpec | None = None
    """Calibration interval, and limits of a good calibration; default: never due."""


class SafetySection(FileSection):
    """What the guard lets through, what the watch looks for, and where everything goes when something is wrong."""

    safe_state: dict[DeviceName, SafeState] = Field(default_factory=dict)
    """Per actuator: `off`, or a value to hold. Every actuator but pumps, which are `off`, needs one."""
    safe_within: PositiveDuration | None = None
    """Wall time within which everything must be told to go safe: a rig that cannot is refused."""
    limits: dict[DeviceName, LimitSpec] = Field(default_factory=dict)
    """Per pump its caps; per actuator when it may be driven."""
    stays_on: list[DeviceName] = Field(default_factory=list)
    """Switches without an auto-off of their own, which stay on if computer, network or broker fail: accepted."""
    tanks: dict[Name, TankSpec] = Field(default_factory=dict)
    """Per tank the caps of its pumps together."""
    unanswered_doses: int = Field(default=6, ge=1)
    """Doses of one pump that change nothing, over all trials, after which it is latched."""
    interlocks: list[InterlockSpec] = Field(default_factory=list)
    """What must not hold."""
    watch: WatchPace = WatchPace()
    """The watch."""
    starts: StartsSpec = StartsSpec()
    """Starts that end badly."""


class RigConfig(FileSection):
    """A rigctl configuration."""

    include: str | list[str] = Field(default_factory=list)
    """Files whose keys are taken over, from this one's folder: common.yaml. What this file says itself wins."""
    rig: Name
    """Name of the rig; its state lives in ./state/<rig>."""
    currency: Currency
    """The one currency of budget, prices and costs."""
    budget: Budget
    """What the whole campaign may cost: 40 EUR; or {total: 40 EUR, max_per_trial: 2 EUR}, and what a trial may cost."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """The one source of randomness: same seed and history, same decision."""
    max_trials: int | None = Field(default=None, ge=1)
    """Stop after as many trials even if money is left."""
    clock: ClockSection = ClockSection()
    """Rig time."""
    zone: str | None = None
    """Where the rig's clocks stand, such as Europe/Berlin; hours and tariffs are in this civil time."""
    allowed: HoursOfWeek | None = None
    """When trials may run: "08:00-18:00", "Mon-Fri 08:00-18:00", or a list of such; the campaign waits otherwise."""
    policy: PolicySection = PolicySection()
    """Who decides."""
    model: ModelOptions = ModelOptions()
    """The surrogate."""
    variables: dict[Name, Annotated[VariableSection, BeforeValidator(of_levels)]]
    """What is measured, and at a price controlled."""
    control_sets: ControlSets
    """Which variables may be controlled together; `all` means every non-empty subset."""
    outcome: OutcomeSpec
    """What the experiment is for."""
    further_outcomes: list[OutcomeSpec] = Field(default_factory=list)
    """What else matters, measured in the same window; for policies that weigh several outcomes, and for reports."""
    trial: TrialTiming | None = None
    """Timing of a trial; needed as soon as there are devices."""
    meters: list[MeterSpec] = Field(default_factory=list)
    """What a trial costs."""
    costs: Literal["per-set", "per-setting"] = "per-set"
    """Whether a control set's trials have one mean cost, or the setpoints matter too (dosing more costs more)."""
    known_costs: dict[str, KnownCost] = Field(default_factory=dict)
    """What a trial costs, if that is known beforehand: per control set, {a: 0.2 EUR, a+b: 0.3 EUR}, or what each trial
    and each controlled variable add, {each: {trial: 1 EUR, a: 0.1 EUR, b: 0.2 EUR}}. What a control set itself has
    wins."""
    changeovers: list[str] = Field(default_factory=list)
    """Variables that it costs to bring to another value than in the trial before: an oven that heats up for hours. How
    much is learned, and a cost is told without it; the default policy then prefers trials that keep them."""
    today: TodaySection | None = None
    """Today's practice; decides nothing."""
    stop: StopSection | None = None
    """What ends the campaign before its budget is spent; default: nothing."""
    reference: ReferenceSection | None = None
    """A setting that is played again and again, so that a plant that ages shows; default: none."""
    buses: dict[Name, str] = Field(default_factory=dict)
    """Wires by name, as URLs such as modbus_tcp://host:502 or serial:///dev/ttyUSB0?baud=9600."""
    devices: dict[Name, DeviceSection] = Field(default_factory=dict)
    """The instruments. Without any, rigctl suggests and a person does."""
    dosing: dict[PumpName, DosingSpec] = Field(default_factory=dict)
    """Per pump that brings a variable to its setpoint."""
    safety: SafetySection = SafetySection()
    """Safe states and caps."""
    notify: Annotated[NotifySpec | None, BeforeValidator(_hides_urls)] = None
    """Who is told what."""
    metrics: MetricsSpec | None = None
    """Numbers for other programs."""
