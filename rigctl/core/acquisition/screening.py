"""Where a maximisation looks before it climbs: settings of the whole cube, and around the best trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from rigctl.core.arrays import FloatArray, IntArray
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.pointwise import sobol

APART = 0.5
"""Climbs start at least this far from each other in some variable, lengthscales."""


@dataclass(frozen=True, slots=True)
class Screening:
    """How many settings are looked at, and where. Triples are for a control set of one, two, and more variables."""

    cube: tuple[int, int, int]
    """Sobol points of the whole cube."""
    around: tuple[int, int, int]
    """Settings around the best trials."""
    reaches: tuple[float, ...]
    """How far from them, lengthscales, in turn."""
    trials: int = 32
    """How many trials count as the best: those whose settings have the highest means."""
    trials_too: bool = False
    """Whether the trials' own settings are looked at as well."""
    most_moved: float = inf
    """Settings around a trial differ from it in about this many variables at most."""

    def settings(
        self, e: Expectations, among: Sequence[int], scale: FloatArray, rng: np.random.Generator
    ) -> tuple[FloatArray, IntArray]:
        """Rows (c, d) of the unit cube and their control sets (c,), each of `among` in turn.

        Args:
            e: of all control sets of the space; for their masks, data and means.
            among: control sets to look at.
            scale: (d,), lengthscales.
            rng: the same generator state gives the same settings bit for bit.
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
            best = x[np.argsort(-e.mean(e.inner(x, here), here), kind="stable")[:kept]]
            near = np.resize(best, (count, d)) + steps * (moved < self.most_moved / controlled)
            near = np.clip(near[: self.around[size]], 0.0, 1.0)
            mine = [common[: self.cube[size]], *([best] if self.trials_too else []), near]
            points += mine
            sets.append(np.full(sum(map(len, mine)), i))
        return np.concatenate(points), np.concatenate(sets)


def starts(
    e: Expectations, points: FloatArray, sets: IntArray, values: FloatArray, scale: FloatArray, *, count: int
) -> tuple[FloatArray, IntArray]:
    """Of every control set greedily up to `count` of the best settings that are apart: rows (b, d) and sets (b,).

    Without this all climbs would start on the same hill.
    """
    chosen: list[int] = []
    for i in np.unique(sets):
        mine = np.flatnonzero(sets == i)
        place = np.ascontiguousarray((points[mine] / (APART * scale) * e.mask[i]).T)
        left = values[mine].copy()
        for _ in range(count):
            best = int(left.argmax())
            if left[best] == -np.inf:  # all others are close to one taken
                break
            chosen.append(int(mine[best]))
            left[np.abs(place - place[:, best, None]).max(axis=0) < 1.0] = -np.inf
    return points[chosen], sets[chosen]
