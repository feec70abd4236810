"""Second check, caps beside those of single doses: of a pump, and of all pumps of one tank together."""

from __future__ import annotations

from rigctl.config.build_doses import astray
from rigctl.config.findings import Context
from rigctl.core.experiment.problem import Problem
from rigctl.errors import KeyPath
from rigctl.plugins import did_you_mean
from rigctl.rig.spec import Caps, CapSpec, RigSpec, TankSpec

SPANS = ("per_trial", "per_hour", "per_day", "per_campaign")
"""From the narrowest to the widest."""


def build_caps(context: Context) -> tuple[CapSpec, ...]:
    """Return the caps of pumps and tanks; a pump's own of 24 hours is with its limits."""
    safety = context.config.safety
    caps = [CapSpec(name=n, pumps=(n,), **_spans(own) | {"per_day_ml": None}) for n, own in safety.limits.items()]
    for tank, its in safety.tanks.items():
        path: KeyPath = ("safety", "tanks", tank)
        _pumps(context, path, its)
        if its == TankSpec(pumps=its.pumps) and not context.findings.told_below(path):
            context.findings.add(path, f"has no cap, must have one of {', '.join(SPANS)}")
        caps.append(CapSpec(name=tank, pumps=tuple(dict.fromkeys(its.pumps)), **_spans(its)))
    return tuple(c for c in caps if any(most_ml is not None for most_ml in _spans(c).values()))


def _spans(caps: Caps) -> dict[str, float | None]:
    return {f"{span}_ml": getattr(caps, f"{span}_ml") for span in SPANS}


def _pumps(context: Context, path: KeyPath, section: TankSpec) -> None:
    pumps = context.pumps - astray(context)
    for i, name in enumerate(section.pumps):
        at: KeyPath = (*path, "pumps", i)
        if context.known(at, name, ["devices"], "device: ") and name not in pumps and context.findings.whole("dosing"):
            context.findings.add(at, f'got "{name}", must be a pump{did_you_mean(name, sorted(pumps))}')
        if name in section.pumps[:i]:
            context.findings.add(at, f'got "{name}" a second time, must differ')


def check_caps(context: Context, spec: RigSpec, problem: Problem) -> None:
    """Check that the volumes that may be chosen for one trial fit every cap, and warn of caps below a single dose."""
    high = {v.name: v.high for v in problem.space.variables}
    most = {v.actuator: high[v.name] for v in spec.variables if v.actuator in spec.volumes}
    for cap in spec.caps:
        takes_ml = sum(
            ml * share
            for pump, ml in most.items()
            for name, share in {pump or "": 1.0, **spec.volumes[pump or ""].partners}.items()
            if name in cap.pumps
        )
        section = "limits" if cap.pumps == (cap.name,) else "tanks"
        doses_ml = {p: spec.limits[p].per_dose_ml or 0.0 for p in cap.pumps if p in spec.dosing and p in spec.limits}
        for key in SPANS:
            most_ml = getattr(cap, f"{key}_ml")
            for pump, dose_ml in doses_ml.items():
                if most_ml is not None and most_ml < dose_ml:
                    what = f"{most_ml:g} mL is less than one dose of {pump} may be, {dose_ml:g} mL: one in between is "
                    what += f"refused and its trial fails; give {pump} a per_dose of at most {most_ml:g} mL"
                    context.findings.warn(("safety", section, cap.name, key), what)
            if most_ml is not None and takes_ml > most_ml:
                what = f"got {most_ml:g} mL, must be at least the {takes_ml:g} mL that a trial may be given"
                context.findings.add(("safety", section, cap.name, key), what)
