"""E[sigma] and E[sigma^2]: the papers' pointwise spread, averaged over the uncontrolled variables.

E[sigma^2] has a closed form; E[sigma] has none and is averaged over quasi-Monte-Carlo nodes (algorithms, section 3).
With s0 = sqrt(E[sigma^2]) it holds exactly that

    E[sigma] = s0 - E[(sigma - s0)^2] / (2 s0)

so the nodes only have to average the small second term: with s0 in closed form 128 of them do what otherwise takes
thousands, and the estimate never exceeds s0, as by Jensen's inequality it must not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.expectations import FLOOR, Expectations
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.space import Space

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
