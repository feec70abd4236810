"""Confidence bounds of every control set's value, and the settings that maximise them (algorithms, section 3).

Each maximisation screens a few hundred settings with cheap batched algebra, then climbs from the best of them; all
control sets and all three functions (upper bound, lower bound, mean) climb together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rigctl.core.ascent import Maxima, climb
from rigctl.core.expectations import Expectations, IntArray, Spread, ValueSpread
from rigctl.core.kernels import FloatArray
from rigctl.core.pointwise import MeanSquareSpread, PointwiseSpread, natural_nodes, sobol
from rigctl.core.policy import ModelOptions
from rigctl.core.space import Space
from rigctl.core.surrogate import Posterior

SOBOL_STARTS = 256
"""Settings screened per control set; twice as many where more than six variables are controlled together."""
DATA_STARTS = 32
"""Trials with the best means, as settings to screen; and as many settings in their neighbourhood."""
CLIMBERS = (6, 4, 4)
"""Starts refined for upper bound, lower bound and mean."""
POLISHED = 3
"""Maxima of the closed-form stand-in from which the pointwise bound itself is climbed."""
APART = 0.25
"""Starts of one climb are at least this far apart in some variable, lengthscales."""
TOLERANCE = 1e-6
"""A climb ends when it promises less than this share of the signal's sd."""
MOST_VALUES = 1 << 18
"""Largest intermediate array while screening, in numbers: 2 MB stay in the cache."""


@dataclass(frozen=True, slots=True)
class SetBounds:
    """What is known of one control set's value. Values in the outcome's own units, larger is better.

    Settings are (k,), unit cube, in the order of the control set's indices.
    """

    control_set: int
    upper: float
    """max over settings of E[mu] + beta spread."""
    upper_at: tuple[float, ...]
    lower: float
    """max over settings of E[mu] - beta spread."""
    lower_at: tuple[float, ...]
    mean_at_upper: float
    """E[mu] at `upper_at`."""
    sd_at_upper: float
    """Spread at `upper_at`: sd[F_i | D] (integrated) or E[sigma | D] (pointwise)."""
    best_mean: float
    """max over settings of E[mu]."""
    best_mean_at: tuple[float, ...]
    best_mean_sd: float
    """sd[F_i | D] at `best_mean_at`, whichever kind of bounds."""


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Everything a decision's maximisations share. Standardised. Group = 3 * control set + (upper, lower, mean)."""

    expectations: Expectations
    widths: FloatArray
    """(3,): beta, -beta, 0."""
    lengthscales: FloatArray
    signal_sd: float

    @property
    def count(self) -> int:
        """Number of control sets, m."""
        return len(self.expectations.mask)

    def climb(self, spread: Spread, starts: FloatArray, groups: IntArray, *, tolerance: float) -> Maxima:
        """Local maxima from starts (b, d), each of the function of its group (b,)."""
        sets, widths = groups // 3, self.widths[groups % 3]

        def objective(points: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
            return self.expectations.value_and_gradient(points, sets[index], widths[index], spread)

        free = self.expectations.mask[sets]
        return climb(objective, starts, free, groups, self.lengthscales, tolerance=tolerance * self.signal_sd)


def best_bounds(
    posterior: Posterior,
    space: Space,
    options: ModelOptions,
    rng: np.random.Generator,
    warm_starts: Mapping[int, FloatArray] | None = None,
) -> tuple[SetBounds, ...]:
    """Best upper and lower bound and best mean of every control set, in the order of the space's control sets.

    Args:
        posterior: of the value: larger is better (negate the outcome to minimise it).
        space: variables with their marginals, and control sets.
        options: kind of bounds, beta, number of nodes.
        rng: starts and nodes; the same generator state gives the same bounds bit for bit.
        warm_starts: settings (k,) or (r, k) on the unit cube to start from as well, by control set.
    """
    expectations = Expectations.of(posterior, space)
    widths = options.beta * np.array([1.0, -1.0, 0.0])
    h = posterior.hyperparameters
    task = _Task(expectations, widths, np.array(h.lengthscales), h.signal_sd)
    candidates = _candidates(task, rng)
    nodes = natural_nodes(space, options.nodes, rng) if options.bounds == "pointwise" else None
    warm = _warm(task, space, warm_starts or {})
    if nodes is None:
        final: Spread = ValueSpread(expectations)
        points, groups, values = _maximised(task, final, candidates, warm, TOLERANCE)
    else:
        stand_in = MeanSquareSpread.of(expectations, space)
        final = PointwiseSpread.of(stand_in, nodes)
        found = _maximised(task, stand_in, candidates, warm, 10 * TOLERANCE)
        points, groups, values = _polished(task, final, *found)
    return _summary(task, space, final, *_winners(task.count, points, groups, values))


def _candidates(task: _Task, rng: np.random.Generator) -> FloatArray:
    """Settings to screen, (m, c, d): Sobol points, the trials with the best means, and their neighbourhood."""
    e = task.expectations
    m, d = e.mask.shape
    x = np.clip(e.posterior.x, 0.0, 1.0)
    common = sobol(d, SOBOL_STARTS * (1 if e.mask.sum(axis=1).max() <= 6 else 2), rng)
    kept = min(DATA_STARTS, len(x))
    noise = rng.standard_normal((DATA_STARTS, d)) * 0.5 * np.minimum(task.lengthscales, 0.5)
    out = np.empty((m, len(common) + kept + (DATA_STARTS if kept else 0), d))
    out[:, : len(common)] = common
    if kept:
        for row in range(m):
            sets = np.full(len(x), row)
            best = np.argsort(-e.mean(e.inner(x, sets), sets), kind="stable")[:kept]
            out[row, len(common) : len(common) + kept] = x[best]
            out[row, len(common) + kept :] = np.clip(x[np.resize(best, DATA_STARTS)] + noise, 0.0, 1.0)
    return out


def _warm(task: _Task, space: Space, given: Mapping[int, FloatArray]) -> tuple[FloatArray, IntArray]:
    """Starts that skip the screening, (r, d), and their groups (r,)."""
    points, groups = [np.empty((0, space.dimension))], [np.empty(0, dtype=np.int64)]
    for index, settings in sorted(given.items()):
        rows = np.atleast_2d(np.asarray(settings, dtype=float))
        full = np.full((len(rows), space.dimension), 0.5)
        full[:, list(space.control_sets[index].indices)] = np.clip(rows, 0.0, 1.0)
        for kind in range(3):
            points.append(full)
            groups.append(np.full(len(rows), 3 * index + kind))
    return np.concatenate(points), np.concatenate(groups)


def _maximised(
    task: _Task, spread: Spread, candidates: FloatArray, warm: tuple[FloatArray, IntArray], tolerance: float
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Screen, then climb: local maxima (b, d), their groups and values (b,)."""
    scores = _screened(task, spread, candidates)
    picked = [_spread_out(task, candidates, scores, kind, count) for kind, count in enumerate(CLIMBERS)]
    starts = np.concatenate([*(p for p, _ in picked), warm[0]])
    groups = np.concatenate([*(g for _, g in picked), warm[1]])
    maxima = task.climb(spread, starts, groups, tolerance=tolerance)
    return maxima.points, groups, maxima.values


def _screened(task: _Task, spread: Spread, candidates: FloatArray) -> FloatArray:
    """Upper bound, lower bound and mean of every candidate, (3, m, c)."""
    m, c, d = candidates.shape
    points, sets = candidates.reshape(m * c, d), np.repeat(np.arange(m), c)
    mean, sd = np.empty(m * c), np.empty(m * c)
    block = max(1, MOST_VALUES // max(len(task.expectations.posterior.x), 1))
    for begin in range(0, m * c, block):
        rows = slice(begin, begin + block)
        inner = task.expectations.inner(points[rows], sets[rows])
        mean[rows] = task.expectations.mean(inner, sets[rows])
        sd[rows] = spread.sd(inner, sets[rows])
    return np.asarray((mean + task.widths[:, None] * sd).reshape(3, m, c))


def _spread_out(
    task: _Task, candidates: FloatArray, scores: FloatArray, kind: int, count: int
) -> tuple[FloatArray, IntArray]:
    """The best candidates of every control set that are not close to a better one, and their groups.

    Without this all climbs of a set would start on the same hill.
    """
    m, _, d = candidates.shape
    every = np.arange(m)
    left = scores[kind].copy()
    reach = APART * np.minimum(task.lengthscales, 1.0)
    # variables first: a maximum over the last, short axis would be an order of magnitude slower
    scaled = np.ascontiguousarray(np.moveaxis(candidates / reach * task.expectations.mask[:, None, :], 2, 0))
    chosen = np.empty((count, m), dtype=np.int64)
    for turn in range(count):
        chosen[turn] = left.argmax(axis=1)
        close = np.abs(scaled - scaled[:, every, chosen[turn], None]).max(axis=0) < 1.0
        left[close] = -np.inf
    return candidates[every, chosen].reshape(count * m, d), np.tile(3 * every + kind, count)


def _polished(
    task: _Task, spread: Spread, points: FloatArray, groups: IntArray, values: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """The pointwise bounds climbed from the best few maxima of their stand-in; the means are what they were."""
    order = np.lexsort((-values, groups))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - np.searchsorted(groups[order], groups[order])
    kept = (rank < POLISHED) & (groups % 3 != 2) | (rank == 0)
    points, groups = points[kept], groups[kept]
    maxima = task.climb(spread, points, groups, tolerance=10 * TOLERANCE)
    return maxima.points, groups, maxima.values


def _winners(
    count: int, points: FloatArray, groups: IntArray, values: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The best point, (m, 3, d), and value, (m, 3), of every group; the first of equals."""
    order = np.lexsort((np.arange(len(groups)), -values, groups))
    first = order[np.searchsorted(groups[order], np.arange(3 * count))]
    return points[first].reshape(count, 3, -1), values[first].reshape(count, 3)


def _summary(task: _Task, space: Space, spread: Spread, at: FloatArray, values: FloatArray) -> tuple[SetBounds, ...]:
    """In the outcome's own units, only the controlled columns."""
    e, h = task.expectations, task.expectations.posterior.hyperparameters
    every = np.arange(task.count)
    inner = e.inner(at[:, 0], every)
    means = h.y_shift + h.y_scale * e.mean(inner, every)
    sds = h.y_scale * spread.sd(inner, every)
    mean_sds = h.y_scale * ValueSpread(e).sd(e.inner(at[:, 2], every), every)
    own = h.y_shift + h.y_scale * values
    out = []
    for i, chosen in enumerate(space.control_sets):
        settings = [tuple(float(v) for v in at[i, kind, list(chosen.indices)]) for kind in range(3)]
        out.append(
            SetBounds(
                control_set=i,
                upper=float(own[i, 0]),
                upper_at=settings[0],
                lower=float(own[i, 1]),
                lower_at=settings[1],
                mean_at_upper=float(means[i]),
                sd_at_upper=float(sds[i]),
                best_mean=float(own[i, 2]),
                best_mean_at=settings[2],
                best_mean_sd=float(mean_sds[i]),
            )
        )
    return tuple(out)
