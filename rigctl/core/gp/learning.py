"""scikit-learn's Gaussian process, fitted maximum a posteriori: how decisions learn hyper-parameters.

`MapRegressor.fit` is scikit-learn's own: it maximises `log_marginal_likelihood` over `theta` within the kernel's
bounds, and what is learned is the kernel it fitted. What it maximises is the log posterior, computed without the
(n, n, d + 2) array of slopes that its own likelihood builds in every step (`core.gp.priors`).

This module imports scikit-learn at its head, which takes 90 to 110 MB of a process's memory (with what it imports) for
good, and a second of its time: import it only where a decision has a fit due. A process that decides with fixed
hyper-parameters never does, nor one that only advises (`core.gp.searching`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import KernelName, ProductKernel
from rigctl.core.gp.hyperparameters import FitFailed
from rigctl.core.gp.priors import LogLikelihood, LogPosterior, LogPrior
from rigctl.core.gp.searching import Objective, box, search


class ProductCovariance(Kernel):  # type: ignore[misc]  # scikit-learn carries no types
    """Give signal^2 prod_l k_l + noise^2 I; `theta` = ln of (signal_sd, noise_sd, lengthscales)."""

    def __init__(
        self, values: FloatArray, name: KernelName = "squared-exponential", levels: tuple[int, ...] = ()
    ) -> None:
        self.values = values
        self.name = name
        self.levels = levels

    @property
    def hyperparameter_values(self) -> Hyperparameter:
        """Return name and box of what is learned, (d + 2,)."""
        return Hyperparameter("values", "numeric", box(len(self.values) - 2), len(self.values))

    def __call__(self, X: FloatArray, Y: FloatArray | None = None, eval_gradient: bool = False) -> FloatArray:
        """Return the covariance (n, n) of X (n, d), noise included, or (n, m), without, with Y (m, d).

        Raises:
            NotImplementedError: its gradient was asked for; the regressor below does without.
        """
        if eval_gradient:
            raise NotImplementedError("the likelihood has its own slopes")
        signal, noise = self.values[:2]
        kernel = ProductKernel(self.name, np.asarray(self.values[2:]), self.levels)
        K: FloatArray = signal**2 * kernel.matrix(X, X if Y is None else Y)
        if Y is None:
            np.fill_diagonal(K, signal**2 + noise**2)
        return K

    def diag(self, X: FloatArray) -> FloatArray:
        """Return the prior variances (n,), noise included."""
        return np.full(len(X), self.values[0] ** 2 + self.values[1] ** 2)

    def is_stationary(self) -> bool:
        return True

    def _check_bounds_params(self) -> None:
        """Accept an optimum on the box: data without any noise have theirs there, and nobody need be warned."""


class MapRegressor(GaussianProcessRegressor):  # type: ignore[misc]  # scikit-learn carries no types
    """Fit scikit-learn's Gaussian process where the posterior of its hyper-parameters is largest.

    Args:
        kernel: where learning begins if there are no `starts`.
        prior: of the kernel's `theta`.
        starts: theta, (d + 2,) each, that are climbed from.
        noise: (n, 2), as in `History.noise`, standardised; None: all rows are as noisy as theta says.
    """

    def __init__(
        self,
        kernel: ProductCovariance,
        prior: LogPrior,
        starts: Sequence[FloatArray] = (),
        noise: FloatArray | None = None,
    ) -> None:
        super().__init__(kernel, alpha=0.0, optimizer=self._search, copy_X_train=False)
        self.prior = prior
        self.starts = starts
        self.noise = noise

    def log_marginal_likelihood(
        self,
        theta: FloatArray | None = None,
        eval_gradient: bool = False,
        clone_kernel: bool = True,  # noqa: ARG002  # scikit-learn's signature
    ) -> float | tuple[float, FloatArray]:
        """Return the log marginal likelihood of theta (d + 2,) plus its log prior, and the gradient if asked for.

        Minus infinity where the covariance does not factorise. Without theta it is what was reached by the fit. The
        kernel is never touched, so `clone_kernel` changes nothing.
        """
        if theta is None:
            return float(self.log_marginal_likelihood_value_)
        value, gradient = LogPosterior(self._likelihood(), self.prior).value_and_gradient(theta)
        return (value, gradient) if eval_gradient else value

    def _likelihood(self) -> LogLikelihood:
        """Return what the data say of any theta; made once for the same data, as distances take long."""
        known = getattr(self, "likelihood_", None)
        if known is None or known.x is not self.X_train_ or known.y is not self.y_train_:
            mine = self.kernel_
            known = LogLikelihood(self.X_train_, self.y_train_, mine.name, self.noise, mine.levels)
            self.likelihood_ = known
        return known

    def _search(self, objective: Objective, theta: FloatArray, bounds: FloatArray) -> tuple[FloatArray, float]:
        return search(objective, self.starts or [theta], bounds)


def fitted(posterior: LogPosterior, starts: Sequence[FloatArray]) -> FloatArray:
    """Return the kernel's values (d + 2,) as scikit-learn fits them.

    Raises:
        FitFailed: no start led to a finite optimum.
    """
    likelihood = posterior.likelihood
    kernel = ProductCovariance(np.exp(starts[0]), likelihood.kernel, likelihood.levels)
    model = MapRegressor(kernel, posterior.prior, starts, likelihood.noise)
    try:
        model.fit(likelihood.x, likelihood.y)
    except np.linalg.LinAlgError as failure:
        raise FitFailed("the covariance at the optimum is not positive definite") from failure
    values: FloatArray = model.kernel_.values
    return values
