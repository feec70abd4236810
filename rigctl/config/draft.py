"""What a new configuration is made of, before it is one, and the commented file that is written of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any, Final, Literal

from rigctl.config import wording
from rigctl.text import set_label


@dataclass(frozen=True, slots=True)
class Natural:
    """How a variable varies when it is left alone."""

    kind: Literal["learned", "uniform", "normal"] = "learned"
    first: float | None = None
    """The mean, or the lower end."""
    second: float | None = None
    """The standard deviation, or the upper end."""


@dataclass(frozen=True, slots=True)
class DraftPoint:
    """Where a quantity is read or imposed: a device that was found, and a place in it."""

    device: str
    place: tuple[str, ...] = ()
    """Of a register `input`, `0`, `float32`, ...; of a SCPI instrument the question; else empty."""

    def __str__(self) -> str:
        return "/".join((self.device, *self.place))


@dataclass(frozen=True, slots=True)
class VariableDraft:
    """A quantity that could be controlled."""

    name: str
    unit: str = ""
    low: float = math.nan
    high: float = math.nan
    natural: Natural | None = None
    """None: not said."""
    step: float | None = None
    cost: str | None = None
    """What controlling it adds to a trial by hand, a bare amount; None: not said."""
    sensor: DraftPoint | None = None
    actuator: DraftPoint | None = None
    safe: str | None = None
    """`off`, or a value to hold."""
    effect: float | None = None
    """Of a pump: change of the reading per mL."""
    price: str | None = None
    """Of what a pump dispenses, a bare amount per litre."""
    per_dose: str | None = None
    per_day: str | None = None
    mix: str | None = None
    treatment: DraftPoint | None = None
    """What brings it to the other side of its setpoints, before a pump that only raises or only lowers it."""


@dataclass(frozen=True, slots=True)
class OutcomeDraft:
    """What the campaign is for."""

    name: str
    unit: str = ""
    direction: Literal["maximise", "minimise"] = "maximise"
    target: float | None = None
    sensor: DraftPoint | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that was said so far; None and empty: not said."""

    name: str | None = None
    currency: str | None = None
    budget: str | None = None
    """A bare amount."""
    max_per_trial: str | None = None
    """A bare amount; None: no trial is limited."""
    outcome: OutcomeDraft | None = None
    variables: tuple[VariableDraft, ...] = ()
    per_trial: str | None = None
    per_hour: str | None = None
    energy_price: str | None = None
    """Per kWh."""
    settle: str | None = None
    measure: str | None = None
    every: str | None = None
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """An instrument that was found, as the configuration will name it."""

    name: str
    driver: str
    url: str
    options: Mapping[str, Any] = field(default_factory=dict)
    said: str = ""
    """Maker, model, serial number, as it told them."""
    channels: tuple[tuple[Mapping[str, Any], str], ...] = ()
    """What else was seen there: options of a device that would use it, and in words what stands there now."""

    @property
    def can(self) -> Literal["sensor", "pump", "meter", "scpi", "modbus"]:
        known: Mapping[str, Literal["pump", "meter", "scpi", "modbus"]] = {
            "ezo-pmp": "pump", "sdm120": "meter", "sdm630": "meter", "scpi": "scpi", "modbus": "modbus",
        }  # fmt: skip
        return known.get(self.driver, "sensor")


def is_pump(point: DraftPoint | None, devices: Sequence[FoundDevice]) -> bool:
    return point is not None and any(d.name == point.device and d.can == "pump" for d in devices)


def is_metered(draft: Draft, devices: Sequence[FoundDevice]) -> bool:
    """Tell whether a trial would cost anything: a rig without a meter is refused."""
    energy = draft.energy_price is not None and any(d.can == "meter" for d in devices)
    priced = any(v.price is not None and is_pump(v.actuator, devices) for v in draft.variables)
    return energy or priced or draft.per_trial is not None or draft.per_hour is not None


def missing(draft: Draft, devices: Sequence[FoundDevice]) -> dict[str, str]:
    """Return what a configuration still needs: the flag, or the key in one, and an example."""
    needs: dict[str, str] = {}
    if draft.outcome is None:
        needs["--outcome"] = '--outcome "growth cm2/day maximise"'
    if not draft.variables:
        needs["--variable"] = '--variable "ph pH 5 7 natural=6.3+-0.3" --variable "ca mM 0.5 6"'
    if draft.budget is None:
        needs["--budget"] = '--budget "40 EUR"'
    if draft.by_hand:
        return needs
    if draft.outcome is not None and draft.outcome.sensor is None:
        needs[f"sensor= in --outcome {draft.outcome.name}"] = f"sensor={_one(devices, 'scpi')}/MEAS:GROW?"
    for v in draft.variables:
        needs |= {f"{key} in --variable {v.name}": example for key, example in _lacks(v, devices).items()}
    if draft.variables and all(v.actuator is None for v in draft.variables):
        needs["actuator= in one --variable at least"] = f"actuator={_one(devices, 'pump')}"
    if not is_metered(draft, devices):
        needs["--per-trial, --per-hour or --energy-price"] = "--per-trial 0.05"
    return needs


def _lacks(v: VariableDraft, devices: Sequence[FoundDevice]) -> dict[str, str]:
    needs = {} if v.sensor is not None else {"sensor=": f"sensor={_one(devices, 'sensor')}"}
    if is_pump(v.actuator, devices):
        caps = {"effect=": (v.effect, "effect=-0.04"), "per_dose=": (v.per_dose, "per_dose=20mL")}
        caps["per_day="] = (v.per_day, "per_day=500mL")
        needs |= {key: example for key, (said, example) in caps.items() if said is None}
    return needs


def _one(devices: Sequence[FoundDevice], can: str) -> str:
    return next((d.name for d in devices if d.can == can), can)


# the file ---------------------------------------------------------------------------------------------------------


MOST_FOR_ALL: Final = 6
"""With more variables, `all` would be more control sets than anybody can try."""
SETTLE: Final = "5 min"
MEASURE: Final = "2 min"
EVERY: Final = "30 s"
MIX: Final = "45 s"
NEAR: Final = 0.02
"""Of the range: as near to its setpoint as a pump has to bring a variable."""
TAILS: Final = 4
"""Standard deviations from the mean within which nature stays."""
AT: Final = 40
"""Column where comments begin."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+ -]*")


def configuration(draft: Draft, devices: Sequence[FoundDevice]) -> str:
    """Return the configuration as YAML; devices that nothing uses are left in it as comments."""
    used = {} if draft.by_hand else _devices(draft, devices)
    sections = [_head(draft), _variables(draft, devices), _control_sets(draft), _outcome(draft)]
    if draft.by_hand:
        sections += [_costs_by_hand(draft)]
    else:
        sections += [_meters(draft, devices), _trial(draft), _wiring(devices, used), _doses(draft, devices)]
    sections += [_spare(devices, used)]
    if not draft.by_hand:
        sections += [_safety(draft, devices)]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


def flow(value: Any) -> str:
    """Write a value as YAML on one line, text in quotes where it would be read as something else."""
    return wording.flow(value, _quoted)


def _quoted(text: str) -> str:
    read_otherwise = re.fullmatch(r"[-+.\d].*|true|false|null", text) and " " not in text
    return text if _PLAIN.fullmatch(text) and not read_otherwise else json.dumps(text, ensure_ascii=False)


def _line(text: str, comment: str = "") -> str:
    return f"{text.ljust(AT)}  # {comment}" if comment else text


# what the campaign is for -----------------------------------------------------------------------------------------


def _head(draft: Draft) -> list[str]:
    name, currency, budget = draft.name, draft.currency, f"{draft.budget} {draft.currency}"
    if draft.max_per_trial is not None:
        budget = f"{{total: {budget}, max_per_trial: {draft.max_per_trial} {currency}}}"
    return [
        f"# {name}: written by `rigctl init`. Change what you like, then run `rigctl check` on this file.",
        "# docs/configuration.md explains every key; `rigctl schema` is for editors that complete and underline.",
        "",
        _line(f"rig: {name}", f"what is recorded is kept in ./state/{name}"),
        _line(f"currency: {currency}", "of every amount in this file"),
        _line(f"budget: {budget}", "of the whole campaign; it is never exceeded knowingly"),
        _line("# max_trials: 30", "ends the campaign after so many trials, whatever is left"),
        _line("# seed: 1", "another seed, other first trials; 0 unless given"),
        _line("# today: {control: [...], at: {...}}", "how it is run today: recommendations compare with it"),
        _line("# policy: {name: value-per-cost}", "who decides; `likely-maximisers` unless given"),
    ]


def _variables(draft: Draft, devices: Sequence[FoundDevice]) -> list[str]:
    lines = [
        "# What can be controlled, each in its own unit. `natural` is how it varies when it is left alone: `learned`",
        "# finds that out; else `uniform`, {uniform: {low: 1, high: 3}}, {truncated_normal: {mean: 2, sd: 0.5}}, or",
        "# measured values, {empirical: [1.9, 2.4, 2.1]}.",
        "variables:",
    ]
    for v in draft.variables:
        lines += [
            f"  {v.name}:",
            _line(f"    unit: {flow(v.unit)}"),
            _line(f"    range: {flow([v.low, v.high])}", "lowest and highest value you would set"),
        ]
        step = "    # step: 1" if v.step is None else f"    step: {v.step:.12g}"
        lines.append(_line(step, "between two values you can set"))
        around = natural_range(v)
        if around is not None:
            lines.append(_line(f"    natural_range: {flow(around)}", "where it is when left alone"))
        lines.append(f"    natural: {_natural(v.natural or Natural(), within=around)}")
        if draft.by_hand:
            continue
        lines.append(_line(f"    sensor: {_sensor(v)}", "measures it"))
        if v.actuator is not None:
            lines.append(_line(f"    actuator: {_actuator(v)}", "imposes it"))
        else:
            lines.append(_line("    # actuator: ...", "without one it is measured, and never controlled"))
        if is_pump(v.actuator, devices):
            low, high = min([v.low, *(around or ())]), max([v.high, *(around or ())])
            true = flow([low - (high - low), high + (high - low)])
            lines.append(_line(f"    plausible: {true}", "a reading outside is a fault, and no dose follows it"))
    return lines


def natural_range(v: VariableDraft) -> list[float] | None:
    """Return where a variable is when left alone, if that is not the range of its setpoints."""
    natural = v.natural
    if natural is None or natural.first is None or natural.second is None:
        return None
    if natural.kind == "normal":
        first, last = natural.first - TAILS * natural.second, natural.first + TAILS * natural.second
        return None if v.low <= natural.first <= v.high else [first, last]
    return None if v.low <= natural.first < natural.second <= v.high else [natural.first, natural.second]


def _natural(natural: Natural, *, within: list[float] | None) -> str:
    if natural.kind == "normal":
        return flow({"truncated_normal": {"mean": natural.first, "sd": natural.second}})
    if natural.kind == "uniform" and natural.first is not None and within is None:
        return flow({"uniform": {"low": natural.first, "high": natural.second}})
    return natural.kind


def _control_sets(draft: Draft) -> list[str]:
    names = [v.name for v in draft.variables if draft.by_hand or v.actuator is not None]
    if len(names) <= MOST_FOR_ALL:
        sets, comment = "all", f"or list those worth trying, e.g. {flow([names[:1], names[:2]])}"
    else:
        some = [[n] for n in names] + [list(pair) for pair in combinations(names, 2)] + [names]
        sets, comment = flow(some), "each alone, each pair, all together"
    lines = ["# Which variables may be controlled together; the others vary by themselves and are measured."]
    return [*lines, _line(f"control_sets: {sets}", comment if len(names) > 1 else "")]


def _outcome(draft: Draft) -> list[str]:
    o = draft.outcome or OutcomeDraft("outcome", "1")
    lines = [
        "# What the campaign is for.",
        "outcome:",
        f"  name: {o.name}",
        f"  unit: {flow(o.unit)}",
        _line(f"  direction: {o.direction}", "or minimise" if o.direction == "maximise" else "or maximise"),
    ]
    if o.target is not None:
        lines.append(f"  # target: {o.target:.12g} {o.unit}. Only a note: see how near `rigctl recommend` comes to it.")
    if not draft.by_hand and o.sensor is not None:
        lines.append(_line(f"  sensor: {_named(o.sensor, o.name, 'sensor')}", "measures it"))
    return [*lines, _line("  # floor: 0", "the worst value it can take, if you know it")]


def _costs_by_hand(draft: Draft) -> list[str]:
    told = [v for v in draft.variables if v.cost is not None]
    if len(told) < len(draft.variables):
        some = {v.name: f"{v.cost or '0.40'} {draft.currency}" for v in draft.variables}
        return [
            "# What a trial costs is learned from the cost given with each trial. If you know it beforehand,",
            "# name every control set:",
            f"# known_costs: {flow(some)}",
        ]
    lines = [
        "# What one trial costs, by what is controlled in it. Delete this to have costs learned from the trials.",
        "known_costs:",
    ]
    return [*lines, *(f"  {name}: {cost} {draft.currency}" for name, cost in _sets_and_costs(draft))]


def _sets_and_costs(draft: Draft) -> Iterator[tuple[str, str]]:
    """Yield each control set with its cost: what every trial costs, and what controlling each variable adds."""
    base, variables = Decimal(draft.per_trial or "0"), draft.variables
    sizes = range(1, len(variables) + 1) if len(variables) <= MOST_FOR_ALL else (1, 2, len(variables))
    for size in sizes:
        for members in combinations(variables, size):
            cost = base + sum(Decimal(v.cost or "0") for v in members)
            yield set_label(v.name for v in members), f"{cost:f}"


# a rig with wires -------------------------------------------------------------------------------------------------


def _named(point: DraftPoint, name: str, use: str) -> str:
    """Name the device that a place becomes: the one that was found, or one of the places in it."""
    return f"{name}_{use}" if point.place else point.device


def _sensor(v: VariableDraft) -> str:
    return _named(v.sensor, v.name, "sensor") if v.sensor is not None else "?"


def _actuator(v: VariableDraft) -> str:
    return _named(v.actuator, v.name, "actuator") if v.actuator is not None else "?"


def _treatment(v: VariableDraft) -> str:
    return "# treatment: ..." if v.treatment is None else f"treatment: {_named(v.treatment, v.name, 'treatment')}"


def _bus(device: FoundDevice, devices: Sequence[FoundDevice]) -> str:
    first = next(d for d in devices if d.url == device.url)
    return f"{first.name}_line"


def _entry(
    device: FoundDevice, devices: Sequence[FoundDevice], more: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"driver": device.driver, "bus": _bus(device, devices), **device.options, **(more or {})}


def _devices(draft: Draft, devices: Sequence[FoundDevice]) -> dict[str, tuple[FoundDevice, dict[str, Any]]]:
    """Return what is used, by the name it has: the instrument that was found, and its entry."""
    by_name = {d.name: d for d in devices}
    uses = [(v.name, v.unit, v.sensor, "sensor") for v in draft.variables]
    uses += [(v.name, v.unit, v.actuator, "actuator") for v in draft.variables]
    uses += [(v.name, v.unit, v.treatment, "treatment") for v in draft.variables if is_pump(v.actuator, devices)]
    if draft.outcome is not None:
        uses.append((draft.outcome.name, draft.outcome.unit, draft.outcome.sensor, "sensor"))
    found: dict[str, tuple[FoundDevice, dict[str, Any]]] = {}
    for name, unit, point, use in uses:
        if point is None:
            continue
        device = by_name[point.device]
        found[_named(point, name, use)] = (device, _entry(device, devices, _place(point, device, unit, use)))
    if draft.energy_price is not None:
        found |= {d.name: (d, _entry(d, devices)) for d in devices if d.can == "meter"}
    return found


def _place(point: DraftPoint, device: FoundDevice, unit: str, use: str) -> dict[str, Any]:
    """Return the options that a place in an instrument means."""
    if device.can == "scpi":
        return {"unit": unit, "query": point.place[0]}
    if device.can != "modbus":
        return {"unit": unit} if "unit" in device.options else {}
    table, at, *rest = point.place
    given = dict(part.split("=", 1) for part in rest if "=" in part)
    number: dict[str, Any] = {} if table in ("coil", "discrete") else {"at": int(at)}
    for part in rest:
        if "=" not in part:
            number["order" if part.isupper() else "type"] = part
    if "scale" in given:
        number["scale"] = float(given["scale"])
    if use == "sensor":
        return {"unit": unit, "read": {"register": table, "at": int(at), **number}}
    if table == "coil":
        return {"enable": {"coil": int(at)}}
    way = {"enable": {"coil": int(given["coil"])}} if "coil" in given else {"release_value": float(given["release"])}
    return {"unit": unit, "write": number, **way}


def _meters(draft: Draft, devices: Sequence[FoundDevice]) -> list[str]:
    currency, lines = draft.currency, ["# What a trial costs; the sum is what counts against the budget.", "meters:"]
    if draft.energy_price is not None:
        for d in (d for d in devices if d.can == "meter"):
            entry = {"kind": "energy", "device": d.name, "price": f"{draft.energy_price} {currency}/kWh"}
            lines.append(_line(f"  - {flow(entry)}", "counted before and after"))
    for v in draft.variables:
        if v.price is not None and is_pump(v.actuator, devices):
            entry = {"kind": "volume", "device": _actuator(v), "price": f"{v.price} {currency}/L"}
            lines.append(_line(f"  - {flow(entry)}", "what the pump dispenses"))
    if draft.per_hour is not None:
        lines.append(_line(f"  - {flow({'kind': 'time', 'price': f'{draft.per_hour} {currency}/h'})}", "labour, rent"))
    if draft.per_trial is not None:
        fixed = {"kind": "fixed", "price": f"{draft.per_trial} {currency}"}
        lines.append(_line(f"  - {flow(fixed)}", "once in every trial"))
    return lines


def _trial(draft: Draft) -> list[str]:
    window = {"for": draft.measure or MEASURE, "every": draft.every or EVERY, "statistic": "median"}
    return [
        "# How long a trial takes.",
        "trial:",
        _line(f"  settle: {draft.settle or SETTLE}", "from the last setpoint to the first sample"),
        _line(f"  measure: {flow(window)}", "samples, and how they become one"),
        "  # prepare: [{actuator: refill, value: 1, wait: 2 min}]   # a fresh tank, a new workpiece",
    ]


def _wiring(devices: Sequence[FoundDevice], used: Mapping[str, tuple[FoundDevice, dict[str, Any]]]) -> list[str]:
    lines, wires = ["# The wires, and what is on them.", "buses:"], {}
    for device, _ in used.values():
        wires[_bus(device, devices)] = device.url
    lines += [f"  {name}: {flow(url)}" for name, url in wires.items()]
    lines.append("devices:")
    for name, (device, entry) in used.items():
        lines += [f"  # {device.said}"] * bool(device.said) + [f"  {name}: {flow(entry)}"]
    return lines


def _spare(devices: Sequence[FoundDevice], used: Mapping[str, tuple[FoundDevice, dict[str, Any]]]) -> list[str]:
    """Return what was found and is not used, and what else there seems to be, as comments."""
    lines: list[str] = []
    taken = {device.name for device, _ in used.values()}
    for d in devices:
        bus = _bus(d, devices) if d.name in taken else d.url
        if d.name not in taken:
            lines.append(f"#  {d.name}: {flow({'driver': d.driver, 'bus': bus, **d.options})}   # {d.said}")
        for n, (options, said) in enumerate(d.channels, start=1):
            entry = {"driver": d.driver, "bus": bus, **d.options, **options}
            if any(_same_place(entry, there) for _, there in used.values()):
                continue
            lines.append(f"#  {d.name}_{n}: {flow(entry)}   # {said}" if options else f"#  {d.name}: {said}")
    return (
        ["# Seen there, and not used: devices for a copy without the #, each with its unit.", *lines] if lines else []
    )


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two entries read, write or switch at one address of one unit."""
    if (one["bus"], one.get("address")) != (other["bus"], other.get("address")):
        return False
    return any(
        key in one and key in other and [one[key].get(k) for k in where] == [other[key].get(k) for k in where]
        for key, where in (("read", ("register", "at")), ("enable", ("coil",)))
    )


def _doses(draft: Draft, devices: Sequence[FoundDevice]) -> list[str]:
    pumps = [v for v in draft.variables if is_pump(v.actuator, devices)]
    if not pumps:
        return []
    lines = ["# How a pump brings its variable to a setpoint, dose by dose.", "dosing:"]
    for v in pumps:
        lines += [
            f"  {_actuator(v)}:",
            _line(f"    sensor: {_sensor(v)}", "judges each dose"),
            _line(f"    effect: {v.effect:.12g} {v.unit}/mL", "what 1 mL changes; measure it once with one dose"),
            _line(f"    tolerance: {NEAR * (v.high - v.low):.3g} {v.unit}", "near enough"),
            _line(f"    mix: {v.mix or MIX}", "from a dose to the reading that judges it"),
            _line("    max_doses: 6", "after as many in vain the trial fails"),
            _line(f"    {_treatment(v)}", "an actuator that first brings it to the other side"),
        ]
    return lines


def _safety(draft: Draft, devices: Sequence[FoundDevice]) -> list[str]:
    lines = [
        "# rigctl is not a safety system: fit a timer relay on every pump, and a limit switch where harm is possible.",
        "safety:",
        _line("  safe_state:", "where each goes on any fault: off, or a value to hold"),
    ]
    driven = [v for v in draft.variables if v.actuator is not None]
    lines += [f"    {_actuator(v)}: {v.safe or 'off'}" for v in driven]
    pumps = [v for v in driven if is_pump(v.actuator, devices)]
    lines += [f"    {_named(v.treatment, v.name, 'treatment')}: off" for v in pumps if v.treatment is not None]
    if pumps:
        lines.append(_line("  limits:", "the most a pump may dispense, whatever is asked of it"))
    for v in pumps:
        lines.append(f"    {_actuator(v)}: {flow({'per_dose': v.per_dose, 'per_day': v.per_day})}")
    first = draft.variables[0]
    example = f'{{name: low, when: "{first.name} < {first.low:.12g} {first.unit}", for: 10 s, then: hold}}'
    return [*lines, f"  # interlocks: [{example}]   # what must not hold, and what is done then"]
