"""Maximises many functions on the unit cube at once, by projected BFGS with analytic gradients.

One call of the objective serves every point still under way, so the linear algebra behind it runs on whole batches.
Each point keeps its own curvature and step: in one sweep some take a new direction while others shorten a step that
went too far. No randomness: the same starts give the same maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray

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
    """Hold the points under way; rows of all arrays belong together, and all but the points are in lengthscales."""

    index: IntArray
    free: FloatArray
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

    def keep(self, rows: BoolArray) -> None:
        if not rows.all():
            for name in self.__slots__:
                setattr(self, name, getattr(self, name)[rows])


@dataclass(frozen=True, slots=True, eq=False)
class Maxima:
    """Hold one local maximum per start, in the order of the starts."""

    points: FloatArray
    """(b, d)."""
    values: FloatArray
    """(b,)."""


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
    """Return local maxima within [0, 1]^d, one per start; a start is given up on where others of its group win.

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
    scale = np.minimum(lengthscales, 1.0)
    points = starts.copy()
    values, gradient = objective(points, np.arange(len(starts)))
    values = values.copy()
    state = _begin(points, values, gradient * scale, free)
    sweeps = 1
    state.keep(state.gain > tolerance)
    while len(state.index) and sweeps < most_sweeps:
        trial = np.minimum(np.maximum(state.x + (state.step[:, None] * state.direction) * scale, 0.0), 1.0)
        value, gradient = objective(trial, state.index)
        sweeps += 1
        _advance(state, trial, value, gradient * scale, scale)
        points[state.index], values[state.index] = state.x, state.value
        hopeful = state.value + HOPE * state.gain >= _best_of(groups, values)[groups[state.index]]
        state.keep(hopeful & (state.gain > tolerance) & (state.step > SHORTEST))
        if sweeps % 3 == 0:
            state.keep(~_followers(state.index, rivals, points / scale, values))
    return Maxima(points, values)


def _begin(x: FloatArray, value: FloatArray, gradient: FloatArray, free: FloatArray) -> _State:
    count, d = x.shape
    state = _State(
        index=np.arange(count),
        free=free,
        x=x.copy(),
        value=value.copy(),
        gradient=gradient,
        curvature=np.zeros((count, d, d)),
        fresh=np.ones(count, dtype=bool),
        direction=np.zeros((count, d)),
        gain=np.zeros(count),
        step=np.ones(count),
    )
    state.step = _aim(state)
    return state


def _advance(state: _State, trial: FloatArray, value: FloatArray, gradient: FloatArray, scale: FloatArray) -> None:
    """Go where enough was gained, with a new direction; elsewhere shorten the step."""
    moved = (trial - state.x) / scale
    promised = np.vecdot(state.gradient, moved)
    gained = value - state.value
    accepted = gained >= SUFFICIENT * np.maximum(promised, 0.0)
    _learn_curvature(state, accepted, moved, state.gradient - gradient)
    if accepted.all():
        state.x, state.value, state.gradient = trial, value, gradient
        state.step = _aim(state)
        return
    rows = accepted[:, None]
    state.x = np.where(rows, trial, state.x)
    state.value = np.where(accepted, value, state.value)
    state.gradient = np.where(rows, gradient, state.gradient)
    shorter = state.step * _shorter(promised, gained)
    # where nothing was accepted nothing has changed, so direction and gain come out as they were
    state.step = np.where(accepted, _aim(state), shorter)


def _aim(state: _State) -> FloatArray:
    """Set direction and gain, Newton's on the variables not held at a bound; return the first step, (b,)."""
    x, gradient = state.x, state.gradient
    uphill = ((x > 0.0) | (gradient > 0.0)) & ((x < 1.0) | (gradient < 0.0))
    loose = uphill * state.free
    gradient = np.asarray(gradient * loose)
    d = x.shape[1]
    if state.fresh.any():
        guess = np.maximum(np.abs(gradient).max(axis=1) / FIRST, np.finfo(float).tiny)
        state.curvature[state.fresh] = guess[state.fresh, None, None] * np.eye(d)
    curvature = state.curvature * (loose[:, :, None] * loose[:, None, :])
    # a held variable gets the identity's row: its direction is 0, the others' what they are without it
    np.einsum("ijj->ij", curvature)[...] += 1.0 - loose
    state.direction = np.asarray(np.linalg.solve(curvature, gradient[..., None])[..., 0], dtype=float)
    state.gain = 0.5 * np.vecdot(state.direction, gradient)
    return np.asarray(LONGEST / np.maximum(np.abs(state.direction).max(axis=1), LONGEST))


def _learn_curvature(state: _State, accepted: BoolArray, moved: FloatArray, change: FloatArray) -> None:
    """Update minus the Hessian by BFGS, but where the function curved upwards along the step."""
    along = np.vecdot(moved, change)
    squared = np.vecdot(change, change)
    length = np.vecdot(moved, moved)
    learnt = accepted & (along > 1e-8 * np.sqrt(squared * length)) & (along > 0)
    rows = slice(None) if learnt.all() else np.flatnonzero(learnt)
    s, y, along = moved[rows], change[rows], along[rows]
    if not len(s):
        return
    curvature = state.curvature[rows]
    first = state.fresh[rows]
    if first.any():
        curvature[first] = (squared[rows] / along)[first, None, None] * np.eye(s.shape[1])
    bs = (curvature @ s[:, :, None])[:, :, 0]
    sbs = np.vecdot(s, bs)
    y_scaled, bs_scaled = y / along[:, None], bs / sbs[:, None]
    state.curvature[rows] = curvature + y[:, :, None] * y_scaled[:, None, :] - bs[:, :, None] * bs_scaled[:, None, :]
    state.fresh[rows] = False


def _shorter(promised: FloatArray, gained: FloatArray) -> FloatArray:
    """Return the share of a refused step at which a parabola through both ends peaks, within [0.1, 0.5].

    A step cut short by the cube may have promised nothing; its share is then the smallest.
    """
    fall = np.maximum(promised - gained, np.maximum(np.abs(promised), np.finfo(float).tiny))
    return np.asarray(np.clip(0.5 * promised / fall, 0.1, 0.5))


def _best_of(groups: IntArray, values: FloatArray) -> FloatArray:
    best = np.full(int(groups.max(initial=0)) + 1, -np.inf)
    np.maximum.at(best, groups, values)
    return best


def _followers(active: IntArray, rivals: IntArray, scaled: FloatArray, values: FloatArray) -> BoolArray:
    """Tell which of the active points are close to a better one of their group that is under way too."""
    climbing = np.zeros(len(values), dtype=bool)
    climbing[active] = True
    one, other = rivals[:, climbing[rivals[0]] & climbing[rivals[1]]]
    columns = np.ascontiguousarray(scaled.T)
    close = np.abs(columns[:, one] - columns[:, other]).max(axis=0) < SAME
    lower = np.where(values[one] < values[other], one, other)[close]
    behind = np.zeros(len(values), dtype=bool)
    behind[lower] = True
    return np.asarray(behind[active])
