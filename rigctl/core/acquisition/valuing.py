"""What the policies that weigh knowledge against money have in common, assembled once per decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.acquisition.candidates import Neighbourhood, by_members, join, peaks
from rigctl.core.acquisition.knowledge import Knowledge
from rigctl.core.acquisition.outlook import Outlook
from rigctl.core.acquisition.readings import after_readings_to_come
from rigctl.core.bounds.expectations import Expectations, ValueSpread
from rigctl.core.bounds.pointwise import natural_nodes
from rigctl.core.bounds.search import Peak
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.space import Settings

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


def never_tried(outlook: Outlook) -> frozenset[int]:
    """Return the control sets whose costs nobody knows: never charged, nor told."""
    problem, history = outlook.problem, outlook.history
    if problem.costs_told:
        return frozenset()
    return frozenset(i for i in range(len(problem.space.control_sets)) if not history.trials_of(i))


def guessed_costs(outlook: Outlook) -> Mapping[int, float]:
    """Return what control sets never tried are assumed to cost; at first all variables cost the same."""
    sets, unknown = outlook.problem.space.control_sets, never_tried(outlook)
    return {i: outlook.costs[i].assumed or 1.0 * len(sets[i].indices) for i in unknown}


@dataclass(frozen=True, slots=True, eq=False)
class Valuing:
    """Weigh alternatives that could be recommended and candidates that could be played."""

    outlook: Outlook
    knowledge: Knowledge
    candidates: Settings
    surroundings: Neighbourhood
    attained: float
    """The best mean among the settings played, standardised."""
    guessed: Mapping[int, float]
    """What a trial of the control sets that were never metered may cost, currency units."""

    @classmethod
    def of(cls, outlook: Outlook, rng: np.random.Generator, *, widely: int) -> Valuing:
        """Look around every control set's peaks, and at `widely` points everywhere."""
        problem, posterior = outlook.problem, outlook.fitted.posterior
        around = Neighbourhood(problem.space, np.array(posterior.hyperparameters.lengthscales), rng)
        to_come = after_readings_to_come(problem, READINGS, rng)
        expectations = Expectations.over(posterior, (problem.space, *to_come))
        # in an order of its own, so that the order in which control sets are listed changes nothing
        sets = problem.space.control_sets
        tops = peaks(sorted(outlook.bounds, key=lambda b: by_members(sets[b.control_set])), problem.space)
        alternatives = join(tops, around.near(tops, 4, REACH), around.everywhere(widely))
        if to_come:
            alternatives = join(alternatives, _then(expectations, around, alternatives))
        candidates = join(tops, around.near(tops, 4, REACH), around.everywhere(max(1, widely // 2)))
        nodes = natural_nodes(problem.space, NODES, rng)
        knowledge = Knowledge(expectations, (problem.space, *to_come), alternatives, nodes)
        return cls(outlook, knowledge, candidates, around, outlook.attained(), guessed_costs(outlook))

    def costs(self, settings: Settings) -> FloatArray:
        """Return the expected cost of a trial of each, (b,), currency units."""
        out = np.empty(len(settings))
        for i in np.unique(settings.sets):
            mine = settings.sets == i
            columns = list(self.outlook.problem.space.control_sets[int(i)].indices)
            out[mine] = self.guessed.get(int(i)) or self.outlook.field.mean(int(i), settings.points[mine][:, columns])
        return out

    def gain_per_cost(self, sets: Sequence[int], attain: float) -> Peak:
        """Return the play of these sets with the largest (gain + attain * rise of the best mean played) / cost."""

        def score(settings: Settings) -> FloatArray:
            means = self.knowledge.expectations.means(settings.points, settings.sets)
            rise = np.maximum(means - self.attained, 0.0)
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


def _then(e: Expectations, around: Neighbourhood, now: Settings) -> Settings:
    """Return alternatives after the readings to come: of every control set what promises most then.

    Args:
        e: of all control sets now, and after every reading (`Expectations.over`).
        around: draws settings.
        now: alternatives at today's reading.
    """
    count = len(around.space.control_sets)
    screened = join(now, around.everywhere(SCREENED))
    leaders = [_leaders(e, screened, range(first, first + count)) for first in range(count, len(e.mask), count)]
    near = [join(then, around.near(then, 4, REACH)) for then in leaders]
    return join(*(_leaders(e, then, range((k + 1) * count, (k + 2) * count)) for k, then in enumerate(near)))


def _leaders(e: Expectations, settings: Settings, rows: range) -> Settings:
    """Return of every control set the settings with the best mean, and with the best upper ends, at one reading.

    Args:
        e: of all control sets at all readings.
        settings: to choose from; their control sets are counted from 0, or at that reading.
        rows: of `e`, the control sets at that reading.
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
