"""The covariance, and with its slopes, as scikit-learn's own process wants them: a witness of ours."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.gp.learning import box


class ProductCovariance(Kernel):
    """signal^2 prod_l k_l + noise^2 I; `theta` = ln of (signal_sd, noise_sd, lengthscales)."""

    def __init__(self, values, name="squared-exponential"):
        self.values = values
        self.name = name

    @property
    def hyperparameter_values(self):
        """Name and box of what is learned, (d + 2,)."""
        return Hyperparameter("values", "numeric", np.exp(box(len(self.values) - 2)), len(self.values))

    def __call__(self, X, Y=None, eval_gradient=False):
        """The covariance (n, n) of X (n, d), noise included, or (n, m), without, with Y (m, d)."""
        if eval_gradient:
            raise NotImplementedError("the likelihood has its own slopes")
        signal, noise = self.values[:2]
        K = signal**2 * ProductKernel(self.name, np.asarray(self.values[2:])).matrix(X, X if Y is None else Y)
        if Y is None:
            np.fill_diagonal(K, signal**2 + noise**2)
        return K

    def diag(self, X):
        """The prior variances (n,), noise included."""
        return np.full(len(X), self.values[0] ** 2 + self.values[1] ** 2)

    def is_stationary(self):
        """It depends on differences only."""
        return True


class SlopedCovariance(ProductCovariance):
    """`ProductCovariance` with the (n, n, d + 2) array of its slopes by theta."""

    def __call__(self, X, Y=None, eval_gradient=False):
        """Covariance, and its gradient by theta if asked for."""
        K = super().__call__(X, Y)
        if not eval_gradient:
            return K
        signal, noise, *lengthscales = self.values
        kernel = ProductKernel(self.name, np.array(lengthscales))
        C = signal**2 * kernel.matrix(X, X)
        np.fill_diagonal(C, signal**2)
        gradient = np.empty((*K.shape, len(self.values)))
        gradient[..., 0] = 2 * C
        gradient[..., 1] = 2 * noise**2 * np.eye(len(K))
        for variable in range(X.shape[1]):
            delta = X[:, variable, None] - X[None, :, variable]
            # k depends on delta / l only, so d ln k / d ln l = -delta d ln k / d delta
            gradient[..., 2 + variable] = -C * delta * kernel.one(variable).log_slope(delta)
        return K, gradient
