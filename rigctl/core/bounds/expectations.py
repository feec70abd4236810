"""Expectations of the posterior over the uncontrolled variables (algorithms, section 3).

F_i(x^i) = E[f([x^i, X^-i])] is a linear functional of a Gaussian process, so given the data it is exactly Gaussian;
kernel and marginals are products, so its moments are sums of products of one-dimensional integrals.

Inside, everything is standardised and several control sets are looked at in one batch: a row is a point of the unit
cube (d,), of which only the controlled columns count, and the number of its control set.

E[sigma] and E[sigma^2]: the papers' pointwise spread, averaged over the uncontrolled variables.

E[sigma^2] has a closed form; E[sigma] has none and is averaged over quasi-Monte-Carlo nodes (algorithms, section 3).
With s0 = sqrt(E[sigma^2]) it holds exactly that

    E[sigma] = s0 - E[(sigma - s0)^2] / (2 s0)

so the nodes only have to average the small second term: with s0 in closed form 128 of them do what otherwise takes
thousands, and the estimate never exceeds s0, as by Jensen's inequality it must not.

The joint posterior of what is expected of several ways of running, whichever variables they hold.

F_S(x^S) = E[f([x^S, X^-S])] is a linear functional of the process for every set S of variables, also for none and for
sets that may not be controlled together. Kernel and marginals are products, so the covariances of such functionals are
products of one-dimensional integrals: k(a, b) where both hold a variable, z(a) where one does, zz where neither does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.experiment.space import Space
from rigctl.core.gp.surrogate import Posterior

MOST_VALUES = 1 << 18
"""Largest intermediate array, in numbers: 2 MB."""


def natural_nodes(space: Space, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw quasi-Monte-Carlo nodes of all variables left alone, (count, d), unit cube."""
    uniform = sobol(space.dimension, count, rng)
    columns = [v.marginal.quantile(uniform[:, i]) for i, v in enumerate(space.variables)]
    return np.stack(columns, axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class MeanSquareSpread:
    """Give sqrt(E[sigma^2 | D]), in closed form: s2 - inner' [(K + lam I)^-1 o prod Z_l] inner, the root of it."""

    expectations: Expectations
    curvature: tuple[FloatArray, ...]
    """Per control set (n, n): (K + lam I)^-1 times prod over uncontrolled l of Z_l(x_jl, x_kl), elementwise."""

    @classmethod
    def of(cls, expectations: Expectations, space: Space) -> MeanSquareSpread:
        """Multiply the products of the control sets of `expectations`; every Z_l is computed once."""
        posterior = expectations.posterior
        curvature = [posterior.K_inv.copy() for _ in expectations.mask]
        for variable in np.flatnonzero((expectations.mask == 0).any(axis=0)):
            x = posterior.x[:, variable]
            kernel = posterior.hyperparameters.product_kernel.one(int(variable))
            pairs = space.variables[variable].marginal.Z(x, x, kernel)
            for row in np.flatnonzero(expectations.mask[:, variable] == 0):
                curvature[row] *= pairs
        return cls(expectations, tuple(curvature))

    def sd(self, inner: FloatArray, sets: IntArray) -> FloatArray:
        return self._sd_and_product(inner, sets)[0]

    def sd_and_slope(self, inner: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        sd, product = self._sd_and_product(inner, sets)
        product /= -sd[:, None]
        return sd, product

    def ceiling(self, inner: FloatArray, row: int) -> FloatArray:
        posterior = self.expectations.posterior
        # the curvature's diagonal is that of (K + lam I)^-1 times Z_l(x_jl, x_jl)
        outside = np.sqrt(self.curvature[row].diagonal() / posterior.K_inv.diagonal())
        telling = (inner * outside).max(axis=1, initial=0.0)
        left = posterior.hyperparameters.signal_variance - np.square(telling) / posterior.variance
        return np.asarray(np.sqrt(np.maximum(left, 0.0)))

    def _sd_and_product(self, inner: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        prior = self.expectations.posterior.hyperparameters.signal_variance
        product = np.empty_like(inner)
        for row in np.unique(sets):
            mine = sets == row
            product[mine] = inner[mine] @ self.curvature[row]
        variance = prior - np.vecdot(inner, product)
        return np.sqrt(np.clip(variance, FLOOR * prior, prior)), product


@dataclass(frozen=True, slots=True, eq=False)
class PointwiseSpread:
    """Give E[sigma | D] by quasi-Monte-Carlo around its closed-form upper limit sqrt(E[sigma^2])."""

    mean_square: MeanSquareSpread
    factors: Mapping[int, FloatArray]
    """By control set (q, n), prod over uncontrolled l of k_l(node_ql, x_jl): computed once per decision.

    One row of ones where everything is controlled: there is nothing to average over.
    """

    @classmethod
    def of(cls, mean_square: MeanSquareSpread, nodes: FloatArray, rows: Sequence[int] | None = None) -> PointwiseSpread:
        """Take these nodes (q, d) of the uncontrolled variables, unit cube, for all control sets.

        Args:
            mean_square: of all control sets.
            nodes: see `natural_nodes`.
            rows: the control sets it will be asked about; None: all.
        """
        e = mean_square.expectations
        kernel = e.posterior.hyperparameters.product_kernel
        factors = {}
        for row in range(len(e.mask)) if rows is None else rows:
            free = 1.0 - e.mask[row]
            mine = nodes if free.any() else nodes[:1]
            factors[row] = kernel.matrix(mine, e.posterior.x, np.broadcast_to(free, mine.shape))
        return cls(mean_square, factors)

    def ceiling(self, inner: FloatArray, row: int) -> FloatArray:
        return self.mean_square.ceiling(inner, row)

    def sd(self, inner: FloatArray, sets: IntArray) -> FloatArray:
        s0 = self.mean_square.sd(inner, sets)
        out = np.empty(len(inner))
        for mine, row in self._blocks(sets):
            sigma, _ = self._at_nodes(inner[mine], row)
            out[mine] = self._combine(sigma, s0[mine])[0]
        return out

    def sd_and_slope(self, inner: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        s0, slope = self.mean_square.sd_and_slope(inner, sets)
        out = np.empty(len(inner))
        for mine, row in self._blocks(sets):
            sigma, white = self._at_nodes(inner[mine], row)
            out[mine], by_s0, by_sigma = self._combine(sigma, s0[mine])
            v = self.mean_square.expectations.posterior.unwhiten(white).reshape(*sigma.shape, -1)
            v *= self.factors[row]
            # d sigma_q / d inner = -(factor_q o v_q) / sigma_q
            slope[mine] = by_s0[:, None] * slope[mine] - ((by_sigma / sigma)[:, None, :] @ v)[:, 0, :]
        return out, slope

    def _blocks(self, sets: IntArray) -> list[tuple[IntArray, int]]:
        """Cut the rows into pieces of one control set each, few enough for their nodes to fit in memory."""
        found = []
        for row in np.unique(sets):
            mine, width = np.flatnonzero(sets == row), self.factors[int(row)].size
            found += [(mine[some], int(row)) for some in blocks(len(mine), width, MOST_VALUES)]
        return found

    def _at_nodes(self, inner: FloatArray, row: int) -> tuple[FloatArray, FloatArray]:
        """Return sigma at every node, (b, q), and the whitened covariances behind it, (b * q, n)."""
        posterior = self.mean_square.expectations.posterior
        prior = posterior.hyperparameters.signal_variance
        factors = self.factors[row]
        rows = (inner[:, None, :] * factors).reshape(len(inner) * len(factors), -1)
        white = posterior.whiten(rows)
        variance = prior - np.vecdot(white, white)
        return np.sqrt(np.maximum(variance, FLOOR * prior)).reshape(len(inner), len(factors)), white

    @staticmethod
    def _combine(sigma: FloatArray, s0: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return E[sigma], (b,), its derivative by s0, (b,), and by the nodes' sigma, (b, q).

        Where noise is so small that (K + lam I)^-1 o Z has lost its digits, s0 contradicts the nodes; they are then
        averaged plainly.
        """
        q = sigma.shape[1]
        mean, square = sigma.mean(axis=1), np.square(sigma).mean(axis=1)
        trusted = (s0**2 > 0.5 * square) & (s0**2 < 2.0 * square)
        by_s0 = np.where(trusted, 0.5 + square / (2 * s0**2), 0.0)
        by_sigma = (1.0 - np.where(trusted, 1.0 / s0, 0.0)[:, None] * sigma) / q
        value = np.where(trusted, 0.5 * s0 + mean - square / (2 * s0), mean)
        return value, by_s0, by_sigma


Way = Mapping[int, float]
"""A way of running: the value of each variable that is held, by column, unit cube; the others are left alone."""


def jointly(posterior: Posterior, space: Space, ways: Sequence[Way]) -> tuple[FloatArray, FloatArray]:
    """Return means (k,) and covariances (k, k) of the expected values of these ways, in the outcome's own units."""
    h, x = posterior.hyperparameters, posterior.x
    w = np.full((len(ways), len(x)), h.signal_variance)
    prior = np.full((len(ways), len(ways)), h.signal_variance)
    for column, variable in enumerate(space.variables):
        kernel, marginal = h.product_kernel.one(column), variable.marginal
        held = np.array([way.get(column, np.nan) for way in ways], dtype=float)
        rows = np.flatnonzero(np.isfinite(held))
        alone = np.setdiff1d(np.arange(len(ways)), rows)
        w[rows] *= kernel.value(held[rows, None] - x[None, :, column])
        w[alone] *= marginal.z(x[:, column], kernel)
        factor = np.full(prior.shape, marginal.zz(kernel) if alone.size else 1.0)
        factor[np.ix_(rows, rows)] = kernel.value(held[rows, None] - held[None, rows])
        if alone.size and rows.size:
            one_sided = np.broadcast_to(marginal.z(held[rows], kernel), (len(alone), len(rows)))
            factor[np.ix_(alone, rows)] = one_sided
            factor[np.ix_(rows, alone)] = one_sided.T
        prior *= factor
    white = posterior.whiten(w)
    mean = h.y_shift + h.y_scale * (h.mean + w @ posterior.alpha)
    return np.asarray(mean), np.asarray(h.y_scale**2 * (prior - white @ white.T))


def errors(means: Sequence[FloatArray], covariances: Sequence[FloatArray]) -> FloatArray:
    """Return the mean products of the errors, (k, k), of the first means (k,), if each posterior is as likely.

    Args:
        means: by each posterior.
        covariances: by each posterior, (k, k).
    """
    apart = np.stack(means) - means[0]
    return np.asarray(np.mean(covariances, axis=0) + apart.T @ apart / len(apart))


def difference(mean: FloatArray, covariance: FloatArray, one: int, other: int) -> tuple[float, float]:
    """Return mean and sd of way `one` less way `other`."""
    variance = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
    return float(mean[one] - mean[other]), float(np.sqrt(max(variance, 0.0)))


FLOOR = 1e-12
"""Share of the prior variance below which a variance is rounding error; slopes of its root are then cut off."""


def factors_outside(kernel: ProductKernel, space: Space, mask: FloatArray, x: FloatArray) -> FloatArray:
    """Return products over uncontrolled l of z_l(x_jl), (m, n), for sets given as `mask` (m, d) and x (n, d)."""
    outside = np.ones((len(mask), len(x)))
    for variable in np.flatnonzero((mask == 0).any(axis=0)):
        marginal = space.variables[variable].marginal
        outside[mask[:, variable] == 0] *= marginal.z(x[:, variable], kernel.one(int(variable)))
    return outside


def _parts(posterior: Posterior, space: Space) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return all of `Expectations` but the posterior, which keeps it."""
    mask, h = space.masks, posterior.hyperparameters
    outside = factors_outside(h.product_kernel, space, mask, posterior.x)
    prior = np.full(len(mask), h.signal_variance)
    for variable in np.flatnonzero((mask == 0).any(axis=0)):
        prior[mask[:, variable] == 0] *= space.variables[variable].marginal.zz(h.product_kernel.one(int(variable)))
    return mask, outside, outside * posterior.alpha, prior


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
        """Compute it for these control sets of the space, by index; None: all.

        The posterior keeps what it is for the space: all that one decision asks for is worked out once.
        """
        known, parts = posterior.kept.get("expectations") or (None, ())
        if known is not space:
            parts = _parts(posterior, space)
            posterior.kept.keep("expectations", (space, parts))
        return cls(posterior, *(parts if control_sets is None else (part[list(control_sets)] for part in parts)))

    @classmethod
    def over(cls, posterior: Posterior, spaces: Sequence[Space]) -> Expectations:
        """Compute it for all control sets of every space, space by space; they differ in their marginals only."""
        first = cls.of(posterior, spaces[0])
        if len(spaces) == 1:
            return first
        own = first.mask, first.outside, first.alpha, first.prior_variance
        each = zip(own, *(_parts(posterior, space) for space in spaces[1:]), strict=True)
        return cls(posterior, *map(np.concatenate, each))

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
        out = np.empty(len(points))
        for some in blocks(len(points), len(self.posterior.x)):
            out[some] = self.mean(self.inner(points[some], sets[some]), sets[some])
        return out

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
        return value, self.posterior.correlations.contract_slopes(points, slope, self.mask[sets])


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


Spread = ValueSpread | MeanSquareSpread | PointwiseSpread
"""Widens a confidence bound around E[mu]: by `sd`, (b,), from `Expectations.inner` (b, n), with its slope by that.

Never above its `ceiling`, O(n) each, of settings of one control set: what the most telling trial alone leaves of the
prior's spread. More trials leave less.
"""
