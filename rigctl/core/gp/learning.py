"""Learning hyper-parameters: scikit-learn's Gaussian process, maximum a posteriori.

`MapRegressor.fit` is scikit-learn's own: it maximises `log_marginal_likelihood` over `theta` within the kernel's
bounds, and what is learned is the kernel it fitted. What it maximises is the log posterior, computed without the
(n, n, d + 2) array of slopes that its own likelihood builds in every step (`core.gp.priors`).

This module imports scikit-learn at its head, which takes 90 to 110 MB of a process's memory (with what it imports) for
good, and 0.7 s of its time: import it only where a fit is due. A process that decides with fixed hyper-parameters never
does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import KernelName, ProductKernel
from rigctl.core.gp.hyperparameters import FitFailed, Hyperparameters
from rigctl.core.gp.priors import LogLikelihood, LogPosterior, LogPrior, PriorName, log_prior

Objective = Callable[[FloatArray], tuple[float, FloatArray]]

MOST_ROWS = 300
"""More rows than this are thinned evenly in time for learning (never for predicting): a fit costs n^3 per step, and
hyper-parameters of this many rows are known well enough."""
MOST_ITERATIONS = 80
FIRST_ITERATIONS = 10
"""After so many, a start is continued only if it has come within `HOPE` (in ln posterior) of the best one."""
HOPE = 2.0
SAME = 0.5
"""Starts that have come this close (in every ln parameter) to an optimum are taken to be on their way to it."""
SIGNAL_BOX, NOISE_BOX, LENGTHSCALE_BOX = (1e-2, 1e2), (1e-4, 1e1), (1e-3, 1e3)
_FAILED = 1e25
"""Stands in for an infinite objective where the covariance does not factorise: the line search backs off from it."""


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
        box = np.array([SIGNAL_BOX, NOISE_BOX, *[LENGTHSCALE_BOX] * (len(self.values) - 2)])
        return Hyperparameter("values", "numeric", box, len(self.values))

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
        """Find the best converged optimum; deterministic.

        All starts get a few iterations; then, the best first, those are continued that may still lead elsewhere.

        Raises:
            FitFailed: none converged.
        """
        first = min(FIRST_ITERATIONS, MOST_ITERATIONS)
        begun = [_minimised(objective, start, bounds, first) for start in self.starts or [theta]]
        best: tuple[FloatArray, float] | None = None
        reasons = []
        for early in sorted(begun, key=lambda r: float(r.fun)):
            if best is not None and (early.fun > best[1] + HOPE or np.abs(early.x - best[0]).max() < SAME):
                continue
            left = 0 if early.success else MOST_ITERATIONS - first
            result = _minimised(objective, early.x, bounds, left) if left else early
            if not result.success or result.fun >= _FAILED:
                reasons.append(str(result.message))
            elif best is None or result.fun < best[1]:
                best = (np.asarray(result.x), float(result.fun))
        if best is None:
            raise FitFailed(f"no start converged ({'; '.join(sorted(set(reasons)))})")
        return best


def learn(
    x: FloatArray,
    y: FloatArray,
    initial: Hyperparameters,
    previous: Hyperparameters | None,
    prior: PriorName = "dimension-scaled",
    *,
    noise: FloatArray | None = None,
) -> Hyperparameters:
    """Return the maximum a posteriori hyper-parameters of the standardised data.

    Args:
        x: (n, d), unit cube.
        y: (n,), own units; standardised as `initial` says.
        initial: a starting point.
        previous: another, from the last fit.
        prior: which they are learned under.
        noise: (n, 2), as in `History.noise`; None: all outcomes are alike.

    Raises:
        FitFailed: no start led to a finite optimum.
    """
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).round().astype(int))
    kernel = ProductCovariance(_values(initial), initial.kernel, initial.levels)
    shrunk = replace(initial, lengthscales=tuple(0.3 * v for v in initial.lengthscales))
    starts = [np.clip(np.log(_values(h)), *kernel.bounds.T) for h in (initial, shrunk, previous) if h is not None]
    own = None if noise is None else noise[rows] / (initial.y_scale, 1.0)
    model = MapRegressor(kernel, log_prior(prior, x.shape[1]), starts, own)
    try:
        model.fit(x[rows], (y[rows] - initial.y_shift) / initial.y_scale)
    except np.linalg.LinAlgError as failure:
        raise FitFailed("the covariance at the optimum is not positive definite") from failure
    signal, noise_sd, *lengthscales = (float(v) for v in model.kernel_.values)
    return replace(initial, signal_sd=signal, noise_sd=noise_sd, lengthscales=tuple(lengthscales))


def _values(h: Hyperparameters) -> FloatArray:
    return np.array([h.signal_sd, max(h.noise_sd, NOISE_BOX[0]), *h.lengthscales])


def _minimised(objective: Objective, start: FloatArray, bounds: FloatArray, iterations: int) -> OptimizeResult:
    def finite(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(theta)
        return min(value, _FAILED), gradient

    options = {"maxiter": iterations, "ftol": 1e-7, "gtol": 1e-3}
    return minimize(finite, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
