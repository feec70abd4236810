"""Maximises any smooth function of control sets' settings, all sets together.

For every control set: screen points of the whole cube and around the best trials, climb from the best of them that are
apart, with the analytic gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

import numpy as np

from rigctl.core.bounds.best import APART, best_apart
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.grid import sobol
from rigctl.core.bounds.levels import climb_on_grid, snapped
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.space import Space

Rank = Callable[[FloatArray, IntArray], FloatArray]
"""Points (b, d) of the unit cube and their control sets (b,) -> (b,); the highest is the best."""


@dataclass(frozen=True, slots=True)
class Screening:
    """Say how many settings are looked at, and where; triples are for a set of one, two, and more variables."""

    cube: tuple[int, int, int]
    """Sobol points of the whole cube."""
    around: tuple[int, int, int]
    """Settings around the best trials."""
    reaches: tuple[float, ...]
    """How far from them, lengthscales, in turn."""
    trials: int = 32
    """How many trials count as the best."""
    trials_too: bool = False
    """Whether the trials' own settings are looked at as well."""
    most_moved: float = inf
    """Settings around a trial differ from it in about this many variables at most."""

    def settings(
        self,
        e: Expectations,
        among: Sequence[int],
        scale: FloatArray,
        rng: np.random.Generator,
        rank: Rank | None = None,
    ) -> tuple[FloatArray, IntArray]:
        """Return rows (c, d) of the unit cube and their control sets (c,), each of `among` in turn.

        Args:
            e: of all control sets of the space; for their masks, data and means.
            among: control sets to look at.
            scale: (d,), lengthscales.
            rng: the same generator state gives the same settings bit for bit.
            rank: by what trials count as the best; None: the mean.
        """
        d = e.mask.shape[1]
        x = np.clip(e.posterior.x, 0.0, 1.0)
        kept = min(self.trials, len(x))
        common = sobol(d, self.cube[-1], rng)
        count = self.around[-1] if kept else 0
        moved = rng.random((count, d)) if self.most_moved < inf else np.zeros((count, d))
        steps = rng.standard_normal((count, d)) * np.resize(np.array(self.reaches), count)[:, None] * scale
        points, sets = [], []
        for i in among:
            controlled = int(e.mask[i].sum())
            size = min(controlled, len(self.cube)) - 1
            here = np.full(len(x), i)
            worth = (e.means if rank is None else rank)(x, here)
            best = x[np.argsort(-worth, kind="stable")[:kept]]
            near = np.resize(best, (count, d)) + steps * (moved < self.most_moved / controlled)
            near = np.clip(near[: self.around[size]], 0.0, 1.0)
            mine = [common[: self.cube[size]], *([best] if self.trials_too else []), near]
            points += mine
            sets.append(np.full(sum(map(len, mine)), i))
        return np.concatenate(points), np.concatenate(sets)


def starts(
    e: Expectations, points: FloatArray, sets: IntArray, values: FloatArray, scale: FloatArray, *, count: int
) -> tuple[FloatArray, IntArray]:
    """Return up to `count` of the best settings of every control set that are apart: rows (b, d) and sets (b,).

    Without this all climbs would start on the same hill.
    """
    chosen: list[int] = []
    for i in np.unique(sets):
        mine = np.flatnonzero(sets == i)
        place = np.ascontiguousarray((points[mine] / (APART * scale) * e.mask[i]).T)
        chosen += [int(mine[pick[0]]) for pick in best_apart(place[:, None], values[None, mine], count)]
    return points[chosen], sets[chosen]


class Surface(Protocol):
    """Is maximised. Points are rows (b, d) of the unit cube, each with the index of its control set (b,)."""

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return values (b,); may be a little less exact than `value_and_gradient`: it only ranks starts."""
        ...

    def value_and_gradient(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return values (b,), and the gradient (b, d), 0 for uncontrolled variables."""
        ...


@dataclass(frozen=True, slots=True)
class Peak:
    """Hold the best setting found of a control set."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    value: float
    """What it was chosen by."""


@dataclass(frozen=True, slots=True, eq=False)
class Visited:
    """Hold settings that were looked at."""

    points: FloatArray
    """(p, d)."""
    sets: IntArray
    """(p,)."""
    values: FloatArray
    """(p,)."""

    def of(self, control_set: int) -> tuple[FloatArray, FloatArray]:
        """Return points and values of one control set."""
        mine = self.sets == control_set
        return self.points[mine], self.values[mine]


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """Say where to look, and how long to climb."""

    expectations: Expectations
    """Of all control sets of the space, in their order; for their masks, data and lengthscales."""
    space: Space
    screening: Screening
    climbers: int
    """Settings of every control set that are climbed from, besides the warm starts."""
    tolerance: float
    """A climb ends when it promises less."""

    def maxima(
        self,
        surface: Surface,
        among: Sequence[int],
        warm: Mapping[int, FloatArray | Sequence[Sequence[float]]],
        rng: np.random.Generator,
    ) -> tuple[Visited, Visited]:
        """Return the local maxima that were climbed to, and all settings that were screened before.

        Args:
            surface: values and gradients.
            among: control sets to look at.
            warm: settings (k,) or (r, k) on the unit cube to climb from in any case, by control set.
            rng: points to screen; the same generator state gives the same maxima bit for bit.
        """
        e = self.expectations
        scale = np.minimum(np.array(e.posterior.hyperparameters.lengthscales), 1.0)
        steps = self.space.steps
        points, sets = self.screening.settings(e, among, scale, rng)
        points = snapped(points, steps)
        values = surface.value(points, sets)
        begin, groups = starts(e, points, sets, values, scale, count=self.climbers)
        for i in among:
            if i in warm:
                known = self.space.rows(i, np.clip(np.atleast_2d(warm[i]), 0.0, 1.0))
                begin, groups = np.concatenate([begin, known]), np.concatenate([groups, np.full(len(known), i)])
        found = climb_on_grid(
            lambda x, index: surface.value_and_gradient(x, groups[index]),
            begin,
            e.mask[groups],
            groups,
            scale,
            steps=steps,
            tolerance=self.tolerance,
        )
        return Visited(found.points, groups, found.values), Visited(points, sets, values)

    def peaks(
        self,
        surface: Surface,
        among: Sequence[int],
        warm: Mapping[int, FloatArray | Sequence[Sequence[float]]],
        rng: np.random.Generator,
    ) -> dict[int, Peak]:
        """Return the highest of the `maxima` of every control set."""
        found, _ = self.maxima(surface, among, warm, rng)
        out = {}
        for i in among:
            points, values = found.of(i)
            best = int(values.argmax())
            out[i] = Peak(i, self.space.setting(i, points[best]), float(values[best]))
        return out
