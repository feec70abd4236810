"""Maximises many functions on the unit cube at once, by projected BFGS with analytic gradients.

One call of the objective serves every point still under way, so the linear algebra behind it runs on whole batches.
Each point keeps its own curvature and step: in one sweep some take a new direction while others shorten a step that
went too far. No randomness: the same starts give the same maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rigctl.core.kernels import FloatArray

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
Objective = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""(points (b, d), which of the starts they belong to (b,)) -> (values (b,), gradients (b, d))."""

SUFFICIENT = 1e-4
"""Armijo's share of the predicted increase that a step must achieve."""
LONGEST = 1.0
"""Longest step in any variable, lengthscales: beyond it the quadratic model says nothing."""
FIRST = 0.5
"""First step, lengthscales: before there is any curvature."""
SHORTEST = 1e-6
"""A line search gives up at this share of its direction."""
HOPE = 30.0
"""A climb is given up when this many times its promised gain would not bring it to the best of its group."""
SAME = 0.02
"""Points of one group closer than this, lengthscales, are climbing the same hill: the lower one stops."""


@dataclass(slots=True)
class _State:
    """Points under way; rows of all arrays belong together."""

    index: IntArray
    x: FloatArray
    value: FloatArray
    gradient: FloatArray
    curvature: FloatArray
    """(b, d, d), approximately minus the Hessian, in lengthscales; positive definite."""
    fresh: BoolArray
    """Whether the curvature is still a guess."""
    direction: FloatArray
    gain: FloatArray
    """What the quadratic model promises from a full step."""
    step: FloatArray

    def keep(self, rows: BoolArray | IntArray) -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Maxima:
    """One local maximum per start, in the order of the starts."""

    points: FloatArray
    """(b, d)."""
    values: FloatArray
    """(b,)."""
    sweeps: int
    """How often the objective was called."""


def climb(
    objective: Objective,
    starts: FloatArray,
    free: FloatArray,
    groups: IntArray,
    lengthscales: FloatArray,
    *,
    tolerance: float,
    most_sweeps: int = 60,
) -> Maxima:
    """Local maxima within [0, 1]^d, one per start, except for starts given up on because others of their group win.

    Args:
        objective: values and gradients of a batch.
        starts: (b, d).
        free: (b, d), 1 where a variable may move.
        groups: (b,), which starts compete for the same maximum.
        lengthscales: (d,), over which the functions change.
        tolerance: a predicted gain below this counts as arrived.
        most_sweeps: calls of the objective at most.
    """
    rivals = np.stack(np.nonzero(np.triu(groups[:, None] == groups, k=1)))
    points, values = starts.copy(), np.empty(len(starts))
    scale = np.minimum(lengthscales, 1.0)
    everyone = np.arange(len(starts))
    values[:], gradient = objective(points, everyone)
    state = _begin(points, values, gradient * scale)
    sweeps = 1
    _aim(state, free[state.index], np.ones(len(starts), dtype=bool))
    state.keep(state.gain > tolerance)
    while len(state.index) and sweeps < most_sweeps:
        trial = np.clip(state.x + (state.step[:, None] * state.direction) * scale, 0.0, 1.0)
        value, gradient = objective(trial, state.index)
        sweeps += 1
        moved = (trial - state.x) / scale
        promised = np.einsum("ij,ij->i", state.gradient, moved)
        gained = value - state.value
        accepted = gained >= SUFFICIENT * np.maximum(promised, 0.0)
        _learn_curvature(state, accepted, moved, gradient * scale)
        _accept(state, accepted, trial, value, gradient * scale)
        points[state.index], values[state.index] = state.x, state.value
        _aim(state, free[state.index], accepted)
        state.step[~accepted] *= _shorter(promised[~accepted], gained[~accepted])
        hopeful = state.value + HOPE * state.gain >= _best_of(groups, values)[groups[state.index]]
        state.keep(hopeful & (state.gain > tolerance) & (state.step > SHORTEST))
        if sweeps % 3 == 0:
            state.keep(~_followers(state.index, rivals, points / scale, values))
    return Maxima(points, values, sweeps)


def _begin(x: FloatArray, value: FloatArray, gradient: FloatArray) -> _State:
    count, d = x.shape
    return _State(
        index=np.arange(count),
        x=x.copy(),
        value=value.copy(),
        gradient=gradient,
        curvature=np.zeros((count, d, d)),
        fresh=np.ones(count, dtype=bool),
        direction=np.zeros((count, d)),
        gain=np.full(count, np.inf),
        step=np.ones(count),
    )


def _aim(state: _State, free: FloatArray, rows: BoolArray) -> None:
    """New directions for these rows: Newton's on the variables not held at a bound."""
    if not rows.any():
        return
    x, gradient = state.x[rows], state.gradient[rows]
    held = (free[rows] == 0) | ((x <= 0.0) & (gradient <= 0.0)) | ((x >= 1.0) & (gradient >= 0.0))
    gradient = np.where(held, 0.0, gradient)
    steepest = np.abs(gradient).max(axis=1)
    d = x.shape[1]
    curvature = state.curvature[rows]
    fresh = state.fresh[rows]
    guess = np.maximum(steepest / FIRST, np.finfo(float).tiny)
    curvature[fresh] = guess[fresh, None, None] * np.eye(d)
    state.curvature[rows] = curvature
    curvature[held[:, :, None] | held[:, None, :]] = 0.0
    curvature[:, np.arange(d), np.arange(d)] += held
    direction = np.linalg.solve(curvature, gradient[..., None])[..., 0]
    state.gain[rows] = 0.5 * np.einsum("ij,ij->i", direction, gradient)
    longest = np.abs(direction).max(axis=1)
    state.direction[rows] = direction
    state.step[rows] = np.minimum(1.0, LONGEST / np.maximum(longest, np.finfo(float).tiny))


def _learn_curvature(state: _State, accepted: BoolArray, moved: FloatArray, gradient: FloatArray) -> None:
    """BFGS on minus the Hessian, skipped where the function curved upwards along the step."""
    change = state.gradient - gradient
    along = np.einsum("ij,ij->i", moved, change)
    squared = np.einsum("ij,ij->i", change, change)
    length = np.einsum("ij,ij->i", moved, moved)
    rows = np.flatnonzero(accepted & (along > 1e-8 * np.sqrt(squared * length)) & (along > 0))
    if not rows.size:
        return
    d = moved.shape[1]
    first = state.fresh[rows]
    initial = squared[rows] / along[rows]
    curvature = state.curvature[rows]
    curvature[first] = initial[first, None, None] * np.eye(d)
    s, y = moved[rows], change[rows]
    bs = np.einsum("ijk,ik->ij", curvature, s)
    sbs = np.einsum("ij,ij->i", s, bs)
    curvature += y[:, :, None] * (y / along[rows, None])[:, None, :] - bs[:, :, None] * (bs / sbs[:, None])[:, None, :]
    state.curvature[rows] = curvature
    state.fresh[rows] = False


def _accept(state: _State, accepted: BoolArray, x: FloatArray, value: FloatArray, gradient: FloatArray) -> None:
    state.x[accepted] = x[accepted]
    state.value[accepted] = value[accepted]
    state.gradient[accepted] = gradient[accepted]


def _shorter(promised: FloatArray, gained: FloatArray) -> FloatArray:
    """The share of a refused step at which a parabola through both ends peaks, within [0.1, 0.5].

    A step cut short by the cube may have promised nothing; its share is then the smallest.
    """
    fall = np.maximum(promised - gained, np.maximum(np.abs(promised), np.finfo(float).tiny))
    return np.asarray(np.clip(0.5 * promised / fall, 0.1, 0.5))


def _best_of(groups: IntArray, values: FloatArray) -> FloatArray:
    """The largest value of every group."""
    best = np.full(int(groups.max(initial=0)) + 1, -np.inf)
    np.maximum.at(best, groups, values)
    return best


def _followers(active: IntArray, rivals: IntArray, scaled: FloatArray, values: FloatArray) -> BoolArray:
    """Which of the active points are close to a better one of their group that is under way too."""
    climbing = np.zeros(len(values), dtype=bool)
    climbing[active] = True
    one, other = rivals[:, climbing[rivals[0]] & climbing[rivals[1]]]
    columns = np.ascontiguousarray(scaled.T)
    close = np.abs(columns[:, one] - columns[:, other]).max(axis=0) < SAME
    lower = np.where(values[one] < values[other], one, other)[close]
    behind = np.zeros(len(values), dtype=bool)
    behind[lower] = True
    return np.asarray(behind[active])
