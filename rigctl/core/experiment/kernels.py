"""Covariance as a product over variables of one-dimensional kernels (algorithms, section 2).

Everything that integrates over uncontrolled variables needs the kernel to factorise, so Matern-5/2 is here a product
of one-dimensional kernels too, not the usual function of the Euclidean distance.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks

BLOCK = 1 << 15
"""Largest array of distances, in numbers: several of 256 kB stay in the cache."""
HALF = float(np.sqrt(0.75))
REST = 1.0 - HALF * HALF
"""1/4, and to the bit what makes a point's correlation with itself 1."""
STEEPEST = 1e6
"""Lengthscales count as no shorter than about the inverse: the product of polynomials must not overflow."""
KernelName = Literal["squared-exponential", "matern-5/2"]


class Kernel1D(Protocol):
    """Correlates values of one variable: 1 at distance 0."""

    @property
    def lengthscale(self) -> float:
        """Return the lengthscale on the unit interval."""
        ...

    def value(self, delta: FloatArray) -> FloatArray:
        """Return k(delta), elementwise."""
        ...

    def narrowed(self, by: float) -> Kernel1D:
        """Return the kernel k(by * delta): of distances counted in units `by` times as long."""
        ...


@dataclass(frozen=True, slots=True)
class SquaredExponential:
    """Correlate by k(delta) = exp(-delta^2 / (2 l^2))."""

    lengthscale: float

    def value(self, delta: FloatArray) -> FloatArray:
        return np.asarray(np.exp(-0.5 * np.square(delta / self.lengthscale)))

    def narrowed(self, by: float) -> SquaredExponential:
        return SquaredExponential(self.lengthscale / by)


@dataclass(frozen=True, slots=True)
class Matern52:
    """Correlate by k(delta) = (1 + r + r^2/3) exp(-r), r = sqrt(5) |delta| / l."""

    lengthscale: float

    def value(self, delta: FloatArray) -> FloatArray:
        r = np.abs(delta) * (np.sqrt(5.0) / self.lengthscale)
        out = np.exp(-r)
        out *= 1.0 + r * (1.0 + r / 3.0)
        return np.asarray(out)

    def narrowed(self, by: float) -> Matern52:
        return Matern52(self.lengthscale / by)


@dataclass(frozen=True, slots=True)
class Categorical:
    """Correlate levels without an order: 1 where they are the same, k(1) of another kernel where they differ.

    Any two levels are as far apart as any others, so one lengthscale says how much the category matters: with few
    trials a level nothing is known of takes after all others alike, and a matrix of correlations between levels could
    not be learned. Values count as the nearest level, rounded within the kernel: the model is constant where the rig
    makes no difference (Garrido-Merchan and Hernandez-Lobato, "Dealing with categorical and integer-valued variables in
    Bayesian optimization with Gaussian processes", Neurocomputing 2020).
    """

    apart: Kernel1D
    half: float
    """Half the distance from one level to the next, unit cube."""

    @property
    def lengthscale(self) -> float:
        return self.apart.lengthscale

    def value(self, delta: FloatArray) -> FloatArray:
        return np.where(np.abs(delta) < self.half, 1.0, float(self.apart.value(np.ones(1))[0]))

    def narrowed(self, by: float) -> Categorical:
        return Categorical(self.apart, self.half / by)


@dataclass(frozen=True, slots=True, eq=False)
class ProductKernel:
    """Multiply k_l(x_l, x'_l) over some or all variables: correlations, so without the signal variance."""

    name: KernelName
    lengthscales: FloatArray
    """(d,), unit cube."""
    levels: tuple[int, ...] = ()
    """(d,), how many levels a category has; 0 for a number. Empty: all variables are numbers."""

    def one(self, variable: int) -> Kernel1D:
        family = Matern52 if self.name == "matern-5/2" else SquaredExponential
        kernel = family(float(self.lengthscales[variable]))
        count = self.levels[variable] if self.levels else 0
        return Categorical(kernel, 0.5 / (count - 1)) if count else kernel

    @property
    def categories(self) -> tuple[int, ...]:
        return tuple(i for i, count in enumerate(self.levels) if count)

    def matrix(self, a: FloatArray, c: FloatArray, mask: FloatArray | None = None) -> FloatArray:
        """Return correlations between rows, (b, n).

        Args:
            a: (b, d), unit cube.
            c: (n, d), unit cube.
            mask: (b, d) of 0 and 1: which factors count in each row of `a`; None: all.
        """
        return self.to(c).matrix(a, mask)

    def of_pairs(self, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return correlations (p,) at distances (d, p), and every factor's d ln k_l / d ln l, (d, p)."""
        slopes = np.empty_like(distances)
        exponent, product = np.zeros(distances.shape[1]), np.ones(distances.shape[1])
        matern = self.name == "matern-5/2"
        scales = np.minimum(np.sqrt(5.0 / 3.0) / self.lengthscales, STEEPEST) if matern else 1.0 / self.lengthscales
        buffers = np.empty((2, min(BLOCK, distances.shape[1])))
        for part in blocks(distances.shape[1], 1, BLOCK):
            t, below = buffers[:, : len(exponent[part])]
            for factor, scale in enumerate(scales):
                slope = slopes[factor, part]
                np.multiply(distances[factor, part], scale, out=t)
                np.multiply(t, t, out=slope)
                if matern:
                    exponent[part] += t
                    product[part] *= _polynomial(t, out=below)
                    t *= 2.0 * HALF
                    t += 1.0
                    slope *= t
                    slope /= below
                else:
                    exponent[part] += slope
        exponent *= -2.0 * HALF if matern else -0.5
        np.exp(exponent, out=exponent)
        product *= exponent
        return product, slopes

    def to(self, c: FloatArray) -> Correlations:
        """Prepare the rows of c (n, d), where many others are compared with the same ones."""
        return Correlations(self, c)


@dataclass(frozen=True, eq=False)
class Correlations:
    """Correlate with fixed points c."""

    kernel: ProductKernel
    c: FloatArray
    """(n, d), unit cube."""

    @cached_property
    def _expanded(self) -> FloatArray:
        """Return c / l, -c^2 / (2 l^2) and 1, (2 d + 1, n), centred on the cube; see `_squared_exponential`."""
        scaled = (self.c - 0.5).T / self.kernel.lengthscales[:, None]
        return np.concatenate([scaled, -0.5 * np.square(scaled), np.ones((1, len(self.c)))])

    @cached_property
    def _centred(self) -> FloatArray:
        """Return c - 1/2 and 1, (n, d + 1)."""
        return np.concatenate([self.c - 0.5, np.ones((len(self.c), 1))], axis=1)

    def matrix(self, a: FloatArray, mask: FloatArray | None = None) -> FloatArray:
        """Return correlations (b, n) with rows a (b, d), unit cube; mask (b, d) of 0 and 1 says which factors count."""
        numbers = self._numbers(a, mask)
        exponential = self.kernel.name == "squared-exponential"
        out = self._squared_exponential(a, numbers) if exponential else self._matern(a, numbers)
        for column in self.kernel.categories:
            factor = self.kernel.one(column).value(a[:, column, None] - self._columns[column])
            out *= factor if mask is None else np.where(mask[:, column, None] == 0, 1.0, factor)
        return out

    def _numbers(self, a: FloatArray, mask: FloatArray | None) -> FloatArray | None:
        """Return the mask without the categories."""
        if not self.kernel.categories:
            return mask
        mask = np.ones_like(a) if mask is None else np.array(mask, dtype=float)
        mask[:, list(self.kernel.categories)] = 0.0
        return mask

    def _matern(self, a: FloatArray, mask: FloatArray | None) -> FloatArray:
        """Take one exponential instead of d of them, in place: a factor is ((t + h)^2 + 1/4) exp(-2 h t), h^2 = 3/4."""
        out = np.empty((len(a), len(self.c)))
        for rows, distances in self._scaled(a, mask):
            total, product = np.zeros((len(rows), len(self.c))), np.ones((len(rows), len(self.c)))
            for _, t in distances:
                np.abs(t, out=t)
                total[: len(t)] += t
                _polynomial(t, out=t)
                product[: len(t)] *= t
            total *= -2.0 * HALF
            np.exp(total, out=total)
            product *= total
            out[rows] = product
        return out

    @cached_property
    def _scales(self) -> FloatArray:
        """Return what makes t of a distance, (d,)."""
        return np.asarray(np.minimum(np.sqrt(5.0 / 3.0) / self.kernel.lengthscales, STEEPEST))

    @cached_property
    def _columns(self) -> FloatArray:
        """Return c, (d, n)."""
        return np.ascontiguousarray(self.c.T)

    def _scaled(
        self, a: FloatArray, mask: FloatArray | None
    ) -> Iterator[tuple[IntArray, Iterator[tuple[IntArray, FloatArray]]]]:
        """Cut the rows into blocks for the cache; yield the rows of each, and a distance for each factor that counts.

        Rows are sorted by how many factors count in them, the most first, so that the j-th of them belong to the first
        rows of a block: their variables (k,), and the signed distances (k, n), in an array that is used again.
        """
        mask = np.ones_like(a) if mask is None else mask
        count = mask.sum(axis=1).astype(np.int64)
        order = np.argsort(-count, kind="stable")
        # a set's rows mostly come together; then there is one variable to subtract, not one for each row
        variables, alike = np.argsort(-mask[order], axis=1, kind="stable"), bool((mask == mask[:1]).all())
        buffer = np.empty((min(len(a), max(1, BLOCK // max(len(self.c), 1))), len(self.c)))

        def distances(block: slice) -> Iterator[tuple[IntArray, FloatArray]]:
            falling = -count[order[block]]
            for j in range(-falling[0]):
                k = int(np.searchsorted(falling, -j))
                theirs, t = variables[block][:k, j], buffer[:k]
                mine = a[order[block][:k], theirs][:, None]
                if alike:
                    np.subtract(mine, self._columns[theirs[0]], out=t)
                else:
                    np.subtract(mine, np.take(self._columns, theirs, axis=0, out=t, mode="clip"), out=t)
                # not before: what is close would lose its digits
                t *= self._scales[theirs[0]] if alike else self._scales[theirs][:, None]
                yield theirs, t

        for block in blocks(len(a), len(self.c), BLOCK):
            yield order[block], distances(block)

    def _squared_exponential(self, a: FloatArray, mask: FloatArray | None) -> FloatArray:
        """Take one matrix product and one exponential instead of d of them.

        |a - c|^2 is expanded; centring on the cube first keeps what cancels small (relative error ~ eps |a/l|^2),
        and the exponent is clipped at 0, as rounding could make a correlation exceed 1.
        """
        d = a.shape[1]
        rows = np.empty((len(a), 2 * d + 1))
        scaled = rows[:, :d]
        np.subtract(a, 0.5, out=scaled)
        scaled /= self.kernel.lengthscales
        if mask is None:
            rows[:, d:-1] = 1.0
        else:
            scaled *= mask
            rows[:, d:-1] = mask
        np.vecdot(scaled, scaled, out=rows[:, -1])
        rows[:, -1] *= -0.5
        exponent = rows @ self._expanded
        np.minimum(exponent, 0.0, out=exponent)
        return np.asarray(np.exp(exponent, out=exponent))

    def contract_slopes(self, a: FloatArray, g: FloatArray, mask: FloatArray | None = None) -> FloatArray:
        """Return sum_j g_bj d ln k_l(a_bl, c_jl) / d a_bl for every variable l, (b, d).

        With g = (dh/dW) * W this is the gradient of any h(W) by the settings, W the product of kernels.

        Args:
            a: (b, d), unit cube.
            g: (b, n).
            mask: (b, d) of 0 and 1: which factors count; the others' slopes are 0.
        """
        mask = self._numbers(a, mask)
        if self.kernel.name == "squared-exponential":
            sums = g @ self._centred
            slopes = (sums[:, :-1] - (a - 0.5) * sums[:, -1:]) / self.kernel.lengthscales**2
            return np.asarray(slopes if mask is None else slopes * mask)
        out = np.zeros_like(a)
        for rows, distances in self._scaled(a, mask):
            weights = g[rows]
            for variables, s in distances:
                t = np.abs(s)
                below = _polynomial(t)
                t *= 2.0 * HALF
                t += 1.0
                t *= s
                t /= below
                out[rows[: len(s)], variables] = -self._scales[variables] * np.vecdot(weights[: len(s)], t)
        return out


def _polynomial(t: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Return (t + h)^2 + 1/4, which is 1 + r + r^2 / 3 of the Matern kernel; t = r / sqrt(3)."""
    out = np.add(t, HALF, out=out)
    out *= out
    out += REST
    return out
