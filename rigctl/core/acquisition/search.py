"""Maximises any smooth function of control sets' settings: screens points, then climbs from the best of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rigctl.core.acquisition.screening import Screening, starts
from rigctl.core.arrays import FloatArray, IntArray
from rigctl.core.bounds.ascent import climb
from rigctl.core.bounds.expectations import Expectations

SCREENING = Screening(cube=(128, 512, 2048), around=(32, 128, 384), reaches=(0.6, 0.2), trials_too=True)
CLIMBERS = 16
"""Settings of every control set that are climbed from, besides the warm starts."""


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
    points, sets = SCREENING.settings(expectations, among, scale, rng)
    cold, cold_groups = starts(expectations, points, sets, surface.value(points, sets), scale, count=CLIMBERS)
    warm, warm_groups = _warm(expectations, among, warm_starts)
    groups = np.concatenate([cold_groups, warm_groups])
    maxima = climb(
        lambda x, index: surface.value_and_gradient(x, groups[index]),
        np.concatenate([cold, warm]),
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
