"""Outcomes with their times, and what has become of the response since each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.terms import Term, covariance

MOST_ROWS = 500
"""More outcomes than this are thinned to judge terms: the last ones, and others evenly spread over the past."""
LAST_ROWS = 200


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeRecord:
    """Hold the outcomes with their times."""

    x: FloatArray
    """(n, d), unit cube."""
    y: FloatArray
    """(n,), own units, larger is better."""
    times: FloatArray
    """(n,), trial numbers, rising."""
    now: float
    """The last trial."""
    noise: FloatArray | None = None
    """(n, 2), as in `History.noise`."""

    def thinned(self) -> OutcomeRecord:
        """Return at most `MOST_ROWS` of them."""
        return self if len(self.y) <= MOST_ROWS else self.of(self.thinned_rows())

    def thinned_rows(self) -> IntArray:
        """Return which those are."""
        n = len(self.y)
        if n <= MOST_ROWS:
            return np.arange(n)
        early = np.linspace(0, n - LAST_ROWS - 1, MOST_ROWS - LAST_ROWS).round().astype(int)
        return np.concatenate([np.unique(early), np.arange(n - LAST_ROWS, n)])

    def of(self, rows: IntArray) -> OutcomeRecord:
        noise = None if self.noise is None else self.noise[rows]
        return OutcomeRecord(self.x[rows], self.y[rows], self.times[rows], self.now, noise)

    def residual(self, h: Hyperparameters) -> FloatArray:
        """Return the outcomes less the prior mean, (n,), standardised."""
        return np.asarray((self.y - h.y_shift) / h.y_scale - h.mean)

    def signal(self, h: Hyperparameters) -> FloatArray:
        """Return the prior covariance of the response, (n, n), standardised."""
        return np.asarray(h.signal_variance * h.product_kernel.matrix(self.x, self.x))

    def scatter(self, h: Hyperparameters, terms: Sequence[Term], signal: FloatArray) -> FloatArray:
        """Return the covariance of all that is not the response of now: noise and ageing, (n, n), standardised."""
        scale = h.y_scale**2
        aged = covariance(terms, self.times, self.times, self.now, scale * signal) / scale
        variances = h.noise_sd**2 if self.noise is None else h.noise_variances(self.noise)
        aged[np.diag_indices(len(aged))] += variances
        return np.asarray(aged)


def differences(
    record: OutcomeRecord, h: Hyperparameters, terms: Sequence[Term], times: FloatArray, only: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of D at these times, (m,) each, own units; of all terms or `only` one.

    Changes of shape are left out: they have no one size.
    """
    rows = record.thinned()
    signal = rows.signal(h)
    L = cholesky(signal + rows.scatter(h, terms, signal))
    level = [replace(t, reshaped=0.0) for t in (terms if only is None else terms[only : only + 1])]
    prior = sum((np.diag(t.covariance(times, times, record.now)) for t in level), np.zeros(len(times)))
    if L is None:
        return np.zeros(len(times)), np.asarray(prior)
    cross = covariance(level, times, rows.times, record.now)
    scaled = solve(L, cross / h.y_scale)
    mean = -scaled @ solve(L, rows.residual(h)[None, :])[0]  # outcomes are the response of now less D
    return np.asarray(mean), np.maximum(prior - np.square(scaled).sum(axis=1), 0.0)


def cholesky(K: FloatArray) -> FloatArray | None:
    """Return the lower factor of K (n, n); None where it is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        return None
