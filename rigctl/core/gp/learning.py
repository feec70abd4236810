"""Learning hyper-parameters: scikit-learn's Gaussian process, maximum a posteriori.

It imports scikit-learn at its head, so import this module only where a fit is due.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

from rigctl.core.arrays import FloatArray
from rigctl.core.gp.hyperparameters import FitFailed, Hyperparameters
from rigctl.core.gp.likelihood import LogLikelihood
from rigctl.core.gp.priors import LogPrior, PriorName, log_prior
from rigctl.core.kernels import KernelName, ProductKernel

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
LENGTHSCALE_BOX = (1e-3, 1e3)
SIGNAL_BOX = (1e-2, 1e2)
NOISE_BOX = (1e-4, 1e1)
_FAILED = 1e25
"""Stands in for an infinite objective where the covariance does not factorise: the line search backs off from it."""


class ProductCovariance(Kernel):  # type: ignore[misc]  # scikit-learn carries no types
    """signal^2 prod_l k_l + noise^2 I in scikit-learn's form; `theta` = ln of (signal_sd, noise_sd, lengthscales)."""

    def __init__(self, values: FloatArray, name: KernelName = "squared-exponential") -> None:
        self.values = values
        self.name = name

    @property
    def hyperparameter_values(self) -> Hyperparameter:
        """Unbounded for scikit-learn, which would warn near a bound; `_best` has the box."""
        return Hyperparameter("values", "numeric", np.array([[np.finfo(float).tiny, np.inf]]), len(self.values))

    def __call__(
        self, X: FloatArray, Y: FloatArray | None = None, eval_gradient: bool = False
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Covariance (n, n) of X (n, d), or (n, m) with Y (m, d); with its gradient by theta (n, n, d + 2)."""
        signal, noise, lengthscales = self.values[0], self.values[1], np.asarray(self.values[2:])
        kernel = ProductKernel(self.name, lengthscales)
        K: FloatArray = signal**2 * kernel.matrix(X, X if Y is None else Y)
        if Y is not None:
            return K
        np.fill_diagonal(K, signal**2)
        full: FloatArray = K + noise**2 * np.eye(len(K))
        return (full, self._gradient(X, K, kernel)) if eval_gradient else full

    def _gradient(self, X: FloatArray, K: FloatArray, kernel: ProductKernel) -> FloatArray:
        gradient = np.empty((*K.shape, len(self.values)))
        gradient[..., 0] = 2 * K
        gradient[..., 1] = 2 * self.values[1] ** 2 * np.eye(len(K))
        for variable in range(X.shape[1]):
            delta = X[:, variable, None] - X[None, :, variable]
            # k depends on delta / l only, so d ln k / d ln l = -delta d ln k / d delta
            gradient[..., 2 + variable] = -K * delta * kernel.one(variable).log_slope(delta)
        return gradient

    def diag(self, X: FloatArray) -> FloatArray:
        """(n,), prior variance, noise included."""
        return np.full(len(X), self.values[0] ** 2 + self.values[1] ** 2)

    def is_stationary(self) -> bool:
        """It depends on differences only."""
        return True


def learn(
    x: FloatArray,
    y: FloatArray,
    initial: Hyperparameters,
    previous: Hyperparameters | None,
    prior_name: PriorName = "dimension-scaled",
) -> Hyperparameters:
    """Maximum a posteriori hyper-parameters of the standardised data.

    scikit-learn's optimiser hook does the search, with an objective of our own: the regressor's own log marginal
    likelihood is the same function, but builds an (n, n, d + 2) array in every step.

    Args:
        x: (n, d), unit cube.
        y: (n,), own units; standardised as `initial` says.
        initial: a starting point.
        previous: another, from the last fit.
        prior_name: of the prior they are learned under.

    Raises:
        FitFailed: no start led to a finite optimum.
    """
    rows = np.unique(np.linspace(0, len(y) - 1, min(len(y), MOST_ROWS)).round().astype(int))
    standardised = (y[rows] - initial.y_shift) / initial.y_scale
    starts = [_theta(initial), _theta(initial, shrink=0.3)] + ([_theta(previous)] if previous else [])
    likelihood, prior = LogLikelihood(x[rows], standardised, initial.kernel), log_prior(prior_name, x.shape[1])

    def optimizer(
        _objective: Callable[..., tuple[float, FloatArray]],  # scikit-learn's own
        _theta: FloatArray,
        bounds: FloatArray,  # noqa: ARG001 - `_box`
    ) -> tuple[FloatArray, float]:
        return _best(lambda theta: _penalised(likelihood, prior, theta), starts)

    kernel = ProductCovariance(np.exp(starts[0]), initial.kernel)
    model = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=optimizer, copy_X_train=False)
    try:
        model.fit(x[rows], standardised)
    except np.linalg.LinAlgError as failure:
        raise FitFailed("the covariance at the optimum is not positive definite") from failure
    signal, noise, *lengthscales = (float(v) for v in model.kernel_.values)
    return replace(initial, signal_sd=signal, noise_sd=noise, lengthscales=tuple(lengthscales))


def _theta(h: Hyperparameters, shrink: float = 1.0) -> FloatArray:
    """Logarithms of the parameters, inside the box."""
    values = np.array([h.signal_sd, max(h.noise_sd, NOISE_BOX[0]), *h.lengthscales])
    values[2:] *= shrink
    box = np.array(_box(len(h.lengthscales)))
    return np.asarray(np.clip(np.log(values), box[:, 0], box[:, 1]))


def _box(d: int) -> list[tuple[float, float]]:
    """Bounds of theta."""
    boxes = [SIGNAL_BOX, NOISE_BOX, *[LENGTHSCALE_BOX] * d]
    return [(float(np.log(low)), float(np.log(high))) for low, high in boxes]


def _penalised(likelihood: LogLikelihood, prior: LogPrior, theta: FloatArray) -> tuple[float, FloatArray]:
    """Negative log posterior and gradient, always finite."""
    found = likelihood.value_and_gradient(theta)
    if found is None or not (np.isfinite(found[0]) and np.isfinite(found[1]).all()):
        return _FAILED, np.zeros_like(theta)
    log_prior, prior_gradient = prior.value_and_gradient(theta)
    return -found[0] - log_prior, -found[1] - prior_gradient


def _best(objective: Objective, starts: list[FloatArray]) -> tuple[FloatArray, float]:
    """The best converged optimum; deterministic.

    All starts get a few iterations; then, the best first, those are continued that may still lead elsewhere.

    Raises:
        FitFailed: none converged.
    """
    first = min(FIRST_ITERATIONS, MOST_ITERATIONS)
    begun = [_minimised(objective, start, first) for start in starts]
    best: tuple[FloatArray, float] | None = None
    reasons = []
    for early in sorted(begun, key=lambda r: float(r.fun)):
        if best is not None and (early.fun > best[1] + HOPE or np.abs(early.x - best[0]).max() < SAME):
            continue
        left = 0 if early.success else MOST_ITERATIONS - first
        result = _minimised(objective, early.x, left) if left else early
        if not result.success or result.fun >= _FAILED:
            reasons.append(str(result.message))
        elif best is None or result.fun < best[1]:
            best = (np.asarray(result.x), float(result.fun))
    if best is None:
        raise FitFailed(f"no start converged ({'; '.join(sorted(set(reasons)))})")
    return best


def _minimised(objective: Objective, start: FloatArray, iterations: int) -> OptimizeResult:
    return minimize(
        objective,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=_box(len(start) - 2),
        options={"maxiter": iterations, "ftol": 1e-7, "gtol": 1e-3},
    )
