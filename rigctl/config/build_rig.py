"""Second check, the hardware: instruments, wiring, trial, meters, dosing, safety -> the rig's `RigSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, Literal

from pydantic import ValidationError

from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.findings import unknown
from rigctl.config.schema import (
    DeviceSection,
    DosingSection,
    LimitSection,
    MeterSection,
    OutcomeSection,
    TrialSection,
    VariableSection,
)
from rigctl.config.shape import problems_of
from rigctl.config.units import DURATION, PER_HOUR, PER_KWH, PER_ML, PER_TRIAL, VOLUME, Kind
from rigctl.errors import BrokenDriver
from rigctl.rig.registry import Registry
from rigctl.rig.spec import (
    ActuatorLimits,
    DeviceSpec,
    DosingSpec,
    MeasureSpec,
    MeterSpec,
    OutcomeWiring,
    PrepareStep,
    RigSpec,
    TrialTiming,
    VariableWiring,
)

_URL: Final = re.compile(r"([a-z][a-z0-9_+.-]*)://\S+")
_PRICED: Final[Mapping[str, Kind]] = {"energy": PER_KWH, "volume": PER_ML, "time": PER_HOUR, "fixed": PER_TRIAL}
_COUNTED: Final[Mapping[str, Kind]] = {
    "energy": Kind("an energy", "5 kWh", "kWh"),
    "volume": VOLUME,
}
READ_BACK_SHARE: Final = 0.01
"""Of the range: how far a setpoint read back may be off where nothing is declared."""
BY_HAND: Final = TrialTiming((), 0.0, MeasureSpec(0.0, 1.0, "median", 1))
"""Timing of a trial that a person does."""


def build_rig(context: Context, registry: Registry) -> RigSpec:
    """The rig; only to be used if nothing was found."""
    config = context.config
    devices = {n: _device(context, registry, n, section) for n, section in config.devices.items()}
    wired = bool(context.declared["devices"])
    _references(context, wired)
    wiring = tuple(_wiring(context, n, v) for n, v in config.variables.items())
    dosing = {n: _dosing(context, n, section) for n, section in config.dosing.items()}
    return RigSpec(
        name=config.rig,
        devices={n: d for n, d in devices.items() if d is not None},
        variables=wiring,
        outcome_sensor=config.outcome.sensor or "",
        outcome_name=config.outcome.name,
        further=tuple(OutcomeWiring(o.name, o.sensor or "") for o in config.further_outcomes),
        timing=_timing(context, config.trial, wired),
        meters=_meters(context),
        limits=_limits(context, wired),
        dosing=dosing,
        plausible=_plausible(context),
        speedup=config.clock.speedup,
    )


# instruments ------------------------------------------------------------------------------------------------------


def _device(context: Context, registry: Registry, name: str, section: DeviceSection) -> DeviceSpec | None:
    path: Path = ("devices", name)
    findings = context.findings
    timeout_s = findings.attempt((*path, "timeout"), 1.0, context.units.quantity, section.timeout, DURATION)
    if timeout_s == 0:
        findings.add((*path, "timeout"), f'got "{section.timeout}", must be more than nothing')
    if section.driver not in registry.drivers:
        findings.add((*path, "driver"), unknown(section.driver, sorted(registry.drivers), "an installed driver: "))
        return None
    try:
        driver = registry.driver(section.driver)
    except BrokenDriver as error:
        findings.add((*path, "driver"), str(error))
        return None
    url = _url(context, (*path, "bus"), section.bus, driver.schemes)
    try:
        options = driver.options.model_validate(section.model_extra or {})
    except ValidationError as error:
        for below, what in problems_of(error, driver.options):
            findings.add((*path, *below), what)
        return None
    return DeviceSpec(name, section.driver, url, options, timeout_s)


def _url(context: Context, path: Path, bus: str, schemes: tuple[str, ...]) -> str:
    """The line's URL: a name from `buses`, or the URL itself."""
    findings, config = context.findings, context.config
    where = path
    url = bus
    if "://" not in bus:
        if not context.known(path, bus, ["buses"], "URL or a bus from buses, "):
            return bus
        if bus not in config.buses:
            return bus
        url, where = config.buses[bus], ("buses", bus)
    found = _URL.fullmatch(url)
    if found is None:
        findings.add(where, f'got "{url}", must be a URL such as modbus_tcp://127.0.0.1:502 or serial:///dev/ttyUSB0')
    elif found[1] not in schemes:
        allowed = ", ".join(schemes)
        findings.add(path, f"got {found[1]}://, this driver talks over {allowed}")
    return url


def _references(context: Context, wired: bool) -> None:
    """Every instrument that is named is declared, and reads or takes the unit it is used with."""
    for path, section in _measured(context):
        if section.sensor is not None:
            _serves(context, (*path, "sensor"), section.sensor, section.unit)
        elif wired:
            context.findings.add((*path, "sensor"), "is missing, must name the device that measures it")
    served: dict[str, str] = {}
    for name, variable in context.config.variables.items():
        path = ("variables", name, "actuator")
        if variable.actuator is None:
            continue
        # a pump takes volumes; what it brings about is in the unit of the sensor that judges its doses
        unit = None if variable.actuator in context.declared["dosing"] else variable.unit
        _serves(context, path, variable.actuator, unit)
        if variable.actuator in served:
            context.findings.add(path, f'got "{variable.actuator}", which serves {served[variable.actuator]} already')
        served.setdefault(variable.actuator, name)


def _measured(context: Context) -> list[tuple[Path, VariableSection | OutcomeSection]]:
    """Everything that has a sensor."""
    variables = [(("variables", n), v) for n, v in context.config.variables.items()]
    return [*variables, *context.outcomes]


def _plausible(context: Context) -> dict[str, tuple[float, float]]:
    """Per sensor; a variable's must hold its whole range, or its own setpoints would read INVALID."""
    plausible: dict[str, tuple[float, float]] = {}
    for path, section in _measured(context):
        if section.plausible is None:
            continue
        bounds = context.pair((*path, "plausible"), section.plausible, section.unit)
        if bounds is None:
            continue
        if section.sensor is not None:
            plausible[section.sensor] = bounds
        if isinstance(section, VariableSection):
            low, high = _range(context, section)
            if not bounds[0] <= low <= high <= bounds[1]:
                got = f"got [{bounds[0]:g}, {bounds[1]:g}]"
                context.findings.add((*path, "plausible"), f"{got}, must hold the range [{low:g}, {high:g}]")
    return plausible


def _serves(context: Context, path: Path, device: str, unit: str | None) -> None:
    """Whether the device is declared, and speaks this unit where it says which."""
    if not context.known(path, device, ["devices"], "device: "):
        return
    section = context.config.devices.get(device)
    its_unit = (section.model_extra or {}).get("unit") if section is not None else None
    if unit is None or not isinstance(its_unit, str) or its_unit == unit:
        return
    if context.findings.attempt(("devices", device, "unit"), None, context.units.unit, its_unit) is None:
        return
    try:
        same = context.units.factor(its_unit, unit) == 1
    except ValueError:
        same = False
    if not same:
        context.findings.add(path, f'got "{device}", which speaks {its_unit}; must speak {unit} as used here')


def _wiring(context: Context, name: str, section: VariableSection) -> VariableWiring:
    path: Path = ("variables", name, "read_back_tolerance")
    units, findings = context.units, context.findings
    tolerance = READ_BACK_SHARE * _span(context, section)
    if section.read_back_tolerance is not None:
        given = section.read_back_tolerance
        tolerance = findings.attempt(path, 1.0, units.to, given, section.unit, f"in {section.unit}, like the variable")
    if tolerance < 0:
        findings.add(path, f"got {tolerance:g}, must not be negative")
    return VariableWiring(name, section.sensor or "", section.actuator, tolerance)


def _span(context: Context, section: VariableSection) -> float:
    low, high = _range(context, section)
    return high - low


def _range(context: Context, section: VariableSection) -> tuple[float, float]:
    """The range in the variable's unit; what does not hold was found when the problem was built."""
    try:
        low, high = (context.units.to(v, section.unit, "") for v in section.range)
    except ValueError:
        return 0.0, 1.0
    return low, high


# trial and money --------------------------------------------------------------------------------------------------


def _timing(context: Context, section: TrialSection | None, wired: bool) -> TrialTiming:
    if section is None:
        if wired:
            context.findings.add(("trial",), "is missing, must say how long to settle and how to measure")
        return BY_HAND

    def duration_s(path: Path, text: str) -> float:
        return context.findings.attempt(("trial", *path), 1.0, context.units.quantity, text, DURATION)

    steps = []
    for i, step in enumerate(section.prepare):
        context.known(("trial", "prepare", i, "actuator"), step.actuator, ["devices"], "device: ")
        value = _plain(context, ("trial", "prepare", i, "value"), step.value)
        steps.append(PrepareStep(step.actuator, value, duration_s(("prepare", i, "wait"), step.wait)))
    window_s = duration_s(("measure", "for"), section.measure.for_)
    every_s = duration_s(("measure", "every"), section.measure.every)
    if every_s <= 0:
        context.findings.add(("trial", "measure", "every"), f'got "{section.measure.every}", must be more than nothing')
    elif every_s > window_s:
        context.findings.add(
            ("trial", "measure", "every"),
            f'got "{section.measure.every}", must be at most the window, for: {section.measure.for_}',
        )
    elif section.measure.min_count > window_s / every_s + 1:
        context.findings.add(
            ("trial", "measure", "min_count"),
            f"got {section.measure.min_count}, but the window has room for {window_s / every_s:.0f} samples only",
        )
    measure = MeasureSpec(window_s, every_s, section.measure.statistic, section.measure.min_count)
    return TrialTiming(tuple(steps), duration_s(("settle",), section.settle), measure)


def _plain(context: Context, path: Path, value: float | str) -> float:
    """A number without a unit."""
    if isinstance(value, str):
        context.findings.add(path, f'got "{value}", must be a number')
        return 0.0
    return value


def _meters(context: Context) -> tuple[MeterSpec, ...]:
    meters = [_meter(context, i, section) for i, section in enumerate(context.config.meters)]
    for i, meter in enumerate(meters):
        if meter.name in [m.name for m in meters[:i]]:
            context.findings.add(("meters", i, "name"), f'got "{meter.name}" a second time, must differ')
    return tuple(meters)


def _meter(context: Context, index: int, section: MeterSection) -> MeterSpec:
    path: Path = ("meters", index)
    findings, units = context.findings, context.units
    price = findings.attempt((*path, "price"), Decimal(0), units.price, section.price, _PRICED[section.kind])
    counted = _COUNTED.get(section.kind)
    if counted is not None and section.device is None:
        findings.add((*path, "device"), f"is missing, must name the device that counts this {section.kind}")
    if counted is None and section.device is not None:
        findings.add((*path, "device"), f'got "{section.device}", but {section.kind} is read from no device')
    if section.device is not None:
        context.known((*path, "device"), section.device, ["devices"], "device: ")
    most = None
    if section.max_per_trial is not None and counted is not None:
        most = findings.attempt((*path, "max_per_trial"), None, units.quantity, section.max_per_trial, counted)
    elif section.max_per_trial is not None:
        findings.add((*path, "max_per_trial"), f"is only for energy and volume, not for {section.kind}")
    return MeterSpec(section.name or section.device or section.kind, section.kind, section.device, price, most)


# dosing and safety ------------------------------------------------------------------------------------------------


def _dosing(context: Context, pump: str, section: DosingSection) -> DosingSpec:
    path: Path = ("dosing", pump)
    findings, units = context.findings, context.units
    context.known(path, pump, ["devices"], "device: ")
    if section.treatment is not None:
        context.known((*path, "treatment"), section.treatment, ["devices"], "device: ")
    variable = next(((n, v) for n, v in context.config.variables.items() if v.actuator == pump), None)
    if variable is None:
        if context.findings.whole("variables"):
            findings.add(path, "no variable has this pump as its actuator")
        return DosingSpec(section.sensor, 1.0, 1.0, 1.0, 1)
    name, served = variable
    if context.known((*path, "sensor"), section.sensor, ["devices"], "device: ") and section.sensor != served.sensor:
        findings.add((*path, "sensor"), f'got "{section.sensor}", must be {served.sensor}, the sensor of {name}')
    unit = served.unit
    effect = findings.attempt((*path, "effect"), 1.0, units.to, section.effect, f"{unit}/mL", f"such as 0.05 {unit}/mL")
    tolerance = findings.attempt((*path, "tolerance"), 1.0, units.to, section.tolerance, unit, f"in {unit}")
    if effect == 0:
        findings.add((*path, "effect"), f'got "{section.effect}", must not be nothing')
    if tolerance <= 0:
        findings.add((*path, "tolerance"), f"got {tolerance:g}, must be > 0")
    mix_s = findings.attempt((*path, "mix"), 1.0, units.quantity, section.mix, DURATION)
    return DosingSpec(section.sensor, effect, tolerance, mix_s, section.max_doses, section.treatment)


def _limits(context: Context, wired: bool) -> Mapping[str, ActuatorLimits]:
    """Range, safe state and caps of every actuator."""
    config, findings = context.config, context.findings
    ranges = _actuator_ranges(context)
    all_known = all(findings.whole(section) for section in ("variables", "dosing", "trial"))
    for name in config.safety.safe_state:
        path: Path = ("safety", "safe_state", name)
        if context.known(path, name, ["devices"], "device: ") and name not in ranges and all_known:
            findings.add(path, "is no actuator of a variable, of dosing or of trial.prepare")
    for name in config.safety.limits:
        known = context.known(("safety", "limits", name), name, ["devices"], "device: ")
        if known and name not in context.declared["dosing"]:
            findings.add(("safety", "limits", name), "is no pump under dosing; caps are for pumps")
    limits = {}
    for name, (low, high, unit) in ranges.items():
        state = _safe_state(context, name, unit, wired)
        per_dose, per_day = _caps(context, name, config.safety.limits.get(name, LimitSection()))
        limits[name] = ActuatorLimits(low, high, state, per_dose, per_day)
    return limits


def _actuator_ranges(context: Context) -> dict[str, tuple[float, float, str | None]]:
    """(low, high, unit) per actuator; switches go from 0 to the largest value they are set to."""
    config = context.config
    ranges: dict[str, tuple[float, float, str | None]] = {}
    for step in config.trial.prepare if config.trial is not None else ():
        value = step.value if isinstance(step.value, float) else 0.0
        low, high, _ = ranges.get(step.actuator, (0.0, 1.0, None))
        ranges[step.actuator] = (min(low, value), max(high, value), None)
    for dosing in config.dosing.values():
        if dosing.treatment is not None:
            ranges.setdefault(dosing.treatment, (0.0, 1.0, None))
    for variable in config.variables.values():
        if variable.actuator is not None:
            ranges[variable.actuator] = (*_range(context, variable), variable.unit)
    return ranges


def _safe_state(context: Context, name: str, unit: str | None, wired: bool) -> Literal["off"] | float:
    path: Path = ("safety", "safe_state", name)
    given = context.config.safety.safe_state.get(name)
    if given is None:
        if wired:
            context.findings.add(path, "is missing, must say where this actuator goes on a fault, e.g. off")
        return "off"
    if given == "off":
        device = context.config.devices.get(name)
        parked = None if device is None else (device.model_extra or {}).get("safe_value")
        if parked is not None:
            context.findings.add(path, f"got off, but the device's safe_value is {parked}: give that value here")
        return "off"
    if name in context.declared["dosing"]:
        context.findings.add(path, f"got {given}, must be off: a pump has no other safe state")
        return "off"
    return context.findings.attempt(path, 0.0, context.units.to, given, unit or "1", f"off, or a value in {unit or 1}")


def _caps(context: Context, name: str, section: LimitSection) -> tuple[float | None, float | None]:
    path: Path = ("safety", "limits", name)
    is_pump = name in context.declared["dosing"]

    def cap_ml(key: str, text: str | None) -> float | None:
        if text is None:
            if is_pump:  # one wrong reading decides a dose: no pump goes without a cap
                context.findings.add((*path, key), 'is missing, must cap this pump, e.g. "20 mL"')
            return None
        return context.findings.attempt((*path, key), None, context.units.quantity, text, VOLUME)

    per_dose, per_day = cap_ml("per_dose", section.per_dose), cap_ml("per_day", section.per_day)
    if per_dose is not None and per_day is not None and per_dose > per_day:
        context.findings.add((*path, "per_dose"), f'got "{section.per_dose}", must be at most per_day')
    return per_dose, per_day
