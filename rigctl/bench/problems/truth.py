"""What the bench knows and the policies do not: the true value of every setting, and the best there is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.bench.problems.functions import Objective
from rigctl.bench.problems.terms import Natural, Partial
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray, IntArray

Value = Callable[[FloatArray], FloatArray]
"""(n, k) settings -> (n,) values."""

GRID = {1: 1001, 2: 101, 3: 41}
"""Points per axis of the grid that is searched first, by number of controlled variables that matter."""
CLIMBERS, MANY_TERMS = 32, 256
"""Starting points of the climb. All are first moved along the axes, but a quarter where a value takes many terms."""
SCAN, SWEEPS = 801, 2
"""Points of a scan along an axis, and how often all axes are scanned."""
APART = 0.05
FINEST = 1e-7
"""The search ends at this step, unit cube."""


@dataclass(frozen=True, slots=True)
class BestOfSet:
    """The best setting of one control set."""

    value: float
    """max F_i."""
    setting: tuple[float, ...]
    """(k,), unit cube; 0.5 where a variable has no effect."""


@dataclass(frozen=True, slots=True, eq=False)
class ProblemTruth:
    """True values, outcome units, larger is better."""

    values: tuple[Value, ...]
    """F_i per control set, (n, k) settings on the unit cube -> (n,)."""
    best: tuple[BestOfSet, ...]
    """Per control set."""
    floor: float
    """The worst value the outcome takes."""

    @classmethod
    def of(
        cls,
        objective: Objective,
        marginals: Sequence[Natural],
        control_sets: Sequence[Sequence[int]],
        floor: float | None = None,
    ) -> ProblemTruth:
        """Find values and maxima of a sum of products; variables from `objective.dimension` on have no effect."""
        d = objective.dimension
        values: list[Value] = []
        best = []
        for controlled in control_sets:
            columns = [c for c, variable in enumerate(controlled) if variable < d]
            effective = [controlled[c] for c in columns]
            partial = Partial.of(objective.terms(), objective.constant, effective, marginals[:d])
            # nothing is left to chance: the function itself, which is exact also where its terms end (ackley's tip)
            value = _of_columns(objective, np.argsort(effective)) if len(effective) == d else partial
            values.append(_of_columns(value, columns))
            hints = np.empty((0, d)) if objective.hints is None else objective.hints
            starts = _starts(partial, hints[:, effective])
            many = sum(len(weights) for weights in partial.weights) > MANY_TERMS
            starts = np.concatenate([axis_scan(value, starts[: CLIMBERS // (4 if many else 1)]), starts])
            points, reached = compass_search(value, starts, step=0.5 / GRID.get(len(effective), 11))
            winner = int(reached.argmax())
            setting = np.full(len(controlled), 0.5)
            setting[columns] = points[winner]
            best.append(BestOfSet(float(reached[winner]), tuple(setting.tolist())))
        # about the least, where it is not known
        lowest = float(objective(sobol(d, 1 << 11)).min()) if floor is None else floor
        return cls(tuple(values), tuple(best), lowest)

    def value(self, control_set: int, settings: FloatArray) -> FloatArray:
        return self.values[control_set](np.asarray(settings, dtype=float))


def _of_columns(value: Value, columns: Sequence[int] | IntArray) -> Value:
    return lambda settings: value(settings[:, columns])


def _starts(partial: Partial, hints: FloatArray) -> FloatArray:
    """Return the best points (b, k) of a grid, or where it would be too large of Sobol points and hints."""
    k = len(partial.variables)
    if k == 0:
        return np.empty((1, 0))
    if k in GRID:
        axis = np.linspace(0.0, 1.0, GRID[k])
        values = partial.on_grid([axis] * k).ravel()
        points = np.stack(np.meshgrid(*[axis] * k, indexing="ij"), axis=-1).reshape(-1, k)
    else:
        points = np.concatenate([np.clip(hints, 0.0, 1.0), sobol(k, 1 << 14)])
        values = partial(points)
    return points[_apart(points, values)]


def _apart(points: FloatArray, values: FloatArray) -> list[int]:
    """Return the best points that are not close to a better one."""
    left, picks = values.copy(), []
    for _ in range(CLIMBERS):
        best = int(left.argmax())
        if left[best] == -np.inf:
            break
        picks.append(best)
        left[np.abs(points - points[best]).max(axis=1) < APART] = -np.inf
    return picks


def axis_scan(function: Value, starts: FloatArray) -> FloatArray:
    """Move each start (b, k) to the best point of a line along each axis in turn, across ripples that stop a climber.

    Returns:
        Points (b, k), none worse than its start.
    """
    points, line = starts.copy(), np.linspace(0.0, 1.0, SCAN)
    for column in list(range(points.shape[1])) * SWEEPS:
        for row, point in enumerate(points):
            along = np.tile(point, (SCAN + 1, 1))
            along[1:, column] = line
            points[row] = along[int(function(along).argmax())]
    return points


def compass_search(function: Value, starts: FloatArray, step: float) -> tuple[FloatArray, FloatArray]:
    """Climb from all starts (b, k) at once, axis by axis, the step halved where no neighbour is better; no gradient.

    Returns:
        Points (b, k) and values (b,).
    """
    points, values = starts.copy(), function(starts)
    b, k = points.shape
    moves = np.concatenate([np.eye(k), -np.eye(k)])
    steps = np.full(b, step if k else 0.0)
    while (steps > FINEST).any():
        going = np.flatnonzero(steps > FINEST)
        around = np.clip(points[going, None, :] + steps[going, None, None] * moves, 0.0, 1.0)
        tried = function(around.reshape(-1, k)).reshape(len(going), -1)
        pick = tried.argmax(axis=1)
        reached = tried[np.arange(len(going)), pick]
        better = reached > values[going]
        rows = going[better]
        points[rows], values[rows] = around[better, pick[better]], reached[better]
        steps[going[~better]] *= 0.5
    return points, values
