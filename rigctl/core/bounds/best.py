"""Confidence bounds of every control set's value, and the settings that maximise them (algorithms, section 3).

Each maximisation screens a few hundred settings with cheap batched algebra, then climbs from the best of them; all
control sets and all three functions (upper bound, lower bound, mean) climb together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from rigctl.core.bounds.ascent import Maxima
from rigctl.core.bounds.expectations import Bounded, Expectations, Spread, ValueSpread
from rigctl.core.bounds.grid import lattice
from rigctl.core.bounds.levels import FEW, best_of_each, climb_on_grid, snapped
from rigctl.core.bounds.pointwise import MeanSquareSpread, PointwiseSpread, natural_nodes
from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray, blocks
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

CUBE_STARTS = (64, 256, 512)
"""Settings of the whole cube screened for a control set of one, two, and three or more variables."""
DATA_STARTS = 32
"""Trials with the best means, as settings to screen."""
NEIGHBOURS = (16, 64, 192)
"""For as many variables: settings to screen half a lengthscale or so from those trials. There the upper bound of a
fine model peaks, on hills too narrow for a few hundred points of the whole cube to hit."""
UPPER, LOWER, MEAN = 0, 1, 2
"""The functions that are maximised; group = 3 * control set + function."""
CLIMBERS = (10, 6, 6)
"""Starts refined of each; those of the mean also climb the upper bound, whose peaks flank those of the mean."""
POLISHED = 3
"""Maxima of the closed-form stand-in from which the pointwise bound itself is climbed."""
FINAL_NODES = 8
"""The pointwise bound is searched with few nodes, and reported at its maximisers from this many times as many."""
SAME_HILL = 0.1
"""Maxima closer than this in every variable, lengthscales, are one."""
APART = 0.5
"""Starts of one climb are at least this far apart in some variable, lengthscales."""
TOLERANCE = 1e-5
"""A climb ends when it promises less than this share of the signal's sd."""
JUDGED = 96
"""Candidates of a control set whose spread is computed for the upper bound: those that may come out highest..."""
JUDGED_MEANS = 48
"""... and for the lower bound: those with the highest means."""
DATA_RANKED = 128
"""With more trials than twice this only as many of the best, and as many others spread over time, are ranked."""


@dataclass(frozen=True, slots=True)
class SetBounds:
    """Hold what is known of one control set's value. Values are in the outcome's own units, larger is better.

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
class _Candidates:
    """Hold settings that were screened, the same number for every control set."""

    points: FloatArray
    """(m, c, d), unit cube."""
    scores: FloatArray
    """(3, m, c), the functions' values there; -inf where a control set has fewer candidates."""


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Hold what a decision's maximisations share. Standardised."""

    expectations: Expectations
    widths: FloatArray
    """(3,): beta, -beta, 0."""
    lengthscales: FloatArray
    signal_sd: float
    steps: IntArray
    """(d,), of each variable's range; 0 where every value can be set."""

    @property
    def count(self) -> int:
        return len(self.expectations.mask)

    def climb(self, spread: Spread, starts: FloatArray, groups: IntArray, *, few: int = FEW) -> Maxima:
        """Climb from starts (b, d) to local maxima, each of the function of its group (b,).

        Of a control set with no more settings than `few` all are looked at.
        """
        sets, widths = groups // 3, self.widths[groups % 3]

        def objective(points: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
            return self.expectations.value_and_gradient(points, sets[index], widths[index], spread)

        free = self.expectations.mask[sets]
        tolerance = TOLERANCE * self.signal_sd
        return climb_on_grid(
            objective, starts, free, groups, self.lengthscales, steps=self.steps, tolerance=tolerance, few=few
        )


def best_bounds(
    posterior: Posterior,
    space: Space,
    options: ModelOptions,
    rng: np.random.Generator,
    warm_starts: Mapping[int, FloatArray] | None = None,
) -> tuple[SetBounds, ...]:
    """Return best upper bound, lower bound and mean of every control set, in the order of the space's control sets.

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
    task = _Task(expectations, widths, np.array(h.lengthscales), h.signal_sd, space.steps)
    settings, warm = _settings(task, rng), _warm(space, warm_starts or {})
    if options.bounds == "integrated":
        spread = ValueSpread(expectations)
        at = _winners(task.count, *_maximised(task, spread, _screened(task, spread, *settings), warm))
        return _summary(task, space, at, _spreads(task, spread, at))
    stand_in = MeanSquareSpread.of(expectations, space)
    nodes = natural_nodes(space, FINAL_NODES * options.nodes, rng)
    found = _maximised(task, stand_in, _screened(task, stand_in, *settings), warm)
    at = _winners(task.count, *_polished(task, PointwiseSpread.of(stand_in, nodes[: options.nodes]), *found))
    return _summary(task, space, at, _final_spreads(task, stand_in, nodes, at))


def _settings(task: _Task, rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Return settings to screen, (c, d), and the control set each belongs to, (c,), rising.

    Points of the whole cube, the trials with the best means, and their neighbourhood, for every control set.
    """
    e = task.expectations
    d = e.mask.shape[1]
    x = np.clip(_ranked(e), 0.0, 1.0)
    kept = min(DATA_STARTS, len(x))
    common = lattice(d, CUBE_STARTS[-1], rng)
    noise = rng.standard_normal((NEIGHBOURS[-1] if kept else 0, d)) * 0.5 * np.minimum(task.lengthscales, 0.5)
    every = np.repeat(np.arange(task.count), len(x))
    means = e.means(np.tile(x, (task.count, 1)), every)
    points, sets = [], []
    for row, controlled in enumerate(e.mask.sum(axis=1).astype(int)):
        size = min(controlled, len(CUBE_STARTS)) - 1
        best = x[np.argsort(-means[every == row], kind="stable")[:kept]]
        around = np.resize(best, (NEIGHBOURS[size] if kept else 0, d)) + noise[: NEIGHBOURS[size]]
        mine = np.concatenate([common[: CUBE_STARTS[size]], best, np.clip(around, 0.0, 1.0)])
        points.append(mine)
        sets.append(np.full(len(mine), row))
    return snapped(np.concatenate(points), task.steps), np.concatenate(sets)


def _ranked(e: Expectations) -> FloatArray:
    """Return the data points worth a look as settings, (r, d): all, unless they are many."""
    x, alpha = e.posterior.x, e.posterior.alpha
    if len(x) <= 2 * DATA_RANKED:
        return x
    fitted = e.posterior.covariance(x) @ alpha
    best = np.argsort(-fitted, kind="stable")[:DATA_RANKED]
    spread = np.linspace(0, len(x) - 1, DATA_RANKED).round().astype(int)
    return np.asarray(x[np.union1d(best, spread)])


def _warm(space: Space, given: Mapping[int, FloatArray]) -> tuple[FloatArray, IntArray]:
    """Return starts that skip the screening, (r, d), and their groups (r,)."""
    points, groups = [np.empty((0, space.dimension))], [np.empty(0, dtype=np.int64)]
    for index, settings in sorted(given.items()):
        rows = space.rows(index, np.clip(np.atleast_2d(np.asarray(settings, dtype=float)), 0.0, 1.0))
        for kind in range(3):
            points.append(rows)
            groups.append(np.full(len(rows), 3 * index + kind))
    return np.concatenate(points), np.concatenate(groups)


def _maximised(
    task: _Task, spread: Spread, candidates: _Candidates, warm: tuple[FloatArray, IntArray]
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Climb from the best candidates to local maxima (b, d), and return their groups and values (b,) too."""
    points, groups = _spread_out(task, candidates)
    starts, groups = np.concatenate([points, warm[0]]), np.concatenate([groups, warm[1]])
    maxima = task.climb(spread, starts, groups)
    return maxima.points, groups, maxima.values


def _screened(task: _Task, spread: Bounded, points: FloatArray, sets: IntArray) -> _Candidates:
    """Return settings that may be the best of their control set, with upper bound, lower bound and mean.

    A spread costs n^2, so it is computed only where it may matter: for the settings whose upper bound would be highest
    with the spread's ceiling, and those with the highest means, from which lower bounds are taken.
    """
    e = task.expectations
    mean, most = np.empty(len(points)), np.empty(len(points))
    for rows in _blocks(sets, len(e.posterior.x)):
        inner = e.inner(points[rows], sets[rows])
        row = int(sets[rows.start])
        mean[rows] = e.posterior.hyperparameters.mean + inner @ e.alpha[row]
        most[rows] = spread.ceiling(inner, row)
    chosen = _promising(task, sets, mean, mean + task.widths[UPPER] * most)
    judged = chosen.ravel()
    sd = np.empty(len(judged))
    for block in _blocks(sets[judged], len(e.posterior.x)):
        some = judged[block]
        sd[block] = spread.sd(e.inner(points[some], sets[some]), sets[some])
    scores = mean[chosen] + task.widths[:, None, None] * sd.reshape(chosen.shape)
    # a row that is there twice fills up a control set with few candidates
    scores[:, :, 1:][:, chosen[:, 1:] == chosen[:, :-1]] = -np.inf
    return _Candidates(points[chosen], scores)


def _blocks(sets: IntArray, n: int) -> Iterator[slice]:
    """Cut the rows into pieces of one control set each, few enough for the cache."""
    edges = [0, *(np.flatnonzero(np.diff(sets)) + 1), len(sets)]
    for begin, end in pairwise(edges):
        yield from (slice(begin + b.start, min(begin + b.stop, end)) for b in blocks(end - begin, n))


def _promising(task: _Task, sets: IntArray, mean: FloatArray, most: FloatArray) -> IntArray:
    """Return rows of the highest `most` and the highest means of every set, (m, c), rising, the last repeated."""
    edges = np.searchsorted(sets, np.arange(task.count + 1))
    chosen = []
    for begin, end in pairwise(edges):
        high = _highest(most[begin:end], JUDGED) | _highest(mean[begin:end], JUDGED_MEANS)
        chosen.append(begin + np.flatnonzero(high))
    width = max(len(rows) for rows in chosen)
    return np.stack([np.pad(rows, (0, width - len(rows)), mode="edge") for rows in chosen])


def _highest(values: FloatArray, count: int) -> BoolArray:
    """Tell which are among the highest; equals of the last are too."""
    if count >= len(values):
        return np.ones(len(values), dtype=bool)
    return np.asarray(values >= np.partition(values, -count)[-count])


def _spread_out(task: _Task, candidates: _Candidates) -> tuple[FloatArray, IntArray]:
    """Return of every group the best candidates not close to a better one, (b, d), and their groups, (b,).

    Without this all climbs of a group would start on the same hill.
    """
    reach = APART * np.minimum(task.lengthscales, 1.0)
    places = candidates.points / reach * task.expectations.mask[:, None, :]
    # variables first: a maximum over the last, short axis would be an order of magnitude slower
    places = np.ascontiguousarray(np.moveaxis(places, 2, 0))
    rows = np.arange(task.count)
    points, groups = [], []
    taken: list[IntArray] = []
    for kind, count in enumerate(CLIMBERS):
        for picks in best_apart(places, candidates.scores[kind], count):
            there = picks >= 0
            points.append(candidates.points[rows[there], picks[there]])
            groups.append(3 * rows[there] + kind)
            if kind == UPPER:
                taken.append(np.where(there, picks, taken[0] if taken else picks))
            elif kind == MEAN:  # those of the mean climb the upper bound too, unless a start of its own is near
                away = np.abs(places[:, None, rows, picks] - places[:, rows, np.stack(taken)])
                new = there & (away.max(axis=0) >= 1.0).all(axis=0)
                points.append(candidates.points[rows[new], picks[new]])
                groups.append(3 * rows[new] + UPPER)
    return np.concatenate(points), np.concatenate(groups)


def best_apart(places: FloatArray, scores: FloatArray, count: int) -> Iterator[IntArray]:
    """Take greedily the best of places (d, g, c) that are 1 or more from all better ones in some coordinate.

    Scores are (g, c). Yields up to `count` times the pick of every row, (g,), -1 where nothing is left.
    """
    left = scores.copy()
    rows = np.arange(len(left))
    for _ in range(count):
        best = left.argmax(axis=1)
        there = left[rows, best] > -np.inf
        if not there.any():
            return
        yield np.where(there, best, -1)
        away = np.abs(places - places[:, rows, best][:, :, None])
        left[away.max(axis=0) < 1.0] = -np.inf


def _polished(
    task: _Task, spread: Spread, points: FloatArray, groups: IntArray, values: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Climb the pointwise bounds from the best few hills of their stand-in; the means are what they were."""
    kept = []
    place = (points / (SAME_HILL * np.minimum(task.lengthscales, 1.0)) * task.expectations.mask[groups // 3]).T
    for group in range(3 * task.count):
        mine = np.flatnonzero(groups == group)
        count = 1 if group % 3 == MEAN else POLISHED
        picks = best_apart(np.ascontiguousarray(place[:, None, mine]), values[None, mine], count)
        kept += [mine[pick] for pick in picks]
    rows = np.concatenate(kept)
    maxima = task.climb(spread, points[rows], groups[rows], few=0)  # as dear as hundreds of others, each
    return maxima.points, groups[rows], maxima.values


def _winners(count: int, points: FloatArray, groups: IntArray, values: FloatArray) -> FloatArray:
    """Return the best point of every group, (m, 3, d); the first of equals."""
    return best_of_each(points, groups, values, 3 * count)[0].reshape(count, 3, -1)


def _spreads(task: _Task, spread: Spread, at: FloatArray) -> FloatArray:
    """Return the spread at every winner, (m, 3), standardised."""
    sets = np.repeat(np.arange(task.count), 3)
    return spread.sd(task.expectations.inner(at.reshape(3 * task.count, -1), sets), sets).reshape(-1, 3)


def _final_spreads(task: _Task, stand_in: MeanSquareSpread, nodes: FloatArray, at: FloatArray) -> FloatArray:
    """Return E[sigma] at every winner from all nodes, set by set as their factors would not fit in memory together.

    At the mean's maximiser it is sd[F_i | D].
    """
    out = _spreads(task, ValueSpread(task.expectations), at)
    for row in range(task.count):
        sets = np.full(MEAN, row)
        inner = task.expectations.inner(at[row, :MEAN], sets)
        out[row, :MEAN] = PointwiseSpread.of(stand_in, nodes, [row]).sd(inner, sets)
    return out


def _summary(task: _Task, space: Space, at: FloatArray, spreads: FloatArray) -> tuple[SetBounds, ...]:
    """Convert to the outcome's own units, and to the controlled columns."""
    e, h = task.expectations, task.expectations.posterior.hyperparameters
    sets = np.repeat(np.arange(task.count), 3)
    means = e.means(at.reshape(3 * task.count, -1), sets).reshape(-1, 3)
    bounds = h.y_shift + h.y_scale * (means + task.widths * spreads)
    means, spreads = h.y_shift + h.y_scale * means, h.y_scale * spreads
    out = []
    for i in range(task.count):
        settings = [space.setting(i, at[i, kind]) for kind in (UPPER, LOWER, MEAN)]
        out.append(
            SetBounds(
                control_set=i,
                upper=float(bounds[i, UPPER]),
                upper_at=settings[UPPER],
                lower=float(bounds[i, LOWER]),
                lower_at=settings[LOWER],
                mean_at_upper=float(means[i, UPPER]),
                sd_at_upper=float(spreads[i, UPPER]),
                best_mean=float(means[i, MEAN]),
                best_mean_at=settings[MEAN],
                best_mean_sd=float(spreads[i, MEAN]),
            )
        )
    return tuple(out)
