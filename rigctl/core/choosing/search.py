"""Maximises any smooth function of control sets' settings: screens points, then climbs from the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rigctl.core.ascent import climb
from rigctl.core.expectations import Expectations, IntArray
from rigctl.core.gp.kernels import FloatArray
from rigctl.core.pointwise import sobol

SOBOL_POINTS = (128, 512, 2048)
"""Settings of the whole cube screened for a control set of one, two, and three or more variables."""
DATA_POINTS = 32
"""Trials with the best values, screened as settings; around them are more."""
NEIGHBOURS = (32, 128, 384)
"""For as many variables: settings screened around those trials."""
REACHES = (0.6, 0.2)
"""How far from them, lengthscales."""
CLIMBERS = 16
"""Settings of every control set that are climbed from, besides the warm starts."""
APART = 0.5
"""They differ by at least this much in some variable, lengthscales."""


class Surface(Protocol):
    """What is maximised. Points are rows (b, d) of the unit cube, each with the index of its control set (b,)."""

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """(b,); may be a little less exact than `value_and_gradient`: it only ranks starts."""
        ...

    def value_and_gradient(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """(b,), and the gradient (b, d), 0 for uncontrolled variables."""
        ...


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest point found of one control set."""

    value: float
    setting: tuple[float, ...]
    """(k,), unit cube."""


def maximise(
    surface: Surface,
    expectations: Expectations,
    among: Sequence[int],
    warm_starts: Mapping[int, Sequence[Sequence[float]]],
    rng: np.random.Generator,
    *,
    tolerance: float,
) -> dict[int, Peak]:
    """The highest point of every control set in `among`.

    Args:
        surface: values and gradients.
        expectations: of all control sets of the space, in their order; for their masks, data and lengthscales.
        among: control sets to look at.
        warm_starts: settings (k,) on the unit cube to climb from in any case, by control set.
        rng: points to screen; the same generator state gives the same peaks bit for bit.
        tolerance: a climb ends when it promises less.
    """
    h = expectations.posterior.hyperparameters
    scale = np.minimum(np.array(h.lengthscales), 1.0)
    points, sets = _candidates(expectations, among, scale, rng)
    starts, groups = _starts(expectations, points, sets, surface.value(points, sets), scale)
    warm, warm_groups = _warm(expectations, among, warm_starts)
    starts, groups = np.concatenate([starts, warm]), np.concatenate([groups, warm_groups])
    maxima = climb(
        lambda x, index: surface.value_and_gradient(x, groups[index]),
        starts,
        expectations.mask[groups],
        groups,
        scale,
        tolerance=tolerance,
    )
    peaks = {}
    for i in among:
        mine = np.flatnonzero(groups == i)
        best = mine[int(maxima.values[mine].argmax())]
        controlled = np.flatnonzero(expectations.mask[i])
        peaks[i] = Peak(float(maxima.values[best]), tuple(float(v) for v in maxima.points[best, controlled]))
    return peaks


def _candidates(
    e: Expectations, among: Sequence[int], scale: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, IntArray]:
    """Rows (c, d) and their control sets (c,): points of the whole cube, the best trials, and their neighbourhood."""
    d = e.mask.shape[1]
    x = np.clip(e.posterior.x, 0.0, 1.0)
    kept = min(DATA_POINTS, len(x))
    common = sobol(d, SOBOL_POINTS[-1], rng)
    count = NEIGHBOURS[-1] if kept else 0
    noise = rng.standard_normal((count, d)) * np.resize(np.array(REACHES), count)[:, None] * scale
    points, sets = [], []
    for i in among:
        size = min(int(e.mask[i].sum()), len(SOBOL_POINTS)) - 1
        here = np.full(len(x), i)
        best = x[np.argsort(-e.mean(e.inner(x, here), here), kind="stable")[:kept]]
        around = np.resize(best, (count, d))[: NEIGHBOURS[size]] + noise[: NEIGHBOURS[size]]
        mine = np.concatenate([common[: SOBOL_POINTS[size]], best, np.clip(around, 0.0, 1.0)])
        points.append(mine)
        sets.append(np.full(len(mine), i))
    return np.concatenate(points), np.concatenate(sets)


def _starts(
    e: Expectations, points: FloatArray, sets: IntArray, values: FloatArray, scale: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Of every control set greedily the best candidates that are apart: else all would start on the same hill."""
    chosen = []
    for i in np.unique(sets):
        mine = np.flatnonzero(sets == i)
        place = np.ascontiguousarray((points[mine] / (APART * scale) * e.mask[i]).T)
        left = values[mine].copy()
        for _ in range(CLIMBERS):
            best = int(left.argmax())
            if left[best] == -np.inf:
                break
            chosen.append(mine[best])
            left[np.abs(place - place[:, best, None]).max(axis=0) < 1.0] = -np.inf
    return points[chosen], sets[chosen]


def _warm(
    e: Expectations, among: Sequence[int], given: Mapping[int, Sequence[Sequence[float]]]
) -> tuple[FloatArray, IntArray]:
    """Settings (k,) as rows (r, d), and their control sets (r,)."""
    d = e.mask.shape[1]
    pairs = [(i, setting) for i in among for setting in given.get(i, ())]
    points = np.full((len(pairs), d), 0.5)
    for row, (i, setting) in enumerate(pairs):
        points[row, np.flatnonzero(e.mask[i])] = setting
    return points, np.array([i for i, _ in pairs], dtype=np.int64)
