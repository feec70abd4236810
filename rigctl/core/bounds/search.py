"""The one search: maximises smooth functions of settings, those of all control sets together.

Settings of the whole cube and around the best trials are screened, with cheap batched algebra; from the best of them
that are apart the functions are climbed, with analytic gradients. Several functions of the same settings, f of them,
may be maximised at once: group g is function g % f of control set g // f. Rows (d,) are points of the unit cube, of
which only the controlled columns count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from rigctl.core.bounds.ascent import FEW, Visited, climb_on_grid, snapped
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.grid import lattice
from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray, thinned
from rigctl.core.experiment.space import Space

APART = 0.5
"""Starts of one climb are at least this far apart in some variable, lengthscales."""
LONGEST = 0.5
"""Around a trial lengthscales count as no longer than this."""
DATA_RANKED = 128
"""With more trials than twice this only as many of the best, and as many others spread over time, are ranked."""
DATA_STARTS = 32
"""How many trials count as the best."""
Value = Callable[[FloatArray, IntArray], FloatArray]
"""Rows (b, d) and their control sets (b,) -> (b,), or (f, b); larger is better."""
Warm = Mapping[int, FloatArray | Sequence[Sequence[float]]]
"""By control set, settings (k,) or (r, k) on the unit cube to climb from in any case."""


class Surface(Protocol):
    """One or several functions to maximise."""

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return values (b,), or (f, b), of rows (b, d) of these control sets (b,).

        They only rank starts, so they may be a little less exact than `value_and_gradient`. -inf: not worth a climb.
        """
        ...

    def value_and_gradient(self, points: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return values (b,), each of its group's function, and the gradient (b, d), 0 for uncontrolled variables."""
        ...


@dataclass(frozen=True, slots=True)
class Screening:
    """Say how many settings are looked at, and where; triples are for a set of one, two, and more variables."""

    cube: tuple[int, int, int]
    """Settings of the whole cube."""
    around: tuple[int, int, int]
    """Settings around the best trials, whose own settings are looked at as well."""
    reaches: tuple[float, ...]
    """How far from them, lengthscales, in turn."""
    most_moved: float = inf
    """Settings around a trial differ from it in about this many variables at most."""


@dataclass(frozen=True, slots=True)
class Peak:
    """Hold the best setting found of a control set."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    value: float
    """What it was chosen by."""


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Say where to look, and how long to climb."""

    expectations: Expectations
    """Of all control sets of the space, in their order; for their masks and data."""
    space: Space
    lengthscales: FloatArray
    """(d,), over which the functions change."""
    screening: Screening
    climbers: tuple[int, ...]
    """(f,), settings of every control set from which each function is climbed, besides the warm starts."""
    tolerance: float
    """A climb ends when it promises less."""
    along: tuple[int, int] | None = None
    """The starts of the first function climb the second too, unless one of that function's own is near."""

    def peaks(self, surface: Surface, among: Sequence[int], warm: Warm, rng: np.random.Generator) -> dict[int, Peak]:
        """Return the highest maximum of every one of these control sets; see `maxima`."""
        found, _ = self.maxima(surface, among, warm, rng)
        out = {}
        for i in among:
            points, values = found.of(i)
            best = int(values.argmax())
            out[i] = Peak(i, self.space.setting(i, points[best]), float(values[best]))
        return out

    def maxima(
        self, surface: Surface, among: Sequence[int], warm: Warm, rng: np.random.Generator
    ) -> tuple[Visited, Visited]:
        """Return the local maxima that were climbed to, and all settings that were screened before.

        `among` are the control sets to look at, rising; `warm` are settings to climb from as well. The same state of
        `rng` gives the same maxima bit for bit.
        """
        screened = self.screen(surface.value, among, rng)
        begin, groups = self.starts(screened)
        known, theirs = self._known(among, warm)
        begin, groups = np.concatenate([begin, known]), np.concatenate([groups, theirs])
        return self.climb(surface.value_and_gradient, begin, groups), screened

    def screen(
        self, value: Value, among: Sequence[int], rng: np.random.Generator, rank: Value | None = None
    ) -> Visited:
        """Look at settings of the whole cube, at the best trials', and around those; each of `among` in turn.

        By `rank`, else by their means, it is told which trials are the best.
        """
        e, here = self.expectations, self.screening
        d = e.mask.shape[1]
        x = np.clip(_worth_ranking(e), 0.0, 1.0)
        kept = min(DATA_STARTS, len(x))
        common = lattice(d, here.cube[-1], rng)
        count = here.around[-1] if kept else 0
        moved = rng.random((count, d)) if here.most_moved < inf else np.zeros((count, d))
        reaches = np.resize(np.array(here.reaches), count)[:, None]
        steps = rng.standard_normal((count, d)) * reaches * np.minimum(self.lengthscales, LONGEST)
        points, sets = [], []
        for i in among:
            controlled = int(e.mask[i].sum())
            size = min(controlled, len(here.cube)) - 1
            worth = (rank or e.means)(x, np.full(len(x), i))
            best = x[np.argsort(-worth, kind="stable")[:kept]]
            near = np.resize(best, (count, d)) + steps * (moved < here.most_moved / controlled)
            mine = [common[: here.cube[size]], best, np.clip(near[: here.around[size]], 0.0, 1.0)]
            points += mine
            sets.append(np.full(sum(map(len, mine)), i))
        rows, of = snapped(np.concatenate(points), self.space.steps), np.concatenate(sets)
        return Visited(rows, of, value(rows, of))

    def starts(self, screened: Visited) -> tuple[FloatArray, IntArray]:
        """Return of every group the best settings that are apart, (b, d), and their groups, (b,).

        Without this all climbs of a group would start on the same hill.
        """
        values = np.atleast_2d(screened.values)
        rows = _by_set(screened.groups, np.asarray(np.isfinite(values).any(axis=0)))
        candidates, scores = screened.points[rows], values[:, rows]
        # a row that is there twice fills up a control set with few candidates
        scores[:, :, 1:][:, rows[:, 1:] == rows[:, :-1]] = -np.inf
        sets = screened.groups[rows[:, 0]]
        reach = APART * np.minimum(self.lengthscales, 1.0)
        places = candidates / reach * self.expectations.mask[sets][:, None, :]
        # variables first: a maximum over the last, short axis would be an order of magnitude slower
        places = np.ascontiguousarray(np.moveaxis(places, 2, 0))
        each = np.arange(len(sets))
        first, second = self.along or (None, None)
        points, groups = [candidates[:0, 0]], [sets[:0]]
        taken: list[IntArray] = []
        for function, count in enumerate(self.climbers):
            for picks in best_apart(places, scores[function], count):
                there = picks >= 0
                points.append(candidates[each[there], picks[there]])
                groups.append(len(self.climbers) * sets[there] + function)
                if function == second:
                    taken.append(np.where(there, picks, taken[0] if taken else picks))
                elif function == first and second is not None:
                    away = np.abs(places[:, None, each, picks] - places[:, each, np.stack(taken)])
                    new = there & (away.max(axis=0) >= 1.0).all(axis=0)
                    points.append(candidates[each[new], picks[new]])
                    groups.append(len(self.climbers) * sets[new] + second)
        return np.concatenate(points), np.concatenate(groups)

    def climb(
        self,
        objective: Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]],
        begin: FloatArray,
        groups: IntArray,
        *,
        few: int = FEW,
    ) -> Visited:
        """Climb from rows (b, d) to local maxima, each of the function of its group (b,).

        Of a control set with no more settings than `few` all are looked at.
        """
        return climb_on_grid(
            lambda x, index: objective(x, groups[index]),
            begin,
            self.expectations.mask[groups // len(self.climbers)],
            groups,
            self.lengthscales,
            steps=self.space.steps,
            tolerance=self.tolerance,
            few=few,
        )

    def _known(self, among: Sequence[int], warm: Warm) -> tuple[FloatArray, IntArray]:
        """Return the warm starts, (r, d), of every function, and their groups, (r,)."""
        points, groups = [np.empty((0, self.space.dimension))], [np.empty(0, dtype=np.int64)]
        for i in among:
            if i not in warm:
                continue
            rows = self.space.rows(i, np.clip(np.atleast_2d(np.asarray(warm[i], dtype=float)), 0.0, 1.0))
            for function in range(len(self.climbers)):
                points.append(rows)
                groups.append(np.full(len(rows), len(self.climbers) * i + function))
        return np.concatenate(points), np.concatenate(groups)


def best_apart(places: FloatArray, scores: FloatArray, count: int) -> Iterator[IntArray]:
    """Take greedily the best of places (d, g, c) that are 1 or more from all better ones in some coordinate.

    Scores are (g, c). Yields up to `count` times the pick of every row, (g,), -1 where nothing is left.
    """
    left = scores.copy()
    rows = np.arange(len(left))
    for _ in range(count):
        best = left.argmax(axis=1)
        there = left[rows, best] > -np.inf
        if not there.any():
            return
        yield np.where(there, best, -1)
        away = np.abs(places - places[:, rows, best][:, :, None])
        left[away.max(axis=0) < 1.0] = -np.inf


def _worth_ranking(e: Expectations) -> FloatArray:
    """Return the data points worth a look as settings, (r, d): all, unless they are many."""
    x, alpha = e.posterior.x, e.posterior.alpha
    if len(x) <= 2 * DATA_RANKED:
        return x
    fitted = e.posterior.covariance(x) @ alpha
    best = np.argsort(-fitted, kind="stable")[:DATA_RANKED]
    return np.asarray(x[np.union1d(best, thinned(len(x), DATA_RANKED))])


def _by_set(sets: IntArray, kept: BoolArray) -> IntArray:
    """Return the rows that are kept, those of each control set in a row, (m, c), the last repeated."""
    chosen = [np.flatnonzero((sets == i) & kept) for i in np.unique(sets[kept])]
    if not chosen:
        return np.empty((0, 1), dtype=np.int64)
    width = max(len(rows) for rows in chosen)
    return np.stack([np.pad(rows, (0, width - len(rows)), mode="edge") for rows in chosen])
