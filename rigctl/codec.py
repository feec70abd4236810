"""Typed values as plain ones, which JSON and SQLite can hold, and back: by the fields and types of dataclasses.

Floats survive exactly, NaN and the infinities too. Tuples become lists and come back as tuples, enumerations stand by
their values. A union is left as it is, unless it is of one type and None; tuples have members of one type.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Decode = Callable[[Any], Any]

MONEY = ("amount", "budget")
"""Fields in whole micro-units; their columns end in `_micros`."""
COLUMN = "column"
"""Key of a field's metadata: the name of its column, where that is another one."""
_ATOMS = (str, float, int, NoneType, bytes)


def plain(value: Any, leaf: Callable[[Any], Any] = lambda value: value) -> Any:
    """Return a value with dictionaries for dataclasses and mappings, lists for sequences, and `leaf` of the rest."""
    if isinstance(value, _ATOMS):
        return leaf(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inner, leaf) for key, inner in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: plain(inner, leaf) for name, inner in fields_of(value).items()}
    if isinstance(value, Sequence):
        return [plain(inner, leaf) for inner in value]
    return leaf(value)


def fields_of(value: Any) -> dict[str, Any]:
    """Return a dataclass's values by field, as they are."""
    return {name: getattr(value, name) for name in _names(value.__class__)}


@cache  # the fields of a type do not change
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def typed(kind: type[T], value: Any) -> T:
    """Return the value of this type that `plain` has made this one of.

    Raises:
        TypeError, ValueError, KeyError, AttributeError: it has made it of no such value.
    """
    hashable: Any = kind  # the type checker does not take it for that
    decode = _decoder(hashable)
    result: T = value if decode is None else decode(value)
    return result


def to_json(value: Any) -> str:
    return json.dumps(plain(value))


def from_json(kind: type[T], text: str) -> T:
    """Return the value of this type that `to_json` has written; raises as `typed`."""
    return typed(kind, parsed(text))


def parsed(text: str) -> Any:
    """Return the value of a JSON text; raises ValueError if it is none, or nested deeper than anybody means."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("JSON that is nested too deep") from None


def row(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by field as values by column, as SQLite takes them: what has parts is stored as JSON."""
    return {
        f"{name}_micros" if name in MONEY else name: value if isinstance(value, _ATOMS) else to_json(value)
        for name, value in values.items()
    }


def column_name(field: dataclasses.Field[Any]) -> str:
    name: str = field.metadata.get(COLUMN, f"{field.name}_micros" if field.name in MONEY else field.name)
    return name


def row_decoder(kind: type[T], columns: tuple[str, ...]) -> Callable[..., T]:
    """Return what makes a value of this type of a row with these columns, and of the fields it is given besides.

    Columns that are no fields are left out; fields that have no column must have a default.
    """
    hashable: Any = kind
    wanted = _wanted(hashable, columns)

    def decode(cells: Sequence[Any], **more: Any) -> T:
        return kind(**{n: cells[i] if d is None else d(cells[i]) for n, i, d in wanted}, **more)

    return decode


@cache
def _wanted(kind: Any, columns: tuple[str, ...]) -> list[tuple[str, int, Decode | None]]:
    hints = get_type_hints(kind)
    places = [(field.name, column_name(field)) for field in dataclasses.fields(kind)]
    return [(name, columns.index(column), _of_cell(hints[name])) for name, column in places if column in columns]


def _of_cell(kind: Any) -> Decode | None:
    members = [member for member in get_args(kind) if member is not NoneType]
    alone = members[0] if get_origin(kind) in (Union, UnionType) and len(members) == 1 else kind
    if kind is float:
        return lambda value: math.nan if value is None else value
    if not (dataclasses.is_dataclass(alone) or _is_mapping(alone) or get_origin(alone) is tuple):
        return _decoder(kind)
    decode = _decoder(alone) or (lambda value: value)

    def decode_cell(text: str | None) -> Any:
        return None if text is None else decode(parsed(text))

    # Tuples do not change, and the same few come again and again, e.g. control sets.
    return lru_cache(maxsize=256)(decode_cell) if get_origin(alone) is tuple else decode_cell


@cache
def _decoder(kind: Any) -> Decode | None:
    """Return what turns a plain value into one of this type; None: there is nothing to be done."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _of_fields(kind)
    if kind is bool or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind
    return _of_members(kind)


def _of_members(kind: Any) -> Decode | None:
    origin, members = get_origin(kind), get_args(kind)
    decoders = (_decoder(member) for member in members if member not in (NoneType, ...))
    inner = next((decoder for decoder in decoders if decoder is not None), None)
    if inner is None:
        return tuple if origin is tuple else None
    if origin is tuple:
        return lambda value: tuple(map(inner, value))
    if _is_mapping(kind):
        return lambda value: {key: inner(v) for key, v in value.items()}
    if origin in (Union, UnionType) and len(members) == 2 and NoneType in members:
        return lambda value: None if value is None else inner(value)
    return None


def _of_fields(kind: type) -> Decode:
    decoders = ((name, _decoder(hint)) for name, hint in get_type_hints(kind).items())
    steps = [(name, decode) for name, decode in decoders if decode is not None]

    def decode_fields(value: Any) -> Any:
        return kind(**{**value, **{name: decode(value[name]) for name, decode in steps if name in value}})

    return decode_fields


def _is_mapping(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, Mapping)
