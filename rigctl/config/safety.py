"""Second check, safety: what the guard lets through and when, and the interlocks and sensors that the watch reads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from rigctl.codec import fields_of
from rigctl.config.conditions import can_hold
from rigctl.config.findings import CheckContext
from rigctl.config.forecast import forecast
from rigctl.config.pumps import astray, unserved
from rigctl.config.reading import zone_of
from rigctl.config.schema import VariableSection
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, got
from rigctl.plugins import did_you_mean
from rigctl.rig.calendar import Hours, instant
from rigctl.rig.conditions import Condition, Not
from rigctl.rig.limits import SPANS, ActuatorLimits, LimitSpec
from rigctl.rig.spec import InterlockSpec, OutcomeSpec, RigSpec, SensorRules, WatchedSensor, WatchSpec
from rigctl.text import lasting

# civil time -----------------------------------------------------------------------------------------------------


def build_begins(context: CheckContext) -> float | None:
    """Return when a simulated campaign begins, seconds since 1970; and look at the zone, whoever needs it."""
    zone_of(context)
    clock, path = context.config.clock, ("clock", "begins")
    if clock.begins is None:
        return None
    if clock.speedup == 1:
        context.add(path, got(clock.begins, "", "needs a speedup, or leave it out", lead=", is for simulated rigs"))
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
            must = f"must be open for as long as a trial is expected to take, {lasting(rig.expected_s)}"
            context.add(path, got(hours.text, must))
    return rig


# limits of actuators ----------------------------------------------------------------------------------------------


WATCHED_EVERY_S: Final = 2.0
"""Between readings of a sensor that an interlock needs, wall seconds: the slowest probe in use takes 0.9 s."""


def build_limits(context: CheckContext, wired: bool) -> Mapping[str, ActuatorLimits]:
    config, findings = context.config, context.findings
    ranges = _actuator_ranges(context)
    all_known = all(findings.whole(section) for section in ("variables", "dosing", "trial")) and not unserved(context)
    for key in ("safe_state", "limits"):
        for name in getattr(config.safety, key):
            path: KeyPath = ("safety", key, name)
            if name not in ranges and all_known and not findings.told(path):
                what = "must be an actuator of a variable, of dosing or of trial.prepare"
                near = did_you_mean(name, sorted(ranges)) if key == "limits" else ""
                findings.add(path, Flaw("", what, f"remove it; {near}" if near else f"remove it, or name {name} there"))
    limits = {}
    for name, (low, high, unit) in ranges.items():
        state = _safe_state(context, name, wired)
        section = config.safety.limits.get(name, LimitSpec())
        _check_limits(context, name, section, moves=name not in context.pumps and unit is not None)
        limits[name] = ActuatorLimits(**fields_of(section), low=low, high=high, safe_state=state)
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
            ranges |= dict.fromkeys(actuators, (*variable.range, variable.unit))
    for pump in context.pumps - set(config.dosing) - wrong:
        ranges.setdefault(pump, (0.0, 1.0, None))
    return ranges


def _safe_state(context: CheckContext, name: str, wired: bool) -> Literal["off"] | float:
    path: KeyPath = ("safety", "safe_state", name)
    given = context.config.safety.safe_state.get(name)
    if given is None:
        # a pump has no other safe state; what is no device is told of where it is named
        if wired and name not in context.pumps and name in context.declared["devices"]:
            context.add(path, Flaw("is missing", f"must say where {name} goes on a fault", f"write {name}: off"))
        return "off"
    device = context.config.devices.get(name)
    parked = None if device is None else (device.model_extra or {}).get("safe_value")
    if given == "off" and parked is not None and not context.findings.told(path):
        context.add(path, got("off", f"must be the device's safe_value, {parked}"))
    return given


def _check_limits(context: CheckContext, name: str, section: LimitSpec, *, moves: bool) -> None:
    """Find caps of what is no pump, pumps without one, and ways of a setpoint that does not move."""
    path, is_pump = ("safety", "limits", name), name in context.pumps
    given = {"max_step": section.max_step, "max_rate": section.max_rate_per_s}
    for key in given if not moves else ():
        if given[key] is not None:
            what = "a pump doses" if is_pump else "a switch is on or off"
            context.add((*path, key), Flaw("", f"must be left out: {what}, it has no setpoint that moves"))
    for key in ("per_dose", *(span.key for span in SPANS)):
        most_ml = getattr(section, f"{key}_ml")
        if not is_pump and most_ml is not None:
            near = did_you_mean(name, sorted(context.pumps))
            context.add((*path, key), Flaw("", "must be left out, for caps are for pumps", near))
        # one wrong reading decides a dose: no pump goes without a cap
        needed = key in ("per_dose", "per_day") and is_pump and name not in astray(context)
        if needed and most_ml is None and not context.findings.told((*path, key)):
            context.add((*path, key), Flaw("is missing", f'must cap what {name} may give, e.g. "20 mL"'))


def build_watch(context: CheckContext) -> WatchSpec:
    """Return the watch; only to be used if nothing was found."""
    section = context.config.safety.watch
    interlocks = _interlocks(context)
    needed = frozenset[str]().union(*(i.when.names for i in interlocks if i.when is not None))
    measured = {name: _rules(context, at, s, name in needed) for at, name, s in context.measured}
    return WatchSpec(
        **fields_of(section),
        interlocks=interlocks,
        sensors=tuple(
            WatchedSensor(n, SensorRules(watch_every_s=WATCHED_EVERY_S)) for n in sorted(needed - measured.keys())
        ),
        rules=measured,
    )


# interlocks -------------------------------------------------------------------------------------------------------


def _interlocks(context: CheckContext) -> tuple[InterlockSpec, ...]:
    found = tuple(context.config.safety.interlocks)
    for i, interlock in enumerate(found):
        path: KeyPath = ("safety", "interlocks", i)
        if interlock.name in [other.name for other in found[:i]]:
            context.add((*path, "name"), got(interlock.name, "must differ", lead=" a second time"))
        if interlock.when is None:
            continue  # it does not hold, which is told
        if not can_hold(interlock.when):
            given = context.findings.given((*path, "when"))
            context.add((*path, "when"), got(given, "must be true of some readings", lead=", which can never hold"))
        else:
            _always(context, (*path, "when"), interlock.when)
        if interlock.until is not None:
            _ends(context, (*path, "until"), interlock.when, interlock.until)
    return found


def _always(context: CheckContext, path: KeyPath, when: Condition) -> None:
    """Find an interlock that holds whatever is read: of all that can be true, or of all that trials do on purpose."""
    if any(context.findings.told_below((section,)) for section in ("variables", "outcome", "further_outcomes")):
        return
    plausible: dict[str, tuple[float, float]] = {}
    usual: dict[str, tuple[float, float]] = {}
    for _, name, section in context.measured:
        for reading in filter(None, (name, section.sensor)):
            if section.plausible is not None:
                plausible[reading] = section.plausible
            if isinstance(section, VariableSection):
                ends = (*section.range, *(section.natural_range or ()))
                usual[reading] = (min(ends), max(ends))
    given, remedy = context.findings.given(path), "is the sign the wrong way round?"
    if not can_hold(Not(when), within=plausible):
        lead = ", which is true of every plausible reading"
        context.add(path, got(given, "must be false of some", remedy, lead=lead))
    elif not can_hold(Not(when), within=plausible | usual):
        lead = ", which is true at every setpoint and every natural value"
        context.findings.warn(path, got(given, "", remedy, lead=lead))


def _ends(context: CheckContext, path: KeyPath, when: Condition, until: Condition) -> None:
    strangers = until.names - when.names
    if strangers:
        allowed, lead = ", ".join(sorted(when.names)), f", which speaks of {', '.join(sorted(strangers))}"
        context.add(path, got(str(until), f"must speak of what `when` does: {allowed}", lead=lead))
    elif not can_hold(until):
        must = "must be true of some readings, or the interlock never clears"
        context.add(path, got(str(until), must, lead=", which can never hold"))
    elif can_hold(when, until):
        context.findings.warn(path, f'"{until}" can hold while "{when}" still does: the interlock would flutter')


# sensors ----------------------------------------------------------------------------------------------------------


def _rules(context: CheckContext, path: KeyPath, section: VariableSection | OutcomeSpec, needed: bool) -> SensorRules:
    findings, stale_after_s = context.findings, section.stale_after_s
    every_s = section.watch_every_s or (WATCHED_EVERY_S if needed else None)
    if stale_after_s is not None:
        stale: KeyPath = (*path, "stale_after")
        if every_s is None and not findings.told((*path, "watch_every")):
            lead = "needs watch_every, for the watch takes no reading that no interlock speaks of"
            findings.add(stale, Flaw(lead, remedy="give it"))
        elif every_s is not None and stale_after_s <= every_s:
            flaw = got(findings.given(stale), f"must be more than the {every_s:g} s between two readings of the watch")
            findings.add(stale, flaw)
    # what is played again, or moved by nobody, may well read the same; an outcome and a dosed liquid do not
    moves = isinstance(section, OutcomeSpec) or any(a in context.declared["dosing"] for a in section.actuators)
    frozen_after = section.frozen_after or (None if moves else (None, None))
    return SensorRules(section.max_rate_per_s, frozen_after, stale_after_s, every_s)
