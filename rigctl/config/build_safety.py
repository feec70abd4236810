"""Second check, safety: dosing, safe states, caps -> what the guard lets through."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.schema import DosingSection, LimitSection, VariableSection
from rigctl.config.units import DURATION, VOLUME
from rigctl.rig.spec import ActuatorLimits, DosingSpec


def build_dosing(context: Context, pump: str, section: DosingSection) -> DosingSpec:
    """How a pump brings its variable to a setpoint."""
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


def build_limits(context: Context, wired: bool) -> Mapping[str, ActuatorLimits]:
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
            ranges[variable.actuator] = (*range_of(context, variable), variable.unit)
    return ranges


def _safe_state(context: Context, name: str, unit: str | None, wired: bool) -> Literal["off"] | float:
    path: Path = ("safety", "safe_state", name)
    given = context.config.safety.safe_state.get(name)
    if given is None:
        if wired and name not in context.declared["dosing"]:  # a pump has no other safe state
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


def build_safe_within(context: Context) -> float | None:
    """Wall seconds within which everything must be told to go safe; None: not required."""
    path, given = ("safety", "safe_within"), context.config.safety.safe_within
    if given is None:
        return None
    seconds = context.findings.attempt(path, None, context.units.quantity, given, DURATION)
    if seconds == 0:
        context.findings.add(path, f'got "{given}", must be more than nothing')
    return seconds


def range_of(context: Context, section: VariableSection) -> tuple[float, float]:
    """The range in the variable's unit; what does not hold was found when the problem was built."""
    try:
        low, high = (context.units.to(v, section.unit, "") for v in section.range)
    except ValueError:
        return 0.0, 1.0
    return low, high
