"""Second check, the watch: interlocks and what is expected of each sensor -> the rig's `WatchSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from rigctl.config.conditions import can_hold, parse
from rigctl.config.context import Context
from rigctl.config.document import Path
from rigctl.config.findings import unknown
from rigctl.config.instruments import built
from rigctl.config.schema import InterlockSection, SensedSection
from rigctl.config.units import DURATION
from rigctl.rig.conditions import Condition
from rigctl.rig.protocols import Device, Line, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec, InterlockSpec, SensorRules, WatchedSensor, WatchSpec

WATCHED_EVERY_S: Final = 2.0
"""Between readings of a sensor that an interlock needs, wall seconds: the slowest probe in use takes 0.9 s."""
_RATE: Final = re.compile(r"(.*[^/\s])\s*/\s*([A-Za-z]+)\s*")
_TRIALS: Final = re.compile(r"\s*(\d{1,4})\s*trials?\s*")


class Readings:
    """What a condition may speak of: variables, outcomes, and devices that are sensors."""

    def __init__(self, context: Context, devices: Mapping[str, DeviceSpec | None], registry: Registry) -> None:
        config = context.config
        self._units = {n: v.unit for n, v in config.variables.items()}
        self._units |= {o.name: o.unit for _, o in context.outcomes}
        self._devices = devices
        self._registry = registry

    def is_device(self, name: str) -> bool:
        """Whether a name that is known is neither a variable's nor an outcome's."""
        return name not in self._units

    def unit(self, name: str) -> str:
        """The unit of a reading.

        Raises:
            ValueError: there is none of this name.
        """
        if name in self._units:
            return self._units[name]
        if name not in self._devices:
            known = sorted({*self._units, *filter(self._is_sensor, self._devices)})
            raise ValueError(unknown(name, known, "a variable, an outcome or a sensor: "))
        made = self._made(name)
        if made is None:  # told where the device is described
            return ""
        if isinstance(made[1], Sensor):
            return made[1].unit
        raise ValueError(f'got "{name}", which is no sensor; must be a variable, an outcome or a sensor')

    def _made(self, name: str) -> tuple[Line, Device] | None:
        device = self._devices[name]
        return None if device is None else built(device, self._registry)

    def _is_sensor(self, name: str) -> bool:
        made = self._made(name)
        return made is not None and isinstance(made[1], Sensor)


def build_watch(context: Context, devices: Mapping[str, DeviceSpec | None], registry: Registry) -> WatchSpec:
    """The watch; only to be used if nothing was found."""
    section, readings = context.config.safety.watch, Readings(context, devices, registry)
    interlocks = _interlocks(context, readings)
    needed = frozenset[str]().union(*(i.when.names for i in interlocks))
    every_s = _duration_s(context, ("safety", "watch", "every"), section.every, 1.0)
    clear_for_s = _duration_s(context, ("safety", "watch", "clear_for"), section.clear_for, 60.0)
    return WatchSpec(
        every_s,
        clear_for_s,
        interlocks,
        tuple(WatchedSensor(n, SensorRules(WATCHED_EVERY_S)) for n in sorted(needed) if readings.is_device(n)),
        {name: _rules(context, path, s, name in needed) for path, name, s in _sensed(context)},
    )


def _sensed(context: Context) -> list[tuple[Path, str, SensedSection]]:
    variables = [(("variables", n), n, v) for n, v in context.config.variables.items()]
    return [*variables, *((path, o.name, o) for path, o in context.outcomes)]


def _duration_s(context: Context, path: Path, text: str, instead: float) -> float:
    """More than nothing."""
    seconds = context.findings.attempt(path, instead, context.units.quantity, text, DURATION)
    if seconds == 0:
        context.findings.add(path, f'got "{text}", must be more than nothing')
    return seconds


# interlocks -------------------------------------------------------------------------------------------------------


def _interlocks(context: Context, readings: Readings) -> tuple[InterlockSpec, ...]:
    found: list[InterlockSpec] = []
    for i, section in enumerate(context.config.safety.interlocks):
        path: Path = ("safety", "interlocks", i)
        if section.name in [s.name for s in context.config.safety.interlocks[:i]]:
            context.findings.add((*path, "name"), f'got "{section.name}" a second time, must differ')
        interlock = _interlock(context, readings, path, section)
        if interlock is not None:
            found.append(interlock)
    return tuple(found)


def _interlock(context: Context, readings: Readings, path: Path, section: InterlockSection) -> InterlockSpec | None:
    findings = context.findings
    for_s = findings.attempt((*path, "for"), 0.0, context.units.quantity, section.for_, DURATION)
    when = _condition(context, readings, (*path, "when"), section.when)
    until = None if section.until is None else _condition(context, readings, (*path, "until"), section.until)
    if when is None:
        return None
    if not can_hold(when):
        findings.add((*path, "when"), f'got "{section.when}", which can never hold')
    if until is not None:
        _ends(context, (*path, "until"), when, until)
    return InterlockSpec(section.name, when, section.then, for_s, until)


def _condition(context: Context, readings: Readings, path: Path, text: str) -> Condition | None:
    parsed: Condition | None = context.findings.attempt(path, None, parse, text, readings.unit, context.units)
    return parsed


def _ends(context: Context, path: Path, when: Condition, until: Condition) -> None:
    """Whether `until` can end what `when` began."""
    strangers = until.names - when.names
    if strangers:
        got, allowed = ", ".join(sorted(strangers)), ", ".join(sorted(when.names))
        context.findings.add(path, f'got "{until}", which speaks of {got}; must speak of what `when` does: {allowed}')
    elif not can_hold(until):
        context.findings.add(path, f'got "{until}", which can never hold: the interlock would never clear')
    elif can_hold(when, until):
        context.findings.warn(path, f'"{until}" can hold while "{when}" still does: the interlock would flutter')


# sensors ----------------------------------------------------------------------------------------------------------


def _rules(context: Context, path: Path, section: SensedSection, needed: bool) -> SensorRules:
    every_s = WATCHED_EVERY_S if needed else None
    if section.watch_every is not None:
        every_s = _duration_s(context, (*path, "watch_every"), section.watch_every, 1.0)
    stale_after_s = None
    if section.stale_after is not None:
        stale_after_s = _duration_s(context, (*path, "stale_after"), section.stale_after, 1.0)
        if every_s is None:
            context.findings.add(
                (*path, "stale_after"),
                "needs watch_every: no interlock speaks of this reading, so the watch would take none",
            )
        elif stale_after_s <= every_s:
            context.findings.add(
                (*path, "stale_after"),
                f'got "{section.stale_after}", must be more than the {every_s:g} s between two readings of the watch',
            )
    # what is played again, or moved by nobody, may well read the same; an outcome and a dosed liquid do not
    moves = path[0] != "variables" or getattr(section, "actuator", None) in context.declared["dosing"]
    frozen: tuple[float | None, int | None] = (None, SensorRules().frozen_after_trials if moves else None)
    if section.frozen_after is not None:
        frozen = context.findings.attempt((*path, "frozen_after"), frozen, _frozen, context, section.frozen_after)
    unit = _unit_of(context, path)
    most = None
    if section.max_rate is not None:
        most = context.findings.attempt((*path, "max_rate"), None, _rate_per_s, context, section.max_rate, unit)
    return SensorRules(every_s, stale_after_s, *frozen, most)


def _unit_of(context: Context, path: Path) -> str:
    if path[0] == "variables":
        return context.config.variables[str(path[1])].unit
    return next(o.unit for p, o in context.outcomes if p == path)


def _frozen(context: Context, text: str) -> tuple[float | None, int | None]:
    """(rig seconds, trials); None: not by this."""
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


def _rate_per_s(context: Context, text: str, unit: str) -> float:
    """Units of the reading per rig second."""
    what = f'a change of {unit} per time such as "0.5 {unit}/min"'
    found = _RATE.fullmatch(text)
    if found is None:
        raise ValueError(f'got "{text}", must be {what}')
    try:
        amount = context.units.to(found[1], unit, what)
        shifted = context.units.to(re.sub(r"^\s*[-+]?[\d.]+([eE][-+]?\d+)?", "0", found[1]), unit, what)
        seconds = context.units.factor(found[2], "s")
    except ValueError as error:
        raise ValueError(f'got "{text}", must be {what}') from error
    if shifted != 0:  # degF on a variable in degC: a difference has no zero point
        raise ValueError(f'got "{text}", must be {what}, in the unit of the reading')
    if not amount / seconds > 0:
        raise ValueError(f'got "{text}", must be more than nothing')
    return amount / seconds
