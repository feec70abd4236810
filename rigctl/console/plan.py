"""What a configuration amounts to: who is wired to whom, how long a trial takes, and what the budget buys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rigctl.config.forecast import Forecast, forecast
from rigctl.config.load import LoadedConfig
from rigctl.config.wording import joined, lasting
from rigctl.console import limits_told
from rigctl.core.explain import settings, unit_names
from rigctl.errors import counted
from rigctl.printable import in_full
from rigctl.rig.metering import look_s
from rigctl.rig.protocols import Reading
from rigctl.rig.spec import VariableWiring

GAP = "  "


@dataclass(frozen=True, slots=True)
class Wire:
    """Says what serves a variable, an outcome or a meter; empty where nothing does."""

    name: str
    unit: str
    sensor: str
    sensor_bus: str
    actuator: str = ""
    actuator_bus: str = ""
    reading: str | None = None
    """None: it was not asked."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Holds what a configuration amounts to."""

    wires: tuple[Wire, ...]
    meters: tuple[Wire, ...]
    forecast: Forecast


def plan(loaded: LoadedConfig, readings: Mapping[str, Reading] | None = None) -> Plan:
    """Return the plan of a configuration; `readings` are by variable, outcome and meter, if they were asked."""
    rig, problem = loaded.rig, loaded.problem
    buses = _bus_names(loaded)

    def bus(device: str | None) -> str:
        spec = rig.devices.get(device or "")
        return "" if spec is None else buses.get(spec.url, spec.url)

    def both(devices: Sequence[str]) -> str:
        return " / ".join(dict.fromkeys(map(bus, devices)))

    def read(name: str) -> str | None:
        return None if readings is None else _said(readings.get(name))

    def moved_by(v: VariableWiring) -> str:
        return " / ".join(" + ".join((name, *rig.partners.get(name, ()))) for name in v.actuators)

    units = {v.name: v.unit for v in problem.space.variables}
    wires = [
        Wire(v.name, units[v.name], v.sensor, bus(v.sensor), moved_by(v), both(v.actuators), read(v.name))
        for v in rig.variables
    ]
    outcomes = [(rig.outcome_name, loaded.outcome_unit, rig.outcome_sensor)]
    outcomes += [(o.name, f.unit, o.sensor) for o, f in zip(rig.further, problem.further, strict=True)]
    wires += [Wire(name, unit, sensor, bus(sensor), reading=read(name)) for name, unit, sensor in outcomes]
    meters = [Wire(m.name, m.kind, m.device or "", bus(m.device), reading=read(m.name)) for m in rig.meters]
    return Plan(tuple(wires), tuple(meters), forecast(rig, problem, loaded.max_trials))


def _bus_names(loaded: LoadedConfig) -> Mapping[str, str]:
    named = loaded.document.data.get("buses")
    return {url: name for name, url in named.items()} if isinstance(named, Mapping) else {}


def _said(reading: Reading | None) -> str:
    if reading is None:
        return ""
    return f"{reading.value:.6g} {reading.unit}" if reading.valid else f"INVALID: {reading.detail}"


# telling ----------------------------------------------------------------------------------------------------------


def lines(found: Plan, loaded: LoadedConfig, width: int) -> Sequence[str]:
    """Write the plan in lines of `width` columns; a name is never cut, so a line with long ones may be longer."""
    out = []
    if loaded.wired:
        out += _table(("variable", "unit", "sensor", "bus", "actuator", "bus", "reads"), found.wires, width)
        out += ["", *_table(("meter", "kind", "device", "bus", "", "", "reads"), found.meters, width), ""]
    return [*out, *_sentences(found.forecast, loaded), *limits_told.sentences(found.forecast, loaded)]


def _table(heads: Sequence[str], wires: Sequence[Wire], width: int) -> list[str]:
    """Set a table if it fits; else a few lines per row, which have room on any screen."""
    rows = [_cells(w) for w in wires]
    used = [i for i in range(len(heads)) if any(row[i] for row in rows)]
    widths = [max(len(text) for text in (heads[i], *(row[i] for row in rows))) for i in used]
    if sum(widths) + len(GAP) * (len(used) - 1) <= width:
        table = [heads, *rows]
        return [GAP.join(row[i].ljust(w) for i, w in zip(used, widths, strict=True)).rstrip() for row in table]
    return [line for row in rows for line in _stacked(heads, row)]


def _cells(wire: Wire) -> Sequence[str]:
    sensor_bus, actuator_bus = wire.sensor_bus, wire.actuator_bus
    return wire.name, wire.unit, wire.sensor, sensor_bus, wire.actuator, actuator_bus, wire.reading or ""


def _stacked(heads: Sequence[str], row: Sequence[str]) -> list[str]:
    name, unit, sensor, sensor_bus, actuator, actuator_bus, reading = row
    told = [(heads[2], sensor, sensor_bus), (heads[4], actuator, actuator_bus)]
    out = [f"{name} [{unit}]" if heads[1] == "unit" else f"{name}: {unit}"]
    out += [f"  {head:8}  {device} on {bus}" for head, device, bus in told if device]
    return [*out, f"  {heads[6]:8}  {reading}"] if reading else out


def _sentences(told: Forecast, loaded: LoadedConfig) -> list[str]:
    out = [] if not told.least_s else [_duration(told, loaded), *_looking(loaded)]
    out += [*_worth(loaded), *_referring(loaded)]
    if not told.meters:
        unknown = "What a trial costs is not known beforehand: known_costs can say."
        return [*out, unknown, *_limited(told, loaded)]
    out.append(_cost(told, loaded.currency))
    bought = _bought(told, loaded)
    return [*out, *([bought] if bought else []), *_limited(told, loaded)]


def _limited(told: Forecast, loaded: LoadedConfig) -> list[str]:
    """Say what one trial may cost; ask for that where nothing else says what the first ones cost."""
    ceiling, currency = loaded.problem.cost_ceiling, loaded.currency
    if ceiling is not None:
        stopped = "; a trial that costs more is broken off" if loaded.wired else ""
        return [f"A trial may cost {in_full(ceiling, 6)} {currency} at most{stopped}."]
    ask = f"Say what one trial may cost: `budget: {{total: {in_full(told.budget, 6)} {currency}, max_per_trial: ...}}`."
    return [] if told.meters and not told.unknown else [ask]


def _duration(told: Forecast, loaded: LoadedConfig) -> str:
    timing = loaded.rig.timing
    looks = look_s(timing)
    begins = [("prepare", timing.prepare_s), ("look", looks), ("settle", timing.settle_s)]
    parts = [*begins, ("measure", told.least_s - sum(s for _, s in begins))]
    of = ", ".join(f"{name} {lasting(s)}" for name, s in parts if s)
    likely = f", likely {lasting(told.likely_s)} with its doses" if told.likely_s > told.least_s else ""
    return f"A trial takes at least {lasting(told.least_s)} ({of}){likely}."


def _looking(loaded: LoadedConfig) -> list[str]:
    look = loaded.rig.timing.look
    if look is None:
        return []
    first = "The rig is prepared and its variables are read before each decision"
    return [f"{first}; after a restart a decision goes on for {lasting(look.valid_for_s)} at most."]


def _worth(loaded: LoadedConfig) -> list[str]:
    """Say what was understood of the outcome's worth; at a bench by hand people may look without being told to."""
    if loaded.worth is None or (loaded.wired and loaded.rig.timing.look is None):
        return []
    one = "unit of outcome" if loaded.outcome_unit == "1" else loaded.outcome_unit
    worth = f"{in_full(loaded.worth, 4)} {loaded.currency}"
    return [f"`recommend` says in money what looking earns: one {one} is worth {worth}."]


def _referring(loaded: LoadedConfig) -> list[str]:
    """Say which trials play the reference, and what."""
    reference, space = loaded.problem.reference, loaded.problem.space
    if reference is None:
        return []
    when = f"Trials {reference.every}, {2 * reference.every} and so on play"
    if reference.control_set is None:
        return [f"{when} what would be recommended at the first of them, again and again."]
    at = settings(space.setpoints(reference.control_set, reference.setting), unit_names(space))
    return [f"{when} the reference: {at}."]


def _cost(told: Forecast, currency: str) -> str:
    least = f"It costs at least {in_full(told.least, 3)} {currency}"
    if told.likely is None:
        return f"{least}; what {joined(told.unknown)} will charge is not known before the first trials."
    besides = ""
    if told.unknown:
        besides = f", and what {joined(told.unknown)} will charge besides: `rated` would tell"
    return f"{least}, likely {in_full(told.likely, 3)} {currency}{besides}."


def _bought(told: Forecast, loaded: LoadedConfig) -> str:
    most, likely = told.buys(told.least), told.buys(told.likely)
    if likely is None:
        return ""
    budget = f"{in_full(told.budget, 6)} {loaded.currency}"
    at_most = f" ({most} at the very most)" if most is not None and most != likely else ""
    before = f" before {joined(told.unknown)} is paid" if told.unknown else ""
    bought = f"{budget} buys about {counted(likely, 'trial')}{before}{at_most}"
    if told.days is None:
        return f"{bought}."
    wall = ""
    if loaded.rig.speedup != 1:
        wall = f" of rig time, {lasting(told.days * 86400 / loaded.rig.speedup)} by the wall at this speed"
    return f"{bought}; that takes {lasting(told.days * 86400)}{wall}."


def to_json(found: Plan, loaded: LoadedConfig) -> Mapping[str, Any]:
    told = found.forecast
    return {
        "wiring": found.wires,
        "metering": [{"name": m.name, "kind": m.unit, "device": m.sensor, "bus": m.sensor_bus} for m in found.meters],
        "trial": {"least_s": told.least_s, "likely_s": told.likely_s},
        "cost": {
            "currency": loaded.currency,
            "least": told.least,
            "max_per_trial": loaded.problem.cost_ceiling,
            "likely": told.likely,
            "unknown": told.unknown,
            "meters": told.meters,
        },
        "buys": {
            "trials_at_most": told.buys(told.least),
            "trials_likely": told.buys(told.likely),
            "days": told.days,
        },
        "caps": told.capped,
    }
