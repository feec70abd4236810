"""Settings worth looking at: where bounds and means peak, near there, and everywhere; and a search among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.grid import lattice
from rigctl.core.bounds.levels import changes_only, neighbours, snapped
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.space import ControlSet, Settings, Space

LONGEST = 0.5
"""Lengthscales count as no longer than this: half a range away a setting is another one, whatever the model says."""
DECADES = 1.5
"""Distances are drawn from so many powers of ten: a hill is found by long steps, and its top by short ones."""
ROUNDS = 3
LEADERS = 6
CHILDREN = 6
"""A search looks at so many settings near each of so many of the best, again and again."""


def by_members(control_set: ControlSet) -> tuple[int, tuple[int, ...]]:
    """Return what control sets are sorted by: their size, then their variables."""
    return len(control_set.indices), control_set.indices


def join(*parts: Settings) -> Settings:
    return Settings(np.concatenate([p.points for p in parts]), np.concatenate([p.sets for p in parts]))


def peaks(bounds: Sequence[SetBounds], space: Space) -> Settings:
    """Return every control set's maximisers of the mean and of the upper bound."""
    points = [space.rows(b.control_set, np.array([b.best_mean_at, b.upper_at])) for b in bounds]
    return Settings(np.concatenate(points), np.repeat([b.control_set for b in bounds], 2))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """Draw settings near given ones, and everywhere."""

    space: Space
    lengthscales: FloatArray
    """(d,), unit cube."""
    rng: np.random.Generator

    def near(self, settings: Settings, count: int, reach: float) -> Settings:
        """Return `count` settings near each: normal steps of `reach` lengthscales and, evenly in the log, shorter."""
        rows = np.repeat(np.arange(len(settings)), count)
        step = reach * 10.0 ** self.rng.uniform(-DECADES, 0.2, (len(rows), 1))
        moved = settings.points[rows] + step * np.minimum(self.lengthscales, LONGEST) * self.rng.standard_normal(
            (len(rows), self.space.dimension)
        )
        return Settings(snapped(np.clip(moved, 0.0, 1.0), self.space.steps), settings.sets[rows])

    def one_step_from(self, settings: Settings) -> Settings:
        """Return the neighbours of settings on the grid, in variables that their control sets have; else none."""
        moved, rows = neighbours(settings.points, self.space.steps)
        sets = settings.sets[rows]
        kept = changes_only(moved, settings.points[rows], self.space.masks[sets])
        return Settings(moved[kept], sets[kept])

    def everywhere(self, count: int) -> Settings:
        """Return the same `count` points of the cube for every control set."""
        sets = self.space.control_sets
        order = sorted(range(len(sets)), key=lambda i: by_members(sets[i]))
        points = snapped(lattice(self.space.dimension, count, self.rng), self.space.steps)
        return Settings(np.tile(points, (len(sets), 1)), np.repeat(order, count))

    def best(
        self, score: Callable[[Settings], FloatArray], settings: Settings, reach: float
    ) -> tuple[Settings, FloatArray]:
        """Search on near the best settings; return all that were looked at, and their scores."""
        scores = score(settings)
        for _ in range(ROUNDS):
            leaders = settings.of(np.argsort(-scores, kind="stable")[:LEADERS])
            more = join(self.near(leaders, CHILDREN, reach), self.one_step_from(leaders))
            settings, scores = join(settings, more), np.concatenate([scores, score(more)])
        return settings, scores
