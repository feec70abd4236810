"""The parent of a truncated normal on [0, 1] from the mean and standard deviation of the variable itself."""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.marginals.gaussian import panels, resolution, support

_TOLERANCE = 1e-12
_MOST_STEPS = 200


def largest_sd(mean: float) -> float:
    """Return the standard deviation that truncated normals on [0, 1] with this mean stay below.

    At fixed mean the spread grows with the parent's scale, up to the truncated exponential (at mean 1/2: the uniform).
    """
    rate = _exponential_rate(mean)
    if abs(rate) < 1e-3:
        return float(np.sqrt(1 / 12 - rate**2 / 240))
    if abs(rate) > 500.0:
        return float(1 / abs(rate))
    return float(np.sqrt(1 / rate**2 - 0.25 / np.sinh(rate / 2) ** 2))


def parent_of(mean: float, sd: float) -> tuple[float, float]:
    """Return (loc, scale) of the normal that, cut off outside [0, 1], has this mean and standard deviation.

    With u = (x - mean)/sd the density is exp(h1 u - h2 u^2/2): an exponential family, so its parameters minimise the
    convex ln integral(h1, h2) + h2/2, which damped Newton finds from anywhere.

    Raises:
        ValueError: no truncated normal on [0, 1] has these moments; says what is allowed.
    """
    if not 0.0 < mean < 1.0:
        raise ValueError(f"mean: got {mean:g}, must be inside the range, 0 < mean < 1")
    most = largest_sd(mean)
    if not 0.0 < sd < most * (1 - 1e-6):
        raise ValueError(
            f"sd: got {sd:g}, must be > 0 and < {most:.6g} when the mean is {mean:g}; "
            "declare a uniform or an empirical marginal for a wider spread"
        )
    low, high = -mean / sd, (1 - mean) / sd
    h = np.array([0.0, 1.0])
    for _ in range(_MOST_STEPS):
        value, gradient, hessian = _dual(h, low, high)
        if np.abs(gradient).max() < _TOLERANCE:
            break
        h = _damped(h, np.asarray(np.linalg.solve(hessian, gradient)), value, low, high)
    return mean + sd * float(h[0] / h[1]), sd / float(np.sqrt(h[1]))


def _dual(h: FloatArray, low: float, high: float) -> tuple[float, FloatArray, FloatArray]:
    """Return value, gradient and Hessian of ln integral(h1, h2) + h2/2."""
    begin, end = support(h[0], h[1], low, high)
    u, weights = panels(begin, end, resolution(h[0], h[1], low, high))
    exponent = h[0] * u - 0.5 * h[1] * np.square(u)
    peak = exponent.max()
    weights = weights * np.exp(exponent - peak)
    mass = weights.sum()
    statistics = np.stack([u, -0.5 * np.square(u)])
    means = statistics @ weights / mass
    centred = statistics - means[:, None]
    hessian = (centred * (weights / mass)) @ centred.T
    return float(np.log(mass) + peak + 0.5 * h[1]), means + np.array([0.0, 0.5]), hessian


def _damped(h: FloatArray, step: FloatArray, value: float, low: float, high: float) -> FloatArray:
    """Halve the Newton step until it stays in the family and does not increase the function."""
    size = 1.0
    for _ in range(60):
        trial = h - size * step
        if trial[1] > 0 and _dual(trial, low, high)[0] <= value + 1e-13 * (1.0 + abs(value)):
            return trial
        size /= 2
    return h


def _exponential_rate(mean: float) -> float:
    """Bisect for the rate r for which the density proportional to exp(r x) on [0, 1] has this mean."""
    low, high = -1.0 / min(mean, 1 - mean) - 10.0, 1.0 / min(mean, 1 - mean) + 10.0
    for _ in range(_MOST_STEPS):
        middle = 0.5 * (low + high)
        if _exponential_mean(middle) < mean:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _exponential_mean(rate: float) -> float:
    """Return the mean of the density proportional to exp(rate x) on [0, 1]; near 0, where it cancels, by a series."""
    if abs(rate) < 1e-3:
        return 0.5 + rate / 12 - rate**3 / 720
    if rate < 0:
        return 1.0 - _exponential_mean(-rate)
    return float(-1.0 / np.expm1(-rate) - 1.0 / rate)
