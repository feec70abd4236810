"""Trials that a person did: from a CSV file, and what the policy remembers of them."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path

import numpy as np

from rigctl.campaign.decide import Question, decide
from rigctl.config.load import LoadedConfig
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import JsonState
from rigctl.core.experiment.space import Space
from rigctl.core.money import Micros, to_micros
from rigctl.core.policy import Finished
from rigctl.errors import ConfigError, Mistake

MOST_ROWS = 200
"""Longer lists leave the memory as it was: every row costs a decision, some 10 to 50 ms."""


@dataclass(frozen=True, slots=True)
class ManualRow:
    """Holds one trial as a person wrote it down."""

    control_set: tuple[str, ...]
    values: Mapping[str, float]
    """Measured, engineering units; all variables unless the trial failed."""
    outcome: float | None
    """None: the trial failed."""
    cost: Micros
    further: tuple[float, ...] = ()
    """Outcomes besides the first, in the order they are declared in; empty if the trial failed."""


def read_rows(loaded: LoadedConfig, path: Path) -> tuple[ManualRow, ...]:
    """Read every row of the file; columns it does not need are ignored.

    Raises:
        ConfigError: the file cannot be read or does not hold; carries every problem with file, line and column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            lines = csv.reader(stream)
            header = [name.strip() for name in next(lines, [])]
            table = [(lines.line_num, row) for row in lines if any(cell.strip() for cell in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ConfigError([Mistake(str(path), f"cannot be read as CSV: {error}")]) from error
    space, outcomes = loaded.problem.space, loaded.rig.outcome_names
    mistakes = _header_mistakes(path, header, (*space.names, "control_set", *outcomes, "cost"))
    if mistakes:
        raise ConfigError(mistakes)
    reader = RowReader(space, outcomes)
    rows = []
    for line, row in table:
        where, cells = f"{path}:{line}", dict(zip(header, row, strict=False))
        if len(row) == len(header):
            rows.append(reader.row(where, cells["control_set"].split("+"), cells))
        else:
            reader.mistakes.append(Mistake(where, f"got {len(row)} columns, the header has {len(header)}"))
    return reader.checked(rows)


def observation(trial: int, row: ManualRow, space: Space) -> Observation:
    """Return the trial as a policy sees it, and as the journal will give it back.

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


def _header_mistakes(path: Path, header: Sequence[str], needed: Sequence[str]) -> list[Mistake]:
    missing = [name for name in needed if name not in header]
    twice = sorted({name for name in needed if header.count(name) > 1})
    mistakes = []
    if missing:
        got = ", ".join(header) or "no header"
        hint = "; separate columns with commas" if any(";" in h or "\t" in h for h in header) else ""
        mistakes.append(Mistake(f"{path}:1", f"column {', '.join(missing)} is missing (got {got}){hint}"))
    if twice:
        mistakes.append(Mistake(f"{path}:1", f"column {', '.join(twice)} stands more than once"))
    return mistakes


@dataclass(frozen=True, slots=True)
class RowReader:
    """Reads trials that a person wrote down, wherever, and collects what is wrong with them."""

    space: Space
    outcomes: Sequence[str]
    mistakes: list[Mistake] = field(default_factory=list)

    def row(self, where: str, control_set: Sequence[str], cells: Mapping[str, object]) -> ManualRow:
        """Read one trial from what stands under each variable's and outcome's name, and under `cost`."""
        members = tuple(name.strip() for name in control_set)
        try:
            self.space.index_of(members)
        except ValueError as error:
            self._add(where, "control_set", str(error))
        found = {name: self._number(where, name, cells.get(name)) for name in (*self.space.names, *self.outcomes)}
        if any(found[name] is not None for name in self.outcomes):
            for name in (name for name, value in found.items() if value is None):
                failed = f"leave {', '.join(self.outcomes)} out if it failed"
                self._add(where, name, f"is missing, but the trial has an outcome; {failed}")
        first, *further = (found[name] for name in self.outcomes)
        values = {name: value for name in self.space.names if (value := found[name]) is not None}
        cost = self._cost(where, cells["cost"])
        return ManualRow(members, values, first, cost, tuple(y for y in further if y is not None))

    def checked(self, rows: Sequence[ManualRow]) -> tuple[ManualRow, ...]:
        """Return the rows, all of them; raise ConfigError with every mistake if there was one."""
        if self.mistakes:
            raise ConfigError(self.mistakes)
        return tuple(rows)

    def _number(self, where: str, name: str, given: object) -> float | None:
        if given is None or not str(given).strip():
            return None
        try:
            value = math.nan if isinstance(given, bool) else float(str(given))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            self._add(where, name, f'got "{given}", must be a finite number')
        return value

    def _cost(self, where: str, given: object) -> Micros:
        try:
            cost = to_micros(Decimal(str(given).strip()))
        except (InvalidOperation, ValueError):
            self._add(where, "cost", f'got "{given}", must be an amount in the rig\'s currency, without unit')
            return 0
        if cost < 0:
            self._add(where, "cost", f'got "{given}", must not be negative')
        return cost

    def _add(self, where: str, name: str, what: str) -> None:
        self.mistakes.append(Mistake(f"{where}: {name}", what))


def memories(
    loaded: LoadedConfig, known: History, state: JsonState | None, rows: Sequence[Observation]
) -> Iterator[JsonState | None]:
    """Yield, per row, what the policy remembers after it; None: what it did before.

    A row moves the memory on if its control set is what the policy proposes for that trial. Otherwise a person has
    decided, and the policy took no part. `state` is its memory after the trials `known` before the rows.
    """
    long = len(rows) > MOST_ROWS
    for row in rows:
        after = None if long else _after(loaded, known, state, row.control_set)
        yield after
        state = after or state
        known = known.append(row)


def memory(loaded: LoadedConfig, history: History) -> JsonState | None:
    """Return what the policy remembers of a history that somebody else kept; None: nothing."""
    states = [s for s in memories(loaded, History(), None, history.observations) if s is not None]
    return states[-1] if states else None


def _after(loaded: LoadedConfig, known: History, state: JsonState | None, control_set: int) -> JsonState | None:
    try:
        decision = decide(Question(loaded.policy, loaded.problem, loaded.seed, known, state))
    except Finished:  # a person may go on all the same
        return None
    proposed = decision.control_set == loaded.problem.space.control_sets[control_set].names
    return decision.policy_state if proposed else None
