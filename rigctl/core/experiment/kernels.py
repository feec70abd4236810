"""Covariance as a product over variables of one-dimensional kernels (algorithms, section 2).

Everything that integrates over uncontrolled variables needs the kernel to factorise, so Matern-5/2 is here a product
of one-dimensional kernels too, not the usual function of the Euclidean distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray

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

    def log_slope(self, delta: FloatArray) -> FloatArray:
        """Return the slope of ln k by delta, elementwise."""
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

    def log_slope(self, delta: FloatArray) -> FloatArray:
        return np.asarray(-delta / self.lengthscale**2)

    def narrowed(self, by: float) -> SquaredExponential:
        return SquaredExponential(self.lengthscale / by)


@dataclass(frozen=True, slots=True)
class Matern52:
    """Correlate by k(delta) = (1 + r + r^2/3) exp(-r), r = sqrt(5) |delta| / l."""

    lengthscale: float

    def value(self, delta: FloatArray) -> FloatArray:
        r = np.abs(delta) * (np.sqrt(5.0) / self.lengthscale)
        return np.asarray((1.0 + r * (1.0 + r / 3.0)) * np.exp(-r))

    def log_slope(self, delta: FloatArray) -> FloatArray:
        """Return the slope of ln k by delta, elementwise: smooth through 0, as k is twice differentiable there."""
        scaled = delta * (np.sqrt(5.0) / self.lengthscale)
        r = np.abs(scaled)
        return np.asarray(-(np.sqrt(5.0) / self.lengthscale) * scaled * (1.0 + r) / (3.0 + r * (3.0 + r)))

    def narrowed(self, by: float) -> Matern52:
        return Matern52(self.lengthscale / by)


def kernel_1d(name: KernelName, lengthscale: float) -> Kernel1D:
    """Return the one-dimensional kernel of that name.

    Raises:
        ValueError: the name is unknown.
    """
    if name == "squared-exponential":
        return SquaredExponential(lengthscale)
    if name == "matern-5/2":
        return Matern52(lengthscale)
    raise ValueError(f"kernel: got {name!r}, allowed: 'squared-exponential', 'matern-5/2'")


@dataclass(frozen=True, slots=True, eq=False)
class ProductKernel:
    """Multiply k_l(x_l, x'_l) over some or all variables: correlations, so without the signal variance."""

    name: KernelName
    lengthscales: FloatArray
    """(d,), unit cube."""

    def one(self, variable: int) -> Kernel1D:
        return kernel_1d(self.name, float(self.lengthscales[variable]))

    def matrix(self, a: FloatArray, c: FloatArray, mask: FloatArray | None = None) -> FloatArray:
        """Return correlations between rows, (b, n).

        Args:
            a: (b, d), unit cube.
            c: (n, d), unit cube.
            mask: (b, d) of 0 and 1: which factors count in each row of `a`; None: all.
        """
        return self.to(c).matrix(a, mask)

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
        if self.kernel.name == "squared-exponential":
            return self._squared_exponential(a, mask)
        out = np.ones((len(a), len(self.c)))
        for variable in range(len(self.kernel.lengthscales)):
            rows = slice(None) if mask is None else np.flatnonzero(mask[:, variable])
            delta = a[rows, variable, None] - self.c[None, :, variable]
            out[rows] *= self.kernel.one(variable).value(delta)
        return out

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

    def contract_slopes(self, a: FloatArray, g: FloatArray) -> FloatArray:
        """Return sum_j g_bj d ln k_l(a_bl, c_jl) / d a_bl for every variable l, (b, d).

        With g = (dh/dW) * W this is the gradient of any h(W) by the settings, W the product of kernels.

        Args:
            a: (b, d), unit cube.
            g: (b, n).
        """
        if self.kernel.name == "squared-exponential":
            sums = g @ self._centred
            return np.asarray((sums[:, :-1] - (a - 0.5) * sums[:, -1:]) / self.kernel.lengthscales**2)
        out = np.empty_like(a)
        for variable in range(len(self.kernel.lengthscales)):
            slope = self.kernel.one(variable).log_slope(a[:, variable, None] - self.c[None, :, variable])
            out[:, variable] = np.vecdot(g, slope)
        return out
