"""Third check: is this a rig that should be run? What drivers say against what the file says, and what cannot be meant.

Nothing is opened. A configuration that fails here can still be read, so that old campaigns can be looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.inspect_lines import inspect_lines, real_ports
from rigctl.config.instruments import built
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Variable
from rigctl.errors import ConfigError
from rigctl.rig.abilities import Fits
from rigctl.rig.protocols import Actuator, Device, Doser, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.spec import RigSpec
from rigctl.rig.testing import ManualClock
from rigctl.rig.wiring import wired

RARE: Final = 1e-4
"""Natural values further out are as good as never seen."""
NEAR: Final = 0.02
"""Of the range: setpoints so near to what nature gives are no reason to refuse a rig."""
_STEP: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def inspect_rig(context: Context, spec: RigSpec, problem: Problem | None, registry: Registry) -> None:
    """Everything that speaks against running this rig, and what a person should know before."""
    if not context.findings:
        _roles(context, spec, registry)
    devices = {n: made[1] for n, d in spec.devices.items() if (made := built(d, registry)) is not None}
    inspect_lines(context, spec.devices, registry)
    _units(context, devices)
    _meters(context, spec)
    _clock(context, spec)
    _setpoints(context, spec, registry)
    _doses(context, spec, devices)
    if problem is not None:
        for variable in problem.space.variables:
            _reach(context, spec, variable)


# what drivers say -------------------------------------------------------------------------------------------------


def _roles(context: Context, spec: RigSpec, registry: Registry) -> None:
    """Whether each device can do what it is named for, as the rig itself will see it."""
    try:
        wired(spec, registry, ManualClock(), lambda _: None)
    except ConfigError as error:
        for found in error.problems:
            path = _path(found.where.removeprefix(f"{spec.name}: "), spec)
            if not context.findings.told(path):
                context.findings.add(path, found.what)


def _path(dotted: str, spec: RigSpec) -> Path:
    """The place in the file of what the rig complains about; meters go by their position there."""
    path: Path = tuple(int(step[2]) if step[2] else step[1] for step in _STEP.finditer(dotted))
    if path[0] == "meters":
        return ("meters", [m.name for m in spec.meters].index(str(path[1])), "device")
    return (*path, "bus") if path[0] == "devices" else path


def _units(context: Context, devices: dict[str, Device]) -> None:
    """Sensors and actuators speak the unit of what they serve."""
    for path, used, device, unit in _served(context):
        made = devices.get(device)
        if not isinstance(made, Sensor if used == "sensor" else Actuator) or not made.unit:
            continue
        if not context.units.same(made.unit, unit) and not context.findings.told((*path, used)):
            context.findings.add(
                (*path, used),
                f'got "{device}", whose driver speaks {made.unit}; must be {unit} as here, for nothing converts '
                f"between them: write {path[-1]} in {made.unit}, or make the instrument speak {unit}",
            )


def _served(context: Context) -> Iterator[tuple[Path, str, str, str]]:
    """(path, sensor or actuator, device, unit) of all that is measured or imposed directly."""
    for name, variable in context.config.variables.items():
        if variable.sensor is not None:
            yield ("variables", name), "sensor", variable.sensor, variable.unit
        if variable.actuator is not None and variable.actuator not in context.declared["dosing"]:
            yield ("variables", name), "actuator", variable.actuator, variable.unit
    for path, outcome in context.outcomes:
        if outcome.sensor is not None:
            yield path, "sensor", outcome.sensor, outcome.unit


def _meters(context: Context, spec: RigSpec) -> None:
    if not spec.meters and context.findings.whole("meters"):
        what = "is missing, must have at least one, e.g. {kind: time, price: 1 EUR/h}: trials would be free"
        context.findings.add(("meters",), what)


# what cannot be meant ---------------------------------------------------------------------------------------------


def _clock(context: Context, spec: RigSpec) -> None:
    if spec.speedup == 1:
        return
    path: Path = ("clock", "speedup")
    real = real_ports(d.url for d in spec.devices.values())
    if real:
        context.findings.add(
            path,
            f"got {spec.speedup:g}, but real instruments are at {', '.join(real)}; must be 1, so leave it out: a cap "
            f"of 24 h would be one of {86400 / spec.speedup:.3g} s",
        )
    else:
        context.findings.warn(
            path, f"{spec.speedup:g} is for simulated rigs: one that does not say that it is simulated will be refused"
        )


def _setpoints(context: Context, spec: RigSpec, registry: Registry) -> None:
    """Everything an actuator may be sent can be held by it, and its safe state is a setpoint like others."""
    prepared = {s.actuator: s.value for s in spec.timing.prepare}
    for name, limits in spec.limits.items():
        path, device = ("safety", "safe_state", name), spec.devices.get(name)
        safe = [limits.safe_state] if isinstance(limits.safe_state, float) else []
        for value in safe:
            if not limits.low <= value <= limits.high:
                got = f"got {value:g}, must lie within the range [{limits.low:g}, {limits.high:g}]"
                context.findings.add(path, f"{got}, or be off: the guard sends nothing else")
        driver = None if device is None else registry.driver(device.driver)
        if device is None or name in spec.dosing or not isinstance(driver, Fits):
            continue
        ends = [limits.low, limits.high] if any(v.actuator == name for v in spec.variables) else []
        for what in driver.misfits(device.options, [*ends, *safe, *filter(None, [prepared.get(name)])]):
            context.findings.add(("devices", name), what)


def _doses(context: Context, spec: RigSpec, devices: dict[str, Device]) -> None:
    """Caps that let a dose through, and a probe whose readings are judged before they judge doses."""
    for pump, dosing in spec.dosing.items():
        limits, made = spec.limits.get(pump), devices.get(pump)
        least_ml = made.min_dose_ml if isinstance(made, Doser) else 0.0
        caps = {} if limits is None else {"per_dose": limits.per_dose_ml, "per_day": limits.per_day_ml}
        for key, cap_ml in caps.items():
            if cap_ml is not None and (cap_ml == 0 or cap_ml < least_ml):
                least = f"at least {least_ml:g} mL, the smallest dose of {pump}" if least_ml else "more than nothing"
                context.findings.add(("safety", "limits", pump, key), f"got {cap_ml:g} mL, must be {least}")
        served = next((v.name for v in spec.variables if v.actuator == pump), None)
        if served is not None and dosing.sensor not in spec.plausible:
            context.findings.add(
                ("variables", served, "plausible"),
                f"is missing, must say which readings of {dosing.sensor} can be true: {pump} doses by them",
            )


def _reach(context: Context, spec: RigSpec, variable: Variable) -> None:
    """Whether a pump without a treatment can bring its variable from where nature leaves it to every setpoint."""
    pump = next((v.actuator for v in spec.variables if v.name == variable.name), None)
    dosing = spec.dosing.get(pump or "")
    if dosing is None or dosing.treatment is not None:
        return
    import numpy as np  # noqa: PLC0415  # a fraction of a second that only rigs with pumps need

    span = variable.high - variable.low
    lowest, highest = variable.low + span * variable.marginal.quantile(np.array([RARE, 1 - RARE]))
    raises = dosing.effect_per_ml > 0
    wrong = f"{pump} only {'raises' if raises else 'lowers'} {variable.name}"
    remedy = "name a treatment that brings it to the other side first, or narrow the range"
    path: Path = ("dosing", str(pump), "effect")
    near = max(dosing.tolerance, NEAR * span)
    if (lowest > variable.low + near) if raises else (highest < variable.high - near):
        end, start = (variable.low, lowest) if raises else (variable.high, highest)
        where = f"starts at {'least' if raises else 'most'} at {start:.4g} {variable.unit}"
        context.findings.add(
            path, f"{wrong}, which {where}: a setpoint of {end:g} cannot be reached in any trial; {remedy}"
        )
    else:
        side = "below" if raises else "above"
        context.findings.warn(path, f"{wrong}: a trial fails where the setpoint is {side} what it finds; {remedy}")
