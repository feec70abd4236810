"""The Chebyshev scalarisation of several outcomes' upper bounds over control sets, and its maximiser.

Q(x) = min_k theta_k (mu_k + width s_k - R_k) (Abdolshah et al., eq. 7), times 1 - C where costs are preferred (eq. 9).
mu_k and s_k are mean and standard deviation of the setting's value F_i under the k-th outcome's model, exact
(algorithms, section 3), so a control set that leaves variables alone is judged by the same formula.

What Abdolshah et al., "Cost-aware Multi-objective Bayesian optimisation" (CA-MOBO, 2020), make of an order of costs.

A person says which variables are dear to use, dearest first. At trial t each gets an exponential density of rate
1/(w t + 1) with random w (Definition 1), and a setting costs C = prod_j (1 - rate_j exp(-rate_j x_j)) (eq. 8), between
0 and 1: little at small x_j, and less different between settings as t grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from rigctl.core.bounds.ascent import best_of_each, settled
from rigctl.core.bounds.expectations import Expectations, ValueSpread
from rigctl.core.bounds.search import Screening, Search
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.space import Space

Sorting = Literal["ours", "paper"]
"""Which variable gets the largest w. `paper`: the dearest, as printed. `ours`: the cheapest. The slope of ln C by x is
rate^2 exp(-rate x) / (1 - rate exp(-rate x)); it grows with the rate, so the dearest variable is only avoided most
if it has the largest rate, hence the smallest w."""


@dataclass(frozen=True, slots=True, eq=False)
class CostPreference:
    """Say how much of a setting's worth its cost leaves, in one trial. Settings are (b, d), unit cube."""

    columns: tuple[int, ...]
    """(k,), of the ordered variables, dearest first."""
    falling: tuple[bool, ...]
    """(k,): whether it is small values that are dear."""
    rates: FloatArray
    """(k,), in (0, 1]."""

    @classmethod
    def drawn(
        cls, columns: Sequence[int], falling: Sequence[bool], t: int, sorting: Sorting, rng: np.random.Generator
    ) -> CostPreference:
        """Draw the weights of trial t >= 1 from a flat Dirichlet distribution."""
        rising = np.sort(rng.dirichlet(np.ones(len(columns))))
        weights = rising if sorting == "ours" else rising[::-1]
        return cls(tuple(columns), tuple(falling), 1.0 / (weights * t + 1.0))

    def kept(self, points: FloatArray, controlled: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return 1 - C, (b,), in (0, 1], and its gradient, (b, d), 0 for what is not controlled.

        A variable that a control set leaves alone is not used at all, so it counts as one used at its cheapest value.
        (Without it the product would have fewer factors, so C would be larger: leaving a dear variable alone would
        cost more than using it.)

        Args:
            points: (b, d), unit cube; values of variables that are not controlled do not count.
            controlled: (b, d), 1 where the row's control set controls the variable.
        """
        at, used = points[:, self.columns], controlled[:, self.columns]
        amount = np.where(np.array(self.falling), 1.0 - at, at) * used
        density = self.rates * np.exp(-self.rates * amount)
        factors = 1.0 - density
        gradient = np.zeros_like(points)
        for j, column in enumerate(self.columns):
            others = np.delete(factors, j, axis=1).prod(axis=1)
            turned = -1.0 if self.falling[j] else 1.0
            gradient[:, column] = -turned * used[:, j] * self.rates[j] * density[:, j] * others
        return np.asarray(1.0 - factors.prod(axis=1)), gradient


SCREENING = Screening(cube=(64, 256, 512), around=(64, 64, 64), reaches=(0.5,))
CLIMBERS = 8
"""Starts refined per control set."""
SHARPNESS = (8.0, 64.0, 512.0)
"""Exponents p of the smooth stand-in (sum_k a_k^-p)^(-1/p) for min_k a_k, climbed one after the other. The minimum has
a ridge where two outcomes meet, and its maximum mostly lies on it: there a climb by gradients of the minimum itself
would stall. The stand-in is below the minimum by at most a factor K^(-1/p), so the last one loses at most 0.14 % for
two outcomes."""
TOLERANCE = 1e-5
"""A climb ends when it promises less than this share of the best score."""


@dataclass(frozen=True, slots=True)
class TradeOff:
    """Hold the best setting of one control set."""

    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube."""
    score: float
    """Q (1 - C), weighted outcomes in units of their ranges."""
    kept: float
    """1 - C."""
    means: tuple[float, ...]
    """(K,), expected values, own units."""
    sds: tuple[float, ...]
    """(K,), spread of those values, own units."""


@dataclass(frozen=True, slots=True, eq=False)
class Scalarised:
    """Score settings in one trial."""

    space: Space
    expectations: tuple[Expectations, ...]
    """K, of the outcomes' models."""
    weights: FloatArray
    """(K,), theta, positive."""
    reference: FloatArray
    """(K,), R, values in own units."""
    scale: FloatArray
    """(K,), own units: from R to the best value seen. Outcomes count in these units, whatever their own."""
    width: float
    """sqrt(beta_t)."""
    preference: CostPreference | None = None

    @property
    def mask(self) -> FloatArray:
        """Return 1 where the control set controls the variable, (m, d)."""
        return self.expectations[0].mask

    def score(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return the acquisition itself, (b,), for rows (b, d) of these control sets (b,)."""
        out = np.empty(len(points))
        for rows in blocks(len(points), len(self.expectations[0].posterior.x)):
            mean, sd = self.moments(points[rows], sets[rows])
            terms = self._terms(mean + self.width * sd)
            out[rows] = _times(terms.min(axis=1), self._kept(points[rows], sets[rows])[0])
        return out

    def moments(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return means mu and spreads s of the values, (b, K) each, own units."""
        means, sds = zip(*(model.values(points, sets) for model in self.expectations), strict=True)
        return np.stack(means, axis=1), np.stack(sds, axis=1)

    def smooth(self, points: FloatArray, sets: IntArray, sharpness: float) -> tuple[FloatArray, FloatArray]:
        """Return the smooth stand-in, (b,), and its gradient, (b, d)."""
        uppers, slopes = [], []
        for model in self.expectations:
            h, widths = model.posterior.hyperparameters, np.full(len(points), self.width)
            value, gradient = model.value_and_gradient(points, sets, widths, ValueSpread(model))
            uppers.append(h.y_shift + h.y_scale * value)
            slopes.append(h.y_scale * gradient)
        terms = self._terms(np.stack(uppers, axis=1))
        share = self.weights / self.scale
        lowest, parts = _soft_minimum(terms, sharpness)
        slope = np.einsum("bk,kbd->bd", parts * share, np.stack(slopes))
        kept, kept_slope = self._kept(points, sets)
        rising = np.where(lowest > 0, lowest, 0.0)[:, None]
        damped = np.where(lowest > 0, kept, 1.0)[:, None]
        return _times(lowest, kept), damped * slope + rising * kept_slope

    def at(self, control_set: int, setting: Sequence[float]) -> TradeOff:
        """Return what is believed of one setting (k,)."""
        return self.found(control_set, self.space.rows(control_set, np.array([setting]))[0])

    def found(self, control_set: int, point: FloatArray) -> TradeOff:
        """Return what is believed of one setting, given as a row (d,)."""
        rows, sets = point[None, :], np.array([control_set])
        mean, sd = self.moments(rows, sets)
        return TradeOff(
            control_set=control_set,
            setting=self.space.setting(control_set, point),
            score=float(self.score(rows, sets)[0]),
            kept=float(self._kept(rows, sets)[0][0]),
            means=tuple(float(v) for v in mean[0]),
            sds=tuple(float(v) for v in sd[0]),
        )

    def _terms(self, upper: FloatArray) -> FloatArray:
        return np.asarray(self.weights * (upper - self.reference) / self.scale)

    def _kept(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        if self.preference is None:
            return np.ones(len(points)), np.zeros_like(points)
        return self.preference.kept(points, self.mask[sets])


def best_trade_offs(acquisition: Scalarised, rng: np.random.Generator) -> tuple[TradeOff, ...]:
    """Return the best setting of every control set, in their order."""
    lengthscales = np.min([m.posterior.hyperparameters.lengthscales for m in acquisition.expectations], axis=0)
    e, space = acquisition.expectations[0], acquisition.space
    every = range(len(e.mask))
    search = Search(e, space, lengthscales, SCREENING, (CLIMBERS,), tolerance=0.0)
    screened = search.screen(acquisition.score, every, rng, acquisition.score)
    search = replace(search, tolerance=TOLERANCE * max(float(screened.values.max()), np.finfo(float).tiny))
    begin, sets = search.starts(screened)
    at = begin
    for sharpness in SHARPNESS:
        at = search.climb(partial(acquisition.smooth, sharpness=sharpness), at, sets).points
    if space.steps.any():  # by the acquisition itself, not by its stand-in
        at, _ = settled(lambda x, i: acquisition.score(x, sets[i]), at, e.mask[sets], sets, steps=space.steps)
    # a climb of the stand-in may end lower than it began
    points, sets = np.concatenate([begin, at]), np.concatenate([sets, sets])
    winners, _ = best_of_each(points, sets, acquisition.score(points, sets), len(every))
    return tuple(acquisition.found(i, winners[i]) for i in every)


def _soft_minimum(terms: FloatArray, sharpness: float) -> tuple[FloatArray, FloatArray]:
    """Return (sum_k a_k^-p)^(-1/p) of terms (b, K), (b,), and its gradient by the terms, (b, K).

    Where a term is not positive the minimum itself, which the stand-in meets at 0.
    """
    lowest = terms.min(axis=1)
    positive = lowest > 0
    parts = (terms == lowest[:, None]).astype(float)
    parts /= parts.sum(axis=1, keepdims=True)
    value = lowest.copy()
    # relative to the smallest term: powers of 512 would overflow
    relative = terms[positive] / lowest[positive, None]
    total = (relative**-sharpness).sum(axis=1)
    value[positive] = lowest[positive] * total ** (-1.0 / sharpness)
    parts[positive] = (relative ** (-sharpness - 1.0)) * (total ** (-1.0 / sharpness - 1.0))[:, None]
    return value, parts


def _times(q: FloatArray, kept: FloatArray) -> FloatArray:
    """Return Q (1 - C), but Q where it is not positive: a share of it would be the better the less is kept."""
    return np.asarray(np.where(q > 0, q * kept, q))
