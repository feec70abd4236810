"""Confidence bounds of every control set's value, and the settings that maximise them (algorithms, section 3).

All control sets and all three functions (upper bound, lower bound, mean) are searched together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from rigctl.core.bounds.ascent import Visited, best_of_each
from rigctl.core.bounds.expectations import (
    Expectations,
    MeanSquareSpread,
    PointwiseSpread,
    Spread,
    ValueSpread,
    natural_nodes,
)
from rigctl.core.bounds.search import Screening, Search, best_apart
from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray, blocks
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

SCREENING = Screening(cube=(64, 256, 512), around=(16, 64, 192), reaches=(0.5,))
"""Around the best trials the upper bound of a fine model peaks, on hills too narrow for a few hundred points of the
whole cube to hit."""
POINTWISE_SCREENING = Screening(cube=(64, 512, 1024), around=(32, 256, 512), reaches=(0.5, 0.15))
"""The pointwise bound keeps its hills where the integrated one, which averages them, has none."""
UPPER, LOWER, MEAN = 0, 1, 2
"""The functions that are maximised; group = 3 * control set + function."""
CLIMBERS = (10, 6, 6)
"""Starts refined of each; those of the mean also climb the upper bound, whose peaks flank those of the mean."""
ROUGH_NODES = 16
"""Nodes by which settings are ranked by the pointwise bound, and climbed from. The closed-form limit of its spread,
sqrt(E[sigma^2]), does not do: it prefers other hills."""
ROUGH_TOLERANCE = 1e-3
"""Those climbs end when they promise less than this share of the signal's sd."""
POLISHED = 3
"""Maxima found with so few nodes from which the pointwise bound itself is climbed."""
FINAL_NODES = 8
"""The pointwise bound is searched with few nodes, and reported at its maximisers from this many times as many."""
SAME_HILL = 0.1
"""Maxima closer than this in every variable, lengthscales, are one."""
TOLERANCE = 1e-5
"""A climb ends when it promises less than this share of the signal's sd."""
JUDGED, POINTWISE_JUDGED = 96, 256
"""Candidates of a control set whose spread is computed for the upper bound: those that may come out highest..."""
JUDGED_MEANS = 48
"""... and for the lower bound: those with the highest means, and as many of the highest less the spread's ceiling."""


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
    within: bool = True
    """Whether limits of further outcomes are likely enough to be kept at `best_mean_at` and `lower_at`."""


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """Bound values from above and below, and expect them: the three functions. Standardised."""

    expectations: Expectations
    widths: FloatArray
    """(3,): beta, -beta, 0."""
    spread: Spread
    judged: int
    """See `JUDGED`."""

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return upper bound, lower bound and mean, (3, c), of settings that may be the best of their control set.

        A spread costs n^2, so it is computed only where it may matter: for the settings whose upper bound would be
        highest with the spread's ceiling, and those with the highest means, from which lower bounds are taken.
        """
        e = self.expectations
        mean, most = np.empty(len(points)), np.empty(len(points))
        for rows in _blocks(sets, len(e.posterior.x)):
            inner = e.inner(points[rows], sets[rows])
            row = int(sets[rows.start])
            mean[rows] = e.posterior.hyperparameters.mean + inner @ e.alpha[row]
            most[rows] = self.spread.ceiling(inner, row)
        judged = _promising(sets, mean, self.widths[UPPER] * most, self.judged)
        sd = np.empty(len(judged))
        for block in _blocks(sets[judged], len(e.posterior.x)):
            some = judged[block]
            sd[block] = self.spread.sd(e.inner(points[some], sets[some]), sets[some])
        out = np.full((3, len(points)), -np.inf)
        out[:, judged] = mean[judged] + self.widths[:, None] * sd
        return out

    def value_and_gradient(self, points: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
        return self.of(self.spread, points, groups)

    def of(self, spread: Spread, points: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return values, (b,), and gradients, (b, d), with another spread."""
        return self.expectations.value_and_gradient(points, groups // 3, self.widths[groups % 3], spread)


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
    e, h = Expectations.of(posterior, space), posterior.hyperparameters
    widths = options.beta * np.array([1.0, -1.0, 0.0])
    lengthscales, tolerance = np.array(h.lengthscales), TOLERANCE * h.signal_sd
    search = Search(e, space, lengthscales, SCREENING, CLIMBERS, tolerance, along=(MEAN, UPPER))
    among, warm = range(len(e.mask)), warm_starts or {}
    if options.bounds == "integrated":
        surface = _Bounds(e, widths, ValueSpread(e), JUDGED)
        at = _winners(search.maxima(surface, among, warm, rng)[0])
        return _summary(surface, space, at, _spreads(e, surface.spread, at))
    nodes, mean_square = natural_nodes(space, FINAL_NODES * options.nodes, rng), MeanSquareSpread.of(e, space)
    surface = _Bounds(e, widths, PointwiseSpread.of(mean_square, nodes[:ROUGH_NODES]), POINTWISE_JUDGED)
    rough = replace(search, screening=POINTWISE_SCREENING, tolerance=ROUGH_TOLERANCE * h.signal_sd)
    found, _ = rough.maxima(surface, among, warm, rng)
    at = _winners(_polished(search, surface, PointwiseSpread.of(mean_square, nodes[: options.nodes]), found))
    return _summary(surface, space, at, _final_spreads(e, mean_square, nodes, at))


def _blocks(sets: IntArray, n: int) -> Iterator[slice]:
    """Cut the rows into pieces of one control set each, few enough for the cache."""
    edges = [0, *(np.flatnonzero(np.diff(sets)) + 1), len(sets)]
    for begin, end in pairwise(edges):
        yield from (slice(begin + b.start, min(begin + b.stop, end)) for b in blocks(end - begin, n))


def _promising(sets: IntArray, mean: FloatArray, most: FloatArray, judged: int) -> IntArray:
    """Return the rows that may have the best bounds of their set, rising; the sets are rising too.

    Of every set as many as `judged` of the highest means plus `most`, and `JUDGED_MEANS` of the highest means, and of
    those less `most`.
    """
    chosen = []
    for begin, end in pairwise(np.flatnonzero(np.diff(sets, prepend=-1, append=-1))):
        m, wide = mean[begin:end], most[begin:end]
        high = _highest(m + wide, judged) | _highest(m, JUDGED_MEANS) | _highest(m - wide, JUDGED_MEANS)
        chosen.append(begin + np.flatnonzero(high))
    return np.concatenate(chosen)


def _highest(values: FloatArray, count: int) -> BoolArray:
    """Tell which are among the highest; equals of the last are too."""
    if count >= len(values):
        return np.ones(len(values), dtype=bool)
    return np.asarray(values >= np.partition(values, -count)[-count])


def _polished(search: Search, surface: _Bounds, spread: Spread, found: Visited) -> Visited:
    """Climb the pointwise bounds from the best few hills found with few nodes; the means are what they were."""
    e, kept = surface.expectations, []
    place = (found.points / (SAME_HILL * np.minimum(search.lengthscales, 1.0)) * e.mask[found.groups // 3]).T
    for group in range(3 * len(e.mask)):
        mine = np.flatnonzero(found.groups == group)
        count = 1 if group % 3 == MEAN else POLISHED
        picks = best_apart(np.ascontiguousarray(place[:, None, mine]), found.values[None, mine], count)
        kept += [mine[pick] for pick in picks]
    rows = np.concatenate(kept)
    # each as dear as hundreds of others, so that not even few settings are all looked at
    return search.climb(partial(surface.of, spread), found.points[rows], found.groups[rows], few=0)


def _winners(found: Visited) -> FloatArray:
    """Return the best point of every group, (m, 3, d); the first of equals."""
    at, _ = best_of_each(found.points, found.groups, found.values, int(found.groups.max()) + 1)
    return at.reshape(-1, 3, at.shape[1])


def _spreads(e: Expectations, spread: Spread, at: FloatArray) -> FloatArray:
    """Return the spread at every winner, (m, 3), standardised."""
    sets = np.repeat(np.arange(len(at)), 3)
    return spread.sd(e.inner(at.reshape(len(sets), -1), sets), sets).reshape(-1, 3)


def _final_spreads(e: Expectations, mean_square: MeanSquareSpread, nodes: FloatArray, at: FloatArray) -> FloatArray:
    """Return E[sigma] at every winner from all nodes, set by set as their factors would not fit in memory together.

    At the mean's maximiser it is sd[F_i | D].
    """
    out = _spreads(e, ValueSpread(e), at)
    for row in range(len(at)):
        sets = np.full(MEAN, row)
        out[row, :MEAN] = PointwiseSpread.of(mean_square, nodes, [row]).sd(e.inner(at[row, :MEAN], sets), sets)
    return out


def _summary(surface: _Bounds, space: Space, at: FloatArray, spreads: FloatArray) -> tuple[SetBounds, ...]:
    """Convert to the outcome's own units, and to the controlled columns."""
    e, h = surface.expectations, surface.expectations.posterior.hyperparameters
    sets = np.repeat(np.arange(len(at)), 3)
    means = e.means(at.reshape(len(sets), -1), sets).reshape(-1, 3)
    bounds = h.y_shift + h.y_scale * (means + surface.widths * spreads)
    means, spreads = h.y_shift + h.y_scale * means, h.y_scale * spreads
    out = []
    for i in range(len(at)):
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
