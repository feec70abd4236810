"""Climbing the log posterior of the surrogate's hyper-parameters, for whoever learns them.

Decisions have scikit-learn fit its Gaussian process by this search (`core.gp.learning`). Advice climbs the same
posterior by the same search, to the same last bit, and does without loading scikit-learn, which takes longer than the
fit and 100 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.gp.hyperparameters import FitFailed, Hyperparameters
from rigctl.core.gp.priors import LogPosterior

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


def starting_points(initial: Hyperparameters, previous: Hyperparameters | None) -> list[FloatArray]:
    """Return theta, (d + 2,) each, that are climbed from: a first guess, a rougher one, and the last fit's, if any."""
    rougher = replace(initial, lengthscales=tuple(0.3 * v for v in initial.lengthscales))
    limits = np.log(box(len(initial.lengthscales))).T
    return [np.clip(h.theta, *limits) for h in (initial, rougher, previous) if h is not None]


def climbed(posterior: LogPosterior, starts: Sequence[FloatArray]) -> FloatArray:
    """Return the most likely kernel's values (d + 2,): signal sd, noise sd, lengthscales.

    Raises:
        FitFailed: no start led to a finite optimum.
    """

    def objective(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = posterior.value_and_gradient(theta)
        return -value, -gradient

    return np.asarray(np.exp(search(objective, starts, np.log(box(len(starts[0]) - 2)))[0]))


def box(d: int) -> FloatArray:
    """Return the limits of what is learned, (d + 2, 2)."""
    return np.array([SIGNAL_BOX, NOISE_BOX, *[LENGTHSCALE_BOX] * d])


def search(objective: Objective, starts: Sequence[FloatArray], bounds: FloatArray) -> tuple[FloatArray, float]:
    """Find the best converged optimum; deterministic.

    All starts get a few iterations; then, the best first, those are continued that may still lead elsewhere.

    Raises:
        FitFailed: none converged.
    """
    first = min(FIRST_ITERATIONS, MOST_ITERATIONS)
    begun = [_minimised(objective, start, bounds, first) for start in starts]
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


def _minimised(objective: Objective, start: FloatArray, bounds: FloatArray, iterations: int) -> OptimizeResult:
    def finite(theta: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(theta)
        return min(value, _FAILED), gradient

    options = {"maxiter": iterations, "ftol": 1e-7, "gtol": 1e-3}
    return minimize(finite, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
