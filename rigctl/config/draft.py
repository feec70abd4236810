"""What a new configuration is made of, before it is one: what was said so far, and what is still missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Natural:
    """How a variable varies when it is left alone."""

    kind: Literal["learned", "uniform", "normal"] = "learned"
    first: float | None = None
    """The mean, or the lower end."""
    second: float | None = None
    """The standard deviation, or the upper end."""


@dataclass(frozen=True, slots=True)
class Point:
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
    sensor: Point | None = None
    actuator: Point | None = None
    safe: str | None = None
    """`off`, or a value to hold."""
    effect: float | None = None
    """Of a pump: change of the reading per mL."""
    price: str | None = None
    """Of what a pump dispenses, a bare amount per litre."""
    per_dose: str | None = None
    per_day: str | None = None
    mix: str | None = None
    treatment: Point | None = None
    """What brings it to the other side of its setpoints, before a pump that only raises or only lowers it."""


@dataclass(frozen=True, slots=True)
class OutcomeDraft:
    """What the campaign is for."""

    name: str
    unit: str = ""
    direction: Literal["maximise", "minimise"] = "maximise"
    target: float | None = None
    sensor: Point | None = None


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
class Device:
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


def is_pump(point: Point | None, devices: Sequence[Device]) -> bool:
    return point is not None and any(d.name == point.device and d.can == "pump" for d in devices)


def is_metered(draft: Draft, devices: Sequence[Device]) -> bool:
    """Tell whether a trial would cost anything: a rig without a meter is refused."""
    energy = draft.energy_price is not None and any(d.can == "meter" for d in devices)
    priced = any(v.price is not None and is_pump(v.actuator, devices) for v in draft.variables)
    return energy or priced or draft.per_trial is not None or draft.per_hour is not None


def missing(draft: Draft, devices: Sequence[Device]) -> dict[str, str]:
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


def _lacks(v: VariableDraft, devices: Sequence[Device]) -> dict[str, str]:
    needs = {} if v.sensor is not None else {"sensor=": f"sensor={_one(devices, 'sensor')}"}
    if is_pump(v.actuator, devices):
        caps = {"effect=": (v.effect, "effect=-0.04"), "per_dose=": (v.per_dose, "per_dose=20mL")}
        caps["per_day="] = (v.per_day, "per_day=500mL")
        needs |= {key: example for key, (said, example) in caps.items() if said is None}
    return needs


def _one(devices: Sequence[Device], can: str) -> str:
    return next((d.name for d in devices if d.can == can), can)
