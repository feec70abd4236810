"""Trials as series: thinned so that a page stays small, with every extreme kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from rigctl.campaign.journal.glance import CourseRow
from rigctl.core.arrays import FloatArray, IntArray
from rigctl.core.money import to_units

Axis = Literal["money", "trial", "time"]


def thinned(xs: FloatArray, ys: FloatArray, columns: int) -> IntArray:
    """Return which points (n,) to draw: of every column first, last, lowest and highest; none is lost that stands out.

    Args:
        xs: (n,), rising.
        ys: (n,), NaN where there is no value.
        columns: as many as can be told apart.
    """
    known = np.flatnonzero(np.isfinite(ys) & np.isfinite(xs))
    if len(known) <= 2 * columns:
        return known
    x, y = xs[known], ys[known]
    span = x[-1] - x[0]
    column = np.minimum(((x - x[0]) / span * columns).astype(int), columns - 1) if span > 0 else np.zeros(len(x), int)
    # sorted by column, then by value: the extremes of a column are its ends
    order = np.lexsort((y, column))
    first = np.flatnonzero(np.r_[True, np.diff(column[order]) > 0])
    last = np.r_[first[1:], len(order)] - 1
    kept = np.unique(np.r_[order[first], order[last], 0, len(known) - 1])
    return np.asarray(known[kept])


def spread_out(points: FloatArray, cells: int = 40) -> IntArray:
    """Return which points (n, 2) to draw in a plane: one of each cell that has any, so that no region is lost."""
    if len(points) <= cells * cells // 4:
        return np.arange(len(points))
    low = points.min(axis=0)
    span = points.max(axis=0) - low
    cell = ((points - low) / np.where(span > 0, span, 1.0) * (cells - 1)).astype(int)
    return np.asarray(np.unique(cell[:, 0] * cells + cell[:, 1], return_index=True)[1])


@dataclass(frozen=True, slots=True, eq=False)
class Tracks:
    """All trials as arrays (n,), in order."""

    trial: FloatArray
    money: FloatArray
    """Spent after it, currency units."""
    time_h: FloatArray
    """Campaign hours at its end."""
    outcome: FloatArray
    """NaN where there is none."""
    best: FloatArray
    """The best outcome so far; NaN before the first."""
    played: IntArray
    """Which of `sets`."""
    sets: tuple[tuple[str, ...], ...]
    """That were played, the smallest first."""

    @classmethod
    def of(cls, rows: Sequence[CourseRow], *, maximise: bool) -> Tracks:
        outcome = np.array([row.outcome if row.recorded else np.nan for row in rows], dtype=float)
        pick = np.fmax if maximise else np.fmin
        sets = sorted({row.control_set for row in rows}, key=lambda names: (len(names), names))
        number = {names: i for i, names in enumerate(sets)}
        return cls(
            trial=np.array([row.trial for row in rows], dtype=float),
            money=np.cumsum([to_units(row.cost) for row in rows], dtype=float),
            time_h=np.array([row.changed_s for row in rows], dtype=float) / 3600.0,
            outcome=outcome,
            best=pick.accumulate(outcome) if len(rows) else outcome,
            played=np.array([number[row.control_set] for row in rows], dtype=int),
            sets=tuple(sets),
        )

    def along(self, axis: Axis) -> FloatArray:
        return {"money": self.money, "trial": self.trial, "time": self.time_h}[axis]


def readings(rows: Sequence[CourseRow], variable: str) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Return trials, what was measured of a variable (NaN: nothing), and whether it was controlled, (n,) each."""
    trials = np.array([row.trial for row in rows], dtype=float)
    values = np.array([row.measured.get(variable, np.nan) for row in rows], dtype=float)
    return trials, values, np.array([variable in row.control_set for row in rows], dtype=bool)


def runs(where: NDArray[np.bool_], starts: FloatArray, ends: FloatArray, gap: float) -> list[tuple[float, float]]:
    """Return the stretches in which something holds; those with less than a gap between them are one."""
    held = np.flatnonzero(where)
    if not held.size:
        return []
    begins, stops = starts[held], ends[held]
    apart = np.flatnonzero(begins[1:] - stops[:-1] > gap)
    return list(zip(begins[np.r_[0, apart + 1]].tolist(), stops[np.r_[apart, -1]].tolist(), strict=True))
