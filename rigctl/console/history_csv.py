"""Trials from a CSV file: a column per variable in engineering units, `control_set`, one per outcome, `cost`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np

from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.space import Space
from rigctl.core.money import Micros, to_micros
from rigctl.errors import ConfigError, Problem


@dataclass(frozen=True, slots=True)
class ManualRow:
    """One trial as a person wrote it down."""

    control_set: tuple[str, ...]
    values: Mapping[str, float]
    """Measured, engineering units; all variables unless the trial failed."""
    outcome: float | None
    """None: the trial failed."""
    cost: Micros
    further: tuple[float, ...] = ()
    """Outcomes besides the first, in the order they are declared in; empty if the trial failed."""


def read_rows(path: Path, space: Space, outcomes: Sequence[str]) -> tuple[ManualRow, ...]:
    """Every row of the file, with outcomes of these names. Columns it does not need are ignored.

    Raises:
        ConfigError: the file cannot be read or does not hold; carries every problem with file, line and column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream)
            header = [name.strip() for name in next(lines, [])]
            table = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError([Problem(str(path), f"cannot be read as CSV: {error}")]) from error
    problems = _header_problems(path, header, (*space.names, "control_set", *outcomes, "cost"))
    if problems:
        raise ConfigError(problems)
    rows = []
    for line, cells in table:
        if len(cells) != len(header):
            problems.append(Problem(f"{path}:{line}", f"got {len(cells)} columns, the header has {len(header)}"))
            continue
        reader = _RowReader(f"{path}:{line}", dict(zip(header, cells, strict=True)), problems)
        rows.append(reader.read(space, outcomes))
    if problems:
        raise ConfigError(problems)
    return tuple(rows)


def to_history(rows: Sequence[ManualRow], space: Space) -> History:
    """Rows in the order of the file as the trials 1, 2, ..."""
    return History.of(observation(i, row, space) for i, row in enumerate(rows, start=1))


def observation(trial: int, row: ManualRow, space: Space) -> Observation:
    """The trial as a policy sees it, and as the journal will give it back.

    What a trial cost that ended before anything was measured says nothing about what a whole one costs.
    """
    whole = all(name in row.values for name in space.names)
    x = tuple(float(u) for u in space.to_unit(np.array([row.values[n] for n in space.names]))) if whole else None
    return Observation(
        trial=trial,
        control_set=space.index_of(row.control_set),
        x=x,
        y=row.outcome,
        cost=row.cost,
        cost_known=bool(row.values),
        further=row.further,
    )


def _header_problems(path: Path, header: Sequence[str], needed: Sequence[str]) -> list[Problem]:
    missing = [name for name in needed if name not in header]
    twice = sorted({name for name in needed if header.count(name) > 1})
    problems = []
    if missing:
        got = ", ".join(header) or "no header"
        hint = "; separate columns with commas" if any(";" in h or "\t" in h for h in header) else ""
        problems.append(Problem(f"{path}:1", f"column {', '.join(missing)} is missing (got {got}){hint}"))
    if twice:
        problems.append(Problem(f"{path}:1", f"column {', '.join(twice)} stands more than once"))
    return problems


@dataclass(frozen=True, slots=True)
class _RowReader:
    """Reads the cells of one row, collecting problems."""

    where: str
    cells: Mapping[str, str]
    problems: list[Problem]

    def read(self, space: Space, outcomes: Sequence[str]) -> ManualRow:
        members = tuple(m.strip() for m in self.cells["control_set"].split("+"))
        try:
            space.index_of(members)
        except ValueError as error:
            self._add("control_set", str(error))
        found = {name: self._number(name) for name in outcomes}
        values = {name: self._number(name) for name in space.names}
        if any(y is not None for y in found.values()):
            for name, value in {**values, **found}.items():
                if value is None:
                    empty = f"leave {', '.join(outcomes)} empty if it failed"
                    self._add(name, f"is empty, but the trial has an outcome; {empty}")
        first, *further = (y for y in found.values())
        whole = tuple(y for y in further if y is not None)
        return ManualRow(members, {n: v for n, v in values.items() if v is not None}, first, self._cost(), whole)

    def _number(self, column: str) -> float | None:
        text = self.cells[column].strip()
        if not text:
            return None
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self._add(column, f'got "{text}", must be a finite number')
        return value

    def _cost(self) -> Micros:
        text = self.cells["cost"].strip()
        try:
            cost = to_micros(Decimal(text))
        except (InvalidOperation, ValueError):
            self._add("cost", f'got "{text}", must be an amount in the rig\'s currency, without unit')
            return 0
        if cost < 0:
            self._add("cost", f'got "{text}", must not be negative')
        return cost

    def _add(self, column: str, what: str) -> None:
        self.problems.append(Problem(f"{self.where}: {column}", what))
