"""Second check, the hardware: instruments, wiring, trial, meters, outcomes that come later -> the rig's `RigSpec`."""

from __future__ import annotations

from typing import Final

from rigctl.config.devices import check_device
from rigctl.config.findings import CheckContext
from rigctl.config.pumps import build_care, build_volumes, check_dosing, check_pair, check_tanks
from rigctl.config.safety import build_begins, build_limits, build_watch
from rigctl.config.schema import VariableSection
from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, got
from rigctl.rig.spec import FollowSpec, MeasureSpec, MeterSpec, OutcomeSpec, RigSpec, TrialTiming, VariableWiring
from rigctl.text import in_full, shown_unit

READ_BACK_SHARE: Final = 0.01
"""Of the range: how far a setpoint read back may be off where nothing is declared."""
FOLLOWS_TOLERANCES, FOLLOWS_SHARE = 3, 0.1
"""A controlled variable may be so many tolerances of its actuator from its setpoint, and at most such a share of its
range, where nothing is declared."""
BY_HAND: Final = TrialTiming(0.0, MeasureSpec(0.0, 1.0))
"""Timing of a trial that a person does."""


def build_rig(context: CheckContext) -> RigSpec:
    """Return the rig; only to be used if nothing was found."""
    config = context.config
    wired = bool(context.declared["devices"])
    _references(context, wired)
    for pump, section in config.dosing.items():
        check_dosing(context, pump, section)
    variables = tuple(_wiring(context, n, v) for n, v in config.variables.items())
    volumes = build_volumes(context)
    for name, variable in config.variables.items():
        if len(variable.actuators) > 1:
            check_pair(context, name, variable)
    check_tanks(context)
    if wired:  # who does the trials by hand tells each with its outcomes
        _check_late(context)
    return RigSpec(
        name=config.rig,
        devices={n: d for n, d in context.devices.items() if d is not None},
        variables=variables,
        outcomes=(config.outcome, *config.further_outcomes),
        timing=_timing(context, config.trial, wired),
        meters=_meters(context),
        limits=build_limits(context, wired),
        dosing=config.dosing,
        volumes=volumes,
        care=build_care(context),
        plausible=_plausible(context),
        speedup=config.clock.speedup,
        watch=build_watch(context),
        safe_within_s=config.safety.safe_within,
        unanswered_doses=config.safety.unanswered_doses,
        tanks=config.safety.tanks,
        starts=config.safety.starts,
        allowed=config.allowed,
        begins_s=build_begins(context),
    )


# instruments and what they serve --------------------------------------------------------------------------------------


def _references(context: CheckContext, wired: bool) -> None:
    """Check that each instrument named is declared, and reads or takes the unit it is used with."""
    for path, name, section in context.measured:
        if section.sensor is not None:
            _serves(context, (*path, "sensor"), section.sensor, section.unit)
        elif wired and not (isinstance(section, OutcomeSpec) and section.by == "hand"):
            context.add((*path, "sensor"), Flaw("is missing", f"must name the device that measures {name}"))
    served: dict[str, str] = {}
    for name, variable in context.config.variables.items():
        path = ("variables", name, "doses", "pump") if variable.doses is not None else ("variables", name, "actuator")
        pair = len(variable.actuators) > 1
        for actuator in dict.fromkeys(variable.actuators):
            if variable.doses is None and (actuator in context.declared["devices"] or not pair):
                check_device(context, path, actuator, "device" if actuator in context.pumps else "actuator")
            if pair and actuator not in context.declared["dosing"]:
                continue  # told where the pair is looked at
            # a pump takes volumes; what it brings about is in the unit of the sensor that judges its doses
            _serves(context, path, actuator, None if actuator in context.pumps else variable.unit)
            if actuator in served:
                flaw = got(actuator, "must be a device of its own", lead=f", which serves {served[actuator]} already")
                context.add(path, flaw)
            served.setdefault(actuator, name)


def build_plausible(context: CheckContext) -> dict[str, tuple[float, float]]:
    """Return what each variable and outcome may be, by name, whoever says it."""
    return {name: section.plausible for _, name, section in context.measured if section.plausible is not None}


def _plausible(context: CheckContext) -> dict[str, tuple[float, float]]:
    """Return what each sensor may read; a variable's must hold its whole range, or its setpoints would be INVALID."""
    plausible: dict[str, tuple[float, float]] = {}
    for path, _, section in context.measured:
        bounds = section.plausible
        if bounds is None:
            continue
        if section.sensor is not None:
            plausible[section.sensor] = bounds
        for key in ("range", "natural_range") if isinstance(section, VariableSection) else ():
            held = getattr(section, key) or bounds
            told = any(context.findings.told_below((*path, k)) for k in ("unit", "plausible", key))
            if not told and not bounds[0] <= held[0] <= held[1] <= bounds[1]:
                must = f"must hold the {key} [{in_full(held[0])}, {in_full(held[1])}]"
                context.add((*path, "plausible"), Flaw("", must, got=f"[{in_full(bounds[0])}, {in_full(bounds[1])}]"))
                break
    return plausible


def _serves(context: CheckContext, path: KeyPath, device: str, unit: str | None) -> None:
    """Find a device that speaks another unit than it is used with: as its section says, or, to be run, its driver."""
    findings, section = context.findings, context.config.devices.get(device)
    if unit is None or findings.told(path) or findings.told((*path[:-1], "unit")):
        return
    given = None if section is None else (section.model_extra or {}).get("unit")
    spoken = getattr(context.made.get(device), "unit", given) if context.to_run else given
    if not isinstance(spoken, str) or spoken in ("", unit):
        return
    if findings.attempt(("devices", device, "unit"), None, context.units.unit, spoken) is None:
        return
    if not context.units.same(spoken, unit):
        other = "make the instrument speak" if given is None else f"give {device} unit:"
        remedy = f"{other} {unit}, or write here in {spoken}"
        findings.add(path, got(device, f"must speak {unit} as used here", remedy, lead=f", which speaks {spoken}"))


def _wiring(context: CheckContext, name: str, section: VariableSection) -> VariableWiring:
    low, high = section.range
    wide = section.step if section.levels and section.step else high - low  # one level is no other
    tolerance = READ_BACK_SHARE * wide if section.read_back_tolerance is None else section.read_back_tolerance
    if tolerance < 0:
        context.add(("variables", name, "read_back_tolerance"), got(tolerance, "must not be negative"))
    dosing = context.config.dosing
    allowed = max([tolerance, *(dosing[n].tolerance for n in section.actuators if n in dosing)])
    follows = _follows(context, name, section, FOLLOWS_TOLERANCES * allowed, FOLLOWS_SHARE * wide)
    first, second = [*section.actuators, None, None][:2]
    return VariableWiring(name, section.sensor or "", first, tolerance, second, follows)


def _follows(
    context: CheckContext, name: str, section: VariableSection, least: float, most: float
) -> FollowSpec | None:
    """Return how far a variable may be from its setpoint: as declared, else between these."""
    path, given = ("variables", name, "follows"), section.follows
    if given is not None:
        least = most = given
        if not section.actuators and not context.findings.told(path):
            context.add(path, Flaw("", f"must be left out: no actuator could bring {name} to a setpoint"))
    if not section.actuators or section.doses is not None or (given is None and section.sensor in section.actuators):
        return None
    return FollowSpec(max(least, most), least, shown_unit(section.unit))


# trial and money --------------------------------------------------------------------------------------------------


def _timing(context: CheckContext, section: TrialTiming | None, wired: bool) -> TrialTiming:
    if section is None:
        if wired:
            context.add(("trial",), Flaw("is missing", "must say how long to settle and how to measure"))
        return BY_HAND
    if section.look is not None and all(v.doses is not None for v in context.config.variables.values()):
        lead = "no variable has a sensor that could be read before a trial"
        context.add(("trial", "look"), Flaw(lead, remedy="leave it out"))
    return section


def _meters(context: CheckContext) -> tuple[MeterSpec, ...]:
    names = [meter.name for meter in context.config.meters]
    for i, name in enumerate(names):
        if name in names[:i]:
            context.add(("meters", i, "name"), got(name, "must differ", lead=" a second time"))
    return tuple(context.config.meters)


# outcomes that come later -----------------------------------------------------------------------------------------


_OF_LATE: Final = ("within", "then", "pending", "at_end")


def _check_late(context: CheckContext) -> None:
    """Find what is said of outcomes that come later where none does, or is said of the wrong one."""
    first, findings = context.config.outcome, context.findings
    for i, section in enumerate(context.config.further_outcomes):
        path: KeyPath = ("further_outcomes", i)
        for key in ("after", *_OF_LATE):
            if findings.given((*path, key)) is not None:
                lead = "is said of `outcome`, for all outcomes of a trial are awaited together"
                findings.add((*path, key), Flaw(lead, remedy="move it there"))
        if section.by == "hand" and first.by != "hand":
            must = "must be sensor unless `outcome` is by hand, too: the trial waits for all of them"
            findings.add((*path, "by"), got("hand", must))
    if first.by == "hand" and first.after_s is not None:
        flaw = Flaw("is for an outcome that a sensor reads", remedy="by: hand takes `within` alone")
        findings.add(("outcome", "after"), flaw)
    if not first.comes_later and not findings.told(("outcome", "after")):
        for key in (key for key in _OF_LATE if findings.given(("outcome", key)) is not None):
            flaw = Flaw("is only for an outcome that comes later", remedy="give by: hand, or `after`")
            findings.add(("outcome", key), flaw)
