"""What control is worth: the recommended way of running against others, and what each variable does.

All of it is read off one posterior, jointly, so that what two ways of running have in common cancels in their
difference. Gains are positive where the outcome is better, whichever direction that is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import inf
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from rigctl.core.bounds.expectations import Way, difference, errors, jointly, natural_nodes
from rigctl.core.bounds.limits import KeptLimit, Limits
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import MICROS_PER_UNIT
from rigctl.core.experiment.problem import Problem, sign
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

LEVEL = 0.95
"""Coverage of the intervals."""
FREEDOM = 4
"""Degrees of freedom of the Student t that intervals are told by: the response may be none of the model's."""
NODES = 256
"""Draws of what occurs by itself, by which it is judged how much of that was seen."""
SMALLEST = 1 / MICROS_PER_UNIT
"""A difference in mean cost that is less, currency units, is a rounding error of the mean."""
VALUES = 41
"""Values of a variable that is not controlled at which controlling it too is tried."""


@dataclass(frozen=True, slots=True)
class Gain:
    """How much better one way of running is expected to be than another, outcome units; negative: worse."""

    expected: float
    low: float
    """Lower end of the interval."""
    high: float


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """A setting that is the same on all days, and what is expected of it. Outcomes in their own units."""

    control_set: tuple[str, ...]
    setpoints: Mapping[str, Any]
    """Engineering units; of a category its level's number, in what `Experiment` recommends its word."""
    expected: float
    low: float
    """Lower end of the interval for the expected outcome."""
    high: float
    cost_per_trial: float | None
    """Mean metered cost, currency units, of this setting where costs depend on it; None: nobody knows."""
    _: KW_ONLY
    kept: tuple[KeptLimit, ...] = ()

    @property
    def within(self) -> bool:
        """Tell whether all limits are likely enough to be kept."""
        return all(k.enough for k in self.kept)


@dataclass(frozen=True, slots=True)
class Reference(FixedSetting):
    """A way of running that the recommended one is compared with."""

    what: Literal["nothing", "everything", "today"]
    """All left alone; all variables controlled; what is done today."""
    gain: Gain
    """Of the recommended way over this one."""
    cost_at_least: float | None
    """What a trial costs whatever is controlled, where the whole cost is not known."""
    trials: int
    """That controlled just these variables; 0: the numbers are the model's estimate only."""
    seen: float
    """Share of the model's doubt about single trials run like this that past trials have removed, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What controlling one variable does, beside the other variables of the recommendation."""

    variable: str
    controlled: bool
    at: float
    """Where it is controlled, or would best be; engineering units."""
    gain: Gain
    """Of controlling it over leaving it alone."""
    extra_cost: float | None
    """Currency units a trial: beside what else the recommendation controls, else on average of control sets that differ
    by it alone; None: no two such sets were metered."""

    @property
    def effect(self) -> Literal["better", "worse", "unclear"]:
        """Say whether the interval of the gain leaves zero out."""
        return "better" if self.gain.low > 0 else "worse" if self.gain.high < 0 else "unclear"


@dataclass(frozen=True, slots=True)
class Worth:
    """All of it, for one recommendation."""

    references: tuple[Reference, ...]
    """Nothing first; then everything, where that may be controlled together and is not recommended; then today."""
    lessons: tuple[Lesson, ...]
    """One per variable, in their order."""


@dataclass(frozen=True, eq=False)
class Appraisal:
    """Hold what is known when ways of running are compared."""

    problem: Problem
    """With concrete marginals."""
    history: History
    posteriors: Sequence[Posterior]
    """The one that advice is given by, and others that the data leave open."""
    settings: Sequence[tuple[float, ...]]
    """The best supported setting of every control set, (k,) each, unit cube."""
    charged: Sequence[float | None]
    """(m,), what a trial of each costs there, currency units."""
    chosen: int
    """The control set that is recommended."""
    today: Mapping[str, float] | None = None
    """Setpoints of today's practice, engineering units."""
    floor_cost: float | None = None
    """What a trial costs whatever is controlled, currency units."""
    limits: Limits | None = None

    @property
    def space(self) -> Space:
        return self.problem.space

    def way(self, control_set: int) -> Way:
        """Return a control set at its best supported setting."""
        return dict(zip(self.space.control_sets[control_set].indices, self.settings[control_set], strict=True))

    def kept(self, way: Way) -> tuple[KeptLimit, ...]:
        """Return how likely a way keeps the limits of further outcomes."""
        return () if self.limits is None else self.limits.told(way)

    def sds(self) -> FloatArray:
        """Return how far off what is expected of every control set may be, (m,), standard deviations, own units."""
        return np.sqrt(np.maximum(self._told[2].diagonal()[: len(self.settings)], 0.0))

    @cached_property
    def _told(self) -> tuple[list[Way], FloatArray, FloatArray]:
        """Return all ways that are compared, their means (k,), and covariances of their errors (k, k).

        Best settings come first. It is one call, as most of it is integrals that all ways share.
        """
        ways = [*map(self.way, range(len(self.settings))), {}, self._as_today, *self._otherwise]
        means, covariances = zip(*(jointly(posterior, self.space, ways) for posterior in self.posteriors), strict=True)
        return ways, means[0], errors(means, covariances)

    def _compared(self, *ways: Way) -> tuple[FloatArray, FloatArray]:
        """Return the means (k,) and covariances (k, k) of some of them."""
        every, mean, covariance = self._told
        rows = [every.index(way) for way in ways]
        return mean[rows], covariance[np.ix_(rows, rows)]

    @property
    def _as_today(self) -> Way:
        at = {self.space.names.index(name): value for name, value in (self.today or {}).items()}
        return {c: self.space.variables[c].share(value) for c, value in at.items()}

    def worth(self) -> Worth:
        return Worth(tuple(self._references()), tuple(self._lessons()))

    def _references(self) -> Sequence[Reference]:
        space, found = self.space, [self._reference("nothing", {})]
        whole = [i for i, s in enumerate(space.control_sets) if len(s.indices) == space.dimension]
        found += [self._reference("everything", self.way(i), i) for i in whole if i != self.chosen]
        if self.today:
            same = [i for i, s in enumerate(space.control_sets) if set(s.indices) == set(self._as_today)]
            found.append(self._reference("today", self._as_today, *same))
        return found

    def _reference(
        self, what: Literal["nothing", "everything", "today"], way: Way, index: int | None = None
    ) -> Reference:
        s, columns = sign(self.problem), sorted(way)
        mean, covariance = self._compared(way, self.way(self.chosen))
        cost = None if index is None else self.charged[index]
        variables = self.space.variables
        return Reference(
            tuple(variables[c].name for c in columns),
            {variables[c].name: variables[c].value(way[c]) for c in columns},
            *interval(s * float(mean[0]), float(np.sqrt(max(covariance[0, 0], 0.0)))),
            cost,
            what=what,
            gain=Gain(*interval(*difference(mean, covariance, 1, 0))),
            cost_at_least=self.floor_cost if cost is None else None,
            trials=0 if index is None else self.history.trials_of(index),
            seen=self._seen(way),
            kept=self.kept(way),
        )

    def _seen(self, way: Way) -> float:
        """Return 1 - E[sigma^2] / s^2 over what occurs by itself; always by the same draws."""
        nodes = natural_nodes(self.space, NODES, np.random.default_rng(0))
        nodes[:, list(way)] = list(way.values())
        posterior = self.posteriors[0]
        h = posterior.hyperparameters
        variance = float(np.mean(np.square(posterior.sd(nodes)))) / (h.y_scale * h.signal_sd) ** 2
        return min(max(1.0 - variance, 0.0), 1.0)

    @cached_property
    def _at(self) -> list[float]:
        """Return where every variable is controlled, or would best be, (d,), unit cube."""
        base = self.way(self.chosen)
        return [base[c] if c in base else self._best_beside(base, c) for c in range(self.space.dimension)]

    @property
    def _otherwise(self) -> list[Way]:
        """Return, by variable, the recommended way without it where it is controlled, else with it."""
        base = self.way(self.chosen)
        return [
            {k: v for k, v in base.items() if k != c} if c in base else {**base, c: x} for c, x in enumerate(self._at)
        ]

    def _lessons(self) -> Sequence[Lesson]:
        base, at = self.way(self.chosen), self._at
        mean, covariance = self._compared(base, *self._otherwise)
        found = []
        for c, variable in enumerate(self.space.variables):
            more, less = (0, c + 1) if c in base else (c + 1, 0)
            gain, own = Gain(*interval(*difference(mean, covariance, more, less))), variable.setpoint(at[c])
            found.append(Lesson(variable.name, c in base, own, gain, self._extra_cost(c)))
        return found

    def _best_beside(self, base: Way, column: int) -> float:
        """Return where a variable would best be controlled beside others, unit cube."""
        variable = self.space.variables[column]
        values = np.linspace(0.0, 1.0, variable.steps + 1 if variable.steps else VALUES)
        tried, _ = jointly(self.posteriors[0], self.space, [{**base, column: float(v)} for v in values])
        return float(values[int(tried.argmax())])

    def _extra_cost(self, column: int) -> float | None:
        """Return what controlling it costs beside the recommended set's others; else on average beside any others."""
        sets = {frozenset(s.indices): cost for s, cost in zip(self.space.control_sets, self.charged, strict=True)}
        told: dict[frozenset[int], float] = {}
        for members, more in sets.items():
            less = sets.get(members - {column})
            if column in members and more is not None and less is not None:
                told[members - {column}] = more - less
        beside = frozenset(self.way(self.chosen)) - {column}
        extra = told.get(beside, float(np.mean([*told.values()]))) if told else None
        return 0.0 if extra is not None and abs(extra) < SMALLEST else extra


def half_width(sd: float) -> float:
    """Return half the interval of a normal of this standard deviation."""
    return NormalDist().inv_cdf(0.5 + LEVEL / 2) * sd


def interval(mean: float, sd: float) -> tuple[float, float, float]:
    """Return what is expected of a way of running with the lower and the upper end of its interval."""
    half = widths(FREEDOM) * sd
    return mean, mean - half, mean + half


def widths(freedom: int) -> float:
    """Return half the interval of a Student t of so many degrees of freedom, spreads; infinite where there are none."""
    from scipy.special import stdtrit  # noqa: PLC0415 - heavy: not for commands that decide nothing

    return float(stdtrit(freedom, 0.5 + LEVEL / 2)) if freedom > 0 else inf
