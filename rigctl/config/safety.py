"""Second check, safety: what the guard lets through and when, and the interlocks and sensors that the watch reads."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, Literal
from zoneinfo import ZoneInfo

from rigctl.config.conditions import ToldElsewhere, UnitOf, can_hold, parse
from rigctl.config.findings import CheckContext, unknown
from rigctl.config.forecast import forecast
from rigctl.config.pumps import astray, unserved
from rigctl.config.schema import InterlockSection, LimitSection, OutcomeSection, VariableSection
from rigctl.config.wording import shown
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath, PluginError
from rigctl.kinds import DURATION, Kind
from rigctl.plugins import did_you_mean
from rigctl.rig.calendar import Hours, Rate, Tariff, gaps, hours_of_week, instant
from rigctl.rig.conditions import Condition
from rigctl.rig.protocols import Device, Line, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.slewing import Slew
from rigctl.rig.spec import ActuatorLimits, DeviceSpec, InterlockSpec, RigSpec, SensorRules, WatchedSensor, WatchSpec
from rigctl.rig.testing import ManualClock
from rigctl.text import lasting

# civil time: zone, hours and tariffs ------------------------------------------------------------------------------


def zone_of(context: CheckContext, *, needed: bool = False) -> str | None:
    """Return the zone if it is one; None (and a finding, where it is given or needed) if not."""
    given, findings = context.config.zone, context.findings
    if findings.told(("zone",)):
        return None
    if given is None:
        if needed:
            must = "must say where the rig stands, such as Europe/Berlin: hours of the day are those of its clocks"
            findings.add(("zone",), f"is missing, {must}")
        return None
    try:
        ZoneInfo(given)
    except (ValueError, OSError, KeyError):
        from zoneinfo import available_timezones  # noqa: PLC0415  # reads hundreds of files

        near = did_you_mean(given, sorted(available_timezones()))
        context.findings.add(("zone",), f'got "{given}", must be a time zone such as Europe/Berlin{near}')
        return None
    return given


def build_hours(context: CheckContext, path: KeyPath, texts: Sequence[str] | None) -> Hours | None:
    """Return the hours that a key allows; None where it is not given or does not hold."""
    if texts is None:
        return None
    findings = context.findings
    zone, daily = zone_of(context, needed=True), []
    for i, text in enumerate(texts):
        at = path if len(texts) == 1 else (*path, i)
        found = findings.attempt(at, None, hours_of_week, text)
        daily += [] if found is None else [found]
    return None if zone is None or not daily else Hours(zone, tuple(daily), ", ".join(texts))


def build_tariff(
    context: CheckContext, path: KeyPath, prices: Sequence[Mapping[str, Any]], kind: Kind
) -> Tariff | None:
    """Return prices by time of use; None (and a finding) where an hour has none, or two."""
    findings, before = context.findings, context.findings.count
    rates = tuple(_rate(context, (*path, i), given, kind) for i, given in enumerate(prices))
    zone = zone_of(context, needed=True)
    if zone is None or findings.count > before:
        return None
    if [rate for rate in rates if not rate.during][1:]:
        findings.add(path, "must have one price without `during` at most: it holds at all other hours")
        return None
    none, two = gaps(rates)
    if none or two:
        what = f"has no price on {none}; add one without `during`" if none else f"has two prices on {two}"
        findings.add(path, f"{what}; every hour must have one")
        return None
    return Tariff(zone, rates)


def _rate(context: CheckContext, path: KeyPath, given: Mapping[str, Any], kind: Kind) -> Rate:
    price = context.findings.attempt((*path, "price"), Decimal(0), context.units.price, given["price"], kind)
    during = given.get("during")
    hours = build_hours(context, (*path, "during"), during)
    name = given.get("name") or (", ".join(during) if during else "otherwise")
    return Rate(str(name), price, () if hours is None else hours.daily)


def build_begins(context: CheckContext) -> float | None:
    """Return when a simulated campaign begins, seconds since 1970; and look at the zone, whoever needs it."""
    zone_of(context)
    clock, path = context.config.clock, ("clock", "begins")
    if clock.begins is None:
        return None
    if clock.speedup == 1:
        context.findings.add(path, f'got "{clock.begins}", is for simulated rigs; needs a speedup, or leave it out')
    return context.findings.attempt(path, None, instant, clock.begins)


def with_windows(context: CheckContext, rig: RigSpec, problem: Problem | None) -> RigSpec:
    """Return the rig with how long a trial is expected to take, if hours matter; check that it fits into each."""
    if problem is None or not rig.calendar or context.findings:
        return rig
    rig = replace(rig, expected_s=forecast(rig, problem).likely_s)
    windows: list[tuple[KeyPath, Hours | None]] = [(("allowed",), rig.allowed)]
    windows += [(("safety", "limits", name, "allowed"), limits.allowed) for name, limits in rig.limits.items()]
    for path, hours in windows:
        if hours is not None and hours.opens_s(0.0, rig.expected_s) == math.inf:
            what = f"must be open for as long as a trial is expected to take, {lasting(rig.expected_s)}"
            context.findings.add(path, f'got "{hours.text}", {what}')
    return rig


# limits of actuators ----------------------------------------------------------------------------------------------


WATCHED_EVERY_S: Final = 2.0
"""Between readings of a sensor that an interlock needs, wall seconds: the slowest probe in use takes 0.9 s."""
_RATE: Final = re.compile(r"(.*[^/\s])\s*/\s*([A-Za-z]+)\s*")
_TRIALS: Final = re.compile(r"\s*(\d{1,4})\s*trials?\s*")


def build_limits(context: CheckContext, wired: bool) -> Mapping[str, ActuatorLimits]:
    config, findings = context.config, context.findings
    ranges = _actuator_ranges(context)
    all_known = all(findings.whole(section) for section in ("variables", "dosing", "trial")) and not unserved(context)
    for name in config.safety.safe_state:
        path: KeyPath = ("safety", "safe_state", name)
        if context.known(path, name, ["devices"], "device: ") and name not in ranges and all_known:
            what = "must be an actuator of a variable, of dosing or of trial.prepare"
            findings.add(path, f"{what}; remove it, or name {name} there")
    for name in config.safety.limits:
        known = context.known(("safety", "limits", name), name, ["devices"], "device: ")
        if known and name not in ranges and all_known:
            near = did_you_mean(name, sorted(ranges))
            what = f"must be an actuator of a variable, of dosing or of trial.prepare; remove it{near}"
            findings.add(("safety", "limits", name), what)
    limits = {}
    for name, (low, high, unit) in ranges.items():
        state = _safe_state(context, name, unit, wired)
        section = config.safety.limits.get(name, LimitSection())
        _check_caps(context, name, section)
        allowed = build_hours(context, ("safety", "limits", name, "allowed"), section.allowed)
        slew = _slew(context, name, section, unit)
        limits[name] = ActuatorLimits(low, high, state, section.per_dose_ml, section.per_day_ml, allowed, slew)
    return limits


def _actuator_ranges(context: CheckContext) -> dict[str, tuple[float, float, str | None]]:
    """Return (low, high, unit) per actuator; switches go from 0 to the largest value they are set to."""
    config, findings = context.config, context.findings
    ranges: dict[str, tuple[float, float, str | None]] = {}
    wrong = astray(context)
    for step in config.trial.prepare if config.trial is not None else ():
        value = step.value if isinstance(step.value, float) else 0.0
        low, high, _ = ranges.get(step.actuator, (0.0, 1.0, None))
        ranges[step.actuator] = (min(low, value), max(high, value), None)
    for dosing in config.dosing.values():
        if dosing.treatment is not None:
            ranges.setdefault(dosing.treatment, (0.0, 1.0, None))
    for name, variable in config.variables.items():
        if not findings.told(("variables", name, "actuator")):
            actuators = [a for a in variable.actuators if a not in wrong]
            ranges |= dict.fromkeys(actuators, (*range_of(context, variable), variable.unit))
    for pump in context.pumps - set(config.dosing) - wrong:
        ranges.setdefault(pump, (0.0, 1.0, None))
    return ranges


def _safe_state(context: CheckContext, name: str, unit: str | None, wired: bool) -> Literal["off"] | float:
    path: KeyPath = ("safety", "safe_state", name)
    given = context.config.safety.safe_state.get(name)
    if given is None:
        # a pump has no other safe state; what is no device is told of where it is named
        if wired and name not in context.pumps and name in context.declared["devices"]:
            context.findings.add(path, f"is missing, must say where {name} goes on a fault; write {name}: off")
        return "off"
    if given == "off":
        device = context.config.devices.get(name)
        parked = None if device is None else (device.model_extra or {}).get("safe_value")
        if parked is not None:
            context.findings.add(path, f"got off, but the device's safe_value is {parked}: give that value here")
        return "off"
    if name in context.pumps:
        what = f"got {shown(given)}, must be off: a pump has no other safe state"
        context.findings.add(path, what)
        return "off"
    return context.findings.attempt(path, 0.0, context.units.to, given, unit or "1", f"off, or a value in {unit or 1}")


def _check_caps(context: CheckContext, name: str, section: LimitSection) -> None:
    path: KeyPath = ("safety", "limits", name)
    is_pump = name in context.pumps - astray(context)
    if name not in context.pumps:
        _no_pump(context, path, section)

    for key, most_ml in (("per_dose", section.per_dose_ml), ("per_day", section.per_day_ml)):
        if most_ml is None and is_pump:  # one wrong reading decides a dose: no pump goes without a cap
            context.findings.add((*path, key), f'is missing, must cap what {name} may give, e.g. "20 mL"')


def _slew(context: CheckContext, name: str, section: LimitSection, unit: str | None) -> Slew | None:
    """Return how an actuator's setpoint may move; pumps and switches have none that moves."""
    path, findings = ("safety", "limits", name), context.findings
    given = {k: v for k in ("max_step", "max_rate") if (v := getattr(section, k)) is not None}
    if name in context.pumps or unit is None:
        what = "a pump doses" if name in context.pumps else "a switch is on or off"
        for key in given:
            findings.add((*path, key), f"must be left out: {what}, it has no setpoint that moves")
        return None
    step = rate = math.inf
    if section.max_step is not None:
        step = findings.attempt((*path, "max_step"), 1.0, context.units.span, section.max_step, unit, f"in {unit}")
        if not step > 0:
            findings.add((*path, "max_step"), f"got {step:g}, must be > 0")
    if section.max_rate is not None:
        rate = findings.attempt((*path, "max_rate"), 1.0, _rate_per_s, context, section.max_rate, unit)
    return Slew(step, rate) if given else None


def _no_pump(context: CheckContext, path: KeyPath, section: LimitSection) -> None:
    """Find caps of what is no pump."""
    for key in ("per_dose", "per_hour", "per_day", "per_trial", "per_campaign"):
        if getattr(section, f"{key}_ml") is not None:
            near = did_you_mean(path[-1], sorted(context.pumps)) if isinstance(path[-1], str) else ""
            context.findings.add((*path, key), f"must be left out, for caps are for pumps{near}")


def range_of(context: CheckContext, section: VariableSection) -> tuple[float, float]:
    """Return the range in the variable's unit; what does not hold was found when the problem was built."""
    try:
        low, high = (context.units.to(v, section.unit, "") for v in section.range)
    except ValueError:
        return 0.0, 1.0
    return low, high


def natural_range_of(context: CheckContext, section: VariableSection) -> tuple[float, float]:
    """Return where it may be when left alone, in the variable's unit; as `range_of`."""
    if section.natural_range is None:
        return range_of(context, section)
    return range_of(context, section.model_copy(update={"range": section.natural_range}))


def built(device: DeviceSpec, registry: Registry) -> tuple[Line, Device] | None:
    """Make a device and its line, both closed; None where URL or driver does not hold, which is told elsewhere."""
    try:
        line = registry.open_line(device.url, ManualClock())
        driver = registry.driver(device.driver)
        talks = device.url.partition("://")[0] in driver.schemes
        return (line, driver.connect(device.name, device.options, line)) if talks else None
    except (PluginError, ValueError):
        return None


def _unit_of(context: CheckContext, devices: Mapping[str, DeviceSpec | None], registry: Registry) -> UnitOf:
    """Return what knows the units a condition may speak in: of variables, outcomes, and devices that are sensors."""
    units = {name: section.unit for _, name, section in context.measured}
    said = {section.name for _, section in context.outcomes if section.by == "hand"}

    def made(name: str) -> Device | None:
        device = devices[name]
        both = None if device is None else built(device, registry)
        return None if both is None else both[1]

    def unit_of(name: str) -> str:
        if name in said:
            raise ValueError(f'got "{name}", which a person says; must be something that a sensor reads')
        if name in units:
            return units[name]
        if name in context.declared["variables"] or any(context.findings.muted((s,)) for s in ("variables", "outcome")):
            raise ToldElsewhere
        if name not in devices:
            known = sorted({*units, *(n for n in devices if isinstance(made(n), Sensor))})
            raise ValueError(unknown(name, known, "a variable, an outcome or a sensor: "))
        device = made(name)
        if device is None:
            raise ToldElsewhere
        if not isinstance(device, Sensor):
            got = f'got "{name}", which is no sensor'
            raise ValueError(f"{got}; must be a variable, an outcome or a sensor")  # noqa: TRY004 - of the file
        return device.unit

    return unit_of


def build_watch(context: CheckContext, devices: Mapping[str, DeviceSpec | None], registry: Registry) -> WatchSpec:
    """Return the watch; only to be used if nothing was found."""
    section = context.config.safety.watch
    interlocks = _interlocks(context, _unit_of(context, devices, registry))
    needed = frozenset[str]().union(*(i.when.names for i in interlocks))
    measured = {name: _rules(context, at, s, name in needed) for at, name, s in context.measured}
    return WatchSpec(
        section.every_s,
        section.clear_for_s,
        interlocks,
        tuple(WatchedSensor(n, SensorRules(WATCHED_EVERY_S)) for n in sorted(needed - measured.keys())),
        measured,
    )


# interlocks -------------------------------------------------------------------------------------------------------


def _interlocks(context: CheckContext, unit_of: UnitOf) -> tuple[InterlockSpec, ...]:
    sections = context.config.safety.interlocks
    for i, section in enumerate(sections):
        if section.name in [s.name for s in sections[:i]]:
            path: KeyPath = ("safety", "interlocks", i, "name")
            context.findings.add(path, f'got "{section.name}" a second time, must differ')
    made = (_interlock(context, unit_of, ("safety", "interlocks", i), s) for i, s in enumerate(sections))
    return tuple(interlock for interlock in made if interlock is not None)


def _interlock(
    context: CheckContext, unit_of: UnitOf, path: KeyPath, section: InterlockSection
) -> InterlockSpec | None:
    findings = context.findings

    def condition(key: str, text: str | None) -> Condition | None:
        try:
            return None if text is None else findings.attempt((*path, key), None, parse, text, unit_of, context.units)
        except ToldElsewhere:
            return None

    when, until = condition("when", section.when), condition("until", section.until)
    if when is None:
        return None
    if not can_hold(when):
        findings.add((*path, "when"), f'got "{section.when}", which can never hold; must be true of some readings')
    if until is not None:
        _ends(context, (*path, "until"), when, until)
    return InterlockSpec(section.name, when, section.then, section.for_, until)


def _ends(context: CheckContext, path: KeyPath, when: Condition, until: Condition) -> None:
    strangers = until.names - when.names
    if strangers:
        got, allowed = ", ".join(sorted(strangers)), ", ".join(sorted(when.names))
        context.findings.add(path, f'got "{until}", which speaks of {got}; must speak of what `when` does: {allowed}')
    elif not can_hold(until):
        what = "which can never hold; must be true of some readings, or the interlock never clears"
        context.findings.add(path, f'got "{until}", {what}')
    elif can_hold(when, until):
        context.findings.warn(path, f'"{until}" can hold while "{when}" still does: the interlock would flutter')


# sensors ----------------------------------------------------------------------------------------------------------


def _rules(
    context: CheckContext, path: KeyPath, section: VariableSection | OutcomeSection, needed: bool
) -> SensorRules:
    findings, stale_after_s = context.findings, section.stale_after
    every_s = section.watch_every or (WATCHED_EVERY_S if needed else None)
    if stale_after_s is not None:
        stale: KeyPath = (*path, "stale_after")
        if every_s is None:
            findings.add(
                stale, "needs watch_every, for the watch takes no reading that no interlock speaks of; give it"
            )
        elif stale_after_s <= every_s:
            what = f"must be more than the {every_s:g} s between two readings of the watch"
            findings.add(stale, f'got "{findings.given(stale)}", {what}')
    # what is played again, or moved by nobody, may well read the same; an outcome and a dosed liquid do not
    moves = isinstance(section, OutcomeSection) or any(a in context.declared["dosing"] for a in section.actuators)
    frozen: tuple[float | None, int | None] = (None, SensorRules().frozen_after_trials if moves else None)
    if section.frozen_after is not None:
        frozen = findings.attempt((*path, "frozen_after"), frozen, _frozen, context, section.frozen_after)
    most = None
    if section.max_rate is not None:
        most = findings.attempt((*path, "max_rate"), None, _rate_per_s, context, section.max_rate, section.unit)
    return SensorRules(every_s, stale_after_s, *frozen, most)


def _frozen(context: CheckContext, text: str) -> tuple[float | None, int | None]:
    """Return (rig seconds, trials); None: not by this."""
    if text == "off":
        return None, None
    trials = _TRIALS.fullmatch(text)
    if trials is not None:
        if int(trials[1]) < 2:
            raise ValueError(f'got "{text}", must be at least "2 trials": one reading is like no other')
        return None, int(trials[1])
    try:
        seconds = context.units.quantity(text, DURATION)
    except ValueError as error:
        raise ValueError(f'got "{text}", must be a duration such as "30 min", a number of trials, or off') from error
    if seconds == 0:
        raise ValueError(f'got "{text}", must be more than nothing, or off')
    return seconds, None


def _rate_per_s(context: CheckContext, text: str, unit: str) -> float:
    """Return units of the reading per rig second."""
    what = f'a change of {unit} per time such as "0.5 {unit}/min"'
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(f'got "{text}", must be {what}')
    try:
        amount = context.units.span(found[1], unit, what)
        seconds = context.units.factor(found[2], "s")
    except ValueError as error:
        raise ValueError(f'got "{text}", must be {what}') from error
    if not amount / seconds > 0:
        raise ValueError(f'got "{text}", must be more than nothing')
    return amount / seconds
