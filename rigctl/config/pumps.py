"""Second check, pumps: doses toward a setpoint, volumes that are variables, what goes along, caps, what wears out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rigctl.config.findings import CheckContext
from rigctl.config.schema import VariableSection
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath
from rigctl.flaws import Flaw, got
from rigctl.plugins import did_you_mean
from rigctl.rig.limits import SPANS, TankSpec
from rigctl.rig.spec import CalibrationSpec, CareSpec, DosingSpec, RigSpec, VolumeSpec
from rigctl.text import in_full

_MEASURED: Final = ("sensor", "actuator", "natural", "natural_range", "plausible", "read_back_tolerance", "follows")
"""What a volume has not, beside the watch's expectations: no sensor reads it, the pump tells it."""
_EXPECTED: Final = ("max_rate", "frozen_after", "stale_after", "watch_every")


def check_dosing(context: CheckContext, pump: str, section: DosingSpec) -> None:
    """Find what is wrong with a pump that doses beside what else the file says."""
    path: KeyPath = ("dosing", pump)
    findings = context.findings
    _partners(context, path, pump, section.with_)
    variable = next(((n, v) for n, v in context.config.variables.items() if pump in v.actuators), None)
    if variable is None:
        if context.findings.whole("variables") and not unserved(context) and not findings.told(path):
            remedy = f"write actuator: {pump} under the variable that it brings about"
            findings.add(path, Flaw("", "must be the actuator of a variable", remedy))
        return
    name, served = variable
    if served.doses is not None:
        must = f"must be one or the other: remove it here, or write actuator: {pump} there"
        findings.add(path, Flaw(f"is the pump whose volume is {name}, which no sensor judges", must))
        return
    named = ((*path, "sensor"), ("variables", name, "sensor"))
    if section.sensor != served.sensor and not any(map(findings.told, named)):
        flaw = got(section.sensor, f"must be {served.sensor}, the sensor of {name} that it serves")
        findings.add((*path, "sensor"), flaw)


def build_volumes(context: CheckContext) -> Mapping[str, VolumeSpec]:
    """Return, by pump, the volumes that are variables."""
    volumes = {}
    for name, section in context.config.variables.items():
        if section.doses is not None:
            _reads_nothing(context, name, section)
            _partners(context, ("variables", name, "doses"), section.doses.pump, section.doses.with_)
            volumes[section.doses.pump] = section.doses
    return volumes


def _reads_nothing(context: CheckContext, name: str, section: VariableSection) -> None:
    """Check that nothing is said of a volume that only a sensor's reading could have."""
    doses = section.doses
    for key in (*_MEASURED, *_EXPECTED):
        if doses is not None and context.findings.given(("variables", name, key)) is not None:
            what = f"must be left out: {name} is what {doses.pump} gives, and no sensor reads it"
            remedy = "see doses.otherwise" if key.startswith("natural") else ""
            context.add(("variables", name, key), Flaw("", what, remedy))
    if not context.findings.told(("variables", name, "unit")) and not context.units.same(section.unit, "mL"):
        must = f"must be mL: {name} is the volume that a pump gives"
        context.add(("variables", name, "unit"), got(section.unit, must))


def check_pair(context: CheckContext, name: str, section: VariableSection) -> None:
    """Check that two pumps of one variable dose toward its setpoint from both sides."""
    path: KeyPath = ("variables", name, "actuator")
    (first, second), dosing = section.actuators, context.config.dosing
    if first == second:
        context.add(path, got(first, "must be two pumps: one down and one up", lead=" twice"))
        return
    strangers = [pump for pump in (first, second) if pump not in context.declared["dosing"]]
    if strangers:
        must, remedy = "must be pumps that dose toward a setpoint", "describe each under dosing"
        context.add(path, Flaw("", must, remedy, got=f"{', '.join(strangers)} of two"))
        return
    holds = (p in dosing and not context.findings.told(("dosing", p, "effect")) for p in (first, second))
    if all(holds) and dosing[first].effect_per_ml * dosing[second].effect_per_ml > 0:
        way = "raise" if dosing[first].effect_per_ml > 0 else "lower"
        must = "must be one down and one up: one of the effects has the wrong sign"
        context.add(path, Flaw(f", which both {way} {name}", must, got=f"{first} and {second}"))


def unserved(context: CheckContext) -> bool:
    """Tell whether a variable that is to be controlled names no actuator that holds, which is told there."""
    config, findings = context.config, context.findings
    chosen = config.control_sets if isinstance(config.control_sets, list) else ()
    members = {name for names in chosen for name in names}
    lacking = any(not v.actuators and n in members for n, v in config.variables.items())
    return lacking or any(findings.told(("variables", n, "actuator")) for n in config.variables)


def astray(context: CheckContext) -> frozenset[str]:
    """Return what is named to dose along, or for its volume, but cannot, which is told there."""
    named = [((*path, "with", name), name) for path, _, along in context.leading for name in along]
    named += [((*path, "pump"), pump) for path, pump, _ in context.leading if path[-1] == "doses"]
    return frozenset(name for path, name in named if context.findings.told(path))


def _partners(context: CheckContext, path: KeyPath, pump: str, given: Mapping[str, float]) -> None:
    """Find pumps that cannot dose along: each goes with one pump only."""
    config, findings = context.config, context.findings
    for name, ratio in given.items():
        at: KeyPath = (*path, "with", name)
        if findings.told(at):
            continue
        if ratio <= 0:
            findings.add(at, got(ratio, f"must be > 0: mL of {name} per mL of {pump}"))
        serves = [n for n, v in config.variables.items() if name in v.actuators]
        leads = [p for _, p, along in context.leading if name in along and p != pump]
        if serves or name == pump or name in context.declared["dosing"]:
            what = f"which doses for {serves[0]}" if serves else "which doses by itself"
            flaw = got(name, f"must be a pump that does nothing but dose along with {pump}", lead=f", {what}")
            findings.add(at, flaw)
        elif leads:
            findings.add(at, got(name, "must be a pump of its own", lead=f", which doses along with {leads[0]}"))


# caps of pumps and of tanks ---------------------------------------------------------------------------------------


def check_tanks(context: CheckContext) -> None:
    """Find tanks without a cap, and what feeds them but is no pump."""
    for tank, its in context.config.safety.tanks.items():
        path: KeyPath = ("safety", "tanks", tank)
        _pumps(context, path, its)
        if not its.most_ml and not context.findings.told_below(path):
            context.add(path, Flaw("has no cap", f"must have one of {', '.join(span.key for span in SPANS)}"))


def _pumps(context: CheckContext, path: KeyPath, section: TankSpec) -> None:
    pumps = context.pumps - astray(context)
    for i, name in enumerate(section.pumps):
        at: KeyPath = (*path, "pumps", i)
        if not context.findings.told(at) and name not in pumps and context.findings.whole("dosing"):
            context.add(at, got(name, "must be a pump", did_you_mean(name, sorted(pumps))))
        if name in section.pumps[:i]:
            context.add(at, got(name, "must differ", lead=" a second time"))


def check_caps(context: CheckContext, spec: RigSpec, problem: Problem) -> None:
    """Check that the volumes that may be chosen for one trial fit every cap, and warn of caps below a single dose."""
    high = {v.name: v.high for v in problem.space.variables}
    volumes = [(v.name, v.actuator, spec.volumes.get(v.actuator or "")) for v in spec.variables]
    most = {pump: max(high[name], its.otherwise_ml) for name, pump, its in volumes if its is not None}
    for cap in spec.caps:
        takes_ml = sum(
            ml * share
            for pump, ml in most.items()
            for name, share in {pump or "": 1.0, **spec.volumes[pump or ""].with_}.items()
            if name in cap.pumps
        )
        section = "limits" if cap.pumps == (cap.name,) else "tanks"
        doses_ml = {p: spec.limits[p].per_dose_ml or 0.0 for p in cap.pumps if p in spec.dosing and p in spec.limits}
        for span, most_ml in cap.most_ml.items():
            for pump, dose_ml in doses_ml.items():
                if most_ml < dose_ml:
                    allowed, one = in_full(most_ml), in_full(dose_ml)
                    what = f"{allowed} mL is less than one dose of {pump} may be, {one} mL: one in between is refused "
                    what += f"and its trial fails; give {pump} a per_dose of at most {allowed} mL"
                    context.findings.warn(("safety", section, cap.name, span.key), what)
            if takes_ml > most_ml:
                must = f"must be at least the {in_full(takes_ml)} mL that a trial may be given"
                context.add(("safety", section, cap.name, span.key), Flaw("", must, got=f"{in_full(most_ml)} mL"))


# what runs out, wears out and has to be calibrated ----------------------------------------------------------------


def build_care(context: CheckContext) -> dict[str, CareSpec]:
    """Return what is counted, by device; only to be used if nothing was found."""
    found: dict[str, CareSpec] = {}
    for name, section in context.config.devices.items():
        for key, given in (("inventory", section.inventory), ("tubing", section.tubing)):
            if given is not None and name not in context.pumps:
                flaw = Flaw(f"is only for pumps, and {name} doses nothing", remedy="take it out")
                context.add(("devices", name, key), flaw)
        care = CareSpec(section.inventory, section.tubing, section.calibration or CalibrationSpec())
        found |= {name: care} if care != CareSpec() else {}
    return found
