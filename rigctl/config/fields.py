"""The forms a value of the configuration may take, each with the JSON schema an editor sees.

A form is one pydantic validator, never a union: a union would report one mistake once per member.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Final, Literal

from pydantic import PlainValidator, WithJsonSchema

from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.space import numbered
from rigctl.flaws import got, require
from rigctl.kinds import LABEL, PER_TRIAL, QUANTITY, Late, amount_like

_NUMBER: Final = {"type": "number"}


def _control_sets(value: Any) -> Literal["all"] | list[list[str]]:
    if value == "all":
        return "all"
    sets = value if isinstance(value, list) else []
    if sets and all(isinstance(s, list) and s and all(isinstance(m, str) for m in s) for s in sets):
        return sets
    flat = sets and all(isinstance(m, str) for m in sets)
    remedy = f"write [{', '.join(f'[{m}]' for m in sets)}]" if flat else ""
    must = 'must be "all" or a list of lists of variables such as [[ph], [ph, calcium]]'
    raise ValueError(got(value, must, remedy))


def _currency(value: Any) -> str:
    if not isinstance(value, str) or len(value) != 3 or not (value.isascii() and value.isalpha() and value.isupper()):
        raise ValueError(got(value, "must be a three-letter code such as EUR"))
    return value


def one_of(kinds: str) -> Callable[[Any], Any]:
    """Take `uniform` for `{uniform: }`, `learned` for `{learned: }`."""

    def one_key(value: Any) -> Any:
        if isinstance(value, str):
            return {value: None}
        require(isinstance(value, dict) and len(value) == 1, value, f"must be exactly one of {kinds}")
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
    raise ValueError(
        got(value, "must be a device, or two pumps that move it down and up such as [acid_pump, base_pump]")
    )


NOT_OF_CATEGORIES: Final = (
    *("unit", "range", "step", "natural_range", "plausible", "doses", "read_back_tolerance", "follows", "max_rate"),
)
"""Keys of a variable that say what numbers are; a category has its levels."""


def _levels(value: Any) -> dict[str, float]:
    words = list(value) if isinstance(value, list | dict) else []
    if not words or not all(isinstance(w, str) and re.fullmatch(LABEL, w) and not set(w) & set(",=") for w in words):
        must = "must be words without commas such as [fine, flat], or {fine: 1, flat: 2} where instruments know numbers"
        raise ValueError(got(value, must, "put words such as on, off and 10 in quotes" if words else ""))
    numbers = value.values() if isinstance(value, dict) else ()
    if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise ValueError(got(value, "must give each word a number"))
    return numbered(value)


def of_levels(section: Any) -> Any:
    """Give a category the range of its levels' numbers, one step from each to the next."""
    if not isinstance(section, dict) or section.get("levels") is None:
        return section
    for key in NOT_OF_CATEGORIES:
        if key in section:
            raise ValueError(got(section[key], "must be left out: a category has its levels", "remove it", where=key))
    try:
        low, *others, high = _levels(section["levels"]).values()
    except ValueError:
        return {**section, "unit": "1", "range": [0, 1]}  # told of the key itself
    step = (high - low) / (len(others) + 1)
    plausible = [low - step / 2, high + step / 2]  # what reads a level may be noisy
    return {**section, "unit": "1", "range": [low, high], "step": step, "plausible": plausible}


def either(schema: dict[str, Any]) -> None:
    """Let a schema ask for levels, or for what a number needs."""
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["levels"]}]


_WORDS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 2}
_NUMBERED: Final = {"type": "object", "additionalProperties": _NUMBER, "minProperties": 2}
LevelNumbers = Annotated[dict[str, float], PlainValidator(_levels), WithJsonSchema({"anyOf": [_WORDS, _NUMBERED]})]
Money = Annotated[Micros, Late("money", amount_like(PER_TRIAL.example), 0, in_unit=False)]
_MONEY: Final = amount_like("40 EUR")
_SUMMANDS: Final = {
    "type": "object",
    "additionalProperties": _MONEY,
    "description": "What each variable adds, and each trial.",
}
KnownCost = Annotated[Micros | dict[str, Micros], Late("known_cost", {"anyOf": [_MONEY, _SUMMANDS]}, 0, in_unit=False)]
_LIMITS: Final = {"total": "Limit of the whole campaign.", "max_per_trial": "Limit of each trial."}
_AMOUNTS: Final = {name: {**_MONEY, "description": meaning} for name, meaning in _LIMITS.items()}
_BUDGET: Final = {"type": "object", "properties": _AMOUNTS, "required": ["total"], "additionalProperties": False}
_ONE_OR_BOTH: Final = {"anyOf": [_MONEY, _BUDGET]}
Budget = Annotated[tuple[Micros, Micros | None], Late("budget", _ONE_OR_BOTH, (1, None), in_unit=False)]
"""Of the campaign, and of a trial."""
Trials = Annotated[int, Late("trials", amount_like("25 trials"), 25, in_unit=False)]
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
