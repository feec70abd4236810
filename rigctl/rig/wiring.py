"""From the rig's description to devices on their buses, each known by what it can do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from rigctl.errors import ConfigError, KeyPath, Mistake, PluginError, dotted
from rigctl.flaws import Flaw, flaw_of, got
from rigctl.rig.bus import Bus, BusTiming
from rigctl.rig.clocks import Clock
from rigctl.rig.handle import Handle
from rigctl.rig.measuring import Probe, Thermometer
from rigctl.rig.protocols import Actuator, Device, Doser, Line, Meter, Sensor
from rigctl.rig.registry import Registry
from rigctl.rig.spec import DeviceSpec, MeterSpec, RigSpec, SensorRules
from rigctl.rig.values import News

D = TypeVar("D", bound=Device)
H = TypeVar("H")

METER_UNITS = {"energy": "kWh", "volume": "mL"}
"""The unit each metered kind is priced in."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """Every instrument of a rig, by role."""

    buses: Mapping[str, Bus]
    handles: Mapping[str, Handle[Device]]
    probes: tuple[Probe, ...]
    """One per variable, then one per outcome."""
    dosing_probes: Mapping[str, Probe]
    """By doser: what judges its doses."""
    actuators: Mapping[str, Handle[Actuator]]
    """Variables' actuators, treatments, prepared actuators: all that may be released."""
    dosers: Mapping[str, Handle[Doser]]
    meters: Mapping[str, Handle[Meter]]
    watched: tuple[Probe, ...] = ()
    """Sensors that only the watch looks at."""
    aside: set[str] = field(default_factory=set)
    """Devices out of service, by name: neither asked nor told anything; mutable."""

    def in_service(self, handles: Mapping[str, H]) -> dict[str, H]:
        """Return those of these handles, by their device's name, that are in service now."""
        return {name: handle for name, handle in handles.items() if name not in self.aside}


class _Wirer:
    """Collects every problem, so that all are told at once."""

    def __init__(self, spec: RigSpec, clock: Clock) -> None:
        self.spec = spec
        self.clock = clock
        self.mistakes: list[Mistake] = []
        self.handles: dict[str, Handle[Device]] = {}

    def complain(self, path: KeyPath, flaw: Flaw) -> None:
        self.mistakes.append(Mistake(f"{self.spec.name}: {dotted(path)}", flaw, path))

    def connect(self, instruments: Registry, news: News, timing: BusTiming | None) -> dict[str, Bus]:
        lines: dict[str, Line] = {}
        buses: dict[str, Bus] = {}
        for device in self.spec.devices.values():
            try:
                if device.url not in lines:
                    lines[device.url] = instruments.open_line(device.url, self.clock)
                    buses[device.url] = Bus(lines[device.url], news, timing)
                made = self._made(device, instruments, lines[device.url])
            except (PluginError, ValueError) as error:
                self.complain(("devices", device.name, "bus"), flaw_of(error))
                continue
            self.handles[device.name] = Handle(device.name, made, buses[device.url], device.timeout_s)
        return buses

    def _made(self, device: DeviceSpec, instruments: Registry, line: Line) -> Device:
        driver = instruments.driver(device.driver)
        scheme = device.url.partition("://")[0]
        if scheme not in driver.schemes:
            raise ValueError(f"driver {driver.name} talks over {', '.join(driver.schemes)}, got a {scheme} bus")
        return driver.connect(device.options, line)

    def role(self, path: KeyPath, name: str, kind: type[D]) -> Handle[D] | None:
        """Find the device of this name as a `kind`; None with a complaint."""
        if name not in self.spec.devices:
            self.complain(path, got(name, "", f"known: {', '.join(self.spec.devices)}", lead=", which is no device"))
            return None
        handle = self.handles.get(name)
        if handle is None:
            return None  # complained about already
        if not isinstance(handle.device, kind):
            driver = self.spec.devices[name].driver
            self.complain(path, got(name, "", lead=f", which is no {kind.__name__.lower()} (driver {driver})"))
            return None
        return cast("Handle[D]", handle)

    def probe(self, path: KeyPath, name: str, sensor: str, rules: SensorRules | None = None) -> Probe | None:
        if not sensor:
            return None  # a rig that only goes safe looks at nothing
        handle = self.role(path, sensor, Sensor)  # type: ignore[type-abstract]
        if handle is None:
            return None
        rules = rules or self.spec.watch.rules.get(name, SensorRules())
        return Probe(
            name, handle, self.spec.plausible.get(sensor), self.clock, rules, temperature=self.thermometer(handle)
        )

    def thermometer(self, handle: Handle[Sensor]) -> Thermometer | None:
        """Find what a sensor's readings are compensated by; None where by nothing, or with a complaint."""
        name = handle.device.temperature_from
        if name is None:
            return None
        path = ("devices", handle.name, "compensate", "temperature")
        other = self.role(path, name, Sensor)  # type: ignore[type-abstract]
        if other is None:
            return None
        if other.device.unit != "degC":
            self.complain(path, got(name, "must read degC", lead=f", which reads {other.device.unit or 'no unit'}"))
        return Thermometer(other, self.spec.plausible.get(name))

    def meter(self, index: int, meter: MeterSpec) -> Handle[Meter] | None:
        path = ("meters", index, "device")
        handle = self.role(path, meter.device or "", Meter)  # type: ignore[type-abstract]
        unit = METER_UNITS[meter.kind]
        if handle is not None and handle.device.meter_unit != unit:
            must = f"must count {unit}, of which {meter.kind} is priced"
            self.complain(path, got(meter.device, must, lead=f", which counts {handle.device.meter_unit}"))
        return handle

    def actuator_names(self) -> dict[str, KeyPath]:
        spec = self.spec
        names: dict[str, KeyPath] = {
            name: ("variables", v.name, "actuator") for v in spec.variables for name in v.actuators
        }
        names |= {d.treatment: ("dosing", n, "treatment") for n, d in spec.dosing.items() if d.treatment is not None}
        names |= {p.actuator: ("trial", "prepare") for p in spec.timing.prepare}
        names |= {name: ("safety", "limits", name) for name in spec.limits if name not in names}
        return {name: path for name, path in names.items() if name not in spec.pumps}

    def probes(self) -> tuple[Probe, ...]:
        """Return the probes of all variables, and of outcomes that no person says."""
        spec = self.spec
        found = [self.probe(("variables", v.name, "sensor"), v.name, v.sensor) for v in spec.variables]
        for i, outcome in enumerate(spec.outcomes):
            path: KeyPath = ("further_outcomes", i - 1, "sensor") if i else ("outcome", "sensor")
            found.append(self.probe(path, outcome.name, outcome.sensor or ""))
        return tuple(probe for probe in found if probe is not None)

    def dosing_probes(self, probes: Sequence[Probe]) -> dict[str, Probe | None]:
        """Return what the doses of each pump are judged by: the probe of its variable, which the watch has seen."""
        served = {name: v.name for v in self.spec.variables for name in v.actuators}
        by_name = {probe.name: probe for probe in probes}
        return {
            n: by_name.get(served.get(n, n)) or self.probe(("dosing", n, "sensor"), served.get(n, n), d.sensor)
            for n, d in self.spec.dosing.items()
        }


def wired(spec: RigSpec, instruments: Registry, clock: Clock, news: News, timing: BusTiming | None = None) -> Wiring:
    """Connect every device of `spec` to its bus; opens and sends nothing.

    Raises:
        ConfigError: a name is unknown, a device cannot do what it is named for, an actuator has no limits, a meter
            counts in another unit than it is priced in; all problems at once.
    """
    w = _Wirer(spec, clock)
    buses = w.connect(instruments, news, timing)
    probes = w.probes()
    dosing = w.dosing_probes(probes)
    watched = [w.probe(("safety", "interlocks"), s.name, s.name, s.rules) for s in spec.watch.sensors]
    actuators = {n: w.role(path, n, Actuator) for n, path in w.actuator_names().items()}  # type: ignore[type-abstract]
    dosers = {n: w.role(("dosing", n), n, Doser) for n in spec.pumps}  # type: ignore[type-abstract]
    meters = {m.name: w.meter(i, m) for i, m in enumerate(spec.meters) if m.kind in METER_UNITS}
    for name in [*actuators, *dosers]:
        if name not in spec.limits:
            w.complain(
                ("safety", "limits", name), Flaw("is missing", "must be given: limits and a safe state of an actuator")
            )
    if w.mistakes:
        raise ConfigError(w.mistakes)
    return Wiring(
        buses,
        w.handles,
        probes,
        {n: p for n, p in dosing.items() if p is not None},
        {n: a for n, a in actuators.items() if a is not None},
        {n: d for n, d in dosers.items() if d is not None},
        {n: m for n, m in meters.items() if m is not None},
        tuple(p for p in watched if p is not None),
    )
