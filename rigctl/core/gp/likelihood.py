"""The log marginal likelihood of the surrogate's hyper-parameters, and its gradient, without any (n, n, d) array.

What scikit-learn's `log_marginal_likelihood` computes (Rasmussen and Williams 2006, eqs. 2.30 and 5.9); but as the
kernel is a product, every slope is a sum over one matrix W = (alpha alpha' - K^-1) o signal^2 C, and for the squared
exponential sum_ij W_ij (x_i - x_j)^2 is a few products of W with x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import KernelName, ProductKernel


@dataclass(frozen=True, slots=True, eq=False)
class LogLikelihood:
    """Judge theta = ln of (signal_sd, noise_sd, lengthscales), (d + 2,), given standardised data."""

    x: FloatArray
    """(n, d), unit cube."""
    y: FloatArray
    """(n,)."""
    kernel: KernelName
    noise: FloatArray | None = None
    """(n, 2), as in `History.noise`, standardised; None: all are as noisy as theta says."""

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray] | None:
        """Return the logarithm, and its gradient (d + 2,); None where the covariance is not positive definite."""
        from scipy.linalg.lapack import dpotrf, dpotri, dpotrs  # noqa: PLC0415 - heavy: not for `rigctl --help`

        parameters = np.exp(theta)
        signal, noise = parameters[0] ** 2, parameters[1] ** 2
        kernel = ProductKernel(self.kernel, parameters[2:])
        K = kernel.matrix(self.x, self.x)
        K *= signal
        free, fixed = self._parts()
        np.fill_diagonal(K, signal + (noise * free + fixed))
        L, info = dpotrf(K.T, lower=1, clean=0)
        if info:
            return None
        alpha = dpotrs(L, self.y, lower=1)[0]
        value = -0.5 * (self.y @ alpha) - np.log(L.diagonal()).sum() - 0.5 * len(self.y) * np.log(2 * np.pi)
        inverse = dpotri(L, lower=1)[0].T
        own = np.square(alpha) - inverse.diagonal()
        # the half above the diagonal: W is symmetric, and on the diagonal nothing depends on lengthscales
        W = np.multiply.outer(alpha, alpha)
        W -= inverse
        W *= K
        W = np.triu(W, 1)
        pairs = W.sum(axis=0) + W.sum(axis=1)
        by_signal = pairs.sum() + signal * own.sum()
        by_noise = noise * (own * free).sum()
        gradient = np.array([by_signal, by_noise, *self._by_lengthscales(kernel, W, pairs)])
        return float(value), gradient

    def _parts(self) -> tuple[FloatArray | float, FloatArray | float]:
        """Return what theta's noise variance counts for in each row, and what it has besides that is known."""
        if self.noise is None:
            return 1.0, 0.0
        known, factor = self.noise.T
        free = np.isnan(known)
        return np.where(free, np.square(factor), 0.0), np.where(free, 0.0, np.square(known))

    def _by_lengthscales(self, kernel: ProductKernel, W: FloatArray, pairs: FloatArray) -> FloatArray:
        """Sum W_ij d ln k_l(x_il - x_jl) / d ln l over pairs i < j, for every variable, (d,)."""
        if kernel.name == "squared-exponential":
            x = (self.x - 0.5) / kernel.lengthscales
            return np.asarray(pairs @ np.square(x) - 2.0 * np.einsum("ij,ij->j", x, W @ x))
        out = np.empty(self.x.shape[1])
        for variable in range(len(out)):
            delta = self.x[:, variable, None] - self.x[None, :, variable]
            # k depends on delta / l only, so d ln k / d ln l = -delta d ln k / d delta
            out[variable] = -np.vdot(W, delta * kernel.one(variable).log_slope(delta))
        return out
