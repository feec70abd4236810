"""The priors that hyper-parameters are learned under, and their modes, for before anything is learned.

theta is the logarithm of (signal_sd, noise_sd, lengthscales), (d + 2,). The densities are of the parameters
themselves, not of their logarithms, so that modes are at finite values.

The log marginal likelihood of the surrogate's hyper-parameters, and its gradient, without any (n, n, d) array.

What scikit-learn's `log_marginal_likelihood` computes (Rasmussen and Williams 2006, eqs. 2.30 and 5.9). The kernel is
a product, so every slope is a sum over pairs i < j of W_ij = (alpha alpha' - K^-1)_ij signal^2 C_ij. What depends on a
lengthscale is computed for these n (n - 1) / 2 pairs only, from distances that are there once for all theta.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray, thinned
from rigctl.core.experiment.kernels import KernelName, ProductKernel
from rigctl.core.gp.hyperparameters import Hyperparameters


@dataclass(frozen=True, eq=False)
class LogLikelihood:
    """Judge theta = ln of (signal_sd, noise_sd, lengthscales), (d + 2,), given standardised data."""

    x: FloatArray
    """(n, d), unit cube."""
    y: FloatArray
    """(n,)."""
    kernel: KernelName
    noise: FloatArray | None = None
    """(n, 2), as in `History.noise`, standardised; None: all are as noisy as theta says."""
    levels: tuple[int, ...] = ()
    """(d,), as of `ProductKernel`."""

    def value_and_gradient(self, theta: FloatArray, *, alone: bool = False) -> tuple[float, FloatArray] | None:
        """Return the logarithm, and its gradient (d + 2,) (0 if `alone`); None where K is not positive definite."""
        from scipy.linalg.lapack import dpotrf, dpotri, dpotrs  # noqa: PLC0415 - heavy: not for `rigctl --help`

        parameters, n = np.exp(theta), len(self.y)
        signal, noise = parameters[0] ** 2, parameters[1] ** 2
        one, other, distances = self._pairs
        above = one * n + other
        covariances, slopes = ProductKernel(self.kernel, parameters[2:]).of_pairs(distances)
        covariances *= signal
        free, fixed = self._parts
        K = np.zeros((n, n))
        K.reshape(-1)[above] = covariances
        np.fill_diagonal(K, signal + (noise * free + fixed))
        # what is above the diagonal in C order is below it in Fortran order
        L, info = dpotrf(K.T, lower=1, clean=0, overwrite_a=1)
        if info:
            return None
        alpha = dpotrs(L, self.y, lower=1)[0]
        value = -0.5 * (self.y @ alpha) - np.log(L.diagonal()).sum() - 0.5 * n * np.log(2 * np.pi)
        if alone:
            return float(value), np.zeros_like(theta)
        inverse = dpotri(L, lower=1, overwrite_c=1)[0].T
        own = np.square(alpha) - inverse.diagonal()
        W = alpha[one]
        W *= alpha[other]
        W -= inverse.reshape(-1)[above]
        W *= covariances
        by_signal = 2.0 * W.sum() + signal * own.sum()
        by_noise = noise * (own * free).sum()
        return float(value), np.array([by_signal, by_noise, *(slopes @ W)])

    @cached_property
    def _pairs(self) -> tuple[IntArray, IntArray, FloatArray]:
        """Return the rows i < j of every pair, (p,) each, and |x_i - x_j|, (d, p); 1 between levels."""
        one, other = np.triu_indices(len(self.x), 1)
        columns = np.ascontiguousarray(self.x.T)
        distances = np.abs(columns[:, one] - columns[:, other])
        for column, count in enumerate(self.levels):
            if count:
                distances[column] = distances[column] * (count - 1) >= 0.5
        return one, other, distances

    @cached_property
    def _parts(self) -> tuple[FloatArray | float, FloatArray | float]:
        """Return what theta's noise variance counts for in each row, and what it has besides that is known."""
        if self.noise is None:
            return 1.0, 0.0
        known, factor = self.noise.T
        free = np.isnan(known)
        return np.where(free, np.square(factor), 0.0), np.where(free, 0.0, np.square(known))


PriorName = Literal["dimension-scaled", "gamma"]
SHAPE, RATE = 3.0, 6.0
"""Of a lengthscale's gamma density: mode 1/3, mean 1/2."""
SIGNAL_SHAPE, SIGNAL_RATE = 2.0, 0.15
"""Of the signal variance's gamma density: mode 6.7, mean 13."""
SMALL_NOISE, NOISE_SPREAD = 0.01, 1.5
"""Of the noise sd beside them: its median, and the sd of its logarithm, as wide as for the other prior."""


@dataclass(frozen=True)
class DimensionScaled:
    """Take log-normals throughout, the lengthscales scaled with the dimension.

    Lengthscales: mean of the logarithm sqrt(2) + ln(d)/2, variance 3 (Hvarfner, Hellsten, Nardi 2024, eq. 5):
    distances in the cube grow as sqrt(d), and lengthscales that grow with them keep the model equally complex. Signal
    sd: around 1, as y is standardised. Noise sd: around 0.05, wide: 0.002 and 1 are both two spreads away.
    """

    d: int

    @property
    def modes(self) -> FloatArray:
        """Return the modes, (d + 2,); of the signal and noise sds their medians, which are modes of the logarithm."""
        return np.array([1.0, 0.05, *[float(np.exp(self.location[2] - 3.0))] * self.d])

    @cached_property
    def location(self) -> FloatArray:
        """Return the means of theta, (d + 2,)."""
        return np.array([0.0, np.log(0.05), *[float(np.sqrt(2.0) + 0.5 * np.log(self.d))] * self.d])

    @cached_property
    def precision(self) -> FloatArray:
        """Return the inverse variances of theta, (d + 2,)."""
        return np.array([1.0 / 0.5**2, 1.0 / NOISE_SPREAD**2, *[1.0 / 3.0] * self.d])

    @cached_property
    def density_slope(self) -> FloatArray:
        """Return -1 where the prior is a density of the lengthscale itself, whose log-normal carries 1/l, (d + 2,)."""
        return np.array([0.0, 0.0, *[-1.0] * self.d])

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-density up to a constant, and its gradient (d + 2,)."""
        off = theta - self.location
        pull = self.precision * off
        return float(self.density_slope @ theta - 0.5 * (pull @ off)), self.density_slope - pull

    def of_logarithms(self, theta: FloatArray) -> float:
        """Return the log-density of theta itself, up to a constant."""
        return self.value_and_gradient(theta)[0] - float(self.density_slope @ theta)


@dataclass(frozen=True)
class Gamma:
    """Prefer short lengthscales whatever the dimension, by BoTorch's defaults until 2024, for its comparisons.

    Lengthscales: Gamma(3, 6). Signal variance: Gamma(2, 0.15). (Balandat et al., "BoTorch", NeurIPS 2020: the
    library's `SingleTaskGP`.) Noise sd: log-normal around 0.01, wide: 0.0005 and 0.2 are both two spreads away.
    """

    d: int

    @property
    def modes(self) -> FloatArray:
        """Return the modes, (d + 2,); of the noise sd its median, which is the mode of its logarithm."""
        signal_sd = np.sqrt((SIGNAL_SHAPE - 1.0) / SIGNAL_RATE)
        return np.array([signal_sd, SMALL_NOISE, *[(SHAPE - 1.0) / RATE] * self.d])

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the log-density up to a constant, and its gradient (d + 2,)."""
        variance, lengthscales = np.exp(2.0 * theta[0]), np.exp(theta[2:])
        off = (theta[1] - np.log(SMALL_NOISE)) / NOISE_SPREAD
        signal = (SIGNAL_SHAPE - 1.0) * 2.0 * theta[0] - SIGNAL_RATE * variance
        scales = (SHAPE - 1.0) * theta[2:] - RATE * lengthscales
        gradient = np.empty_like(theta)
        gradient[0] = 2.0 * (SIGNAL_SHAPE - 1.0 - SIGNAL_RATE * variance)
        gradient[1] = -off / NOISE_SPREAD
        gradient[2:] = SHAPE - 1.0 - RATE * lengthscales
        return float(signal + scales.sum() - 0.5 * off**2), gradient

    def of_logarithms(self, theta: FloatArray) -> float:
        """Return the log-density of theta itself, up to a constant."""
        return self.value_and_gradient(theta)[0] + float(2.0 * theta[0] + theta[2:].sum())


LogPrior = DimensionScaled | Gamma
"""Independent priors on signal sd, noise sd and lengthscales, (d + 2,), of standardised outcomes."""


def log_prior(name: PriorName, d: int) -> LogPrior:
    return Gamma(d) if name == "gamma" else DimensionScaled(d)


@dataclass(frozen=True, eq=False)
class LogPosterior:
    """Score theta, (d + 2,), by likelihood and prior."""

    likelihood: LogLikelihood
    prior: LogPrior

    @classmethod
    def of(
        cls, x: FloatArray, y: FloatArray, h: Hyperparameters, prior: PriorName, noise: FloatArray | None, *, most: int
    ) -> LogPosterior:
        """Judge outcomes (n,) at x (n, d), so many at most, evenly spread over time.

        They are in own units, standardised as `h` says, as is their noise, (n, 2) or None as in `History.noise`.
        """
        rows = thinned(len(y), most)
        own = None if noise is None else noise[rows] / (h.y_scale, 1.0)
        likelihood = LogLikelihood(x[rows], h.residual(y[rows]), h.kernel, own, h.levels)
        return cls(likelihood, log_prior(prior, x.shape[1]))

    def value_and_gradient(self, theta: FloatArray, *, alone: bool = False) -> tuple[float, FloatArray]:
        """Return the logarithm up to a constant, -inf where K does not factorise, and its gradient (if not `alone`)."""
        found = self.likelihood.value_and_gradient(theta, alone=alone)
        if found is None or not (np.isfinite(found[0]) and np.isfinite(found[1]).all()):
            return -np.inf, np.zeros_like(theta)
        value, slope = self.prior.value_and_gradient(theta)
        return found[0] + value, found[1] + slope
