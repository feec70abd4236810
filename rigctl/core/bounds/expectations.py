"""Expectations of the posterior over the uncontrolled variables (algorithms, section 3).

F_i(x^i) = E[f([x^i, X^-i])] is a linear functional of a Gaussian process, so given the data it is exactly Gaussian;
kernel and marginals are products, so its moments are sums of products of one-dimensional integrals.

Inside, everything is standardised and several control sets are looked at in one batch: a row is a point of the unit
cube (d,), of which only the controlled columns count, and the number of its control set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

FLOOR = 1e-12
"""Share of the prior variance below which a variance is rounding error; slopes of its root are then cut off."""


class Spread(Protocol):
    """Widens a confidence bound around E[mu]. Standardised."""

    def sd(self, inner: FloatArray, sets: IntArray) -> FloatArray:
        """Return the spread, (b,), from the controlled part of the covariance, `Expectations.inner` (b, n)."""
        ...

    def sd_and_slope(self, inner: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return the spread, (b,), and its derivative by `inner`, (b, n)."""
        ...


class Bounded(Spread, Protocol):
    """Knows a limit of its spread at little cost."""

    def ceiling(self, inner: FloatArray, row: int) -> FloatArray:
        """Return a limit, (b,), never below `sd`, O(n) each, for settings of one control set.

        What any one trial alone leaves of the prior's spread, the most telling one: more trials leave less.
        """
        ...


def factors_outside(kernel: ProductKernel, space: Space, mask: FloatArray, x: FloatArray) -> FloatArray:
    """Return products over uncontrolled l of z_l(x_jl), (m, n), for sets given as `mask` (m, d) and x (n, d)."""
    outside = np.ones((len(mask), len(x)))
    for variable in np.flatnonzero((mask == 0).any(axis=0)):
        marginal = space.variables[variable].marginal
        outside[mask[:, variable] == 0] *= marginal.z(x[:, variable], kernel.one(int(variable)))
    return outside


@dataclass(frozen=True, slots=True, eq=False)
class Expectations:
    """Hold what does not depend on the setting, computed once per decision for m control sets. Standardised."""

    posterior: Posterior
    mask: FloatArray
    """(m, d), 1 where the control set controls the variable."""
    outside: FloatArray
    """(m, n), prod over uncontrolled l of z_l(x_jl)."""
    alpha: FloatArray
    """(m, n), outside * alpha: E[mu] is its scalar product with the controlled part of the covariance."""
    prior_variance: FloatArray
    """(m,), of F_i before any data: s2 prod over uncontrolled l of zz_l."""

    @classmethod
    def of(cls, posterior: Posterior, space: Space, control_sets: Sequence[int] | None = None) -> Expectations:
        """Compute it for these control sets of the space, by index; None: all."""
        chosen = range(len(space.control_sets)) if control_sets is None else control_sets
        mask = space.masks[list(chosen)]
        h = posterior.hyperparameters
        outside = factors_outside(h.product_kernel, space, mask, posterior.x)
        prior = np.full(len(chosen), h.signal_variance)
        for variable in np.flatnonzero((mask == 0).any(axis=0)):
            prior[mask[:, variable] == 0] *= space.variables[variable].marginal.zz(h.product_kernel.one(int(variable)))
        return cls(posterior, mask, outside, outside * posterior.alpha, prior)

    @classmethod
    def over(cls, posterior: Posterior, spaces: Sequence[Space]) -> Expectations:
        """Compute it for all control sets of every space, space by space; they differ in their marginals only."""
        each = [cls.of(posterior, space) for space in spaces]
        if len(each) == 1:
            return each[0]
        return cls(
            posterior,
            np.concatenate([e.mask for e in each]),
            np.concatenate([e.outside for e in each]),
            np.concatenate([e.alpha for e in each]),
            np.concatenate([e.prior_variance for e in each]),
        )

    def inner(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return s2 prod over controlled l of k_l(x_l, x_jl), (b, n), for rows (b, d) of these sets (b,)."""
        correlation = self.posterior.correlations.matrix(points, self.mask[sets])
        correlation *= self.posterior.hyperparameters.signal_variance
        return correlation

    def mean(self, inner: FloatArray, sets: IntArray) -> FloatArray:
        """Return E[mu], (b,)."""
        return np.asarray(self.posterior.hyperparameters.mean + np.vecdot(inner, self.alpha[sets]))

    def means(self, points: FloatArray, sets: IntArray) -> FloatArray:
        """Return E[mu], (b,), for rows (b, d) of these sets (b,)."""
        return self.mean(self.inner(points, sets), sets)

    def values(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return E[mu] and sd[F_i | D], (b,) each, in the outcome's own units, for rows (b, d) of these sets (b,)."""
        h, inner = self.posterior.hyperparameters, self.inner(points, sets)
        mean, sd = self.mean(inner, sets), ValueSpread(self).sd(inner, sets)
        return np.asarray(h.y_shift + h.y_scale * mean), np.asarray(h.y_scale * sd)

    def value_and_gradient(
        self, points: FloatArray, sets: IntArray, width: FloatArray, spread: Spread
    ) -> tuple[FloatArray, FloatArray]:
        """Return E[mu] + width * spread, (b,), and its gradient, (b, d), 0 for uncontrolled variables.

        Args:
            points: (b, d), unit cube.
            sets: (b,), row of `mask` each belongs to.
            width: (b,), beta, -beta or 0; where it is 0 the spread is not computed.
            spread: of which kind.
        """
        inner = self.inner(points, sets)
        slope = self.alpha[sets]
        value = self.posterior.hyperparameters.mean + np.vecdot(inner, slope)
        wide = np.flatnonzero(width)
        if wide.size == len(width):
            sd, sd_slope = spread.sd_and_slope(inner, sets)
            value += width * sd
            sd_slope *= width[:, None]
            slope += sd_slope
        elif wide.size:
            sd, sd_slope = spread.sd_and_slope(inner[wide], sets[wide])
            value[wide] += width[wide] * sd
            slope[wide] += width[wide, None] * sd_slope
        slope *= inner
        return value, self.posterior.correlations.contract_slopes(points, slope) * self.mask[sets]


def value_at(posterior: Posterior, space: Space, control_set: int, setting: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation of the value of one setting (k,), the outcome's own units."""
    point = space.rows(control_set, np.array([setting], dtype=float))
    mean, sd = Expectations.of(posterior, space, [control_set]).values(point, np.zeros(1, dtype=np.int64))
    return float(mean[0]), float(sd[0])


@dataclass(frozen=True, slots=True, eq=False)
class ValueSpread:
    """Give sd[F_i | D], exact: Var = s2 prod zz_l - w' (K + lam I)^-1 w, w = inner * outside."""

    expectations: Expectations

    def sd(self, inner: FloatArray, sets: IntArray) -> FloatArray:
        """Return the spread; what is subtracted is a sum of squares, so rounding cannot make it exceed the prior's."""
        e = self.expectations
        white = e.posterior.whiten(inner * e.outside[sets])
        return np.asarray(np.sqrt(np.maximum(e.prior_variance[sets] - np.vecdot(white, white), 0.0)))

    def sd_and_slope(self, inner: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        e = self.expectations
        outside, prior = e.outside[sets], e.prior_variance[sets]
        white = e.posterior.whiten(inner * outside)
        sd = np.sqrt(np.maximum(prior - np.vecdot(white, white), FLOOR * prior))
        slope = e.posterior.unwhiten(white)
        slope *= outside
        slope /= -sd[:, None]
        return sd, slope

    def ceiling(self, inner: FloatArray, row: int) -> FloatArray:
        e = self.expectations
        telling = (inner * e.outside[row]).max(axis=1, initial=0.0)
        return np.asarray(np.sqrt(np.maximum(e.prior_variance[row] - np.square(telling) / e.posterior.variance, 0.0)))
