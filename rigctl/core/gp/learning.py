"""Learning hyper-parameters: maximum a posteriori, from several starts.

What is maximised is the log marginal likelihood plus the log prior (`core.gp.priors`), by L-BFGS-B within a box. Both
are those of scikit-learn's Gaussian process with the same kernel, which the tests hold them against; it is not imported
here, as it takes 110 MB of a process's memory and 0.7 s of its time (decision 11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.gp.hyperparameters import FitFailed, Hyperparameters
from rigctl.core.gp.priors import LogLikelihood, LogPrior, PriorName, log_prior

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


@dataclass(frozen=True, slots=True, eq=False)
class LogPosterior:
    """Judge theta = ln of (signal_sd, noise_sd, lengthscales), (d + 2,), by the data and the prior."""

    likelihood: LogLikelihood
    prior: LogPrior

    def value_and_gradient(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Return the logarithm up to a constant, and its gradient (d + 2,).

        Minus infinity, without a slope, where the covariance does not factorise: a line search backs off from there.
        """
        found = self.likelihood.value_and_gradient(theta)
        if found is None or not (np.isfinite(found[0]) and np.isfinite(found[1]).all()):
            return -np.inf, np.zeros_like(theta)
        value, gradient = self.prior.value_and_gradient(theta)
        return found[0] + value, found[1] + gradient

    def maximum(self, starts: Sequence[FloatArray]) -> FloatArray:
        """Find the best converged optimum, (d + 2,), from starts (d + 2,); deterministic.

        All starts get a few iterations; then, the best first, those are continued that may still lead elsewhere.

        Raises:
            FitFailed: none converged.
        """
        first = min(FIRST_ITERATIONS, MOST_ITERATIONS)
        begun = [self._climbed(start, first) for start in starts]
        best: tuple[FloatArray, float] | None = None
        reasons = []
        for early in sorted(begun, key=lambda r: float(r.fun)):
            if best is not None and (early.fun > best[1] + HOPE or np.abs(early.x - best[0]).max() < SAME):
                continue
            left = 0 if early.success else MOST_ITERATIONS - first
            result = self._climbed(early.x, left) if left else early
            if not result.success or result.fun >= _FAILED:
                reasons.append(str(result.message))
            elif best is None or result.fun < best[1]:
                best = (np.asarray(result.x), float(result.fun))
        if best is None:
            raise FitFailed(f"no start converged ({'; '.join(sorted(set(reasons)))})")
        return best[0]

    def _climbed(self, start: FloatArray, iterations: int) -> OptimizeResult:
        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.value_and_gradient(theta)
            return min(-value, _FAILED), -gradient

        options = {"maxiter": iterations, "ftol": 1e-7, "gtol": 1e-3}
        return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=box(len(start) - 2), options=options)


def box(d: int) -> FloatArray:
    """Return the least and the largest theta that is learned, (d + 2, 2)."""
    return np.asarray(np.log([SIGNAL_BOX, NOISE_BOX, *[LENGTHSCALE_BOX] * d]))


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
    shrunk = replace(initial, lengthscales=tuple(0.3 * v for v in initial.lengthscales))
    limits = box(x.shape[1])
    starts = [np.clip(np.log(_values(h)), *limits.T) for h in (initial, shrunk, previous) if h is not None]
    own = None if noise is None else noise[rows] / (initial.y_scale, 1.0)
    standardised = (y[rows] - initial.y_shift) / initial.y_scale
    likelihood = LogLikelihood(x[rows], standardised, initial.kernel, own)
    theta = LogPosterior(likelihood, log_prior(prior, x.shape[1])).maximum(starts)
    signal, noise_sd, *lengthscales = np.exp(theta).tolist()
    return replace(initial, signal_sd=signal, noise_sd=noise_sd, lengthscales=tuple(lengthscales))


def _values(h: Hyperparameters) -> FloatArray:
    return np.array([h.signal_sd, max(h.noise_sd, NOISE_BOX[0]), *h.lengthscales])
