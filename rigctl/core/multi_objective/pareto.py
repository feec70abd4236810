"""Which of several settings no other one beats in every outcome: the Pareto front (Abdolshah et al., eq. 3 and 4).

All outcomes are values here: turned so that larger is better.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import BoolArray, FloatArray

MARGIN = 0.1
"""Of the range seen: how far below the worst value a reference point lies where no floor is declared."""


def non_dominated(values: FloatArray) -> BoolArray:
    """Tell which rows of values (n, K) no other row dominates, (n,).

    A row dominates another if it is nowhere smaller and somewhere larger; of equal rows none dominates the other.

    Raises:
        ValueError: values are not (n, K), or not finite.
    """
    values = _checked(values)
    if values.shape[1] == 2:
        return _of_two(values)
    # Whatever dominates a row has a larger sum, so it comes before it; rounding can only make the sums equal.
    order = np.lexsort((*(-values.T[::-1]), -values.sum(axis=1)))
    kept = np.zeros(len(values), dtype=bool)
    front = np.empty((0, values.shape[1]))
    for row in order:
        value = values[row]
        if ((front >= value).all(axis=1) & (front > value).any(axis=1)).any():
            continue
        kept[row] = True
        front = np.vstack([front, value])
    return kept


def _of_two(values: FloatArray) -> BoolArray:
    """Sweep along the falling first outcome: a row must exceed the second outcome of all before it."""
    order = np.lexsort((-values[:, 1], -values[:, 0]))
    first, second = values[order].T
    # rows equal in the first outcome stand together, the best of them in front
    group = np.searchsorted(-first, -first, side="left")
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(second)])
    kept = np.empty(len(values), dtype=bool)
    kept[order] = (reached[group] < second) & (second[group] == second)
    return kept


def reference_point(values: FloatArray, floors: FloatArray | None = None) -> FloatArray:
    """Return a point (K,) that every row of values (n, K) dominates, from which hypervolumes are counted.

    Per outcome: the declared floor, the worst value it can take, unless something worse has been seen. Without a floor
    (NaN) it lies a tenth of the range seen below the worst value, so that the extreme ends of the front count too.
    Where all values are equal, the range is taken to be their size, or 1.

    Raises:
        ValueError: there are no values, or they are not (n, K), or not finite.
    """
    values = _checked(values)
    if not len(values):
        raise ValueError("reference point: needs at least one row of values")
    worst, span = values.min(axis=0), np.ptp(values, axis=0)
    size = np.abs(values).max(axis=0)
    span = np.where(span > 0, span, np.where(size > 0, size, 1.0))
    below = worst - MARGIN * span
    if floors is None:
        return np.asarray(below)
    declared = np.asarray(floors, dtype=float)
    return np.asarray(np.where(np.isnan(declared), below, np.where(declared <= worst, declared, below)))


def _checked(values: FloatArray) -> FloatArray:
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        raise ValueError(f"outcomes: got shape {values.shape}, need finite (n, K), K > 0")
    return values
