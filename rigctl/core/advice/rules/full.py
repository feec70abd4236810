"""The full rule: on every day the control set and setting that are best at its readings.

What a rule plays is a point: its setting, and what the rest does on that day. A trial speaks for its point, whatever it
controlled. So a setting is sought among those that its variables had, all of them, in a trial with an outcome, under
any control set; and, where readings tell something, from the best of them up to the best supported one nearby. Settings
are compared by what is expected at the reading less one standard deviation, which is large where no trial was near.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.advice.rules.readings import Beyond, Days
from rigctl.core.bounds.levels import climb_on_grid, snapped
from rigctl.core.costs.prices import Prices
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.space import Settings, Space

DOUBT = 1.0
"""Standard deviations by which what is expected is lowered before settings are compared, without readings too."""
JUDGED = 8
"""Settings of a control set whose spread is computed for a day: those with the highest means."""
CAUTION = 10.0
"""Further standard deviations by which a climb is held back where less is known than at the setting it started from."""
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
        """Choose on every day: the cheapest set that is good enough, at its best supported setting.

        Args:
            days: what is believed.
            ways: settings to choose from.
            climbing: whether to go on from the best of them.
        """
        found = best_ways(days, ways)
        if climbing:
            found = climbed(days, found, self.space.steps)
        cost = np.zeros(found.mean.shape)
        for i, chosen in enumerate(self.space.control_sets):
            priced = self.prices.at(i, found.points[:, i, list(chosen.indices)])
            cost[:, i] = 0.0 if priced is None else priced
        support = found.support
        top = support.argmax(axis=1)
        rows = np.arange(len(top))
        mean, supported = (self._good_enough(v[rows, top]) for v in (found.mean, support))
        good = (found.mean >= mean[:, None]) & (support >= supported[:, None])
        cheapest = np.where(good, cost, np.inf)
        equal = cheapest <= cheapest.min(axis=1)[:, None]
        chosen_sets = np.where(equal, support, -np.inf).argmax(axis=1)
        return Full(found, cost, chosen_sets, supported)

    def _good_enough(self, best: FloatArray) -> FloatArray:
        return np.minimum(best, self.floor + (1 - self.tolerance) * (best - self.floor))


def best_ways(days: Days, ways: Settings) -> Best:
    """Find the best supported setting of every control set on every day."""
    count, m = len(days), len(days.masks)
    way = np.zeros((count, m), dtype=np.int64)
    means, sds, rows = np.full((count, m), -np.inf), np.zeros((count, m)), np.arange(count)
    for s in range(m):
        mine = np.flatnonzero(ways.sets == s)
        if not len(mine):
            continue
        expected = days.means(s, ways.points[mine])
        few = min(JUDGED, len(mine))
        top = np.argpartition(-expected, few - 1, axis=1)[:, :few]
        judged = [days.believed(s, ways.points[mine[top[:, k]]], rows) for k in range(few)]
        mean, sd = (np.stack(values, axis=1) for values in zip(*judged, strict=True))
        best = (mean - DOUBT * sd).argmax(axis=1)
        way[:, s], means[:, s], sds[:, s] = mine[top[rows, best]], mean[rows, best], sd[rows, best]
    return Best(ways.points[way], means, sds)


def climbed(days: Days, best: Best, steps: IntArray) -> Best:
    """Climb from every day's settings to the best supported ones nearby; `steps` (d,) as for `snapped`."""
    points, mean, sd = best.points.copy(), best.mean.copy(), best.sd.copy()
    rows, h = np.arange(len(days)), days.posterior.hyperparameters
    scales, tolerance = np.array(h.lengthscales), TOLERANCE * h.signal_sd
    for s in np.flatnonzero(np.isfinite(best.mean[0])).tolist():

        def support(at: FloatArray, which: IntArray, s: int = s) -> tuple[FloatArray, FloatArray]:
            return days.support(s, at, which, DOUBT, Beyond(best.sd[which, s], CAUTION))

        free = np.broadcast_to(days.masks[s], points[:, s].shape)
        found = climb_on_grid(support, points[:, s], free, rows, scales, steps=steps, tolerance=tolerance, few=0)
        points[:, s] = found.points
        mean[:, s], sd[:, s] = days.believed(s, found.points, rows)
    return Best(points, mean, sd)
