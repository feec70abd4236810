"""Can each device do what it is named for? Asked of what its driver makes, before more is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from rigctl.config.build_safety import built
from rigctl.config.findings import Context
from rigctl.errors import KeyPath
from rigctl.plugins import did_you_mean
from rigctl.rig.protocols import Actuator, Device, Doser, Meter, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec

_KINDS: Final[Mapping[str, type]] = {"sensor": Sensor, "actuator": Actuator, "pump": Doser, "meter": Meter}


def check_roles(context: Context, devices: Mapping[str, DeviceSpec | None], registry: Registry) -> None:
    """Find every device that is named for what it cannot do; of one that does not hold itself nothing is said."""
    made = {name: both[1] for name, spec in devices.items() if spec is not None and (both := built(spec, registry))}
    for path, name, kind in _named(context):
        device = made.get(name)
        if device is not None and not isinstance(device, _KINDS[kind]) and not context.findings.told(path):
            driver = context.config.devices[name].driver
            context.findings.add(path, f'got "{name}", which is no {kind} (driver {driver}){_others(made, kind, name)}')


def _named(context: Context) -> Iterator[tuple[KeyPath, str, str]]:
    """Give where a device is named, its name, and what it must be."""
    config = context.config
    for path, _, section in context.measured:
        yield (*path, "sensor"), section.sensor or "", "sensor"
    for name, variable in config.variables.items():
        if variable.doses is not None:
            yield ("variables", name, "doses", "pump"), variable.doses.pump, "pump"
            yield from ((("variables", name, "doses", "with", p), p, "pump") for p in variable.doses.with_)
        for actuator in variable.actuators:
            if actuator not in context.pumps:
                yield ("variables", name, "actuator"), actuator, "actuator"
    for pump, dosing in config.dosing.items():
        yield ("dosing", pump), pump, "pump"
        yield from ((("dosing", pump, "with", p), p, "pump") for p in dosing.with_)
        yield ("dosing", pump, "treatment"), dosing.treatment or "", "actuator"
    for i, step in enumerate(config.trial.prepare if config.trial is not None else ()):
        yield ("trial", "prepare", i, "actuator"), step.actuator, "actuator"
    for i, meter in enumerate(config.meters):
        if meter.kind in ("energy", "volume"):
            yield ("meters", i, "device"), meter.device or "", "meter"


def _others(made: Mapping[str, Device], kind: str, name: str) -> str:
    """Name the devices that could be meant."""
    able = sorted(n for n, device in made.items() if isinstance(device, _KINDS[kind]))
    return f"; must be one of {', '.join(able)}{did_you_mean(name, able)}" if able else ""
