"""The true value of rules: what to control, and where, for every reading; and the best rule there is.

    V(g) = E_r E[ f([x, X^-i]) | r ],   (i, x) = g(r)

The best rule is found reading by reading, on a grid of settings, with expectations in closed form (`terms`). Values
are then averages of f itself over the same readings and nodes for every rule, so differences of rules are far more
exact.

How variables that are left alone go on from what they read before a trial: each persists for a part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul

import numpy as np

from rigctl.bench.problems.functions import Objective
from rigctl.bench.problems.terms import Factor, Partial
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.marginals.conditional import conditional
from rigctl.core.experiment.marginals.families import Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.space import Settings


@dataclass(frozen=True, slots=True)
class Nature:
    """Read every variable before a trial; in the trial it is a Gaussian copy of what it was then, cut to its range."""

    rho: float
    """Correlation of before and during, of the marginal's parent. 0: independent, 1: the same value."""
    error_sd: float = 0.0
    """Of the readings, unit cube."""

    def look(self, before: FloatArray, deviates: FloatArray) -> Look:
        """Return the readings of values (d,), unit cube, given standard normal deviates (d,)."""
        readings = before + self.error_sd * deviates
        return Look(tuple(readings.tolist()), (self.error_sd,) * len(before))

    def during(self, marginals: Sequence[Marginal], before: FloatArray, quantiles: FloatArray) -> FloatArray:
        """Return the values in the trial, (d,), given those before it (d,), at these quantiles (d,)."""
        if self.rho == 1.0:
            return np.array(before)
        each = zip(self.given(marginals, before), quantiles, strict=True)
        return np.array([marginal.quantile(q) for marginal, q in each])

    def given(self, marginals: Sequence[Marginal], before: FloatArray) -> tuple[Marginal, ...]:
        """Return the marginals of the trial, given the values before it (d,)."""
        return tuple(conditional(m, self.rho, 0.0, float(b)) for m, b in zip(marginals, before, strict=True))


READINGS = 128
NODES = 8
"""Values of the variables in the trial per reading; where they persist wholly, one."""
AXIS = {1: 401, 2: 41, 3: 41}
"""Points per axis of the grid of settings, by the number of controlled variables that matter..."""
MANY_TERMS = 8192
"""... and half as many for a function of more terms, which is smooth."""


@dataclass(frozen=True, slots=True, eq=False)
class RuleTruth:
    """Hold readings that stand for all, and what is best at each."""

    objective: Objective
    masks: FloatArray
    """(m, d), 1 where the control set controls the variable."""
    before: FloatArray
    """(N, d), unit cube: values before the trials."""
    readings: FloatArray
    """(N, d): the same with the readings' errors."""
    nodes: FloatArray
    """(N, q, d): values in the trials, if all are left alone."""
    most: FloatArray
    """(N, m), the best value of every control set given what was before; without the readings' errors."""
    settings: FloatArray
    """(N, m, d), where that is."""

    @classmethod
    def of(
        cls,
        objective: Objective,
        marginals: Sequence[Marginal],
        control_sets: Sequence[Sequence[int]],
        truth: ProblemTruth,
        nature: Nature,
        *,
        count: int = READINGS,
    ) -> RuleTruth:
        """Find it, for `count` readings; `truth` has what needs no reading."""
        from scipy.special import ndtri  # noqa: PLC0415 - heavy, as all of scipy

        d, q = len(marginals), 1 if nature.rho == 1.0 else NODES
        uniform = sobol(2 * d, count)
        before = np.stack([m.quantile(u) for m, u in zip(marginals, uniform.T[:d], strict=True)], axis=1)
        readings = before + nature.error_sd * ndtri(np.clip(uniform[:, d:], 1e-6, 1 - 1e-6))
        moved = (sobol(d, count * q, np.random.default_rng(1)) if q > 1 else uniform[:, :d]).reshape(count, q, d)
        nodes = np.array([[nature.during(marginals, b, u) for u in us] for b, us in zip(before, moved, strict=True)])
        masks = np.zeros((len(control_sets), d))
        for row, members in enumerate(control_sets):
            masks[row, list(members)] = 1.0
        most, settings = np.empty((count, len(masks))), np.full((count, len(masks), d), 0.5)
        effective = [[v for v in members if v < objective.dimension] for members in control_sets]
        terms = objective.terms()
        on_axes = tuple(replace(kind, factor=_kept(kind.factor)) for kind in terms)
        for n, b in enumerate(before):
            expected = _expected(objective, marginals, nature, b)
            for i, members in enumerate(effective):
                if len(members) == objective.dimension or nature.rho == 0.0:
                    most[n, i], at = truth.best[i].value, truth.best[i].setting
                    settings[n, i, list(control_sets[i])] = at
                    continue
                free = [v for v in range(objective.dimension) if v not in members]
                weights = tuple(
                    reduce(mul, (each[v] for v in free), kind.weights)
                    for each, kind in zip(expected, terms, strict=True)
                )
                partial = Partial(on_axes, tuple(members), weights, objective.constant)
                most[n, i], settings[n, i, members] = _highest(partial)
        return cls(objective, masks, before, readings, nodes, most, settings)

    @property
    def best(self) -> Settings:
        """Return what the best rule does at each of the readings."""
        sets = self.most.argmax(axis=1)
        return Settings(self.settings[np.arange(len(sets)), sets], sets)

    def always(self, control_set: int, setting: Sequence[float]) -> Settings:
        """Return what does not heed the readings, as a rule; the setting is (k,), unit cube."""
        points = np.full(self.before.shape, 0.5)
        points[:, self.masks[control_set] == 1] = setting
        return Settings(points, np.full(len(points), control_set))

    def value(self, ways: Settings) -> float:
        """Return V of a rule that does this at each of the readings, outcome units."""
        controlled = self.masks[ways.sets][:, None, :] == 1
        x = np.where(controlled, ways.points[:, None, :], self.nodes)
        d = self.objective.dimension
        return float(self.objective(x.reshape(-1, x.shape[-1])[:, :d]).mean())


def _kept(factor: Factor) -> Factor:
    """Return the same factors, those on an axis computed once for all readings."""
    known: dict[tuple[int, int], FloatArray] = {}

    def kept(variable: int, axis: FloatArray) -> FloatArray:
        key = variable, len(axis)
        if key not in known:
            known[key] = factor(variable, axis)
        return known[key]

    return kept


def _expected(
    objective: Objective, marginals: Sequence[Marginal], nature: Nature, before: FloatArray
) -> list[list[FloatArray]]:
    """Return E[phi_jl(X_l)] given the values before, by kind of terms and variable, (J,) each."""
    terms, d = objective.terms(), objective.dimension
    if nature.rho == 1.0:
        return [[kind.factor(v, before[v : v + 1])[0] for v in range(d)] for kind in terms]
    given = nature.given(marginals, before)
    closed = [m for m in given if isinstance(m, Uniform | TruncatedNormal)]
    if len(closed) < len(given):
        raise TypeError("rules: got a marginal without a closed form, need truncated normals")
    return [[kind.expected(v, closed[v]) for v in range(d)] for kind in terms]


def _highest(partial: Partial) -> tuple[float, FloatArray]:
    """Return the highest value on a grid, and its place (k,), by parabolas through it and its neighbours."""
    k, many = len(partial.variables), sum(map(len, partial.weights)) > MANY_TERMS
    axis = np.linspace(0.0, 1.0, AXIS.get(k, 2) // (1 + many) + many)
    values = partial.on_grid([axis] * k)
    at = np.unravel_index(int(values.argmax()), values.shape)
    top, place = float(values[at]), np.array([axis[i] for i in at])
    highest = top
    for direction, i in enumerate(at):
        if 0 < i < len(axis) - 1:
            below, above = (float(values[(*at[:direction], j, *at[direction + 1 :])]) for j in (i - 1, i + 1))
            slope, bend = (above - below) / 2, 2 * top - above - below
            if bend > 0:
                place[direction] += (axis[1] - axis[0]) * slope / bend
                highest += slope**2 / (2 * bend)
    return highest, place
