"""The forms a value of the configuration may take, each with the JSON schema an editor sees.

A form is one pydantic validator, never a union: a union would report one mistake once per member.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema

from rigctl.kinds import AMOUNT, FLOW, PER_TRIAL, QUANTITY, RATED, TRIALS, USED, VOLUME, Kind, Late
from rigctl.rig.calendar import Hours

_NUMBER: Final = {"type": "number"}


def _text_of(kind: Kind) -> Callable[[Any], str]:
    def check(value: Any) -> str:
        if not isinstance(value, str):
            unit = "; add the unit" if isinstance(value, int | float) and not isinstance(value, bool) else ""
            raise ValueError(f"must be {kind}{unit}")  # noqa: TRY004  # pydantic collects ValueErrors only
        return value

    return check


def _form(kind: Kind, *more: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": AMOUNT, "examples": [kind.example, *more]})


def _control_sets(value: Any) -> Literal["all"] | list[list[str]]:
    if value == "all":
        return "all"
    problem = 'must be "all" or a list of lists of variables such as [[ph], [ph, calcium]]'
    if isinstance(value, list) and value and all(isinstance(m, str) for m in value):
        problem += f"; write [{', '.join(f'[{m}]' for m in value)}]"
    if not isinstance(value, list) or not value:
        raise ValueError(problem)
    for members in value:
        if not isinstance(members, list) or not members or not all(isinstance(m, str) for m in members):
            raise ValueError(problem)
    return value


def _lengthscales(value: Any) -> float | dict[str, float]:
    values = list(value.values()) if isinstance(value, dict) else [value]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if not numbers or len(numbers) != len(values) or not all(math.isfinite(v) and v > 0 for v in numbers):
        raise ValueError("must be a positive number, or one per variable such as {ph: 0.2}")
    return {k: float(v) for k, v in value.items()} if isinstance(value, dict) else float(value)


def _budget(value: Any) -> dict[str, str]:
    parts = value if isinstance(value, dict) else {"total": value}
    if "total" not in parts or not set(parts) <= {"total", "max_per_trial"}:
        raise ValueError("must be an amount such as 40 EUR, or {total: 40 EUR, max_per_trial: 2 EUR}")
    return {key: _text_of(PER_TRIAL)(amount) for key, amount in parts.items()}


def _currency(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 3 or not (value.isascii() and value.isalpha() and value.isupper()):
        raise ValueError("must be a three-letter code such as EUR")
    return value


def one_of(kinds: str) -> Callable[[Any], Any]:
    """Take `uniform` for `{uniform: }`, `learned` for `{learned: }`."""

    def one_key(value: Any) -> Any:
        if isinstance(value, str):
            return {value: None}
        if not isinstance(value, dict) or len(value) != 1:
            raise ValueError(f"must be exactly one of {kinds}")
        return value

    return one_key


def or_words(*words: str) -> Callable[[dict[str, Any]], None]:
    """Let a schema take these words beside a mapping."""

    def rewritten(schema: dict[str, Any]) -> None:
        mapping = dict(schema)
        schema.clear()
        schema["anyOf"] = [*({"const": word} for word in words), mapping]

    return rewritten


def _actuators(value: Any) -> str | list[str]:
    two = isinstance(value, list) and len(value) == 2 and all(isinstance(v, str) for v in value)
    if isinstance(value, str) or two:
        return value  # type: ignore[no-any-return]
    raise ValueError("must be a device, or two pumps that move it down and up such as [acid_pump, base_pump]")


def _price(value: Any) -> str | list[dict[str, Any]]:
    if not isinstance(value, list):
        return _text_of(Kind("a price", "0.31 EUR/kWh", ""))(value)
    known = {"price", "during", "name"}
    shaped = [isinstance(v, dict) and isinstance(v.get("price"), str) and set(v) <= known for v in value]
    if not value or not all(shaped):
        raise ValueError('must be a price, or a list of {price: 0.31 EUR/kWh, during: "06:00-22:00", name: day}')
    return value


Money = Annotated[str, PlainValidator(_text_of(PER_TRIAL)), _form(PER_TRIAL)]
_MONEY: Final = {"type": "string", "pattern": AMOUNT, "examples": ["40 EUR"]}
_LIMITS: Final = {"total": "Limit of the whole campaign.", "max_per_trial": "Limit of each trial."}
_AMOUNTS: Final = {name: {**_MONEY, "description": meaning} for name, meaning in _LIMITS.items()}
_BUDGET: Final = {"type": "object", "properties": _AMOUNTS, "required": ["total"], "additionalProperties": False}
Budget = Annotated[dict[str, str], PlainValidator(_budget), WithJsonSchema({"anyOf": [_MONEY, _BUDGET]})]
Used = Annotated[str, PlainValidator(_text_of(USED)), _form(USED, VOLUME.example)]
Rated = Annotated[str, PlainValidator(_text_of(RATED)), _form(RATED, FLOW.example)]
Trials = Annotated[str, PlainValidator(_text_of(TRIALS)), _form(TRIALS)]
_HOURS: Final = {"type": "string", "examples": ["08:00-18:00", "Mon-Fri 08:00-18:00"]}
_HOURS_FORM: Final = {"anyOf": [_HOURS, {"type": "array", "items": _HOURS, "minItems": 1}]}
HoursOfWeek = Annotated[Hours, Late("hours", _HOURS_FORM, in_unit=False)]
_PRICE: Final = {
    "type": "string",
    "pattern": AMOUNT,
    "examples": [PER_TRIAL.example, "0.31 EUR/kWh", "4.2 EUR/L", "1.5 EUR/h"],
}
_RATE: Final = {
    "type": "object",
    "properties": {
        "price": {**_PRICE, "description": "As a single price."},
        "during": {**_HOURS_FORM, "description": "The hours of its zone when it holds; without it, all others."},
        "name": {"type": "string", "description": "Its name in the ledger; default: its hours."},
    },
    "description": "One price of several, by time of use.",
    "required": ["price"],
    "additionalProperties": False,
}
Price = Annotated[
    str | list[dict[str, Any]],
    PlainValidator(_price),
    WithJsonSchema({"anyOf": [_PRICE, {"type": "array", "items": _RATE, "minItems": 1}]}),
]
Actuators = Annotated[
    str | list[str],
    PlainValidator(_actuators),
    WithJsonSchema(
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}]}
    ),
]
_SAFE: Final = {"anyOf": [{"const": "off"}, _NUMBER]}
SafeState = Annotated[Literal["off"] | float, Late("safe_state", _SAFE, "off", in_unit=False)]
Currency = Annotated[str, PlainValidator(_currency), WithJsonSchema({"type": "string", "pattern": "^[A-Z]{3}$"})]
Lengthscales = Annotated[
    float | dict[str, float],
    PlainValidator(_lengthscales),
    WithJsonSchema({"anyOf": [_NUMBER, {"type": "object", "additionalProperties": _NUMBER}]}),
]
_COLUMN: Final = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "description": "A CSV file; its path is from the configuration's folder."},
        "column": {"type": "string", "description": "The name of its column, as the first row has it."},
    },
    "description": "Measured values in a column of a CSV file.",
    "required": ["file", "column"],
    "additionalProperties": False,
}
_SAMPLE: Final = {"anyOf": [{"type": "array", "items": QUANTITY, "minItems": 1}, _COLUMN]}
Samples = Annotated[tuple[float, ...], Late("sample", _SAMPLE, ())]
FrozenAfter = Annotated[tuple[float | None, int | None], Late("frozen_after", {"type": "string"}, in_unit=False)]
"""Rig seconds, or trials; None: not by this."""
Worth = Annotated[float, Late("worth", _PRICE)]
_SETS: Final = {
    "type": "array",
    "minItems": 1,
    "items": {"type": "array", "minItems": 1, "items": {"type": "string"}},
}
ControlSets = Annotated[
    Literal["all"] | list[list[str]],
    PlainValidator(_control_sets),
    WithJsonSchema({"anyOf": [{"const": "all"}, _SETS]}),
]
