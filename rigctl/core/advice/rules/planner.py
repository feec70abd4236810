"""Works out a rule: the full one, which plays at every reading what a recommendation would, and the short one of it.

Both are sought on days drawn from what is believed of the readings, and what they are worth is stated on other days:
not on those that were seen, which chose the data, nor on those they were sought on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.advice.doubts import Supported
from rigctl.core.advice.rules.full import Days, Full, Readings, Seeking, telling
from rigctl.core.advice.rules.short import Formula, Leaf, constant, short_rule
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.natural import persistences
from rigctl.core.experiment.persistence import Persistence
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Settings
from rigctl.core.gp.surrogate import Posterior

DAYS = ((300, 512), (10**9, 256))
"""With at most so many trials a rule is sought on as many days, and stated on as many others; a day costs the square of
the trials."""


@dataclass(frozen=True, slots=True, eq=False)
class FoundRule:
    """Hold a rule as it was found, before it is stated."""

    readings: Readings
    """Those it was sought on."""
    others: Readings
    """Those it is stated on."""
    days: Days
    """What is believed on those."""
    leaves: tuple[Leaf, ...]
    formulas: tuple[Formula, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Planner:
    """Hold all that a rule needs besides readings."""

    problem: Problem
    """With concrete marginals, not conditional on a reading."""
    history: History
    posterior: Posterior
    seeking: Seeking
    trusted: tuple[Persistence | None, ...]
    ways: Settings
    """To choose from, by control set."""
    telling: tuple[int, ...]
    """Variables whose readings tell something of a trial."""
    count: int
    """Days."""

    @classmethod
    def of(
        cls,
        problem: Problem,
        history: History,
        posterior: Posterior,
        settings: Mapping[int, tuple[float, ...]],
        *,
        worst: float,
        tolerance: float,
    ) -> Planner:
        """Take what the trials so far speak for.

        Args:
            problem: with concrete marginals, not conditional on a reading.
            history: all trials.
            posterior: of the value given `history`.
            settings: by control set that may be recommended, its best supported fixed setting (k,), unit cube.
            worst: the worst value there can be, which the tolerance is counted from; outcome units, larger is better.
            tolerance: how much worse than the best is good enough, as a share.
        """
        space, h = problem.space, posterior.hyperparameters
        seeking = Seeking(space, Prices.of(problem, history), (worst - h.y_shift) / h.y_scale, tolerance)
        trusted = persistences(replace(problem, look=None), history)
        own = telling(space, trusted)
        sets = np.array(sorted(settings), dtype=np.int64)
        points = np.concatenate([space.rows(i, np.array([settings[i]])) for i in sets.tolist()])
        ways, count = Settings(points, sets), 1
        if own:
            count = next(days for most, days in DAYS if len(posterior.x) <= most)
            ways = seeking.ways(sets.tolist(), history, ways)
        return cls(problem, history, posterior, seeking, trusted, ways, own, count)

    def best_at(self, read: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return what the full rule plays at readings (q, d), unit cube: control sets (q,) and points (q, d).

        Of a point only the columns of its control set count.
        """
        full = self.full(self.days(Readings.given(self.problem.space, self.trusted, read)))
        return full.chosen, full.points

    def on(self, read: Sequence[float | None]) -> Supported | None:
        """Return what the full rule plays on a day that reads this, (d,), unit cube.

        Of what was not read the usual is expected. None where nothing that was read tells of the trial: the fixed
        setting stands.
        """
        space, h = self.problem.space, self.posterior.hyperparameters
        trusted = [None if x is None else kept for x, kept in zip(read, self.trusted, strict=True)]
        if not telling(space, trusted):
            return None
        row = [v.marginal.mean if x is None else x for v, x in zip(space.variables, read, strict=True)]
        full = self.full(self.days(Readings.given(space, trusted, np.array([row]))))
        index = int(full.chosen[0])
        mean, sd = float(full.mean[0]), float(full.best.sd[0, index])
        at = space.setting(index, full.points[0]), h.y_shift + h.y_scale * mean, h.y_scale * sd
        return Supported(index, *at, played=bool(self.history.trials_of(index)), tried=False)

    def days(self, readings: Readings) -> Days:
        return Days.of(self.posterior, self.problem.space, readings)

    def full(self, days: Days) -> Full:
        return self.seeking.full(days, self.ways, climbing=bool(self.telling))

    def short(self, fixed: int, setting: tuple[float, ...]) -> FoundRule:
        """Grow the short rule beside the fixed setting (k,) of a control set, unit cube."""
        both = Readings.drawn(self.problem.space, self.trusted, 2 * self.count)
        every, parts = self.days(both), (slice(0, self.count), slice(self.count, None))
        (readings, days), others = ((both.part(p), every.part(p)) for p in parts)
        alone = constant(fixed, np.array(setting), self.problem.space.dimension)
        leaves, formulas = short_rule(
            days, readings.days, self.seeking, self.full(days), fixed=alone, telling=self.telling
        )
        return FoundRule(readings, *others, leaves, formulas)
