"""Maximises on a grid: variables that take some values only, beside others that take all.

Climbs go over the whole cube, as if every value could be set; where one ends, the function itself is evaluated at the
settings around, and at their neighbours for as long as one is better: never is a setting rounded without a look. What
counts is the acquisition at the values that will really be set (Garrido-Merchan and Hernandez-Lobato, "Dealing with
categorical and integer-valued variables in Bayesian optimization with Gaussian processes", Neurocomputing 2020). Where
a control set has few settings, all are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import prod

import numpy as np

from rigctl.core.bounds.ascent import Maxima, Objective, climb
from rigctl.core.experiment.arrays import FloatArray, IntArray

FEW = 512
"""A control set of no more settings than this is looked at as a whole."""
CORNERS = 4
"""With so many stepped variables all settings around a maximum are looked at; with more, the nearest of them."""
ROUNDS = 3
"""The others climb on after the stepped ones have moved, and so on."""
FURTHEST = 64
"""Moves to a better neighbour at most."""

Value = Callable[[FloatArray, IntArray], FloatArray]
"""(points (b, d), which of the starts they belong to (b,)) -> values (b,)."""


def snapped(points: FloatArray, steps: IntArray) -> FloatArray:
    """Return points (..., d) of the unit cube with each stepped variable at its nearest level.

    Args:
        points: unit cube.
        steps: (d,), number of steps over the range; 0 where every value can be set.
    """
    if not steps.any():
        return points
    count = np.maximum(steps, 1)
    return np.where(steps > 0, np.clip(np.rint(points * count), 0, count) / count, points)


def neighbours(points: FloatArray, steps: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the settings one step away in one variable from settings (b, d), (c, d), and from which each is, (c,)."""
    moved, rows = [points[:0]], [np.empty(0, dtype=np.int64)]
    for column in np.flatnonzero(steps):
        for side in (-1.0, 1.0):
            there = points.copy()
            there[:, column] += side / steps[column]
            # half a step out is no rounding error, but no level either
            inside = np.flatnonzero(np.abs(there[:, column] - 0.5) < 0.5 + 0.5 / steps[column])
            moved.append(snapped(there[inside], steps))
            rows.append(inside)
    return np.concatenate(moved), np.concatenate(rows)


def climb_on_grid(
    objective: Objective,
    starts: FloatArray,
    free: FloatArray,
    groups: IntArray,
    lengthscales: FloatArray,
    *,
    steps: IntArray,
    tolerance: float,
    few: int = FEW,
) -> Maxima:
    """Return local maxima as `climb` does, all of them on the grid of `steps` (d,), as for `snapped`.

    Where there are none this is `climb`, to the last bit. The starts of one group have the same free variables; a group
    of no more settings than `few` is looked at as a whole.
    """
    found = climb(objective, starts, free, groups, lengthscales, tolerance=tolerance)
    if not steps.any() or not len(starts):
        return found

    def value(points: FloatArray, index: IntArray) -> FloatArray:
        return objective(points, index)[0]

    points, values = settled(value, found.points, free, groups, steps=steps, before=starts, few=few)
    others = free * (steps == 0)
    for _ in range(ROUNDS if others.any() else 0):
        again = climb(objective, points, others, groups, lengthscales, tolerance=tolerance)
        points, moved = settled(value, again.points, free, groups, steps=steps, few=0)
        gained = float((moved - values).max())
        values = moved
        if gained <= tolerance:
            break
    return Maxima(points, values)


def settled(
    value: Value,
    points: FloatArray,
    free: FloatArray,
    groups: IntArray,
    *,
    steps: IntArray,
    before: FloatArray | None = None,
    few: int = FEW,
) -> tuple[FloatArray, FloatArray]:
    """Return settings on the grid (b, d) that no neighbour's value exceeds, and their values, (b,).

    Args:
        value: to be maximised.
        points: (b, d), anywhere in the cube; variables without steps stay where they are.
        free: (b, d), 1 where a variable may move.
        groups: (b,), which points compete; those of one group have the same free variables.
        steps: (d,), as for `snapped`.
        before: (b, d), settings that count beside the points.
        few: a group of no more settings than this is looked at as a whole: its first point becomes its best setting.
    """
    candidates, rows = _around(points, free, steps)
    if before is not None:
        candidates = np.concatenate([candidates, snapped(before, steps)])
        rows = np.concatenate([rows, np.arange(len(before))])
    whole, owners = _all_of_few(points, free, groups, steps, few)
    candidates, rows = np.concatenate([candidates, whole]), np.concatenate([rows, owners])
    at, best = best_of_each(candidates, rows, value(candidates, rows), len(points))
    moving = np.arange(len(points))
    for _ in range(FURTHEST):
        near, of = neighbours(at[moving], steps)
        allowed = changes_only(near, at[moving][of], free[moving][of])
        near, of = near[allowed], moving[of[allowed]]
        if not len(of):
            break
        there, values = best_of_each(near, of, value(near, of), len(points))
        better = values > best
        if not better.any():
            break
        at[better], best[better] = there[better], values[better]
        moving = np.flatnonzero(better)
    return at, best


def changes_only(moved: FloatArray, points: FloatArray, free: FloatArray) -> IntArray:
    """Return which of the moved differ from their points in a free variable."""
    return np.flatnonzero(((moved != points) & (free == 1)).any(axis=1))


def _around(points: FloatArray, free: FloatArray, steps: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the nearest setting of each point and, of few stepped variables, all others around it."""
    rows = np.arange(len(points))
    columns = np.flatnonzero((steps > 0) & (free == 1).any(axis=0))
    if len(columns) > CORNERS:
        return snapped(points, steps), rows
    corners = []
    for sides in product((np.floor, np.ceil), repeat=len(columns)):
        corner = snapped(points, steps)
        for column, side in zip(columns, sides, strict=True):
            level = np.clip(side(points[:, column] * steps[column]), 0, steps[column]) / steps[column]
            corner[:, column] = np.where(free[:, column] == 1, level, corner[:, column])
        corners.append(corner)
    return np.concatenate(corners), np.tile(rows, len(corners))


def _all_of_few(
    points: FloatArray, free: FloatArray, groups: IntArray, steps: IntArray, few: int
) -> tuple[FloatArray, IntArray]:
    """Return all settings of every group that has few, (c, d), and the first point of their group (c,)."""
    every, owners = [points[:0]], [np.empty(0, dtype=np.int64)]
    for group in np.unique(groups):
        first = int(np.flatnonzero(groups == group)[0])
        columns = np.flatnonzero(free[first] == 1)
        if not (steps[columns] > 0).all() or prod(int(n) + 1 for n in steps[columns]) > few:
            continue
        levels = np.meshgrid(*(np.arange(n + 1) / n for n in steps[columns]), indexing="ij")
        rows = np.tile(snapped(points[first], steps), (levels[0].size, 1))
        rows[:, columns] = np.stack([level.ravel() for level in levels], axis=1)
        every.append(rows)
        owners.append(np.full(len(rows), first))
    return np.concatenate(every), np.concatenate(owners)


def best_of_each(
    candidates: FloatArray, rows: IntArray, values: FloatArray, count: int
) -> tuple[FloatArray, FloatArray]:
    """Return the best candidate of each of so many points, (count, d), the first of equals; -inf where it has none."""
    order = np.lexsort((np.arange(len(rows)), -values, rows))
    owners, first = np.unique(rows[order], return_index=True)
    at, best = np.zeros((count, candidates.shape[1])), np.full(count, -np.inf)
    at[owners], best[owners] = candidates[order[first]], values[order[first]]
    return at, best
