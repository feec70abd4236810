"""The hypervolume that a set of outcomes dominates: exact, for any number of outcomes (a handful in practice).

Two outcomes by one sweep; more by the recursion of While, Bradstreet and Barone, "A fast way of calculating exact
hypervolumes" (IEEE Transactions on Evolutionary Computation 2012): a point adds its own box less what the points before
it dominate of that box.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.multi_objective.pareto import non_dominated


def hypervolume(values: FloatArray, reference: FloatArray) -> float:
    """Return the volume between the reference point (K,) and the front of values (n, K); larger is better.

    Points that are not better than the reference in every outcome add nothing. Units: the product of the outcomes'.

    Raises:
        ValueError: shapes do not match, or a number is not finite.
    """
    values, reference = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    if values.ndim != 2 or reference.shape != values.shape[1:] or not reference.size:
        raise ValueError(f"hypervolume: got values {values.shape} and reference {reference.shape}; need (n, K), (K,)")
    if not (np.isfinite(values).all() and np.isfinite(reference).all()):
        raise ValueError("hypervolume: values and reference must be finite; leave out failed trials")
    boxes = values - reference
    return _volume(_front(boxes[(boxes > 0).all(axis=1)]))


def _front(boxes: FloatArray) -> FloatArray:
    """Drop dominated and repeated rows; falling in the last outcome, limit sets soon become small."""
    if not len(boxes):
        return boxes
    front = np.unique(boxes[non_dominated(boxes)], axis=0)
    return np.asarray(front[np.argsort(-front[:, -1], kind="stable")])


def _volume(front: FloatArray) -> float:
    """Add up a front as `_front` gives it."""
    if not len(front):
        return 0.0
    if front.shape[1] == 1:
        return float(front[0, 0])
    if front.shape[1] == 2:
        return _area(front)
    # The rows before one reach at least as far in the last outcome, so what they take of its box has one outcome fewer.
    total = 0.0
    for row, box in enumerate(front):
        before = np.minimum(front[:row, :-1], box[:-1])
        total += float(box[-1]) * (float(np.prod(box[:-1])) - _volume(_front(before)))
    return total


def _area(front: FloatArray) -> float:
    """Add up two outcomes: along a front that falls in the second, the first rises."""
    widths = np.diff(front[:, 0], prepend=0.0)
    return float(widths @ front[:, 1])
