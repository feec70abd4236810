"""How an uncontrolled variable varies: density, quantiles and 1-D kernel integrals (algorithms, section 3).

A marginal is a distribution on the unit interval. For a one-dimensional kernel k it knows

    z(b)     = E[k(X, b)]
    Z(b, b') = E[k(X, b) k(X, b')]
    zz       = E[k(X, X')]             X, X' independent

in closed form for the squared-exponential kernel where there is one, else by composite Gauss-Legendre quadrature.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import erfc, log, pi, sqrt
from typing import Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.kernels import Kernel1D, SquaredExponential
from rigctl.core.experiment.marginals.gaussian import log_integral, panels, parent_of, resolution, support
from rigctl.flaws import got

PROBABILITY_SLACK = 1e-6
"""By which probabilities may miss 1: they are written with a few digits."""
RULES = 64
"""Quadrature rules that are kept: between fits nearly all ask for the same few widths."""


class Marginal(Protocol):
    """Distributes a variable on the unit interval (readings may fall a little outside)."""

    @property
    def mean(self) -> float:
        """Return the mean on the unit interval."""
        ...

    def quantile(self, p: FloatArray) -> FloatArray:
        """Return the inverse distribution function, elementwise."""
        ...

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        """Return E[k(X, b)], (n,), for b (n,)."""
        ...

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        """Return E[k(X, b) k(X, b2)] of every pair, (n, m), for b (n,), b2 (m,)."""
        ...

    def zz(self, kernel: Kernel1D) -> float:
        """Return E[k(X, X')], X and X' independent."""
        ...


@dataclass(frozen=True)
class Uniform:
    """Spread evenly on [low, high] within the unit interval.

    Raises:
        ValueError: the interval is empty or leaves [0, 1].
    """

    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < self.high <= 1.0:
            raise ValueError(got([self.low, self.high], "must be a rising part of [0, 1]", where="uniform"))

    @property
    def mean(self) -> float:
        return 0.5 * (self.low + self.high)

    def quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self.low + (self.high - self.low) * np.asarray(p))

    @lru_cache(maxsize=RULES)  # noqa: B019 - a frozen value, not an object that lives
    def rule(self, width: float) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights (sum 1) for expectations of functions with features no narrower than `width`."""
        nodes, weights = panels(self.low, self.high, 3.0 * width)
        return nodes, weights / (self.high - self.low)

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        if not isinstance(kernel, SquaredExponential):
            return z_by_rule(self.rule(kernel.lengthscale / 4), b, kernel)
        precision = kernel.lengthscale**-2
        logs = log_integral(0.0, precision, self.low - b, self.high - b)
        return np.asarray(np.exp(logs - np.log(self.high - self.low)))

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        return _pairs(self, b, b2, kernel, self.high - self.low)

    def zz(self, kernel: Kernel1D) -> float:
        """Return E[k(X, X')]: the distance of two draws has a triangular density, so one integral is enough."""
        nodes, weights = self.rule(kernel.lengthscale / 4)
        if isinstance(kernel, SquaredExponential):
            return float(weights @ self.z(nodes, kernel))
        apart = nodes - self.low
        return float(2.0 * weights @ ((1.0 - apart / (self.high - self.low)) * kernel.value(apart)))


@dataclass(frozen=True)
class TruncatedNormal:
    """Cut a normal distribution off outside [0, 1]; it is given by its parent's parameters (as in scipy).

    Raises:
        ValueError: a parameter is not finite, or the scale is not positive.
    """

    loc: float
    scale: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.loc) and np.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"truncated_normal: got loc {self.loc}, scale {self.scale}; need finite, scale > 0")

    @classmethod
    def from_moments(cls, mean: float, sd: float) -> TruncatedNormal:
        """Return the truncated normal that itself has this mean and standard deviation.

        Raises:
            ValueError: no truncated normal on [0, 1] has them; says what is allowed.
        """
        return cls(*parent_of(mean, sd))

    @property
    def mean(self) -> float:
        """Return the mean of the variable itself, not of the parent."""
        nodes, weights = self.rule(self.scale)
        return float(weights @ nodes)

    @property
    def _origin(self) -> float:
        """Return the mode: log-densities are taken relative to it, so that a far-off parent does not swamp them."""
        return min(max(self.loc, 0.0), 1.0)

    def _log_relative(self, x: FloatArray) -> FloatArray:
        """Return ln of density(x) / density(mode), as a product so that nothing cancels."""
        r = self._origin
        return np.asarray(-(x - r) * (x + r - 2 * self.loc) / (2 * self.scale**2))

    def _log_mass(self) -> float:
        """Return ln of the integral of density / density(mode)."""
        r, precision = self._origin, self.scale**-2
        if 0.0 < self.loc < 1.0 and precision > 8.0:  # the everyday case, in two numbers instead of many small arrays
            tails = erfc(r / (sqrt(2) * self.scale)) + erfc((1.0 - r) / (sqrt(2) * self.scale))
            return log(self.scale * sqrt(2 * pi) * (1.0 - 0.5 * tails))
        return float(log_integral((self.loc - r) * precision, precision, -r, 1.0 - r))

    def quantile(self, p: FloatArray) -> FloatArray:
        """Return the inverse distribution function, elementwise; in logarithms of the nearer tail."""
        from scipy.special import log_ndtr, ndtri_exp  # noqa: PLC0415 - heavy: not for `rigctl --help`

        p = np.clip(np.asarray(p, dtype=float), np.finfo(float).tiny, 1.0 - np.finfo(float).eps / 2)
        a, b = -self.loc / self.scale, (1.0 - self.loc) / self.scale
        sign = 1.0 if a + b <= 0 else -1.0
        tail = np.logaddexp(np.log1p(-p) + log_ndtr(sign * a), np.log(p) + log_ndtr(sign * b))
        return np.asarray(np.clip(self.loc + sign * self.scale * ndtri_exp(tail), 0.0, 1.0))

    def distribution(self, x: FloatArray) -> FloatArray:
        """Return P(X <= x), elementwise, from the integrals that moments use, too."""
        mode, precision = self._origin, self.scale**-2
        slope, low = (self.loc - mode) * precision, -mode
        upper = np.minimum(x, 1.0) - mode
        out = np.zeros(upper.shape)
        inside = upper - low > np.finfo(float).tiny  # a narrower interval has no logarithm
        whole = log_integral(slope, precision, low, 1.0 - mode)
        out[inside] = np.exp(log_integral(slope, precision, low, upper[inside]) - whole)
        return np.minimum(out, 1.0)

    @lru_cache(maxsize=RULES)  # noqa: B019
    def rule(self, width: float) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights (sum 1) for expectations of functions with features no narrower than `width`.

        Only the part of [0, 1] that carries probability is covered, so a narrow distribution is resolved too.
        """
        precision = self.scale**-2
        low, high = support(self.loc * precision, precision, 0.0, 1.0)
        nodes, weights = panels(low, high, resolution(self.loc * precision, precision, 0.0, 1.0, width))
        weights = weights * np.exp(self._log_relative(nodes))
        return nodes, weights / weights.sum()

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        """Return E[k(X, b)], (n,) (algorithms, section 3), the integration variable measured from the sharper peak.

        That is b or the density's mode: measured from the other one, large exponents would cancel.
        """
        if not isinstance(kernel, SquaredExponential):
            return z_by_rule(self.rule(kernel.lengthscale / 4), b, kernel)
        b = np.asarray(b, dtype=float)
        r, p_density, p_kernel = self._origin, self.scale**-2, kernel.lengthscale**-2
        if p_density > p_kernel:
            e1 = (b - r) * p_kernel + (self.loc - r) * p_density
            logs = log_integral(e1, p_density + p_kernel, -r, 1.0 - r)
            logs -= 0.5 * p_kernel * np.square(b - r)
        else:
            e1 = (self.loc - b) * p_density
            logs = log_integral(e1, p_density + p_kernel, -b, 1.0 - b)
            logs += self._log_relative(b)
        return np.asarray(np.exp(logs - self._log_mass()))

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        return _pairs(self, b, b2, kernel, min(1.0, 18.0 * self.scale))

    def zz(self, kernel: Kernel1D) -> float:
        nodes, weights = self.rule(kernel.lengthscale / 4)
        return float(weights @ self.z(nodes, kernel))


class ByRule:
    """Integrate kernels by the nodes and weights of a rule, whatever the kernel."""

    __slots__ = ()

    def rule(self) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights (sum 1) for expectations."""
        raise NotImplementedError

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        return z_by_rule(self.rule(), b, kernel)

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        return pairs_by_rule(self.rule(), b, b2, kernel)

    def zz(self, kernel: Kernel1D) -> float:
        nodes, weights = self.rule()
        return float(weights @ self.z(nodes, kernel))


@dataclass(frozen=True, slots=True)
class Empirical(ByRule):
    """Draw from a stored sample of readings, each as likely as the other.

    Raises:
        ValueError: the sample is empty or not finite.
    """

    sample: tuple[float, ...]
    """Unit cube; readings outside the range stay outside [0, 1]."""

    def __post_init__(self) -> None:
        if not self.sample or not np.isfinite(self.sample).all():
            raise ValueError(f"empirical: got {len(self.sample)} readings, need at least one, all finite")

    @property
    def mean(self) -> float:
        return float(np.mean(self.sample))

    def quantile(self, p: FloatArray) -> FloatArray:
        """Return the inverse distribution function, elementwise: always one of the readings."""
        return np.asarray(np.quantile(np.array(self.sample), p, method="inverted_cdf"))

    def rule(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.sample), np.full(len(self.sample), 1.0 / len(self.sample))

    def zz(self, kernel: Kernel1D) -> float:
        """Return E[k(X, X')] over all pairs of readings, each with itself included, as X and X' are independent."""
        return float(np.mean(self.z(np.array(self.sample), kernel)))


@dataclass(frozen=True, slots=True)
class Discrete(ByRule):
    """Take one of some values, each with its probability.

    Raises:
        ValueError: there is no value, or the probabilities are none.
    """

    values: tuple[float, ...]
    """(l,), unit cube, rising."""
    weights: tuple[float, ...]
    """(l,), sum 1."""

    def __post_init__(self) -> None:
        wrong = len(self.values) != len(self.weights) or not all(w >= 0 for w in self.weights)
        if wrong or abs(sum(self.weights) - 1.0) > PROBABILITY_SLACK:
            raise ValueError(got(list(self.weights), "must be a probability for each level, which add up to 1"))

    @classmethod
    def levels(cls, weights: Sequence[float]) -> Discrete:
        """Distribute a category of so many levels, with these shares; they need not add up to 1."""
        total = float(sum(weights))
        shares = tuple(float(w) / total if total > 0 else np.nan for w in weights)
        return cls(tuple((np.arange(len(weights)) / max(len(weights) - 1, 1)).tolist()), shares)

    @property
    def mean(self) -> float:
        return float(np.dot(self.values, self.weights))

    def places(self, x: FloatArray) -> IntArray:
        """Return which value is the nearest, elementwise."""
        return np.asarray(np.abs(np.asarray(x, dtype=float)[..., None] - np.array(self.values)).argmin(axis=-1))

    def given(self, reading: float, rho: float) -> Discrete:
        """Return what is expected after a reading: the same value with probability rho, else one drawn anew."""
        same = int(self.places(np.array(reading)))
        return Discrete(self.values, tuple((1.0 - rho) * w + rho * (i == same) for i, w in enumerate(self.weights)))

    def quantile(self, p: FloatArray) -> FloatArray:
        """Return the inverse distribution function, elementwise: always one of the values."""
        row = np.searchsorted(np.cumsum(self.weights)[:-1], np.asarray(p), side="left")
        return np.asarray(np.array(self.values)[row])

    def rule(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.values), np.array(self.weights)


def z_by_rule(rule: tuple[FloatArray, FloatArray], b: FloatArray, kernel: Kernel1D) -> FloatArray:
    """Return E[k(X, b)], (n,), by a rule's nodes and weights."""
    nodes, weights = rule
    return np.asarray(kernel.value(np.asarray(b)[:, None] - nodes) @ weights)


def pairs_by_rule(rule: tuple[FloatArray, FloatArray], b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:
    """Return E[k(X, b) k(X, b2)] of every pair, (n, m), by a rule's nodes and weights."""
    nodes, weights = rule
    left = kernel.value(np.asarray(b)[:, None] - nodes) * weights
    return np.asarray(left @ kernel.value(np.asarray(b2)[:, None] - nodes).T)


def _pairs(
    marginal: Uniform | TruncatedNormal, b: FloatArray, b2: FloatArray, kernel: Kernel1D, extent: float
) -> FloatArray:
    """Return Z by quadrature: a matrix product is far cheaper than n^2 error functions, and as accurate.

    A very short lengthscale would need too many nodes; then the squared exponential's closed form: k(x,b) k(x,b')
    is a kernel of lengthscale l/sqrt(2) around the middle of b and b', times exp(-(b-b')^2 / (4 l^2)).
    """
    length = kernel.lengthscale
    if not isinstance(kernel, SquaredExponential):
        return pairs_by_rule(marginal.rule(length / 4), b, b2, kernel)
    if extent < 100 * length:
        return pairs_by_rule(marginal.rule(length / np.sqrt(2)), b, b2, kernel)
    b, b2 = np.asarray(b), np.asarray(b2)
    middle = 0.5 * (b[:, None] + b2)
    apart = np.exp(-np.square((b[:, None] - b2) / (2 * length)))
    around = marginal.z(middle.ravel(), SquaredExponential(length / np.sqrt(2)))
    return np.asarray(apart * around.reshape(middle.shape))
