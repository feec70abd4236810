"""What a rule is worth as it is written, on days that it was not sought on.

The lines of a rule in engineering units, rounded as a person would write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

import numpy as np

from rigctl.core.advice.doubts import Supported
from rigctl.core.advice.rule import Between, LookWorth, Rule, RuleLine, Setting, Slope, Trust
from rigctl.core.advice.rules.full import Days, Full, Readings
from rigctl.core.advice.rules.planner import FoundRule, Planner
from rigctl.core.advice.rules.short import Leaf
from rigctl.core.advice.worth import SMALLEST, FixedSetting, Gain, interval
from rigctl.core.bounds.expectations import errors
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.problem import sign
from rigctl.core.experiment.space import Variable
from rigctl.core.gp.surrogate import Posterior

FINE = 200
"""Parts of a range that settings are rounded to."""


def written(planner: Planner, found: FoundRule) -> Iterator[RuleLine]:
    """Write the lines down, without what they are worth; readings count from what is usual where the line holds."""
    left, read = np.ones(len(found.readings.days), dtype=bool), found.readings.read()
    for leaf in found.leaves:
        mine = left & leaf.holds(found.readings.days)
        left &= ~mine
        yield _line(planner, found, leaf, np.median(read[mine if mine.any() else slice(None)], axis=0))


def _line(planner: Planner, found: FoundRule, leaf: Leaf, middle: FloatArray) -> RuleLine:
    space, formula = planner.problem.space, found.formulas[leaf.formula]
    chosen = space.control_sets[formula.control_set]
    at = formula.settings(middle[None])[0]
    return RuleLine(
        when=tuple(_conditions(space.variables, found.readings, leaf)),
        control_set=chosen.names,
        settings=tuple(
            _setting(space.variables, column, float(at[k]), formula.slopes[k], middle)
            for k, column in enumerate(chosen.indices)
        ),
        trials=planner.history.trials_of(formula.control_set),
    )


def _conditions(variables: Sequence[Variable], readings: Readings, leaf: Leaf) -> Sequence[Between]:
    found = []
    for column, (variable, own) in enumerate(zip(variables, readings.levels, strict=True)):
        edges = [
            None if level in (0, len(own)) else _between(variable, float(own[level - 1]), float(own[level]))
            for level in (int(leaf.low[column]), min(int(leaf.high[column]), len(own)))
        ]
        if edges != [None, None]:
            found.append(Between(variable.name, *edges))
    return found


def _between(variable: Variable, below: float, above: float) -> float:
    """Return the number of fewest digits above one reading and not above the other, engineering units."""
    low, high = variable.value(below), variable.value(above)
    for decimals in range(_decimals(variable.high - variable.low) - 2, 16):
        value = round(ceil(low * 10.0**decimals + 1e-9) / 10.0**decimals, decimals)
        if low < value <= high:
            return value
    return high


def _decimals(span: float) -> int:
    """Return with how many decimals a setting of such a range is written."""
    return ceil(-log10(span / FINE))


def _setting(variables: Sequence[Variable], column: int, at: float, slopes: FloatArray, middle: FloatArray) -> Setting:
    v = variables[column]
    span = v.high - v.low
    follows = []
    for other in np.flatnonzero(slopes).tolist():
        r = variables[other]
        per_unit = float(slopes[other]) * span / (r.high - r.low)
        rounded = round(per_unit, 1 - floor(log10(abs(per_unit))))
        about = round(r.value(float(middle[other])), _decimals(r.high - r.low))
        follows.append(Slope(r.name, about, rounded))
    own = round(v.value(at), _decimals(span) + 1) if follows else v.setpoint(at)
    return Setting(v.name, own, tuple(follows), v.low, v.high, v.step)


JOINT = 256
"""Days whose joint posterior gives the intervals."""
EQUAL = 1e-9
"""Standardised: settings that differ by less are worth the same."""


@dataclass(frozen=True, slots=True, eq=False)
class RulePlayed:
    """Hold what a rule does on every day."""

    sets: IntArray
    """(q,)."""
    points: FloatArray
    """(q, d), unit cube; only the controlled columns count."""
    mean: FloatArray
    """(q,): what is expected, value units."""
    cost: FloatArray
    """(q,), currency units; nan where nobody knows."""

    def happens(self, masks: FloatArray, occurs: FloatArray) -> FloatArray:
        """Return whole points, (q, d): what is left alone does what it does."""
        return np.where(masks[self.sets] == 1, self.points, occurs)


def stated(planner: Planner, fixed: Supported, posteriors: Sequence[Posterior]) -> Rule:
    """Grow the short rule beside the best fixed choice, in engineering units, and say what it is worth.

    `posteriors` are as those of `Appraisal`.
    """
    found = planner.short(fixed.control_set, fixed.setting)
    readings, days, full = found.others, found.days, planner.full(found.days)
    lines = tuple(written(planner, found))
    own = _units(planner, days.read)
    which = np.array([next(i for i, line in enumerate(lines) if line.holds(r)) for r in own])
    point = planner.problem.space.rows(fixed.control_set, np.array([fixed.setting]))
    short = _played(planner, days, *_obeyed(planner, lines, own, which))
    best = _played(planner, days, full.chosen, full.points)
    alone, top = (
        _played(planner, days, np.full(len(days), s), np.tile(at, (len(days), 1)))
        for s, at in ((fixed.control_set, point), _best_fixed(planner, days, fixed.control_set, point))
    )
    unpriced = _better_by_day(planner, days, full, top)
    compared = (short, best, top, unpriced)  # in this order for `_Stating`
    lined, *others = (played.happens(days.masks, readings.occurs)[:JOINT] for played in compared)
    used, share = np.unique(which[:JOINT], return_counts=True)
    averaged = [*others, *(lined[which[:JOINT] == i] for i in used.tolist())]
    # where all is controlled alike many days are one point
    groups = [np.unique(points, axis=0, return_counts=True) for points in averaged]
    covariance = errors(*zip(*(_joint(posterior, groups) for posterior in posteriors), strict=True))
    # the short rule, and a line that no day is left for, are averages of what is done on the days of the lines
    parts = np.zeros((len(compared) + len(lines), len(averaged)))
    parts[:, len(others) :] = share / share.sum()
    parts[1 : len(compared)] = np.eye(len(others), len(averaged))
    parts[len(compared) + used] = np.eye(len(averaged))[len(others) :]
    covariance = parts @ covariance @ parts.T
    return _Stating(planner, fixed, alone, lines, which, compared, covariance).rule()


def _best_fixed(planner: Planner, days: Days, recommended: int, point: FloatArray) -> tuple[int, FloatArray]:
    """Return the control set and the point (1, d), unit cube, that are best on these days if all are to be alike.

    Of all settings that the full rule chooses from, so that it is the readings, and nothing else, that tell the two
    apart; costs do not count. The recommended setting, a point (1, d), stands where none is better.
    """
    ways = planner.ways
    worth = np.empty(len(ways.sets))
    for s in np.unique(ways.sets).tolist():
        rows = np.flatnonzero(ways.sets == s)
        worth[rows] = days.means(s, ways.points[rows]).mean(axis=0)
    best = int(worth.argmax())
    if worth[best] <= float(days.means(recommended, point).mean()) + EQUAL:
        return recommended, point
    return int(ways.sets[best]), ways.points[best][None]


def _better_by_day(planner: Planner, days: Days, full: Full, top: RulePlayed) -> RulePlayed:
    """Return what is best on every day, whatever it costs, never worse there than the best fixed setting."""
    sets = full.best.mean.argmax(axis=1)
    free = _played(planner, days, sets, full.best.points[np.arange(len(days)), sets])
    fixed = top.mean >= free.mean
    pairs = ((top.sets, free.sets), (top.mean, free.mean), (top.cost, free.cost))
    own, mean, cost = (np.where(fixed, t, f) for t, f in pairs)
    return RulePlayed(own, np.where(fixed[:, None], top.points, free.points), mean, cost)


def _units(planner: Planner, read: FloatArray) -> list[dict[str, float]]:
    space = planner.problem.space
    return [dict(zip(space.names, row, strict=True)) for row in space.to_engineering(read).tolist()]


def _obeyed(
    planner: Planner, lines: Sequence[RuleLine], own: Sequence[Mapping[str, float]], which: IntArray
) -> tuple[IntArray, FloatArray]:
    """Return the control set (q,) and the point (q, d), unit cube, that somebody who follows the lines arrives at."""
    space = planner.problem.space
    sets = np.array([space.index_of(line.control_set) for line in lines])[which]
    points = np.full((len(own), space.dimension), 0.5)
    for row, (line, readings) in enumerate(zip(which.tolist(), own, strict=True)):
        for name, value in lines[line].setpoints(readings).items():
            column = space.names.index(name)
            points[row, column] = space.variables[column].share(value)
    return sets, points


def _played(planner: Planner, days: Days, sets: IntArray, points: FloatArray) -> RulePlayed:
    h = planner.posterior.hyperparameters
    mean, cost = np.empty(len(sets)), np.full(len(sets), np.nan)
    for s in np.unique(sets).tolist():
        rows = np.flatnonzero(sets == s)
        mean[rows] = h.y_shift + h.y_scale * days.believed(s, points[rows], rows)[0]
        priced = planner.seeking.prices.at(s, points[np.ix_(rows, planner.problem.space.control_sets[s].indices)])
        if priced is not None:
            cost[rows] = priced
    return RulePlayed(sets, points, mean, cost)


def _joint(posterior: Posterior, groups: Sequence[tuple[FloatArray, IntArray]]) -> tuple[FloatArray, FloatArray]:
    """Return means (g,) and covariance (g, g) of the averages over groups, the outcome's own units.

    A group is its points (b, d) and how often each counts, (b,).
    """
    h = posterior.hyperparameters
    points, shares = np.concatenate([g for g, _ in groups]), np.concatenate([c / c.sum() for _, c in groups])
    ends = np.cumsum([len(g) for g, _ in groups])
    first = np.concatenate([[0], ends[:-1]])
    prior = np.zeros((len(groups), len(groups)))
    for i, (begin, end) in enumerate(zip(first, ends, strict=True)):  # with itself and those after it: it is symmetric
        sums = shares[begin:end] @ h.product_kernel.matrix(points[begin:end], points[begin:])
        prior[i, i:] = prior[i:, i] = np.add.reduceat(sums * shares[begin:], first[i:] - begin)
    prior *= h.signal_variance
    averaged = np.add.reduceat(shares[:, None] * posterior.covariance(points), first, axis=0)
    white = posterior.whiten(averaged)
    covariance = h.y_scale**2 * (prior - white @ white.T)
    np.fill_diagonal(covariance, np.maximum(covariance.diagonal(), 0.0))
    return h.y_shift + h.y_scale * (h.mean + averaged @ posterior.alpha), np.asarray(covariance)


def _mean_cost(played: RulePlayed) -> float | None:
    return None if np.isnan(played.cost).any() else float(played.cost.mean())


def _trust(planner: Planner) -> tuple[Trust, ...]:
    pairs = zip(planner.problem.space.variables, planner.trusted, strict=True)
    return tuple(Trust(v.name, k.rho, k.tau * (v.high - v.low), k.pairs) for v, k in pairs if k is not None)


@dataclass(frozen=True, slots=True, eq=False)
class _Stating:
    """Says what a rule is worth, of what it does on days it was not sought on."""

    planner: Planner
    fixed: Supported
    """What is recommended without a reading: its mean over all that can occur is known exactly."""
    alone: RulePlayed
    """That setting on these days."""
    lines: Sequence[RuleLine]
    which: IntArray
    """(q,): the line of every day."""
    played: tuple[RulePlayed, ...]
    """The short rule, the full one, the best fixed setting, and what is best on every day, whatever it costs."""
    covariance: FloatArray
    """Of their averages, and of the short rule's over the days of each line; own units squared."""

    def rule(self) -> Rule:
        (short, best, _, _), full_gain = self.played, self._gain(1)
        expected, low, high = self._interval(self._expected(0), 0)
        stated = [self._line(i, line) for i, line in enumerate(self.lines)]
        if len(stated) == 1:  # it is the fixed setting, and is said to be worth what that is
            stated = [replace(stated[0], expected=expected, low=low, high=high)]
        loss = float(np.mean(best.mean - short.mean))
        # a rule that does nothing differently for a reading gains nothing by it
        gain = self._gain(0) if any(line.follows for line in stated) else Gain(0.0, 0.0, 0.0)
        return Rule(
            lines=tuple(stated),
            expected=expected,
            low=low,
            high=high,
            cost_per_trial=_mean_cost(short),
            full_expected=self._expected(1),
            full_cost=_mean_cost(best),
            loss=loss,
            loss_share=loss / full_gain.expected if full_gain.expected >= max(loss, -loss, SMALLEST) else None,
            looking=LookWorth(self._best_fixed(), self._gain(3), gain, full_gain),
            trust=_trust(self.planner),
        )

    def _gain(self, group: int) -> Gain:
        """Return what is gained over the best fixed setting; on the same days: what they have in common cancels."""
        top, c = self.played[2], self.covariance
        variance = c[group, group] + c[2, 2] - 2 * c[group, 2]
        return Gain(*interval(float(np.mean(self.played[group].mean - top.mean)), float(np.sqrt(max(variance, 0.0)))))

    def _expected(self, group: int) -> float:
        """Return what is expected, outcome units, by its difference from what is known exactly."""
        s, apart = sign(self.planner.problem), float(np.mean(self.played[group].mean - self.alone.mean))
        return s * self.fixed.mean + s * apart

    def _interval(self, expected: float, group: int) -> tuple[float, float, float]:
        return interval(expected, float(np.sqrt(max(self.covariance[group, group], 0.0))))

    def _line(self, number: int, line: RuleLine) -> RuleLine:
        """Say what is expected on the days of a line."""
        mine, short = self.which == number, self.played[0]
        if not mine.any():
            return line
        mean, cost = sign(self.planner.problem) * float(short.mean[mine].mean()), short.cost[mine]
        expected, low, high = self._interval(mean, len(self.covariance) - len(self.lines) + number)
        paid = None if np.isnan(cost).any() else float(cost.mean())
        return replace(line, share=float(mine.mean()), expected=expected, low=low, high=high, cost_per_trial=paid)

    def _best_fixed(self) -> FixedSetting:
        space, top = self.planner.problem.space, self.played[2]
        chosen = int(top.sets[0])
        at = space.setpoints(chosen, space.setting(chosen, top.points[0]))
        expected = self._interval(self._expected(2), 2)
        return FixedSetting(space.control_sets[chosen].names, at, *expected, _mean_cost(top))
