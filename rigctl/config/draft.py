"""What a new configuration is made of, before it is one, and the commented file that is written of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import combinations
from typing import Any, Final, Literal

from rigctl import flaws
from rigctl.codec import fields_of


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
    options: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What that means to the device's driver."""

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

    @property
    def natural_range(self) -> list[float] | None:
        """Return where it is when left alone, if that is not the range of its setpoints."""
        natural = self.natural
        if natural is None or natural.first is None or natural.second is None:
            return None
        first, last, within = natural.first, natural.second, self.low <= natural.first < natural.second <= self.high
        if natural.kind == "normal":
            first, last = natural.first - TAILS * natural.second, natural.first + TAILS * natural.second
            within = self.low <= natural.first <= self.high
        return None if within else [first, last]

    @property
    def varies(self) -> str | dict[str, Any]:
        """Return how it varies when left alone, as the file has it."""
        natural = self.natural or Natural()
        if natural.kind == "normal":
            return {"truncated_normal": {"mean": natural.first, "sd": natural.second}}
        if natural.kind == "uniform" and natural.first is not None and self.natural_range is None:
            return {"uniform": {"low": natural.first, "high": natural.second}}
        return natural.kind

    @property
    def plausible(self) -> list[float]:
        """Return what a probe by which doses are judged may read: three times as much as there should be."""
        low, high = min([self.low, *(self.natural_range or ())]), max([self.high, *(self.natural_range or ())])
        return [low - (high - low), high + (high - low)]


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
TAILS: Final = 4
"""Standard deviations from the mean within which nature stays."""
AT: Final = 40
"""Column where comments begin; in the template a tab stands before each."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9_./+-][A-Za-z0-9_./+ -]*")


def configuration(draft: Draft, devices: Sequence[FoundDevice]) -> str:
    """Return the configuration as YAML; devices that nothing uses are left in it as comments."""
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415  # only for a new configuration

    jinja = Environment(  # noqa: S701  # no HTML
        loader=PackageLoader("rigctl.config"), undefined=StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    jinja.filters |= {"flow": flow, "named": _name_of, "number": lambda value: f"{value:.12g}"}
    used = {} if draft.by_hand else _devices(draft, devices)
    driven = [v for v in draft.variables if v.actuator is not None]
    text = jinja.get_template("new.yaml").render(
        {
            **fields_of(draft),
            "outcome": draft.outcome or OutcomeDraft("outcome", "1"),
            "sets": _control_sets(draft),
            "costs": _known_costs(draft),
            "examples": {v.name: f"{v.cost or '0.40'} {draft.currency}" for v in draft.variables},
            "meters": _meters(draft, devices),
            "buses": {_bus(device, devices): device.url for device, _ in used.values()},
            "used": used,
            "driven": driven,
            "pumped": [v for v in driven if is_pump(v.actuator, devices)],
            "spare": _spare(devices, used),
            "usual": {"settle": SETTLE, "measure": MEASURE, "every": EVERY, "mix": MIX},
        }
    )
    return "\n".join(_aligned(*line.split("\t", 1)) for line in text.split("\n"))


def _aligned(text: str, comment: str = "") -> str:
    return f"{text.ljust(AT)}  # {comment}" if comment else text


def flow(value: Any) -> str:
    """Write a value as YAML on one line, text in quotes where it would be read as something else."""
    return flaws.flow(value, _quoted)


def _quoted(text: str) -> str:
    read_otherwise = re.fullmatch(r"[-+.\d].*|true|false|null", text) and " " not in text
    return text if _PLAIN.fullmatch(text) and not read_otherwise else json.dumps(text, ensure_ascii=False)


def _name_of(part: VariableDraft | OutcomeDraft, use: str) -> str:
    """Return the name of the device that measures or imposes it."""
    point = getattr(part, use)
    return "?" if point is None else _named(point, part.name, use)


def _control_sets(draft: Draft) -> tuple[Any, str]:
    """Return the control sets, and what is said of them."""
    names = [v.name for v in draft.variables if draft.by_hand or v.actuator is not None]
    if len(names) <= MOST_FOR_ALL:
        return "all", f"or list those worth trying, e.g. {flow([names[:1], names[:2]])}" if len(names) > 1 else ""
    return [*([n] for n in names), *combinations(names, 2), names], "each alone, each pair, all together"


def _known_costs(draft: Draft) -> dict[str, str] | None:
    """Return what every trial and each controlled variable cost; None where one is not said."""
    if any(v.cost is None for v in draft.variables):
        return None
    amounts = {"trial": draft.per_trial or "0", **{v.name: v.cost or "0" for v in draft.variables}}
    return {name: f"{Decimal(amount):f} {draft.currency}" for name, amount in amounts.items()}


# a rig with wires -------------------------------------------------------------------------------------------------


def _named(point: DraftPoint, name: str, use: str) -> str:
    """Name the device that a place becomes: the one that was found, or one of the places in it."""
    return f"{name}_{use}" if point.place else point.device


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
        found[_named(point, name, use)] = (device, _entry(device, devices, _place(point, device, unit)))
    if draft.energy_price is not None:
        found |= {d.name: (d, _entry(d, devices)) for d in devices if d.can == "meter"}
    return found


def _place(point: DraftPoint, device: FoundDevice, unit: str) -> dict[str, Any]:
    """Return the options that a place in an instrument means."""
    has_unit = "unit" in device.options or point.options.keys() & {"read", "write", "query"}
    return {**({"unit": unit} if has_unit else {}), **point.options}


def _meters(draft: Draft, devices: Sequence[FoundDevice]) -> list[tuple[dict[str, Any], str]]:
    """Return the meters, and what is said of each."""
    currency, found = draft.currency, []
    if draft.energy_price is not None:
        price = f"{draft.energy_price} {currency}/kWh"
        counters = [d.name for d in devices if d.can == "meter"]
        found += [({"kind": "energy", "device": n, "price": price}, "counted before and after") for n in counters]
    for v in draft.variables:
        if v.price is not None and is_pump(v.actuator, devices):
            entry = {"kind": "volume", "device": _name_of(v, "actuator"), "price": f"{v.price} {currency}/L"}
            found.append((entry, "what the pump dispenses"))
    if draft.per_hour is not None:
        found.append(({"kind": "time", "price": f"{draft.per_hour} {currency}/h"}, "labour, rent"))
    if draft.per_trial is not None:
        found.append(({"kind": "fixed", "price": f"{draft.per_trial} {currency}"}, "once in every trial"))
    return found


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
    return lines


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Tell whether two entries read, write or switch at one address of one unit."""
    if (one["bus"], one.get("address")) != (other["bus"], other.get("address")):
        return False
    return any(
        key in one and key in other and [one[key].get(k) for k in where] == [other[key].get(k) for k in where]
        for key, where in (("read", ("register", "at")), ("enable", ("coil",)))
    )
