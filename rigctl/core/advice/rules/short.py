"""The short rule: few lines, in each of which one control set is played.

Within a line a setting is a constant or goes straight with readings. What may be played is a pool of such formulas,
each worked out on all days; so lines are sought by what they are worth, not by how well they imitate the full rule. The
formulas are then improved on the days of the line they are in, and lines are sought anew.

The lines of the short rule, of which the first that holds counts: each has a box of readings and a formula.

What stands further up is cut out of what stands below; so few lines say what as many boxes side by side cannot. Lines
are put in, and then moved and cut anew one after the other, by what all of them together are worth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from rigctl.core.advice.rules.full import DOUBT, Days, Full, Seeking
from rigctl.core.bounds.ascent import snapped
from rigctl.core.experiment.arrays import BoolArray, FloatArray, IntArray

LINES = 7
"""At most: what a person can follow."""
CONDITIONS = 2
"""Readings that a line asks for at most."""
FEWEST = 1 / 64
"""Share of the days that a line has at least."""
GRID = 16
"""Parts of each reading by which boxes are sought, before their limits are moved level by level."""
AT_ONCE = 32
"""Formulas at places whose boxes are sought in one go."""
SWEEPS = 2
"""In which every line is taken out and put in again where it is worth most."""


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """Hold one line of the rule."""

    low: IntArray
    """(d,): first level of each reading."""
    high: IntArray
    """(d,): one past the last."""
    formula: int
    """Of the pool."""

    def holds(self, levels: IntArray) -> BoolArray:
        """Tell on which days (q, d) the readings are in its box, (q,)."""
        return np.asarray(((levels >= self.low) & (levels < self.high)).all(axis=1))


@dataclass(frozen=True, eq=False)
class Arranging:
    """Hold what lines are judged by."""

    worth: FloatArray
    """(q, n): of every formula on every day."""
    levels: IntArray
    """(q, d): the days' readings as levels."""
    telling: Sequence[int]
    """Readings that tell something."""

    @cached_property
    def sizes(self) -> IntArray:
        """Return how many levels each reading has, (d,)."""
        return np.asarray(self.levels.max(axis=0) + 1)

    @cached_property
    def _counts(self) -> dict[int, FloatArray]:
        """Return which days have which level, (g, q) of 0 and 1, by reading."""
        return {c: (np.arange(self.sizes[c])[:, None] == self.levels[:, c]).astype(float) for c in self.telling}

    @property
    def _fewest(self) -> float:
        return max(1.0, FEWEST * len(self.levels))

    def whole(self, formula: int) -> Leaf:
        """Return the line that always holds."""
        return Leaf(np.zeros_like(self.sizes), self.sizes, formula)

    def routed(self, lines: Sequence[Leaf]) -> IntArray:
        """Return which line counts on every day, (q,)."""
        return np.asarray(np.argmax([line.holds(self.levels) for line in lines], axis=0))

    def values(self, lines: Sequence[Leaf]) -> FloatArray:
        """Return what the lines are worth on every day, (q,)."""
        formulas = np.array([line.formula for line in lines])[self.routed(lines)]
        return np.asarray(self.worth[np.arange(len(formulas)), formulas])

    def total(self, lines: Sequence[Leaf]) -> float:
        """Return what the lines are worth, summed over the days."""
        return float(self.values(lines).sum())

    def arranged(self) -> list[Leaf]:
        """Find lines, the last of which always holds."""
        lines = [self.whole(int(self.worth.sum(axis=0).argmax()))]
        while len(lines) < LINES:
            found = self._put_in(lines)
            if found is None:
                break
            lines = found
        movable, unmoved = len(lines) - 1, 0
        for i in [*range(movable)] * SWEEPS:
            found = self._put_in([*lines[:i], *lines[i + 1 :]])
            moved = found is not None and self.total(found) > self.total(lines)
            lines, unmoved = (found, 0) if found is not None and moved else (lines, unmoved + 1)
            if i == movable - 1:
                other, lines = lines[-1].formula, self._otherwise(lines)
                unmoved = unmoved if lines[-1].formula == other else 0
            if unmoved >= movable:
                break
        return lines

    def pruned(self, lines: Sequence[Leaf], line: float, condition: float) -> list[Leaf]:
        """Leave out lines that are worth less than `line`, then limits worth less than `condition`."""
        left = list(lines)
        while len(left) > 1:
            fewer = [self._otherwise([*left[:i], *left[i + 1 :]]) for i in range(len(left) - 1)]
            best = max(fewer, key=self.total)
            if self.total(left) - self.total(best) >= line:
                break
            left = best
        while wider := [
            [*left[:i], open_, *left[i + 1 :]] for i in range(len(left) - 1) for open_ in _wider(left[i], self.sizes)
        ]:
            best = max(wider, key=self.total)
            if self.total(left) - self.total(best) >= condition:
                break
            left = best
        return left

    def _otherwise(self, lines: list[Leaf]) -> list[Leaf]:
        """Give the last line the formula that is best where no other holds."""
        mine = self.routed(lines) == len(lines) - 1
        return [*lines[:-1], self.whole(int(self.worth[mine].sum(axis=0).argmax()))] if mine.any() else lines

    def _put_in(self, lines: list[Leaf]) -> list[Leaf] | None:
        """Return the lines with the one more that gains most; None where none gains."""
        which, gain = self.routed(lines), self.worth - self.values(lines)[:, None]
        best, found, where = 0.0, None, (-1, 0)
        tables = self._tables(which, gain, len(lines))
        most = _most(tables)
        order, every = np.argsort(-most, axis=None, kind="stable"), most.ravel()
        for begin in range(0, len(order), AT_ONCE):
            few = order[begin : begin + AT_ONCE]
            few = few[every[few] * (1 + 1e-9) > best]
            if not len(few):
                break
            for total, line, place, pair in self._boxed(tables, *np.unravel_index(few, most.shape)):
                # where a line gains as much at two places it stands at the first
                if (-total, place, pair) >= (-best, *where):
                    break
                if line.holds(self.levels)[which >= place].sum() >= self._fewest:
                    best, found, where = total, line, (place, pair)
        if found is None:
            return None
        free, place = which >= where[0], where[0]
        return [*lines[:place], self._moved(np.where(free[:, None], gain, 0.0), free, found), *lines[place:]]

    def _tables(self, which: IntArray, gain: FloatArray, places: int) -> FloatArray:
        """Return what each cell gains of every formula at every place by every pair of readings.

        (places, pairs, n, GRID, GRID), the second reading's cells first.
        """
        count, pairs, cells = gain.shape[1], len(self._pairs), GRID * GRID
        cell = np.array([own for _, _, own in self._pairs], dtype=np.int64).reshape(pairs, len(gain)).T
        block = (which[:, None] * pairs + np.arange(pairs))[:, :, None] * count + np.arange(count)
        index = block * cells + cell[:, :, None]
        weights = np.broadcast_to(gain[:, None, :], index.shape)
        sums = np.bincount(index.ravel(), weights.ravel(), places * pairs * count * cells)
        # a line takes the days of all that stand below it
        return sums.reshape(places, pairs, count, GRID, GRID)[::-1].cumsum(axis=0)[::-1]

    @cached_property
    def _edges(self) -> tuple[IntArray, ...]:
        """Return all pairs of a first and a last edge of the grid, rising."""
        return np.triu_indices(GRID + 1, 1)

    @cached_property
    def _pairs(self) -> list[tuple[int, int, IntArray]]:
        """Return pairs of readings, and in which cell of them each day is, (q,)."""
        coarse = self.levels * GRID // self.sizes
        pairs = combinations(self.telling, 2) if len(self.telling) > 1 else [(c, c) for c in self.telling]
        return [(one, other, coarse[:, other] * GRID + coarse[:, one]) for one, other in pairs]

    def _boxed(
        self, tables: FloatArray, places: IntArray, pairs: IntArray, formulas: IntArray
    ) -> Iterator[tuple[float, Leaf, int, int]]:
        """Yield the box of two readings on a grid that gains most, for each asked for, (c,): of all (Bentley 1984).

        The one that gains most comes first, with its place and pair.
        """
        sums = np.zeros((GRID, GRID + 1, len(places)))
        np.cumsum(tables[places, pairs, formulas].transpose(1, 2, 0), axis=1, out=sums[:, 1:])
        first, last = self._edges
        # (pairs of edges, c): what is gained between two edges of the first reading, up to a step along the other
        along = np.zeros((len(first), len(places)))
        least, most = np.zeros_like(along), np.full_like(along, -np.inf)
        for step in sums:
            along += step[last] - step[first]
            np.maximum(most, along - least, out=most)
            np.minimum(least, along, out=least)
        top = most.argmax(axis=0)
        gains = most[top, np.arange(len(places))]
        for i in np.lexsort((formulas, pairs, places, -gains)).tolist():
            edges, (one, other, _) = (int(first[top[i]]), int(last[top[i]])), self._pairs[pairs[i]]
            total = np.concatenate([[0.0], np.cumsum(sums[:, edges[1], i] - sums[:, edges[0], i])])
            end = int((total - np.minimum.accumulate(total)).argmax())
            start = int(total[: end + 1].argmin())
            low, high = np.zeros_like(self.sizes), self.sizes.copy()
            for column, edge, limit in ((other, start, end), (one, *edges)):
                low[column], high[column] = (-(-e * int(self.sizes[column]) // GRID) for e in (edge, limit))
            yield float(gains[i]), Leaf(low, high, int(formulas[i])), int(places[i]), int(pairs[i])

    def _moved(self, gain: FloatArray, free: BoolArray, line: Leaf) -> Leaf:
        """Climb from a box to one of greater gain, (q, n), level by level."""
        best = float(gain[line.holds(self.levels), line.formula].sum())
        while True:
            bounded = (line.low > 0) | (line.high < self.sizes)
            open_ = [c for c in self.telling if bounded[c] or bounded.sum() < CONDITIONS]
            total, found = max((self._cut(gain, line, column) for column in open_), key=lambda t: t[0])
            if total <= best * (1 + 1e-9) or found.holds(self.levels)[free].sum() < self._fewest:
                return line
            best, line = total, found

    def _cut(self, gain: FloatArray, line: Leaf, column: int) -> tuple[float, Leaf]:
        """Return the best limits of one reading, the others' as they are: the greatest sum over adjacent levels."""
        low, high = line.low.copy(), line.high.copy()
        low[column], high[column] = 0, self.sizes[column]
        inside = replace(line, low=low, high=high).holds(self.levels)
        sums = np.cumsum(self._counts[column] @ (gain * inside[:, None]), axis=0)
        sums = np.concatenate([np.zeros((1, sums.shape[1])), sums])
        rise = sums - np.minimum.accumulate(sums, axis=0)
        end, formula = np.unravel_index(int(rise.argmax()), rise.shape)
        low[column], high[column] = sums[: end + 1, formula].argmin(), end
        return float(rise[end, formula]), Leaf(low, high, int(formula))


def _most(tables: FloatArray) -> FloatArray:
    """Return what no box gains more than, (..., n): the best cells side by side in every row of (..., GRID, GRID)."""
    along = np.zeros(tables.shape[:-1])
    best = np.zeros_like(along)
    for column in np.moveaxis(tables, -1, 0):
        along += column
        np.maximum(along, 0.0, out=along)
        np.maximum(best, along, out=best)
    return np.asarray(best.sum(axis=-1))


def _wider(line: Leaf, sizes: IntArray) -> Iterator[Leaf]:
    """Yield the line without one of its limits; one that always holds has no place before others."""
    for name, limits in (("low", np.zeros_like(sizes)), ("high", sizes)):
        for column in np.flatnonzero(getattr(line, name) != limits).tolist():
            edge = getattr(line, name).copy()
            edge[column] = limits[column]
            wider = replace(line, **{name: edge})
            if wider.low.any() or (wider.high < sizes).any():
                yield wider


ROUNDS = 2
"""Improving the formulas, and seeking lines anew."""
RIVALS = 2
"""Control sets whose formulas are improved in a line."""
FORMULAS = 16
"""Of the pool, from which lines are made: those that are worth most together, if one could choose freely."""
CLIMBED = 256
"""Days by which a formula is improved."""
CONSTANTS = 8
"""Days whose best settings are formulas as they are, per control set."""
LITTLE = 0.01
"""A line is worth its room from this share of the full rule's gain on."""
TERM = 0.25
"""A limit, or a reading in a formula, is worth its room from this share of that on."""
SAVING = 0.2
"""Share of the tolerance that the largest saving there is outweighs once an outcome is good enough."""
STEPS = 30
"""Of a formula's improvement."""
ENOUGH = 1e-6
"""Relative gain of a step, in prior standard deviations, that is not worth another one."""


@dataclass(frozen=True, slots=True, eq=False)
class Formula:
    """Set a control set by readings: base + slopes (reading - 1/2), cut at the range. Unit cube."""

    control_set: int
    base: FloatArray
    """(k,)."""
    slopes: FloatArray
    """(k, d)."""

    def settings(self, read: FloatArray) -> FloatArray:
        """Return settings (b, k) for readings (b, d), before they are cut."""
        return np.asarray(self.base + (read - 0.5) @ self.slopes.T)


@dataclass(eq=False)
class Pool:
    """Collects formulas, each with what it is worth on all days."""

    days: Days
    seeking: Seeking
    full: Full
    telling: tuple[int, ...]
    formulas: list[Formula] = field(default_factory=list)
    worth: list[FloatArray] = field(default_factory=list)
    """(q,) each: support, as far as it is good enough, less the weight of its cost."""

    @cached_property
    def weight(self) -> float:
        """Return how much outcome, standardised, a currency unit outweighs among what is good enough."""
        spread = float(np.ptp(self.full.cost[:, np.isfinite(self.full.best.mean[0])]))
        best = float(self.full.best.support.max(axis=1).mean()) - self.seeking.floor
        return SAVING * self.seeking.tolerance * max(best, 0.0) / spread if spread > 0 else 0.0

    @cached_property
    def best(self) -> FloatArray:
        """Return what every control set is worth at its best supported setting, (q, m)."""
        supported = np.minimum(self.full.best.support, self.full.enough[:, None])
        return np.asarray(supported - self.weight * self.full.cost)

    def add(self, formula: Formula) -> int:
        """Put a formula in; return its number."""
        self.formulas.append(formula)
        self.worth.append(self.judged(formula, np.arange(len(self.days))))
        return len(self.formulas) - 1

    def follows(self, control_set: int) -> bool:
        """Tell whether it leaves a variable alone whose reading tells something."""
        return bool(self.followed(control_set).any())

    def followed(self, control_set: int) -> BoolArray:
        """Return which slopes its formulas may have, (k, d): none of a category, whose levels have no order."""
        space = self.seeking.space
        columns, counts = list(space.control_sets[control_set].indices), np.array(space.levels) == 0
        slopes = np.zeros((len(columns), space.dimension), dtype=bool)
        slopes[:, [c for c in self.telling if c not in columns]] = True
        return np.asarray(slopes & counts & counts[columns][:, None])

    def points(self, formula: Formula, rows: IntArray) -> FloatArray:
        """Return where it sets the variables on these days, (b, d), unit cube."""
        at = np.full((len(rows), self.days.read.shape[1]), 0.5)
        columns = list(self.seeking.space.control_sets[formula.control_set].indices)
        at[:, columns] = np.clip(formula.settings(self.days.read[rows]), 0.0, 1.0)
        return snapped(at, self.seeking.space.steps)

    def judged(self, formula: Formula, rows: IntArray) -> FloatArray:
        """Return what it is worth on these days, (b,)."""
        # what follows no reading is one setting on all days
        at, s = self.points(formula, rows if formula.slopes.any() else rows[:1]), formula.control_set
        mean, sd = self.days.believed(s, at, rows)
        cost = self.seeking.prices.at(s, at[:, list(self.seeking.space.control_sets[s].indices)])
        paid = 0.0 if cost is None else self.weight * cost
        return np.asarray(np.minimum(mean - DOUBT * sd, self.full.enough[rows]) - paid)

    def improved(self, formula: Formula, rows: IntArray, used: BoolArray | None = None) -> Formula:
        """Climb to the formula that supports these days best; `used` (k, d) says which slopes it may have."""
        if not len(rows):
            return formula
        from scipy.optimize import minimize  # noqa: PLC0415 - heavy: not for `rigctl --help`

        s, rows = formula.control_set, rows[:: max(1, len(rows) // CLIMBED)]
        days = self.days
        columns = list(self.seeking.space.control_sets[s].indices)
        allowed = self.followed(s) & (True if used is None else used)
        deviation, enough = days.read[rows] - 0.5, self.full.enough[rows]

        def loss(flat: FloatArray) -> tuple[float, FloatArray]:
            candidate = _unpacked(formula, flat, allowed)
            raw = candidate.settings(days.read[rows])
            at = np.full(deviation.shape, 0.5)
            at[:, columns] = np.clip(raw, 0.0, 1.0)
            support, gradient = days.support(s, at, rows)
            # no setting is sought beyond what the full rule's can do
            moves = (raw > 0.0) & (raw < 1.0) & (support < enough)[:, None]
            by_setting = np.where(moves, gradient[:, columns], 0.0) / len(rows)
            return -float(np.minimum(support, enough).mean()), -np.concatenate(
                [by_setting.sum(axis=0), (by_setting.T @ deviation)[allowed]]
            )

        start = np.concatenate([formula.base, formula.slopes[allowed]])
        found = minimize(
            loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS, "ftol": ENOUGH, "gtol": 1e-4}
        )
        return _unpacked(formula, found.x, allowed)

    def imitating(self, control_set: int, rows: IntArray) -> Formula:
        """Return the formula nearest to the full rule's settings of a control set on these days."""
        columns = list(self.seeking.space.control_sets[control_set].indices)
        allowed = self.followed(control_set)
        features = np.flatnonzero(allowed.any(axis=0))
        design = np.column_stack([np.ones(len(rows)), self.days.read[rows][:, features] - 0.5])
        found, *_ = np.linalg.lstsq(design, self.full.best.points[rows, control_set][:, columns])
        slopes = np.zeros((len(columns), self.days.read.shape[1]))
        slopes[:, features] = found[1:].T
        return Formula(control_set, found[0], np.where(allowed, slopes, 0.0))


def _unpacked(like: Formula, flat: FloatArray, allowed: BoolArray) -> Formula:
    slopes = np.zeros(like.slopes.shape)
    k = len(like.base)
    slopes[allowed] = flat[k:]
    return Formula(like.control_set, flat[:k], slopes)


def constant(control_set: int, setting: FloatArray, dimension: int) -> Formula:
    """Return the formula that always sets the same."""
    return Formula(control_set, np.asarray(setting, dtype=float), np.zeros((len(setting), dimension)))


def short_rule(
    days: Days, levels: IntArray, seeking: Seeking, full: Full, *, fixed: Formula, telling: Sequence[int]
) -> tuple[tuple[Leaf, ...], tuple[Formula, ...]]:
    """Grow the short rule; one leaf with the fixed setting where readings are worth next to nothing.

    `levels` are the days' readings as levels, (q, d); `full` is the full rule on the same days; `fixed` is recommended
    without a reading; `telling` are the variables whose readings tell something.
    """
    pool = Pool(days, seeking, full, tuple(telling))
    every = np.arange(len(days))
    pool.add(fixed)
    # a control set that is best on no day is in no line
    tried = np.unique(pool.best.argmax(axis=1))
    some = every[:: max(1, len(every) // CONSTANTS)]
    for s in tried.tolist():
        columns = list(seeking.space.control_sets[s].indices)
        for point in np.unique(full.best.points[some, s][:, columns], axis=0):
            pool.add(constant(s, point, days.read.shape[1]))
        if not pool.follows(s):
            continue
        imitation = pool.imitating(s, every)
        pool.add(imitation)
        pool.add(pool.improved(imitation, every))
        played = np.flatnonzero(full.chosen == s)
        if len(played) >= FEWEST * len(every):
            pool.add(pool.improved(pool.imitating(s, played), played))
    least = _least(pool)
    for _ in range(ROUNDS if telling else 0):
        arranging, lines = _lines(pool, levels)
        for i in range(len(lines)):
            rows = np.flatnonzero(arranging.routed(lines) == i)
            # where the lines above hold on every day the last one is left with none, and nothing can be learned of it
            for s in filter(pool.follows, _rivals(pool, rows) if len(rows) else ()):
                pool.add(pool.improved(pool.imitating(s, rows), rows))
                pool.add(pool.improved(_best_of(pool, s, rows), rows))
    arranging, lines = _lines(pool, levels)
    lines = arranging.pruned(lines, least, TERM * least)
    which = arranging.routed(lines)
    lines = [_simplified(pool, line, np.flatnonzero(which == i), TERM * least) for i, line in enumerate(lines)]
    only = lines[0].formula
    if len(lines) == 1 and (
        not pool.formulas[only].slopes.any() or float((pool.worth[only] - pool.worth[0]).sum()) < least
    ):  # what does not depend on readings is what is recommended without them
        return (replace(lines[0], formula=0),), (fixed,)
    return tuple(lines), tuple(pool.formulas)


def _lines(pool: Pool, levels: IntArray) -> tuple[Arranging, list[Leaf]]:
    """Find lines of the formulas that are worth most together."""
    worth = np.stack(pool.worth, axis=1)
    best, chosen = np.full(len(worth), -np.inf), []
    for _ in range(min(FORMULAS, worth.shape[1])):
        chosen.append(int(np.maximum(worth, best[:, None]).sum(axis=0).argmax()))
        best = np.maximum(best, worth[:, chosen[-1]])
    found = Arranging(worth[:, chosen], levels, pool.telling if levels.any() else ()).arranged()
    return Arranging(worth, levels, pool.telling), [replace(line, formula=chosen[line.formula]) for line in found]


def _least(pool: Pool) -> float:
    """Return the sum over days from which on something is worth its room."""
    gain = float(pool.best.max(axis=1).sum()) - float(pool.worth[0].sum())
    return LITTLE * max(gain, 1e-6 * len(pool.days))


def _rivals(pool: Pool, rows: IntArray) -> list[int]:
    """Return the control sets that are best on these days, the best first."""
    totals = [float(w[rows].sum()) for w in pool.worth]
    found: list[int] = []
    for i in np.argsort(-np.array(totals), kind="stable").tolist():
        if pool.formulas[i].control_set not in found:
            found.append(pool.formulas[i].control_set)
    return found[:RIVALS]


def _best_of(pool: Pool, control_set: int, rows: IntArray) -> Formula:
    mine = [i for i, f in enumerate(pool.formulas) if f.control_set == control_set]
    return pool.formulas[max(mine, key=lambda i: float(pool.worth[i][rows].sum()))]


def _simplified(pool: Pool, line: Leaf, rows: IntArray, least: float) -> Leaf:
    """Leave out, one after the other, readings that a line's formula hardly needs."""
    formula, kept = pool.formulas[line.formula], float(pool.worth[line.formula][rows].sum())
    while formula.slopes.any():
        tries = []
        for place in np.argwhere(formula.slopes != 0).tolist():
            slopes = formula.slopes.copy()
            slopes[tuple(place)] = 0.0
            fewer = replace(formula, slopes=slopes)
            tries.append((float(pool.judged(fewer, rows).sum()), fewer))
        fewer = max(tries, key=lambda t: t[0])[1]
        fewer = pool.improved(fewer, rows, fewer.slopes != 0)
        if kept - float(pool.judged(fewer, rows).sum()) > least:
            break
        formula = fewer
    return replace(line, formula=pool.add(formula))
