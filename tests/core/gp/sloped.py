"""The covariance with its slopes, as scikit-learn's own likelihood wants them."""

import numpy as np

from rigctl.core.experiment.kernels import ProductKernel, SquaredExponential
from rigctl.core.gp.learning import ProductCovariance


def log_slope(kernel, delta):
    """The slope of ln k by delta, elementwise."""
    if isinstance(kernel, SquaredExponential):
        return -delta / kernel.lengthscale**2
    scaled = delta * (np.sqrt(5.0) / kernel.lengthscale)
    r = np.abs(scaled)
    return -(np.sqrt(5.0) / kernel.lengthscale) * scaled * (1.0 + r) / (3.0 + r * (3.0 + r))


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
            gradient[..., 2 + variable] = -C * delta * log_slope(kernel.one(variable), delta)
        return K, gradient
