"""Outcomes that people keep in a table: read as a spreadsheet saves it, every mistake with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rigctl.config.load import LoadedConfig
from rigctl.console.columns import Names, key
from rigctl.console.spreadsheet import Decimals, Sheet, decimals_of, is_empty, parsed, read_sheet
from rigctl.errors import ConfigError, Mistake, UsageError

OTHERS: Final = ("trial", "unit", "why")
_QUANTITY: Final = re.compile(r"(?P<number>[+-]?[\d.,]+(?:[\s'’]\d{3})*[\d.,]*(?:[eE][+-]?\d+)?)\s*(?P<unit>.*)")


@dataclass(frozen=True, slots=True)
class Said:
    """Holds what is said of one trial, as it was written."""

    trial: int
    value: str = ""
    """Of the first outcome, with or without a unit."""
    further: Mapping[str, str] = field(default_factory=dict)
    why: str = ""
    where: str = ""
    """File and line, for people."""


@dataclass(frozen=True, slots=True)
class Given:
    """Holds what a file says."""

    said: tuple[Said, ...]
    empty: tuple[int, ...]
    """Trials of which it says nothing yet."""
    unread: tuple[str, ...]
    """Headers of columns that are not read."""


def given_in(loaded: LoadedConfig, path: Path, decimals: Decimals | None) -> Given:
    """Read the columns trial, the first outcome's name, and perhaps unit, further outcomes, why.

    Raises:
        UsageError: it is no table, or it is not clear which mark its numbers have before their fraction.
        ConfigError: a column is missing, or rows do not hold; all of them.
    """
    outcomes = loaded.rig.outcome_names
    targets = _Targets(Names(loaded, {}), outcomes)
    sheet = read_sheet(path, lambda header: bool(targets.of(header)[0]))
    columns = [targets.of(header) for header in sheet.header]
    names = [name for name, _ in columns]
    head, got = f"{path}:{sheet.header_line}", ", ".join(sheet.header)
    needed = ("trial", outcomes[0])
    hint = "; name the columns in the first line"
    mistakes = [Mistake(head, f"column {n} is missing, got {got}{hint}") for n in needed if n not in names]
    mistakes += [Mistake(head, f"column {name} is there twice") for name in {*names} - {""} if names.count(name) > 1]
    if mistakes:
        raise ConfigError(mistakes)
    as_point = _pointed(path, sheet, names, outcomes, decimals)
    said: dict[int, Said] = {}
    empty = []
    for line, row in sheet.rows:
        where = f"{path}:{line}"
        cells = {name: cell for name, cell in zip(names, row, strict=True) if name and not is_empty(cell)}
        if "trial" not in cells or not cells["trial"].isdecimal():
            got = cells.get("trial", "")
            mistakes.append(Mistake(where, f'trial: got "{got}", must be a number of a trial'))
            continue
        number = int(cells["trial"])
        if number in said or number in empty:
            first = said[number].where if number in said else "a line without an outcome"
            mistakes.append(Mistake(where, f"trial {number}: stands here twice, first in {first}"))
            continue
        if not any(name in cells for name in outcomes):
            empty.append(number)
            continue
        values = {}
        for (name, unit), cell in zip(columns, row, strict=True):
            if name in outcomes and name in cells:
                behind = cells.get("unit", "") if name == outcomes[0] else ""
                try:
                    amount, own = as_point(cell)
                    values[name] = " ".join(filter(None, (amount, own or behind or unit)))
                except ValueError as error:
                    mistakes.append(Mistake(where, f"trial {number}: {name}: {error}"))
        further = {name: values[name] for name in outcomes[1:] if name in values}
        said[number] = Said(number, values.get(outcomes[0], ""), further, cells.get("why", ""), where)
    if mistakes:
        raise ConfigError(mistakes)
    unread = tuple(header for header, name in zip(sheet.header, names, strict=True) if header and not name)
    return Given(tuple(said.values()), tuple(empty), unread)


@dataclass(frozen=True, slots=True)
class _Targets:
    """Knows what a header means."""

    names: Names
    outcomes: Sequence[str]

    def of(self, header: str) -> tuple[str, str]:
        """Return the column's name and the unit in its header; empty: it is not read."""
        if key(header) in OTHERS:
            return key(header), ""
        target, unit = self.names.target(header)
        name = target.removeprefix("value:")
        return (name, unit) if name in self.outcomes else ("", "")


def _pointed(
    path: Path, sheet: Sheet, names: Sequence[str], outcomes: Sequence[str], given: Decimals | None
) -> Callable[[str], tuple[str, str]]:
    """Return what takes a quantity of this table apart, its number with a decimal point, and the unit beside it.

    That raises `ValueError` where the number is unclear.
    """
    numbers = [
        found["number"]
        for _, row in sheet.rows
        for name, cell in zip(names, row, strict=True)
        if name in outcomes and (found := _QUANTITY.fullmatch(cell)) is not None
    ]
    try:
        decimals = given or decimals_of(numbers)
    except ValueError as error:
        raise UsageError(f"{path}: {error}; say which with --decimal comma or --decimal point") from error

    def as_point(cell: str) -> tuple[str, str]:
        found = _QUANTITY.fullmatch(cell)
        if found is None:
            return cell, ""
        number = found["number"]
        # where commas are between columns a point is what it seems
        mark = decimals or ("point" if sheet.separator == "," and "," not in number else None)
        return f"{parsed(number, mark)!r}", found["unit"]

    return as_point
