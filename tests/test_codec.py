"""Typed values, their plain form, and the way back."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.codec import from_json, plain, row, row_decoder, to_json, typed


class Colour(StrEnum):
    """By name."""

    RED = "red"


class Level(IntEnum):
    """By number."""

    LOW = 0
    HIGH = 2


@dataclass(frozen=True, slots=True)
class Point:
    """Has parts."""

    at: tuple[float, ...]
    colour: Colour = Colour.RED


@dataclass(frozen=True, slots=True, kw_only=True)
class Thing(Point):
    """Has a bit of everything."""

    name: str
    amount: int
    level: Level | None = None
    sure: bool = False
    size: float = 0.0
    most: float | None = None
    points: tuple[Point, ...] = ()
    by_name: Mapping[str, Point] = field(default_factory=dict)
    anything: Mapping[str, Any] | None = None
    state: Literal["off"] | float = "off"


THING = Thing(
    (0.1, 1 / 3),
    name="x",
    amount=10**15 + 1,
    level=Level.HIGH,
    sure=True,
    size=-math.inf,
    points=(Point((5e-324,)),),
    by_name={"p": Point(())},
    anything={"n": [1, None, {"m": 2.5}]},
    state=1.5,
)


@pytest.mark.parametrize("thing", [THING, Thing((), name="", amount=0)])
def test_a_value_comes_back_as_it_was(thing):
    """Tuples, enumerations, what is nested, inherited or missing: equal, and of the same types."""
    again = from_json(Thing, to_json(thing))
    assert again == thing
    assert [type(p) for p in again.points] == [type(p) for p in thing.points]
    assert type(again.level) is type(thing.level)
    assert typed(Thing, plain(thing)) == thing


@given(st.floats())
def test_every_float_survives(value):
    """To the last bit; NaN stays NaN."""
    (again,) = from_json(Point, to_json(Point((value,)))).at
    assert math.isnan(again) if math.isnan(value) else again.hex() == value.hex()


def test_what_a_newer_version_leaves_out_takes_its_default_and_what_is_unknown_is_refused():
    """A field that is gone may have a default; a key that is no field is no field."""
    assert from_json(Point, '{"at": [1.0]}') == Point((1.0,))
    with pytest.raises(TypeError, match="size"):
        from_json(Point, '{"at": [], "size": 1}')
    with pytest.raises(TypeError, match="at"):
        from_json(Point, "{}")
    with pytest.raises(ValueError, match="blue"):
        from_json(Point, '{"at": [], "colour": "blue"}')


def test_what_is_left_is_turned_by_the_caller():
    """A leaf is what has no parts; text is not a sequence."""
    assert plain({"a": (1, "two", None)}, str) == {"a": ["1", "two", "None"]}


def test_a_row_of_a_table_is_a_value_and_a_value_a_row():
    """Amounts stand in micro-units under a name that says so, parts as JSON, NaN as NULL."""
    values = {"name": "x", "amount": 7, "size": math.nan, "sure": True, "points": THING.points, "at": (0.5,)}
    cells = row(values)
    assert list(cells) == ["name", "amount_micros", "size", "sure", "points", "at"]
    assert json.loads(cells["points"]) == plain(THING.points)
    with closing(sqlite3.connect(":memory:")) as file:
        names = ", ".join([*cells, "level", "extra"])
        marks = ", ".join("?" * (len(cells) + 2))
        file.execute(f"CREATE TABLE t ({names})")
        file.execute(f"INSERT INTO t VALUES ({marks})", (*cells.values(), Level.HIGH, "no field"))  # noqa: S608
        cursor = file.execute("SELECT * FROM t")
        columns = tuple(column[0] for column in cursor.description)
        (found,) = map(row_decoder(Thing, columns), cursor)
    assert math.isnan(found.size)
    assert found.sure is True
    assert found.level is Level.HIGH
    assert (found.name, found.amount, found.points, found.at) == ("x", 7, THING.points, (0.5,))
    assert found.most is found.anything is None
