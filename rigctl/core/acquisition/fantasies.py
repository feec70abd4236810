"""Expected improvement of a setting's value over the best point so far, where that is not known exactly.

    EI(i, x^i) = E[ max(F_i(x^i) - max_k f(x_k), 0) | D ]

over the data points x_k as full queries (or the inducing inputs that stand for very many). After Tay et al. (NeurIPS
2023, appendix C.2), who adapt noisy expected improvement (Letham et al. 2019) to partial queries: fantasies of f at the
data points, and for each the improvement over the fantasy's own best. Their code draws F_i jointly with the fantasy,
averaging over 1024 samples of the uncontrolled variables; but given the fantasy F_i is exactly Gaussian, with the
moments of algorithms section 3, so here its part of the expectation is in closed form, s h(v), and only the fantasy is
sampled. It is the same quantity, with less noise and with a gradient.

As in `improvement`, everything is in logarithms: where theirs is 0 for every set, and the first one listed is played,
this one still tells which is larger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.acquisition.improvement import log_height
from rigctl.core.bounds.expectations import FLOOR, Expectations, ValueSpread
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.surrogate import fit

NOISELESS = 1e-3
"""Noise of a fantasy's values, as a share of the signal's sd: as little as still factorises."""


@dataclass(frozen=True, slots=True, eq=False)
class FantasyImprovement:
    """Score settings of every control set by ln EI. Standardised.

    A `Surface`: rows are points (b, d) of the unit cube with the index of their control set (b,).
    """

    expectations: Expectations
    """Of the process given noise-free values at the data points."""
    weights: FloatArray
    """(J, n): (K + small)^-1 (fantasy - mean) for each fantasy."""
    best: FloatArray
    """(J,), largest value of each fantasy, relative to the mean."""

    @classmethod
    def draw(cls, e: Expectations, fantasies: int, rng: np.random.Generator) -> FantasyImprovement:
        """Draw that many fantasies of the posterior behind `e`, which must hold at least one point."""
        posterior, h = e.posterior, e.posterior.hyperparameters
        x = posterior.x
        still = replace(h, noise_sd=NOISELESS * h.signal_sd, y_shift=0.0, y_scale=1.0)
        certain = fit(x, np.zeros(len(x)), ModelOptions(max_points=len(x)), still, refit=False)
        prior = rng.standard_normal((fantasies, len(x))) @ certain.L.T
        noise = posterior.noise(rng.standard_normal((fantasies, len(x))))
        correction = posterior.unwhiten(posterior.whiten(prior + noise))
        values = prior + (posterior.alpha - correction) @ posterior.covariance(x)
        weights = certain.unwhiten(certain.whiten(values))
        return cls(replace(e, posterior=certain), weights, values.max(axis=1))

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        e, out = self.expectations, np.empty(len(points))
        spread = ValueSpread(e)
        for rows in blocks(len(points), len(e.posterior.x) + len(self.best)):
            inner = e.inner(points[rows], sets[rows])
            sd = np.maximum(spread.sd(inner, sets[rows]), self._least(sets[rows]))
            out[rows] = self._log_improvement(inner, sets[rows], sd)[0]
        return out

    def value_and_gradient(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return ln EI, (b,), and its gradient (b, d), 0 for uncontrolled variables."""
        e = self.expectations
        inner = e.inner(points, sets)
        sd, sd_slope = ValueSpread(e).sd_and_slope(inner, sets)
        value, by_mean, by_sd = self._log_improvement(inner, sets, sd)
        slope = (by_mean @ self.weights) * e.outside[sets] + by_sd[:, None] * sd_slope
        return value, e.posterior.correlations.contract_slopes(points, inner * slope) * e.mask[sets]

    def _least(self, sets: IntArray) -> FloatArray:
        """Return the spread below which the gradient's is cut off too."""
        return np.asarray(np.sqrt(FLOOR * self.expectations.prior_variance[sets]))

    def _log_improvement(
        self, inner: FloatArray, sets: IntArray, sd: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ln EI, (b,), its derivatives by the mean under each fantasy, (b, J), and by the spread, (b,)."""
        mean = (inner * self.expectations.outside[sets]) @ self.weights.T
        v = (mean - self.best) / sd[:, None]
        height = log_height(v)
        highest = height.log_h.max(axis=1)
        share = np.exp(height.log_h - highest[:, None])
        total = share.sum(axis=1)
        share /= total[:, None]
        value = np.log(sd) + highest + np.log(total / len(self.best))
        by_mean = share * height.Phi_share / sd[:, None]
        by_sd = (share * height.phi_share).sum(axis=1) / sd
        return value, by_mean, by_sd
