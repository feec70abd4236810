"""A function drawn from the posterior, and its expectation over uncontrolled variables, both with exact gradients.

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
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from rigctl.core.bounds.expectations import Expectations, ValueSpread
from rigctl.core.experiment.arrays import FloatArray, IntArray, blocks
from rigctl.core.experiment.kernels import KernelName
from rigctl.core.experiment.marginals.families import Marginal
from rigctl.core.experiment.space import Space

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

    def log_slope(self, delta: FloatArray) -> FloatArray:
        raise NotImplementedError("waves are only integrated, never climbed")

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


def spectral_draw(name: KernelName, lengthscales: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw frequencies (count, d) from the spectral density of the product kernel, radians per unit of the cube.

    Raises:
        ValueError: the kernel's spectral density is not known here.
    """
    shape = (count, len(lengthscales))
    if name == "squared-exponential":
        return np.asarray(rng.standard_normal(shape) / lengthscales)
    if name == "matern-5/2":
        return np.asarray(rng.standard_t(MATERN_DEGREES, shape) / lengthscales)
    raise ValueError(f"kernel: got {name!r}, allowed: 'squared-exponential', 'matern-5/2'")


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
        """Draw one more function.

        Args:
            e: of the posterior to draw from, for all control sets of the space, in their order.
            space: variables with their marginals.
            among: the control sets it will be asked about.
            features: M.
            rng: the same generator state gives the same function bit for bit.
        """
        posterior, h = e.posterior, e.posterior.hyperparameters
        w = spectral_draw(h.kernel, np.array(h.lengthscales), features, rng)
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
        for i in np.unique(sets):
            mine = np.flatnonzero(sets == i)
            angles, amplitudes = self._angles(points[mine], int(i)), self.amplitudes[i].astype(np.float32)
            value[mine] += np.cos(angles) @ amplitudes
            gradient[mine] -= np.sin(angles) @ (amplitudes[:, None] * self.frequencies * e.mask[i]).astype(np.float32)
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
