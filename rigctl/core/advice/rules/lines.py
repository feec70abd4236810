"""The lines of the short rule, of which the first that holds counts: each has a box of readings and a formula.

What stands further up is cut out of what stands below; so few lines say what as many boxes side by side cannot. Lines
are put in, and then moved and cut anew one after the other, by what all of them together are worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray

LINES = 7
"""At most: what a person can follow."""
CONDITIONS = 2
"""Readings that a line asks for at most."""
FEWEST = 1 / 64
"""Share of the days that a line has at least."""
GRID = 16
"""Parts of each reading by which boxes are sought, before their limits are moved level by level."""
SWEEPS = 2
"""In which every line is taken out and put in again where it is worth most."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Hold one line of the rule."""

    low: IntArray
    """(d,): first level of each reading."""
    high: IntArray
    """(d,): one past the last."""
    formula: int
    """Of the pool."""

    def holds(self, levels: IntArray) -> BoolArray:
        """Tell on which days (q, d) the readings are in its box, (q,)."""
        return np.asarray(((levels >= self.low) & (levels < self.high)).all(axis=1))


@dataclass(frozen=True, eq=False)
class Arranging:
    """Hold what lines are judged by."""

    worth: FloatArray
    """(q, n): of every formula on every day."""
    levels: IntArray
    """(q, d): the days' readings as levels."""
    telling: Sequence[int]
    """Readings that tell something."""

    @cached_property
    def sizes(self) -> IntArray:
        """Return how many levels each reading has, (d,)."""
        return np.asarray(self.levels.max(axis=0) + 1)

    @cached_property
    def _counts(self) -> dict[int, FloatArray]:
        """Return which days have which level, (g, q) of 0 and 1, by reading."""
        return {c: (np.arange(self.sizes[c])[:, None] == self.levels[:, c]).astype(float) for c in self.telling}

    @property
    def _fewest(self) -> float:
        return max(1.0, FEWEST * len(self.levels))

    def whole(self, formula: int) -> Leaf:
        """Return the line that always holds."""
        return Leaf(np.zeros_like(self.sizes), self.sizes, formula)

    def routed(self, lines: Sequence[Leaf]) -> IntArray:
        """Return which line counts on every day, (q,)."""
        return np.asarray(np.argmax([line.holds(self.levels) for line in lines], axis=0))

    def values(self, lines: Sequence[Leaf]) -> FloatArray:
        """Return what the lines are worth on every day, (q,)."""
        formulas = np.array([line.formula for line in lines])[self.routed(lines)]
        return np.asarray(self.worth[np.arange(len(formulas)), formulas])

    def total(self, lines: Sequence[Leaf]) -> float:
        """Return what the lines are worth, summed over the days."""
        return float(self.values(lines).sum())

    def arranged(self) -> list[Leaf]:
        """Find lines, the last of which always holds."""
        lines = [self.whole(int(self.worth.sum(axis=0).argmax()))]
        while len(lines) < LINES:
            found = self._put_in(lines, range(len(lines)))
            if found is None:
                break
            lines = found
        for _ in range(SWEEPS if len(lines) > 1 else 0):
            before = lines
            for i in range(len(lines) - 1):
                rest = [*lines[:i], *lines[i + 1 :]]
                found = self._put_in(rest, range(len(rest)))
                if found is not None and self.total(found) > self.total(lines):
                    lines = found
            lines = self._otherwise(lines)
            if lines == before:
                break
        return lines

    def pruned(self, lines: Sequence[Leaf], line: float, condition: float) -> list[Leaf]:
        """Leave out lines that are worth less than `line`, then limits worth less than `condition`."""
        left = list(lines)
        while len(left) > 1:
            fewer = [self._otherwise([*left[:i], *left[i + 1 :]]) for i in range(len(left) - 1)]
            best = max(fewer, key=self.total)
            if self.total(left) - self.total(best) >= line:
                break
            left = best
        while wider := [
            [*left[:i], open_, *left[i + 1 :]] for i in range(len(left) - 1) for open_ in _wider(left[i], self.sizes)
        ]:
            best = max(wider, key=self.total)
            if self.total(left) - self.total(best) >= condition:
                break
            left = best
        return left

    def _otherwise(self, lines: list[Leaf]) -> list[Leaf]:
        """Give the last line the formula that is best where no other holds."""
        mine = self.routed(lines) == len(lines) - 1
        return [*lines[:-1], self.whole(int(self.worth[mine].sum(axis=0).argmax()))] if mine.any() else lines

    def _put_in(self, lines: list[Leaf], places: Sequence[int]) -> list[Leaf] | None:
        """Return the lines with the one more, at one of the places, that gains most; None where none gains."""
        which, gain = self.routed(lines), self.worth - self.values(lines)[:, None]
        best, found = 0.0, None
        for place in places:
            free = which >= place
            here = np.where(free[:, None], gain, 0.0)
            for pair in self._pairs:
                total, line = self._boxed(here, pair)
                if total > best and line.holds(self.levels)[free].sum() >= self._fewest:
                    best, found = total, (place, line, here)
        if found is None:
            return None
        place, line, here = found
        return [*lines[:place], self._moved(here, which >= place, line), *lines[place:]]

    @cached_property
    def _pairs(self) -> list[tuple[int, int, IntArray, IntArray, IntArray]]:
        """Return pairs of readings, the days in order of their cells, where each cell begins, and which cell it is."""
        found = []
        coarse = self.levels * GRID // self.sizes
        for one, other in combinations(self.telling, 2) if len(self.telling) > 1 else [(c, c) for c in self.telling]:
            cell = coarse[:, one] * GRID + coarse[:, other]
            order = np.argsort(cell, kind="stable")
            cells, begins = np.unique(cell[order], return_index=True)
            found.append((one, other, order, begins, cells))
        return found

    def _boxed(self, gain: FloatArray, pair: tuple[int, int, IntArray, IntArray, IntArray]) -> tuple[float, Leaf]:
        """Return the box of two readings, on a grid, that gains most: of all there are (Bentley 1984)."""
        one, other, order, begins, cells = pair
        table = np.zeros((GRID * GRID, gain.shape[1]))
        table[cells] = np.add.reduceat(gain[order], begins, axis=0)
        sums = np.zeros((GRID + 1, GRID, gain.shape[1]))
        np.cumsum(table.reshape(GRID, GRID, -1), axis=0, out=sums[1:])
        first, last = np.triu_indices(GRID + 1, 1)
        along = np.zeros((len(first), GRID + 1, gain.shape[1]))
        np.cumsum(sums[last] - sums[first], axis=1, out=along[:, 1:])
        rise = along - np.minimum.accumulate(along, axis=1)
        rows, end, formula = np.unravel_index(int(rise.argmax()), rise.shape)
        start = int(along[rows, : end + 1, formula].argmin())
        low, high = np.zeros_like(self.sizes), self.sizes.copy()
        for column, edge, limit in ((other, start, end), (one, first[rows], last[rows])):
            low[column], high[column] = (-(-int(e) * self.sizes[column] // GRID) for e in (edge, limit))
        return float(rise[rows, end, formula]), Leaf(low, high, int(formula))

    def _moved(self, gain: FloatArray, free: BoolArray, line: Leaf) -> Leaf:
        """Climb from a box to one of greater gain, (q, n), level by level."""
        best = float(gain[line.holds(self.levels), line.formula].sum())
        while True:
            bounded = (line.low > 0) | (line.high < self.sizes)
            open_ = [c for c in self.telling if bounded[c] or bounded.sum() < CONDITIONS]
            total, found = max((self._cut(gain, line, column) for column in open_), key=lambda t: t[0])
            if total <= best * (1 + 1e-9) or found.holds(self.levels)[free].sum() < self._fewest:
                return line
            best, line = total, found

    def _cut(self, gain: FloatArray, line: Leaf, column: int) -> tuple[float, Leaf]:
        """Return the best limits of one reading, the others' as they are: the greatest sum over adjacent levels."""
        low, high = line.low.copy(), line.high.copy()
        low[column], high[column] = 0, self.sizes[column]
        inside = replace(line, low=low, high=high).holds(self.levels)
        sums = np.cumsum(self._counts[column] @ (gain * inside[:, None]), axis=0)
        sums = np.concatenate([np.zeros((1, sums.shape[1])), sums])
        rise = sums - np.minimum.accumulate(sums, axis=0)
        end, formula = np.unravel_index(int(rise.argmax()), rise.shape)
        low[column], high[column] = sums[: end + 1, formula].argmin(), end
        return float(rise[end, formula]), Leaf(low, high, int(formula))


def _wider(line: Leaf, sizes: IntArray) -> Iterator[Leaf]:
    """Yield the line without one of its limits; one that always holds has no place before others."""
    for name, limits in (("low", np.zeros_like(sizes)), ("high", sizes)):
        for column in np.flatnonzero(getattr(line, name) != limits).tolist():
            edge = getattr(line, name).copy()
            edge[column] = limits[column]
            wider = replace(line, **{name: edge})
            if wider.low.any() or (wider.high < sizes).any():
                yield wider
