"""One-dimensional Gaussian integrals that keep their digits in every regime.

The parent of a truncated normal on [0, 1] from the mean and standard deviation of the variable itself.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.flaws import require

_TOLERANCE = 1e-12
_MOST_STEPS = 200
WIDEST = 1 - 1e-6
"""Of the spread that no truncated normal reaches."""


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
    require(0.0 < mean < 1.0, mean, "must be inside the range, 0 < mean < 1", where="mean")
    most, remedy = largest_sd(mean), "declare a uniform or an empirical marginal for a wider spread"
    allowed = f"must be > 0 and < {most:.6g} when the mean is {mean:g}"
    require(0.0 < sd < most * WIDEST, sd, allowed, remedy, where="sd")
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


HALF_NODES = (
    0.09501250983763744, 0.2816035507792589, 0.45801677765722737, 0.6178762444026438,
    0.755404408355003, 0.8656312023878318, 0.9445750230732326, 0.9894009349916499,
)  # fmt: skip
"""The positive Gauss-Legendre nodes of order 16 (Abramowitz and Stegun, table 25.4); computing them takes longer than
all else in a panel. A panel three standard deviations wide is then exact to ~1e-14."""
HALF_WEIGHTS = (
    0.18945061045506864, 0.18260341504492364, 0.16915651939500265, 0.1495959888165767,
    0.12462897125553407, 0.0951585116824926, 0.062253523938647456, 0.027152459411754176,
)  # fmt: skip
MOST_PANELS = 256
SUPPORT_DROP = 40.0
"""Where a log-density has fallen by this much (to 4e-18 of its peak) it no longer counts."""


def log_integral(
    e1: FloatArray | float, e2: FloatArray | float, low: FloatArray | float, high: FloatArray | float
) -> FloatArray:
    """Return ln of the integral of exp(e1 t - e2 t^2 / 2) over [low, high], elementwise; e2 > 0, low < high.

    The textbook difference of two normal distribution functions loses everything in the tails (0 - 0, 1 - 1) and for
    a nearly flat integrand. So: a flat integrand by quadrature, a peak inside the interval by two lower tails, a peak
    outside it by scaled complementary error functions, whose large common factor is taken out analytically.
    """
    e1, e2, low, high = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (e1, e2, low, high)))
    middle, width = 0.5 * (low + high), high - low
    slope = e1 - e2 * middle
    flat = np.abs(slope) * width / 2 + e2 * np.square(width) / 8 < 1.0
    peak = e1 / e2
    inside = ~flat & (peak > low) & (peak < high)
    if inside.all():
        return _peak_inside(e1, e2, low, high)
    out = np.empty(e1.shape)
    left, right = ~flat & (peak <= low), ~flat & (peak >= high)
    if flat.any():
        out[flat] = _flat(slope[flat], e2[flat], width[flat]) + _exponent(e1, e2, middle)[flat]
    if inside.any():
        out[inside] = _peak_inside(e1[inside], e2[inside], low[inside], high[inside])
    if left.any():
        out[left] = _peak_below(e1[left], e2[left], low[left], high[left])
    if right.any():
        out[right] = _peak_below(-e1[right], e2[right], -high[right], -low[right])
    return out


def gauss_legendre() -> tuple[FloatArray, FloatArray]:
    """Return nodes and weights on [-1, 1], (16,) each, rising."""
    nodes, weights = np.array(HALF_NODES), np.array(HALF_WEIGHTS)
    return np.concatenate([-nodes[::-1], nodes]), np.concatenate([weights[::-1], weights])


def _exponent(e1: FloatArray, e2: FloatArray, t: FloatArray) -> FloatArray:
    return np.asarray(e1 * t - 0.5 * e2 * np.square(t))


def _flat(slope: FloatArray, e2: FloatArray, width: FloatArray) -> FloatArray:
    """Integrate around the middle of the interval: the exponent varies by less than 2, so one panel is exact."""
    nodes, weights = gauss_legendre()
    t = 0.5 * width[..., None] * nodes
    values = np.exp(_exponent(slope[..., None], e2[..., None], t))
    return np.asarray(np.log(0.5 * width * (values @ weights)))


def _peak_inside(e1: FloatArray, e2: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Take 1 - two tails: not flat, the interval spans more than a standard deviation, so nothing cancels."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

    root = np.sqrt(e2)
    inside = 1.0 - ndtr((low - e1 / e2) * root) - ndtr((e1 / e2 - high) * root)
    return np.asarray(np.square(e1) / (2 * e2) + 0.5 * np.log(2 * np.pi / e2) + np.log(inside))


def _peak_below(e1: FloatArray, e2: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Take exp(exponent at low) sqrt(pi / (2 e2)) [erfcx(a/sqrt2) - exp(-(b-a)(b+a)/2) erfcx(b/sqrt2)], 0 <= a < b."""
    from scipy.special import erfcx  # noqa: PLC0415 - heavy: not for `rigctl --help`

    root = np.sqrt(e2)
    a, b = (low - e1 / e2) * root, (high - e1 / e2) * root
    rest = erfcx(a / np.sqrt(2)) - np.exp(-0.5 * (b - a) * (b + a)) * erfcx(b / np.sqrt(2))
    return np.asarray(_exponent(e1, e2, low) + 0.5 * np.log(np.pi / (2 * e2)) + np.log(rest))


def support(slope: float, curvature: float, low: float, high: float) -> tuple[float, float]:
    """Return the part of [low, high] where exp(slope t - curvature t^2 / 2) counts, curvature > 0."""
    mode = min(max(slope / curvature, low), high)
    slope_there = slope - curvature * mode
    right = _reach(max(-slope_there, 0.0), curvature)
    left = _reach(max(slope_there, 0.0), curvature)
    return max(low, mode - left), min(high, mode + right)


def _reach(steepness: float, curvature: float) -> float:
    """Return the distance after which steepness t + curvature t^2 / 2 exceeds SUPPORT_DROP."""
    root = np.sqrt(steepness**2 + 2 * curvature * SUPPORT_DROP)
    return float(2 * SUPPORT_DROP / (steepness + root))


def resolution(slope: float, curvature: float, low: float, high: float, width: float = np.inf) -> float:
    """Return how wide a panel may be for exp(slope t - curvature t^2 / 2) on [low, high] times features so wide.

    Three standard deviations of the product, and where the peak is outside, eight decay lengths of the tail.
    """
    mode = min(max(slope / curvature, low), high)
    steepness = max(abs(slope - curvature * mode), 1e-9)
    return float(min(3.0 / np.sqrt(curvature + width**-2.0), 8.0 / steepness))


def panels(low: float, high: float, width: float) -> tuple[FloatArray, FloatArray]:
    """Return composite Gauss-Legendre nodes and weights on [low, high], in panels no wider than `width`."""
    count = int(np.clip(np.ceil((high - low) / width), 1, MOST_PANELS))
    nodes, weights = gauss_legendre()
    edges = np.linspace(low, high, count + 1)
    half = 0.5 * np.diff(edges)[:, None]
    centre = 0.5 * (edges[:-1] + edges[1:])[:, None]
    return (centre + half * nodes).ravel(), (half * weights).ravel()
