"""Variables, control sets, and the map between engineering units and the unit cube."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.marginals.families import Marginal
from rigctl.flaws import got, require
from rigctl.text import Names, set_label, shown_set, shown_unit, shown_value

MOST_STEPS = 10**9
"""Of a range; no instrument tells so many setpoints apart."""
OFF_GRID = 1e-9
"""More than this, as a share of the range, is no rounding error."""


@dataclass(frozen=True, slots=True)
class Variable:
    """Describe one quantity of the experiment that can be measured and, at a price, controlled.

    Raises:
        ValueError: the range is empty or not finite, or no whole number of steps.
    """

    name: str
    unit: str
    low: float
    """Lowest setpoint, engineering units; 0 on the unit cube."""
    high: float
    """Highest setpoint, engineering units; 1 on the unit cube."""
    marginal: Marginal
    """How it varies when left alone, on the unit cube."""
    step: float | None = None
    """Between two setpoints, the first of which is the lowest; engineering units. None: every value can be set."""
    label: str = ""
    """What people read instead of the name; empty: the name."""
    levels: tuple[str, ...] = ()
    """The words of a category, whose numbers are its setpoints in this order; empty: it is a number."""

    @classmethod
    def category(cls, name: str, levels: Levels, marginal: Marginal) -> Variable:
        """Describe a choice among levels without an order; its marginal is on 0, 1/(L - 1), ..., 1. See `numbered`."""
        words = numbered(levels)
        low, *_, high = words.values()
        step = (high - low) / (len(words) - 1)
        return cls(name, "", low, high, marginal, step, levels=tuple(words))

    def __post_init__(self) -> None:
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise ValueError(got([self.low, self.high], "must be finite and rising", where=f"{self.name}: range"))
        if self.step is None:
            return
        least, most = (self.high - self.low) / MOST_STEPS, self.high - self.low
        if not least <= self.step <= most * (1 + 1e-9):  # 0.35 - 0.1 is less than 0.25
            allowed = f"must be at most the range, {most:g} {self.unit}, and at least {least:g} {self.unit}"
            raise ValueError(got(self.step, allowed, where=f"{self.name}: step"))
        last = last_level(self.low, self.high, self.step)
        if last != self.high:
            allowed = f"must lead from {self.low:g} to {self.high:g} in whole steps"
            raise ValueError(
                got(self.step, allowed, f"end the range at {last:g}, or take another step", where=f"{self.name}: step")
            )

    @property
    def words(self) -> dict[float, str]:
        """Return the words of a category by their numbers; nothing of a number."""
        return {self.setpoint(k / self.steps): word for k, word in enumerate(self.levels)}

    def number(self, value: object) -> float:
        """Return a value as a number, of a category that of the level's word; raises ValueError for what is neither."""
        if not self.levels:
            return float(value)  # type: ignore[arg-type]
        require(value in self.levels, value, f"must be one of {', '.join(self.levels)}", where=self.name)
        return self.setpoint(self.levels.index(str(value)) / self.steps)

    def worded(self, value: Any) -> Any:
        """Return a number as it is; of a category the word of the nearest level. Nothing, NaN and words stay."""
        if value is None or isinstance(value, str) or not self.levels or not np.isfinite(value):
            return value
        return shown_value("", value, Names({}, {}, {"": self.words}))

    @property
    def steps(self) -> int:
        """Return how many steps lead from the lowest setpoint to the highest; 0 where every value can be set."""
        return 0 if self.step is None else int((_decimal(self.high) - _decimal(self.low)) / _decimal(self.step))

    def share(self, value: float) -> float:
        """Return where a value, engineering units, lies on the unit interval; what is outside the range stays so."""
        return (value - self.low) / (self.high - self.low)

    def value(self, u: float) -> float:
        """Return a place on the unit interval in engineering units, neither clipped nor on a step."""
        return self.low + (self.high - self.low) * u

    def setpoint(self, u: float) -> float:
        """Return a place on the unit interval as a setpoint, engineering units, clipped to the range.

        Clipping only removes the last bit of rounding: `low + span * 1.0` may exceed `high` by one ulp. With steps it
        is the nearest one, as exact as it was written: 0.3, not 0.30000000000000004.
        """
        if self.step is None:
            return float(min(max(self.value(u), self.low), self.high))
        level = min(max(round(u * self.steps), 0), self.steps)
        return float(_decimal(self.low) + level * _decimal(self.step))


Levels = Mapping[str, float] | Sequence[str]
"""The words of a category, with their numbers or in the order of 0, 1, 2 ..."""


def numbered(levels: Levels) -> dict[str, float]:
    """Return the words of a category with their numbers, which rise.

    Raises:
        ValueError: there are fewer than two, two are alike, or the numbers are not evenly spaced.
    """
    if len(levels) < 2 or len(set(levels)) < len(levels):
        raise ValueError(got(list(levels), "must be two or more levels, all different"))
    if not isinstance(levels, Mapping):
        return {word: float(k) for k, word in enumerate(levels)}
    found = dict(sorted(((word, float(n)) for word, n in levels.items()), key=lambda pair: pair[1]))
    apart = {round(b - a, 9) for a, b in pairwise(found.values())}
    if len(apart) > 1 or not all(0 < gap < np.inf for gap in apart):
        raise ValueError(got(list(levels.values()), "must be numbered evenly, such as 1, 2, 3 or 10, 20, 30"))
    return found


def last_level(low: float, high: float, step: float) -> float:
    """Return the highest setpoint that whole steps from `low` lead to, at most `high`; engineering units."""
    return float(_decimal(low) + (_decimal(high) - _decimal(low)) // _decimal(step) * _decimal(step))


def _decimal(value: float) -> Decimal:
    """Return a number as it is written."""
    return Decimal(repr(float(value)))


@dataclass(frozen=True, slots=True)
class ControlSet:
    """Name the variables that are controlled together in a trial."""

    indices: tuple[int, ...]
    """Columns of the controlled variables, ascending."""
    names: tuple[str, ...]
    """Their names, in the same order."""

    @property
    def label(self) -> str:
        """Return `a+b`, as written in tables and CSV files."""
        return set_label(self.names)


@dataclass(frozen=True, slots=True, eq=False)
class Settings:
    """Hold settings of several control sets."""

    points: FloatArray
    """(b, d), unit cube; only the controlled columns count."""
    sets: IntArray
    """(b,), control set of each."""

    def __len__(self) -> int:
        return len(self.sets)

    def of(self, rows: IntArray) -> Settings:
        return Settings(self.points[rows], self.sets[rows])

    def among(self, sets: Sequence[int]) -> Settings:
        return self.of(np.flatnonzero(np.isin(self.sets, sets)))


@dataclass(frozen=True, slots=True)
class Space:
    """Hold all variables and the control sets to choose from.

    Raises:
        ValueError: names repeat, or a control set is empty, repeats or names an unknown variable.
    """

    variables: tuple[Variable, ...]
    control_sets: tuple[ControlSet, ...] = field(default=())

    @classmethod
    def of(cls, variables: Sequence[Variable], sets: Sequence[Sequence[str]]) -> Space:
        """Make a space of variables and control sets given by name, in any order."""
        names = [v.name for v in variables]
        control_sets = []
        for members in sets:
            unknown = sorted(set(members) - set(names))
            if unknown:
                raise ValueError(f"control set {list(members)}: unknown variables {unknown}; known: {names}")
            indices = tuple(sorted(names.index(m) for m in members))
            control_sets.append(ControlSet(indices, tuple(names[i] for i in indices)))
        return cls(tuple(variables), tuple(control_sets))

    def __post_init__(self) -> None:
        names = self.names
        require(len(set(names)) == len(names), names, "must differ", where="variable names")
        seen = [c.indices for c in self.control_sets]
        require(len(set(seen)) == len(seen), [c.label for c in self.control_sets], "must differ", where="control sets")
        if any(not c.indices or len(set(c.indices)) != len(c.indices) for c in self.control_sets):
            raise ValueError("a control set needs at least one variable, each once")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.variables)

    @property
    def units(self) -> Names:
        """Return the variables' units and labels as they are shown."""
        labels = {v.name: v.label for v in self.variables if v.label}
        levels = {v.name: v.words for v in self.variables if v.levels}
        return Names({v.name: shown_unit(v.unit) for v in self.variables}, labels, levels)

    def shown(self, control_set: int) -> str:
        """Return what people read for a control set."""
        return shown_set(self.control_sets[control_set].names, self.units)

    @property
    def dimension(self) -> int:
        return len(self.variables)

    @property
    def lows(self) -> FloatArray:
        """Return the lowest setpoints, (d,), engineering units."""
        return np.array([v.low for v in self.variables])

    @property
    def spans(self) -> FloatArray:
        """Return high - low, (d,), engineering units."""
        return np.array([v.high - v.low for v in self.variables])

    def to_unit(self, x: FloatArray) -> FloatArray:
        """Convert (..., d) from engineering units to the unit cube; what is outside the range stays outside [0, 1]."""
        return np.asarray((np.asarray(x, dtype=float) - self.lows) / self.spans)

    def to_engineering(self, u: FloatArray) -> FloatArray:
        """Convert (..., d) from the unit cube to engineering units."""
        return np.asarray(self.lows + self.spans * np.asarray(u, dtype=float))

    def rows(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return settings (b, k) of a control set as points (b, d) of the unit cube, 0.5 in all other columns."""
        points = np.full((len(settings), self.dimension), 0.5)
        points[:, self.control_sets[control_set].indices] = settings
        return points

    def setting(self, control_set: int, point: FloatArray) -> tuple[float, ...]:
        """Return a point (d,) of the unit cube as a setting (k,) of a control set: the inverse of `rows`."""
        return tuple(point[list(self.control_sets[control_set].indices)].tolist())

    @property
    def masks(self) -> FloatArray:
        """Return 1 where a control set controls a variable, (m, d)."""
        masks = np.zeros((len(self.control_sets), self.dimension))
        for row, chosen in enumerate(self.control_sets):
            masks[row, list(chosen.indices)] = 1.0
        return masks

    @property
    def steps(self) -> IntArray:
        """Return how many steps each range has, (d,); negative of a category, 0 where every value can be set."""
        return np.array([-v.steps if v.levels else v.steps for v in self.variables], dtype=np.int64)

    @property
    def levels(self) -> tuple[int, ...]:
        """Return how many levels each category has, (d,); 0 for a number."""
        return tuple(len(v.levels) for v in self.variables)

    def evenly(self, control_set: int, setting: Sequence[float]) -> tuple[float, ...]:
        """Return a setting (k,) on the unit cube with stepped variables on their levels, each as likely as the others.

        Of uniform numbers; the nearest level would be the lowest or highest half as often as any other.
        """
        counts = [self.variables[i].steps for i in self.control_sets[control_set].indices]
        pairs = zip(setting, counts, strict=True)
        return tuple(min(int(u * (n + 1)), n) / n if n else float(u) for u, n in pairs)

    def setpoints(self, control_set: int, setting: Sequence[float]) -> dict[str, float]:
        """Return a setting (k,) on the unit cube as named setpoints in engineering units, within the range."""
        chosen = self.control_sets[control_set]
        pairs = zip(chosen.indices, setting, strict=True)
        return {self.variables[i].name: self.variables[i].setpoint(float(u)) for i, u in pairs}

    def worded(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return values by name, engineering units, with the words of categories."""
        return {v.name: v.worded(values[v.name]) for v in self.variables if v.name in values}

    def index_of(self, members: Sequence[str]) -> int:
        """Return the index of the control set that has exactly these members; raises ValueError if none has."""
        wanted = frozenset(members)
        for i, c in enumerate(self.control_sets):
            if frozenset(c.names) == wanted:
                return i
        allowed = ", ".join(c.label for c in self.control_sets)
        raise ValueError(f"no control set {set_label(members)!r}; allowed: {allowed}")
