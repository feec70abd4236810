"""The instruments of a file, as their drivers take them, and the units that they read in."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, Final

from pydantic import ValidationError

from rigctl.config.conditions import ToldElsewhere
from rigctl.config.findings import CheckContext, unknown
from rigctl.config.profiles import Profile, profile_of
from rigctl.config.schema import DeviceSection
from rigctl.errors import BrokenPlugin, ConfigError, KeyPath, PluginError
from rigctl.flaws import flaw_of, got
from rigctl.options import problems_of
from rigctl.plugins import did_you_mean
from rigctl.rig.protocols import Actuator, Device, DeviceOptions, Doser, Driver, Line, Meter, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec
from rigctl.rig.testing import ManualClock

_URL: Final = re.compile(r"([a-z][a-z0-9_+.-]*)://\S+")


def build_devices(context: CheckContext) -> Mapping[str, DeviceSpec | None]:
    """Return each device; None of one that does not hold."""
    return {name: _device(context, name, section) for name, section in context.config.devices.items()}


def _device(context: CheckContext, name: str, section: DeviceSection) -> DeviceSpec | None:
    path: KeyPath = ("devices", name)
    findings, registry = context.findings, context.registry
    if section.driver not in registry.drivers:
        findings.add((*path, "driver"), unknown(section.driver, sorted(registry.drivers), "an installed driver"))
        return None
    try:
        driver = registry.driver(section.driver)
    except BrokenPlugin as error:
        findings.add((*path, "driver"), error.flaw)
        return None
    url = _url(context, (*path, "bus"), section.bus, driver, registry.lines)
    given = section.model_extra or {}
    profile = _profile(context, (*path, "profile"), driver, section.profile)
    if profile is None and section.profile is not None:
        return None
    try:
        options = _options(driver.options, {**(profile.options if profile else {}), **given}, strict=context.to_run)
    except ValidationError as error:
        beside = list(DeviceSection.model_fields)
        told = problems_of(error, driver.options, f"driver {section.driver}", beside)[0]
        for below, flaw in told:
            said_here = below[0] in given if below else bool(given)
            elsewhere = profile.mistake(below, flaw) if profile and not said_here else None
            if elsewhere is None:
                findings.add((*path, *below), flaw)
            else:
                findings.add_elsewhere([elsewhere])
        return None
    return DeviceSpec(name, section.driver, url, options, section.timeout)


def _profile(context: CheckContext, path: KeyPath, driver: type[Driver], said: str | None) -> Profile | None:
    """Return the profile that a device names; None where it names none, or one that does not hold, which is told."""
    if said is None:
        return None
    try:
        return profile_of(driver, said, context.folder)
    except ConfigError as error:
        context.findings.add_elsewhere(error.mistakes)
    except ValueError as error:
        context.add(path, flaw_of(error))
    return None


def _options(model: type[DeviceOptions], given: Mapping[str, Any], *, strict: bool) -> DeviceOptions:
    """Return a driver's options; for a run, text is not taken for a number, nor `yes` for true.

    By way of JSON, where strictness still takes a list for a tuple. Campaigns of the past were taken less strictly.
    """
    if not strict:
        return model.model_validate(given)
    return model.model_validate_json(json.dumps(given), strict=True)


def _port_meant(url: str) -> str:
    """Return the remedy for a port or host that was written without a scheme."""
    if url.startswith("/dev/"):
        return f"write serial://{url}"
    return f"write tcp://{url}" if re.fullmatch(r"[\w.-]+:\d+", url) else ""


def _url(context: CheckContext, path: KeyPath, bus: str, driver: type[Driver], lines: Collection[str]) -> str:
    findings, buses = context.findings, context.config.buses
    url, where = bus, path
    if "://" not in bus:
        if not context.known(path, bus, ["buses"], "URL or a bus from buses") or bus not in buses:
            return bus
        url, where = buses[bus], ("buses", bus)
    found = _URL.fullmatch(url)
    if found is None:
        must = "must be a URL such as modbus_tcp://127.0.0.1:502 or serial:///dev/ttyUSB0"
        if not findings.told(where):
            findings.add(where, got(url, must, _port_meant(url)))
    elif found[1] not in lines:
        if not findings.told(where):
            must = f"must begin with one of {', '.join(sorted(lines))}, then ://"
            findings.add(where, got(url, must, did_you_mean(found[1], lines)))
    elif found[1] not in driver.schemes:
        fit = sorted(n for n, u in buses.items() if u.partition("://")[0] in driver.schemes)
        remedy = f"such are {', '.join(fit)}" if fit else ""
        allowed = f"must be one of {', '.join(driver.schemes)} for driver {driver.name}"
        findings.add(path, got(bus, allowed, remedy, lead=f", a {found[1]} bus" if where != path else ""))
    return url


def built(device: DeviceSpec, registry: Registry) -> tuple[Line, Device] | None:
    """Make a device and its line, both closed; None where URL or driver does not hold, which is told elsewhere."""
    try:
        line = registry.open_line(device.url, ManualClock())
        driver = registry.driver(device.driver)
        talks = device.url.partition("://")[0] in driver.schemes
        return (line, driver.connect(device.options, line)) if talks else None
    except (PluginError, ValueError):
        return None


def unit_of(context: CheckContext, name: str) -> str:
    """Return the unit of a reading: of a variable, an outcome, or a device that is a sensor.

    Raises:
        ValueError: it is none of these.
        ToldElsewhere: it does not hold itself.
    """
    units = {name: section.unit for _, name, section in context.measured}
    if name in (section.name for _, section in context.outcomes if section.by == "hand"):
        raise ValueError(got(name, "must be something that a sensor reads", lead=", which a person says"))
    if any(measure.name == name and measure.unit is None for measure in context.measures.values()):
        raise ToldElsewhere
    if name in units:
        return units[name]
    if name in context.declared["variables"] or any(context.findings.muted((s,)) for s in ("variables", "outcome")):
        raise ToldElsewhere
    devices = context.made
    if name not in context.devices:
        known = sorted({*units, *(n for n, device in devices.items() if isinstance(device, Sensor))})
        raise ValueError(unknown(name, known, "a variable, an outcome or a sensor"))
    device = devices.get(name)
    if device is None:
        raise ToldElsewhere
    if not isinstance(device, Sensor):
        allowed = "must be a variable, an outcome or a sensor"
        raise ValueError(got(name, allowed, lead=", which is no sensor"))  # noqa: TRY004 - of the file
    return device.unit


_ROLES: Final[Mapping[str, type]] = MappingProxyType(
    {"sensor": Sensor, "actuator": Actuator, "pump": Doser, "meter": Meter, "device": object}
)


def check_device(context: CheckContext, path: KeyPath, name: str, role: str) -> None:
    """Find a name of no device; to be run, also one that cannot do what it is named for."""
    if not context.known(path, name, ["devices"], "device") or not context.to_run or context.findings.told(path):
        return
    made, kind = context.made, _ROLES[role]
    if name not in made or isinstance(made[name], kind):
        return  # of one that does not hold itself nothing is said
    able = sorted(n for n, device in made.items() if isinstance(device, kind))
    allowed = f"must be one of {', '.join(able)}" if able else ""
    driver = context.config.devices[name].driver
    wrong = got(name, allowed, did_you_mean(name, able), lead=f", which is no {role} (driver {driver})")
    context.add(path, wrong)


def made_of(devices: Mapping[str, DeviceSpec | None], registry: Registry) -> Mapping[str, Device]:
    """Return every device that can be made, closed, by name."""
    both = {name: built(spec, registry) for name, spec in devices.items() if spec is not None}
    return {name: made[1] for name, made in both.items() if made is not None}
