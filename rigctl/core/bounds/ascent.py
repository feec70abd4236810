"""Maximises many functions on the unit cube at once, by projected BFGS with analytic gradients.

One call of the objective serves every point still under way, so the linear algebra behind it runs on whole batches.
Each point keeps its own curvature and step: in one sweep some take a new direction while others shorten a step that
went too far. No randomness: the same starts give the same maxima.

Maximises on a grid: variables that take some values only, beside others that take all.

Climbs go over the whole cube, as if every value could be set; where one ends, the function itself is evaluated at the
settings around, and at their neighbours for as long as one is better: never is a setting rounded without a look. What
counts is the acquisition at the values that will really be set (Garrido-Merchan and Hernandez-Lobato, "Dealing with
categorical and integer-valued variables in Bayesian optimization with Gaussian processes", Neurocomputing 2020). Where
a control set has few settings, all are looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np

from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray

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
        steps: (d,), number of steps over the range; negative of a category, 0 where every value can be set.
    """
    if not steps.any():
        return points
    count = np.maximum(np.abs(steps), 1)
    return np.where(steps != 0, np.clip(np.rint(points * count), 0, count) / count, points)


def neighbours(points: FloatArray, steps: IntArray) -> tuple[FloatArray, IntArray]:
    """Return the settings one step away in one variable from settings (b, d), (c, d), and from which each is, (c,).

    Of a category, whose levels have no order, every other level is one step away.
    """
    moved, rows = [points[:0]], [np.empty(0, dtype=np.int64)]
    for column in np.flatnonzero(steps):
        count = abs(int(steps[column]))
        reach = count if steps[column] < 0 else 1
        for side in (*range(-reach, 0), *range(1, reach + 1)):
            there = points.copy()
            there[:, column] += side / count
            # half a step out is no rounding error, but no level either
            inside = np.flatnonzero(np.abs(there[:, column] - 0.5) < 0.5 + 0.5 / count)
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
    most_sweeps: int = 60,
) -> Visited:
    """Return local maxima as `climb` does, all of them on the grid of `steps` (d,), as for `snapped`.

    Where there are none this is `climb`, to the last bit. The starts of one group have the same free variables; a group
    of no more settings than `few` is looked at as a whole.
    """
    found = climb(objective, starts, free, groups, lengthscales, tolerance=tolerance, most_sweeps=most_sweeps)
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
    return Visited(points, groups, values)


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
        counts = np.abs(steps[columns])
        if not counts.all() or prod(int(n) + 1 for n in counts) > few:
            continue
        levels = np.meshgrid(*(np.arange(n + 1) / n for n in counts), indexing="ij")
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


Objective = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
"""(points (b, d), which of the starts they belong to (b,)) -> (values (b,), gradients (b, d))."""

SUFFICIENT = 1e-4
"""Armijo constant: the share of the predicted increase that a step must achieve."""
LONGEST = 1.0
"""Longest step in any variable, lengthscales: beyond it the quadratic model says nothing."""
FIRST = 0.5
"""First step, lengthscales: before there is any curvature."""
SHORTEST = 1e-6
"""A line search gives up at this share of its direction."""
SINGULAR = 1e-8
"""Share of its trace that a curvature counts as larger where it is singular."""
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
class Visited:
    """Hold settings that were looked at; of climbs one per start, in the order of the starts."""

    points: FloatArray
    """(p, d)."""
    groups: IntArray
    """(p,); control sets, of settings that were screened."""
    values: FloatArray
    """(p,); of settings that were screened for several functions, (f, p)."""

    def of(self, group: int) -> tuple[FloatArray, FloatArray]:
        mine = self.groups == group
        return self.points[mine], self.values[..., mine]


def climb(
    objective: Objective,
    starts: FloatArray,
    free: FloatArray,
    groups: IntArray,
    lengthscales: FloatArray,
    *,
    tolerance: float,
    most_sweeps: int = 60,
) -> Visited:
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
    return Visited(points, groups, values)


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
    state.direction = _newton(curvature, gradient)
    state.gain = 0.5 * np.vecdot(state.direction, gradient)
    return np.asarray(LONGEST / np.maximum(np.abs(state.direction).max(axis=1), LONGEST))


def _newton(curvature: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the steps (b, d) to the tops of quadratic models with these curvatures (b, d, d).

    Where rounding has made one of them singular, all count as a little larger.
    """
    try:
        return np.asarray(np.linalg.solve(curvature, gradient[..., None])[..., 0], dtype=float)
    except np.linalg.LinAlgError:
        more = SINGULAR * np.trace(curvature, axis1=1, axis2=2)[:, None, None] * np.eye(gradient.shape[1])
        return np.asarray(np.linalg.solve(curvature + more, gradient[..., None])[..., 0], dtype=float)


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
