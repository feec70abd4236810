"""What the policies that weigh knowledge against money have in common, assembled once per decision.

Settings worth looking at are those where bounds and means peak, near there, and everywhere; a search goes on among
them. Where a rule is sought, they are weighed at readings to come as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition.knowledge import Knowledge
from rigctl.core.acquisition.outlook import Outlook
from rigctl.core.bounds.ascent import changes_only, neighbours, snapped
from rigctl.core.bounds.best import SetBounds
from rigctl.core.bounds.expectations import Expectations, ValueSpread, natural_nodes
from rigctl.core.bounds.grid import lattice
from rigctl.core.bounds.limits import Limits
from rigctl.core.bounds.search import Peak
from rigctl.core.costs.beliefs import booked_when_free
from rigctl.core.costs.fields import LEAST
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.marginals.conditional import spread_of
from rigctl.core.experiment.money import MICROS_PER_UNIT
from rigctl.core.experiment.persistence import Persistence, conditioned
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import ControlSet, Settings, Space

LONGEST = 0.5
"""Lengthscales count as no longer than this: half a range away a setting is another one, whatever the model says."""
DECADES = 1.5
"""Distances are drawn from so many powers of ten: a hill is found by long steps, and its top by short ones."""
ROUNDS = 3
LEADERS = 6
CHILDREN = 6
"""A search looks at so many settings near each of so many of the best, again and again."""


def by_members(control_set: ControlSet) -> tuple[int, tuple[int, ...]]:
    """Return what control sets are sorted by: their size, then their variables."""
    return len(control_set.indices), control_set.indices


def join(*parts: Settings) -> Settings:
    return Settings(np.concatenate([p.points for p in parts]), np.concatenate([p.sets for p in parts]))


def peaks(bounds: Sequence[SetBounds], space: Space) -> Settings:
    """Return every control set's maximisers of the mean and of the upper bound."""
    points = [space.rows(b.control_set, np.array([b.best_mean_at, b.upper_at])) for b in bounds]
    return Settings(np.concatenate(points), np.repeat([b.control_set for b in bounds], 2))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbourhood:
    """Draw settings near given ones, and everywhere."""

    space: Space
    lengthscales: FloatArray
    """(d,), unit cube."""
    rng: np.random.Generator
    kept: FloatArray
    """(d,), unit cube: a variable that is there stays there, as it is dear to change; nan: none does."""

    def near(self, settings: Settings, count: int, reach: float) -> Settings:
        """Return `count` settings near each: normal steps of `reach` lengthscales and, evenly in the log, shorter."""
        rows = np.repeat(np.arange(len(settings)), count)
        step = reach * 10.0 ** self.rng.uniform(-DECADES, 0.2, (len(rows), 1))
        moved = settings.points[rows] + step * np.minimum(self.lengthscales, LONGEST) * self.rng.standard_normal(
            (len(rows), self.space.dimension)
        )
        moved = snapped(np.clip(moved, 0.0, 1.0), self.space.steps)
        return Settings(np.where(settings.points[rows] == self.kept, self.kept, moved), settings.sets[rows])

    def one_step_from(self, settings: Settings) -> Settings:
        """Return the neighbours of settings on the grid, in variables that their control sets have; else none."""
        moved, rows = neighbours(settings.points, self.space.steps)
        sets = settings.sets[rows]
        kept = changes_only(moved, settings.points[rows], self.space.masks[sets])
        return Settings(moved[kept], sets[kept])

    def everywhere(self, count: int) -> Settings:
        """Return the same `count` points of the cube for every control set."""
        sets = self.space.control_sets
        order = sorted(range(len(sets)), key=lambda i: by_members(sets[i]))
        points = snapped(lattice(self.space.dimension, count, self.rng), self.space.steps)
        return Settings(np.tile(points, (len(sets), 1)), np.repeat(order, count))

    def best(
        self, score: Callable[[Settings], FloatArray], settings: Settings, reach: float
    ) -> tuple[Settings, FloatArray]:
        """Search on near the best settings; return all that were looked at, and their scores."""
        scores = score(settings)
        for _ in range(ROUNDS):
            leaders = settings.of(np.argsort(-scores, kind="stable")[:LEADERS])
            more = join(self.near(leaders, CHILDREN, reach), self.one_step_from(leaders))
            settings, scores = join(settings, more), np.concatenate([scores, score(more)])
        return settings, scores


def after_readings_to_come(problem: Problem, count: int, rng: np.random.Generator) -> tuple[Space, ...]:
    """Return what is expected after each of `count` readings that may come; none where readings tell nothing."""
    if problem.usual is None or problem.look is None or not any(problem.persistence or ()):
        return ()
    variables, errors = problem.usual.variables, problem.look.sd
    uniform, deviates = lattice(len(variables), count, rng), rng.standard_normal((count, len(variables)))
    readings = np.stack([v.marginal.quantile(u) for v, u in zip(variables, uniform.T, strict=True)], axis=1)
    trusted = [Persistence(rho, sd, 0) for rho, sd in zip(problem.persistence or (), errors, strict=True)]
    return tuple(
        conditioned(replace(problem, space=problem.usual), trusted, Look(tuple(map(float, row)), errors)).space
        for row in readings + np.array(errors) * deviates
    )


def told(problem: Problem) -> float:
    """Return the share of the variables' variance that their readings take away, on average, from 0 to 1."""
    if problem.usual is None or problem.look is None:
        return 0.0
    each = zip(problem.usual.variables, problem.persistence or (), problem.look.sd, strict=True)
    own = [(rho**2, spread_of(v.marginal) ** 2, sd**2) for v, rho, sd in each]
    return float(np.mean([share * of_it / (of_it + error) if share and of_it else 0.0 for share, of_it, error in own]))


NODES = 8
"""Quasi-Monte-Carlo nodes of the uncontrolled variables."""
REACH = 0.4
"""Of settings near a peak, lengthscales."""
READINGS = 16
"""Readings to come at which alternatives are weighed, beside the day's."""
SCREENED = 32
"""Settings everywhere from which those that promise most are taken at each of them."""
JUDGED = 16
"""Settings of a control set whose spread is computed at a reading to come: those with the best means."""
HOPES = (0.0, 1.0, 2.0)
"""Standard deviations above the mean: a setting that is best by each is an alternative at a reading to come."""
BETWEEN = 0.2
"""Of settings near the best candidates, lengthscales."""


@dataclass(frozen=True, slots=True, eq=False)
class Valuing:
    """Weigh alternatives that could be recommended and candidates that could be played."""

    outlook: Outlook
    knowledge: Knowledge
    candidates: Settings
    surroundings: Neighbourhood

    @classmethod
    def of(cls, outlook: Outlook, rng: np.random.Generator, *, widely: int) -> Valuing:
        """Look around every control set's peaks, and at `widely` points everywhere."""
        problem, posterior = outlook.problem, outlook.fitted.posterior
        lengthscales, changeovers = np.array(posterior.hyperparameters.lengthscales), outlook.changeovers
        stay = np.where(changeovers.parts > 0, changeovers.left_at, np.nan)
        around = Neighbourhood(problem.space, lengthscales, rng, stay)
        to_come = after_readings_to_come(problem, READINGS, rng)
        expectations = Expectations.over(posterior, (problem.space, *to_come))
        # in an order of its own, so that the order in which control sets are listed changes nothing
        sets = problem.space.control_sets
        tops = peaks(sorted(outlook.bounds, key=lambda b: by_members(sets[b.control_set])), problem.space)
        alternatives = join(tops, around.near(tops, 4, REACH), around.everywhere(widely))
        if to_come:
            alternatives = join(alternatives, _then(expectations, around, alternatives))
        candidates = join(tops, around.near(tops, 4, REACH), around.everywhere(max(1, widely // 2)))
        candidates = join(candidates, _staying(candidates, stay, problem.space))
        if outlook.limits is not None:
            alternatives, candidates = (_possible(outlook.limits, some) for some in (alternatives, candidates))
        nodes = natural_nodes(problem.space, NODES, rng)
        knowledge = Knowledge(expectations, (problem.space, *to_come), alternatives, nodes)
        return cls(outlook, knowledge, candidates, around)

    def costs(self, settings: Settings) -> FloatArray:
        """Return the expected cost of a trial of each, (b,), currency units."""
        out = np.empty(len(settings))
        for i in np.unique(settings.sets):
            mine = settings.sets == i
            columns = list(self.outlook.problem.space.control_sets[int(i)].indices)
            out[mine] = self.outlook.prices(int(i), settings.points[mine][:, columns])
        # what is free would else be worth any number of trials
        free = booked_when_free(self.outlook.costs) / MICROS_PER_UNIT
        return np.where(out <= LEAST, free, out)

    def gain_per_cost(self, sets: Sequence[int], attain: float) -> Peak:
        """Return the play of these sets with the largest (gain + attain * rise of the best mean played) / cost."""

        def score(settings: Settings) -> FloatArray:
            means = self.knowledge.expectations.means(settings.points, settings.sets)
            rise = np.maximum(means - self.outlook.attained, 0.0)
            return np.asarray((self.knowledge.gains(settings) + attain * rise) / self.costs(settings))

        return self._best(score, sets)

    def reduction_per_cost(self, sets: Sequence[int], rng: np.random.Generator) -> Peak:
        """Return the play of these sets with the largest fall of the best's variance / cost."""
        probabilities = self.knowledge.probabilities(rng)

        def score(settings: Settings) -> FloatArray:
            return np.asarray(self.knowledge.reductions(settings, probabilities) / self.costs(settings))

        return self._best(score, sets)

    def _best(self, score: Callable[[Settings], FloatArray], sets: Sequence[int]) -> Peak:
        """Take one that fits the budget; at least the upper maximisers do, or their sets would not be among `sets`."""
        settings, scores = self.surroundings.best(score, self.candidates.among(sets), BETWEEN)
        for row in np.argsort(-scores, kind="stable"):
            i = int(settings.sets[row])
            setting = self.outlook.problem.space.setting(i, settings.points[row])
            if self.outlook.fits(i, setting):
                return Peak(i, setting, float(scores[row]))
        raise AssertionError("unreachable: the upper maximiser of an affordable control set fits")


def _staying(settings: Settings, stay: FloatArray, space: Space) -> Settings:
    """Return of the settings those that control what is dear to change, with that where it was left, (d,) or nan."""
    held = (space.masks[settings.sets] > 0) & ~np.isnan(stay)
    some = held.any(axis=1)
    return Settings(np.where(held, stay, settings.points)[some], settings.sets[some])


def _possible(limits: Limits, settings: Settings) -> Settings:
    """Return the settings where limits may be kept, and the best of what else there is of a control set: its peaks."""
    kept = limits.possible(settings.points, settings.sets)
    kept[: 2 * len(limits.problem.space.control_sets)] = True
    return settings.of(np.flatnonzero(kept))


def _then(e: Expectations, around: Neighbourhood, now: Settings) -> Settings:
    """Return alternatives after the readings to come: of every control set what promises most then."""
    count = len(around.space.control_sets)
    screened = join(now, around.everywhere(SCREENED))
    leaders = [_leaders(e, screened, range(first, first + count)) for first in range(count, len(e.mask), count)]
    near = [join(then, around.near(then, 4, REACH)) for then in leaders]
    return join(*(_leaders(e, then, range((k + 1) * count, (k + 2) * count)) for k, then in enumerate(near)))


def _leaders(e: Expectations, settings: Settings, rows: range) -> Settings:
    """Return of every control set the settings with the best mean, and with the best upper ends, at one reading.

    `e` is of all control sets at all readings; `rows` are its control sets at this one. The settings to choose from
    count control sets from 0, or as `rows` does.
    """
    sets = rows.start + settings.sets % len(rows)
    inner = e.inner(settings.points, sets)
    mean = e.mean(inner, sets)
    best: list[int] = []
    for row in rows:
        mine = np.flatnonzero(sets == row)
        judged = mine[np.argsort(-mean[mine], kind="stable")[:JUDGED]]
        sd = ValueSpread(e).sd(inner[judged], sets[judged])
        best += [int(judged[(mean[judged] + hope * sd).argmax()]) for hope in HOPES]
    return Settings(settings.points[best], sets[best])
