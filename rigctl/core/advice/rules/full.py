"""The full rule: on every day the control set and setting that are best at its readings.

What a rule plays is a point: its setting, and what the rest does on that day. A trial speaks for its point, whatever it
controlled. So a setting is sought among those that its variables had, all of them, in a trial with an outcome, under
any control set; and, where readings tell something, from the best of them up to the best supported one nearby. Settings
are compared by what is expected at the reading less one standard deviation, which is large where no trial was near.

The readings to come: which there may be, and what then occurs.

Each variable's readings are cut into levels of the same probability, so that what is integrated over one variable is
computed once per level, however many days are drawn. Readings of different variables are independent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.bounds.ascent import climb_on_grid, snapped
from rigctl.core.bounds.expectations import FLOOR
from rigctl.core.bounds.grid import sobol
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.marginals.families import Marginal
from rigctl.core.experiment.persistence import Persistence
from rigctl.core.experiment.space import Settings, Space
from rigctl.core.gp.surrogate import Posterior

LEVELS = 64
"""Of the readings of one variable that persists; of one that does not there is one, which is never asked for."""
ERRORS = 32
"""Draws per level of readings that have an error of their own."""


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """Hold the readings there may be, days drawn from them, and what would occur on those. Unit cube."""

    levels: tuple[FloatArray, ...]
    """(d,) of (g,), rising; of a variable whose reading tells nothing there is one."""
    believed: tuple[tuple[Marginal, ...], ...]
    """(d,) of (g,): how each variable is distributed in a trial before which it read that."""
    days: IntArray
    """(q, d): level of every reading."""
    occurs: FloatArray
    """(q, d): what each variable does when it is left alone."""

    @classmethod
    def drawn(cls, space: Space, persistences: Sequence[Persistence | None], count: int) -> Readings:
        """Draw so many days, a power of two, always the same ones; the space's marginals are concrete."""
        heard = _heard(space, persistences)
        levels = [_levels(v.marginal, kept) for v, kept in zip(space.variables, heard, strict=True)]
        uniform = sobol(2 * space.dimension, count)
        sizes = np.array([len(own) for own in levels])
        days = np.minimum((uniform[:, : space.dimension] * sizes).astype(np.int64), sizes - 1)
        return cls._of(space, heard, levels, days, uniform[:, space.dimension :])

    @classmethod
    def given(cls, space: Space, persistences: Sequence[Persistence | None], rows: FloatArray) -> Readings:
        """Take these readings (q, d), unit cube, as the days."""
        heard, days = _heard(space, persistences), np.zeros(rows.shape, dtype=np.int64)
        levels = [_levels(v.marginal, None) for v in space.variables]
        for column, kept in enumerate(heard):
            if kept is not None:
                levels[column], days[:, column] = np.unique(rows[:, column], return_inverse=True)
        return cls._of(space, heard, levels, days, np.full(rows.shape, 0.5))

    @classmethod
    def _of(
        cls,
        space: Space,
        heard: Sequence[Persistence | None],
        levels: Sequence[FloatArray],
        days: IntArray,
        uniform: FloatArray,
    ) -> Readings:
        believed, occurs = [], np.empty(days.shape)
        for column, (variable, kept) in enumerate(zip(space.variables, heard, strict=True)):
            given: tuple[Marginal, ...] = (variable.marginal,)
            if kept is not None:
                given = tuple(conditional(variable.marginal, kept.rho, kept.tau, float(r)) for r in levels[column])
            believed.append(given)
            for level, marginal in enumerate(given):
                mine = days[:, column] == level
                occurs[mine, column] = marginal.quantile(uniform[mine, column])
        return cls(tuple(levels), tuple(believed), days, occurs)

    def part(self, days: slice) -> Readings:
        return replace(self, days=self.days[days], occurs=self.occurs[days])

    def read(self) -> FloatArray:
        """Return what every variable reads on every day, (q, d)."""
        return np.stack([own[self.days[:, i]] for i, own in enumerate(self.levels)], axis=1)


def telling(space: Space, persistences: Sequence[Persistence | None]) -> tuple[int, ...]:
    """Return the variables whose readings tell something of a trial."""
    return tuple(i for i, kept in enumerate(_heard(space, persistences)) if kept is not None)


def _heard(space: Space, persistences: Sequence[Persistence | None]) -> list[Persistence | None]:
    """Return how far each variable's reading is trusted, (d,); None where it tells nothing of a trial."""
    pairs = zip(space.variables, persistences, strict=True)
    return [kept if kept is not None and _tells(v.marginal, kept) else None for v, kept in pairs]


def _tells(marginal: Marginal, kept: Persistence) -> bool:
    if kept.rho == 0 or not np.isfinite(kept.tau):
        return False
    low, high = (conditional(marginal, kept.rho, kept.tau, float(r)) for r in marginal.quantile(np.array([0.1, 0.9])))
    return low != high


def _levels(marginal: Marginal, kept: Persistence | None) -> FloatArray:
    """Return readings (g,), rising, each standing for as many: the variable's own value and an error."""
    if kept is None:
        return np.array([marginal.mean])
    shares = (np.arange(LEVELS) + 0.5) / LEVELS
    if kept.tau == 0:
        return np.asarray(marginal.quantile(shares), dtype=float)
    from scipy.special import ndtri  # noqa: PLC0415 - heavy: not for `rigctl --help`

    own, error = sobol(2, ERRORS * LEVELS).T
    return np.asarray(np.quantile(marginal.quantile(own) + kept.tau * ndtri(error), shares, method="hazen"))


@dataclass(frozen=True, slots=True, eq=False)
class Days:
    """Hold what is believed on every day, before any setting is chosen. Standardised, larger is better."""

    posterior: Posterior
    masks: FloatArray
    """(m, d), 1 where the control set controls the variable."""
    outside: tuple[FloatArray, ...]
    """(m,) of (q, n): prod over uncontrolled l of E[k_l(X_l, x_jl) | reading]."""
    prior: tuple[FloatArray, ...]
    """(m,) of (q,): variance, before any data, of what is expected at the reading."""
    read: FloatArray
    """(q, d), unit cube: the readings."""

    @classmethod
    def of(cls, posterior: Posterior, space: Space, readings: Readings) -> Days:
        """Integrate every variable once per level."""
        kernel, x = posterior.hyperparameters.product_kernel, posterior.x
        masks, count = space.masks, len(readings.days)
        outside = [np.ones((count, len(x))) for _ in masks]
        prior = [np.full(count, posterior.hyperparameters.signal_variance) for _ in masks]
        for column in np.flatnonzero((masks == 0).any(axis=0)):
            one, level = kernel.one(int(column)), readings.days[:, column]
            z = np.stack([m.z(x[:, column], one) for m in readings.believed[column]])[level]
            zz = np.array([m.zz(one) for m in readings.believed[column]])[level]
            for row in np.flatnonzero(masks[:, column] == 0):
                outside[row] *= z
                prior[row] *= zz
        return cls(posterior, masks, tuple(outside), tuple(prior), readings.read())

    def part(self, days: slice) -> Days:
        outside, prior = (tuple(own[days] for own in each) for each in (self.outside, self.prior))
        return replace(self, outside=outside, prior=prior, read=self.read[days])

    def __len__(self) -> int:
        return len(self.read)

    def alike(self, control_set: int) -> bool:
        """Tell whether no reading tells anything of a trial that controls these variables."""
        outside = self.outside[control_set]
        return bool((outside == outside[:1]).all())

    def inner(self, control_set: int, points: FloatArray) -> FloatArray:
        """Return the controlled part of the covariance with the data, (b, n), for points (b, d)."""
        mask = np.broadcast_to(self.masks[control_set], points.shape)
        scale = self.posterior.hyperparameters.signal_variance
        return np.asarray(scale * self.posterior.correlations.matrix(points, mask))

    def means(self, control_set: int, points: FloatArray) -> FloatArray:
        """Return what is expected of each setting (c, d) on each day, (q, c)."""
        weighed = self.outside[control_set] * self.posterior.alpha
        return np.asarray(self.posterior.hyperparameters.mean + weighed @ self.inner(control_set, points).T)

    def believed(self, control_set: int, points: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd, (b,) each, of settings (b, d), each on the day of its row (b,)."""
        return self._told(control_set, self.inner(control_set, points), rows)

    def judged(self, control_set: int, points: FloatArray, most: int) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return so many of the settings (c, d) with the highest means on each day, their means and sds, (q, most)."""
        inner, weighed = self.inner(control_set, points), self.outside[control_set] * self.posterior.alpha
        top = np.argpartition(-(weighed @ inner.T), most - 1, axis=1)[:, :most]
        every = np.arange(len(self))
        told = [self._told(control_set, inner[top[:, k]], every) for k in range(most)]
        mean, sd = (np.stack(values, axis=1) for values in zip(*told, strict=True))
        return top, mean, sd

    def _told(self, control_set: int, inner: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd, (b,) each, of the controlled parts of covariances with the data, (b, n)."""
        inner = inner * self.outside[control_set][rows]
        mean = self.posterior.hyperparameters.mean + inner @ self.posterior.alpha
        white = self.posterior.whiten(inner)
        variance = self.prior[control_set][rows] - np.vecdot(white, white)
        return np.asarray(mean), np.sqrt(np.maximum(variance, 0.0))

    def support(
        self, control_set: int, points: FloatArray, rows: IntArray, beyond: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean less `DOUBT` standard deviations, (b,), and its gradient, (b, d), of settings as `believed`.

        What a standard deviation exceeds `beyond` by, (b,), counts `CAUTION` times besides.
        """
        h, outside = self.posterior.hyperparameters, self.outside[control_set][rows]
        inner = self.inner(control_set, points)
        white = self.posterior.whiten(inner * outside)
        variance = self.prior[control_set][rows] - np.vecdot(white, white)
        sd = np.sqrt(np.maximum(variance, FLOOR * h.signal_variance))
        slope = inner * outside
        value, weight = h.mean + slope @ self.posterior.alpha - DOUBT * sd, np.full(len(sd), DOUBT)
        if beyond is not None:
            value -= CAUTION * np.maximum(sd - beyond, 0.0)
            weight += CAUTION * (sd > beyond)
        slope *= self.posterior.alpha + self.posterior.unwhiten(white) * (weight / sd)[:, None]
        mask = np.broadcast_to(self.masks[control_set], points.shape)
        gradient = self.posterior.correlations.contract_slopes(points, slope, mask)
        return np.asarray(value), np.asarray(gradient)


DOUBT = 1.0
"""Standard deviations by which what is expected is lowered before settings are compared, without readings too."""
JUDGED = 8
"""Settings of a control set whose spread is computed for a day: those with the highest means."""
CAUTION = 10.0
"""Further standard deviations by which a climb is held back where less is known than at the setting it started from."""
PROBES = 32
"""Days that tell how much a control set gains by climbing."""
MARGIN = 2.0
"""Times that gain which no day is expected to exceed."""
MOST_SWEEPS = 24
"""Of one climb: support has an edge where caution begins, and along an edge a climb takes ever shorter steps."""
TOLERANCE = 1e-4
"""Prior standard deviations of support: a climb that promises less has arrived."""


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Hold the best supported setting of every control set on every day. Standardised."""

    points: FloatArray
    """(q, m, d), unit cube."""
    mean: FloatArray
    """(q, m); -inf where the set has none, or is not in question."""
    sd: FloatArray
    """(q, m)."""

    @property
    def support(self) -> FloatArray:
        """(q, m): what is compared."""
        return np.asarray(self.mean - DOUBT * self.sd)


@dataclass(frozen=True, slots=True, eq=False)
class Full:
    """Hold the full rule on so many days."""

    best: Best
    cost: FloatArray
    """(q, m), currency units; 0 where nobody knows."""
    chosen: IntArray
    """(q,): the control set to play."""
    enough: FloatArray
    """(q,): support that is good enough on that day."""

    @property
    def points(self) -> FloatArray:
        """(q, d): where the chosen sets are set."""
        return np.asarray(self.best.points[np.arange(len(self.chosen)), self.chosen])

    @property
    def mean(self) -> FloatArray:
        """(q,): what is expected of them."""
        return np.asarray(self.best.mean[np.arange(len(self.chosen)), self.chosen])


@dataclass(frozen=True, slots=True, eq=False)
class Seeking:
    """Hold what settings are chosen by, whatever the day."""

    space: Space
    prices: Prices
    floor: float
    """Standardised; tolerance is a share of the distance from it."""
    tolerance: float

    def ways(self, among: Sequence[int], history: History, further: Settings) -> Settings:
        """Return the settings of these control sets that occurred in a trial with an outcome, and `further` ones."""
        x = np.array([o.x for o in history.complete], dtype=float)
        x = snapped(np.clip(x, 0.0, 1.0), self.space.steps)
        sets = np.concatenate([np.repeat(np.array(among, dtype=np.int64), len(x)), further.sets])
        points = np.concatenate([np.tile(x, (len(among), 1)).reshape(-1, self.space.dimension), further.points])
        order = np.argsort(sets, kind="stable")
        return Settings(points[order], sets[order])

    def full(self, days: Days, ways: Settings, *, climbing: bool) -> Full:
        """Choose on every day: the cheapest set that is good enough, at its best supported setting."""
        found = best_ways(days, ways)
        if climbing:
            found = climbed(days, found, self.space.steps, self._enough(found)[1])
        cost = np.zeros(found.mean.shape)
        for i, chosen in enumerate(self.space.control_sets):
            priced = self.prices.at(i, found.points[:, i, list(chosen.indices)])
            cost[:, i] = 0.0 if priced is None else priced
        support, (mean, supported) = found.support, self._enough(found)
        good = (found.mean >= mean[:, None]) & (support >= supported[:, None])
        cheapest = np.where(good, cost, np.inf)
        equal = cheapest <= cheapest.min(axis=1)[:, None]
        chosen_sets = np.where(equal, support, -np.inf).argmax(axis=1)
        return Full(found, cost, chosen_sets, supported)

    def _enough(self, found: Best) -> tuple[FloatArray, FloatArray]:
        """Return from what mean and support on, (q,), a setting is good enough on each day."""
        top = found.support.argmax(axis=1)
        bests = (v[np.arange(len(top)), top] for v in (found.mean, found.support))
        mean, support = (np.minimum(b, self.floor + (1 - self.tolerance) * (b - self.floor)) for b in bests)
        return mean, support


def best_ways(days: Days, ways: Settings) -> Best:
    """Find the best supported setting of every control set on every day."""
    count, m = len(days), len(days.masks)
    way = np.zeros((count, m), dtype=np.int64)
    means, sds, rows = np.full((count, m), -np.inf), np.zeros((count, m)), np.arange(count)
    for s in np.unique(ways.sets).tolist():
        mine = np.flatnonzero(ways.sets == s)
        top, mean, sd = days.judged(s, ways.points[mine], min(JUDGED, len(mine)))
        best = (mean - DOUBT * sd).argmax(axis=1)
        way[:, s], means[:, s], sds[:, s] = mine[top[rows, best]], mean[rows, best], sd[rows, best]
    return Best(ways.points[way], means, sds)


def climbed(days: Days, best: Best, steps: IntArray, enough: FloatArray) -> Best:
    """Climb from every day's settings to the best supported ones nearby, where that may make them good enough.

    `PROBES` days are climbed first. On the others a control set stays where it is if even with `MARGIN` times the
    largest gains of those its support would not reach `enough`, (q,), nor its mean the best one. `steps` (d,) as for
    `snapped`.
    """
    points, mean, sd = best.points.copy(), best.mean.copy(), best.sd.copy()
    every, h, support = np.arange(len(days)), days.posterior.hyperparameters, best.support
    scales, tolerance, top = np.array(h.lengthscales), TOLERANCE * h.signal_sd, best.mean.max(axis=1)

    def climb(s: int, rows: IntArray) -> None:
        def supported(at: FloatArray, which: IntArray) -> tuple[FloatArray, FloatArray]:
            return days.support(s, at, rows[which], best.sd[rows[which], s])

        free, groups = np.broadcast_to(days.masks[s], (len(rows), len(scales))), np.arange(len(rows))
        found = climb_on_grid(
            supported,
            points[rows, s],
            free,
            groups,
            scales,
            steps=steps,
            tolerance=tolerance,
            few=0,
            most_sweeps=MOST_SWEEPS,
        )
        points[rows, s] = found.points
        mean[rows, s], sd[rows, s] = days.believed(s, found.points, rows)

    for s in np.flatnonzero(np.isfinite(best.mean[0])).tolist():
        if days.alike(s):
            climb(s, every[:1])
            points[:, s], mean[:, s], sd[:, s] = points[0, s], mean[0, s], sd[0, s]
            continue
        probes = every[:: max(1, len(every) // PROBES)]
        climb(s, probes)
        gains = mean[probes, s] - best.mean[probes, s], mean[probes, s] - DOUBT * sd[probes, s] - support[probes, s]
        expected, supported = (MARGIN * float(gain.max()) for gain in gains)
        hopeful = (best.mean[:, s] + expected >= top) | (support[:, s] + supported >= enough)
        hopeful[probes] = False
        if hopeful.any():
            climb(s, every[hopeful])
    return Best(points, mean, sd)
