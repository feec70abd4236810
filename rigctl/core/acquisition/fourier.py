"""Surfaces of drawn functions: one of the posterior, and the expected improvement over fantasies of it.

A function drawn from the posterior, and its expectation over uncontrolled variables, both with exact gradients.

The prior's draw is a sum of random Fourier features (Rahimi and Recht 2007)

    f0(x) = sqrt(2 s2 / M) sum_q v_q cos(w_q' x + b_q),    v_q ~ N(0, 1), b_q uniform, w_q from the spectral density

which for a product of one-dimensional kernels is a product too: each coordinate of w_q is drawn on its own. Such a wave
is integrated over uncontrolled variables exactly, by their characteristic functions:

    E[cos(w' [x^i, X^-i] + b)] = A cos(w^i' x^i + b + a),    A e^(i a) = prod over uncontrolled l of E[e^(i w_l X_l)]

The data enter by Matheron's rule (Wilson et al. 2020, "Efficiently sampling functions from Gaussian process
posteriors"):

    f(x) = mean + f0(x) + k(x, X) (K + lam I)^-1 (y - mean - f0(X) - noise),    noise ~ N(0, lam I)

Regression on the M features themselves, as in Hayashi et al., costs M^3 and has too small a variance away from the data
as soon as n comes near M; here only the prior's draw is approximate, and the data are weighed by the exact kernel for
n^2 operations.

Expected improvement of a setting's value over the best point so far, where that is not known exactly.

    EI(i, x^i) = E[ max(F_i(x^i) - max_k f(x_k), 0) | D ]

over the data points x_k as full queries (or the inducing inputs that stand for very many). After Tay et al. (NeurIPS
2023, appendix C.2), who adapt noisy expected improvement (Letham et al. 2019) to partial queries: fantasies of f at the
data points, and for each the improvement over the fantasy's own best. Their code draws F_i jointly with the fantasy,
averaging over 1024 samples of the uncontrolled variables; but given the fantasy F_i is exactly Gaussian, with the
moments of algorithms section 3, so here its part of the expectation is in closed form, s h(v), and only the fantasy is
sampled. It is the same quantity, with less noise and with a gradient.

As in `core.acquisition.improvement`, everything is in logarithms: where theirs is 0 for every set, and the first one
listed is played, this one still tells which is larger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rigctl.core.acquisition.improvement import log_height
from rigctl.core.bounds.expectations import FLOOR, Expectations, ValueSpread
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.experiment.marginals.families import Marginal
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import Space
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
        return value, e.posterior.correlations.contract_slopes(points, inner * slope, e.mask[sets])

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


SingleArray = NDArray[np.float32]

MATERN_DEGREES = 5
"""The spectral density of the one-dimensional Matern-5/2 kernel is Student's t with so many degrees of freedom, / l."""
RESOLVED = 8.0
"""A quadrature rule for a lengthscale l is exact to rounding for waves of frequency RESOLVED / l."""
SLOW_SHARES = (0.75, 0.97)
"""Waves are integrated in batches of like frequency, as the fastest ones, rare, need many more nodes."""
MOST_VALUES = 1 << 18
"""Largest intermediate array, in numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Wave:
    """Stand in a kernel's place with cos or sin of (frequency * delta), so that every marginal can integrate it."""

    frequencies: FloatArray
    """(M,), radians per unit."""
    sine: bool

    @property
    def lengthscale(self) -> float:
        return float(RESOLVED / max(np.abs(self.frequencies).max(), 1.0))

    def value(self, delta: FloatArray) -> FloatArray:
        """Return the wave; row q of delta (M, nodes) is of frequency q."""
        phase = self.frequencies[:, None] * delta
        return np.asarray(np.sin(phase) if self.sine else np.cos(phase))

    def narrowed(self, by: float) -> _Wave:
        return _Wave(self.frequencies * by, self.sine)


def characteristic(marginal: Marginal, frequencies: FloatArray) -> FloatArray:
    """Return E[e^(i w X)] for frequencies w (M,), complex (M,)."""
    out = np.empty(len(frequencies), dtype=complex)
    order = np.argsort(np.abs(frequencies))
    for part in np.split(order, [int(share * len(order)) for share in SLOW_SHARES]):
        if part.size:
            w, zero = frequencies[part], np.zeros(part.size)
            # a kernel is a function of (0 - X), so the sine comes out negative
            out[part] = marginal.z(zero, _Wave(w, sine=False)) - 1j * marginal.z(zero, _Wave(w, sine=True))
    return out


def spectral_draw(kernel: ProductKernel, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw frequencies (count, d) from the spectral density of the product kernel, radians per unit of the cube.

    Of a category of L levels, which lie 1 / (L - 1) apart, a wave has one of the L frequencies that are told apart
    there. All together make 1 where levels are the same and 0 elsewhere; the slowest, 0, makes what all levels share.
    """
    shape = (count, len(kernel.lengthscales))
    if kernel.name == "squared-exponential":
        drawn = np.asarray(rng.standard_normal(shape) / kernel.lengthscales)
    else:
        drawn = np.asarray(rng.standard_t(MATERN_DEGREES, shape) / kernel.lengthscales)
    for column in kernel.categories:
        levels, shared = kernel.levels[column], kernel.one(column).value(np.ones(1))
        own = rng.random(count) >= shared
        drawn[:, column] = own * rng.integers(levels, size=count) * 2.0 * np.pi * (levels - 1) / levels
    return drawn


@dataclass(frozen=True, slots=True, eq=False)
class SampledFunction:
    """Hold one function drawn from the posterior, as the value of settings of every control set. Standardised.

    A `Surface`: rows are points (b, d) of the unit cube with the index of their control set (b,).
    """

    expectations: Expectations
    """With `alpha` replaced by this draw's weights: their mean is the data's part of it."""
    frequencies: FloatArray
    """(M, d)."""
    phases: FloatArray
    """(m, M), b_q + a_q."""
    amplitudes: FloatArray
    """(m, M), sqrt(2 s2 / M) v_q A_q."""

    @classmethod
    def draw(
        cls, e: Expectations, space: Space, among: Sequence[int], features: int, rng: np.random.Generator
    ) -> SampledFunction:
        """Draw one more function of M `features`, the same one bit for bit for the same generator state.

        `e` is of the posterior to draw from, for all control sets of the space, in their order; `among` are those that
        the function will be asked about.
        """
        posterior, h = e.posterior, e.posterior.hyperparameters
        w = spectral_draw(h.product_kernel, features, rng)
        b = 2.0 * np.pi * rng.random(features)
        v = np.sqrt(2.0 * h.signal_variance / features) * rng.standard_normal(features)
        drawn = np.cos(posterior.x @ w.T + b) @ v
        noise = posterior.noise(rng.standard_normal((1, len(posterior.x))))
        alpha = posterior.alpha - posterior.unwhiten(posterior.whiten(drawn + noise))[0]
        factor = np.ones((len(e.mask), features), dtype=complex)
        for variable in np.flatnonzero((e.mask[list(among)] == 0).any(axis=0)):
            shrunk = characteristic(space.variables[variable].marginal, w[:, variable])
            factor[e.mask[:, variable] == 0] *= shrunk
        return cls(replace(e, alpha=e.outside * alpha), w, b + np.angle(factor), v * np.abs(factor))

    def value(self, points: FloatArray, sets: IntArray) -> FloatArray:
        e, out = self.expectations, np.empty(len(points))
        for rows in blocks(len(points), len(self.frequencies), MOST_VALUES):
            out[rows] = e.mean(e.inner(points[rows], sets[rows]), sets[rows])
            for i in np.unique(sets[rows]):
                mine = rows.start + np.flatnonzero(sets[rows] == i)
                out[mine] += np.cos(self._angles(points[mine], int(i))) @ self.amplitudes[i].astype(np.float32)
        return out

    def value_and_gradient(self, points: FloatArray, sets: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return values, (b,), and their gradient (b, d), 0 for uncontrolled variables."""
        e = self.expectations
        value, gradient = e.value_and_gradient(points, sets, np.zeros(len(points)), ValueSpread(e))
        smooth = np.ones(points.shape[1])
        smooth[list(e.posterior.hyperparameters.product_kernel.categories)] = 0.0
        for i in np.unique(sets):
            mine, rising = np.flatnonzero(sets == i), e.mask[i] * smooth
            angles, amplitudes = self._angles(points[mine], int(i)), self.amplitudes[i].astype(np.float32)
            value[mine] += np.cos(angles) @ amplitudes
            gradient[mine] -= np.sin(angles) @ (amplitudes[:, None] * self.frequencies * rising).astype(np.float32)
        return value, gradient

    def _angles(self, points: FloatArray, control_set: int) -> SingleArray:
        """Return w^i' x^i + b + a, (b, M), within a turn around 0 and then in single precision.

        Cosines are then twenty times faster, and the sum still has six digits: more than the draw stands for.
        """
        mask = self.expectations.mask[control_set]
        turns = (points * mask / (2.0 * np.pi)) @ self.frequencies.T
        turns += self.phases[control_set] / (2.0 * np.pi)
        turns -= np.rint(turns)
        return np.asarray(turns.astype(np.float32) * np.float32(2.0 * np.pi))
