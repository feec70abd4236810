"""What a reading taken before a trial says of a variable that is then left alone.

In scores that are normally distributed, g = Phi^-1(F(x)), the value before and the value during the trial have
correlation rho (a Gaussian copula): both are distributed as the marginal says, and averaged over the readings to come
the conditional marginals are the marginal again. A reading r has an error of its own, N(0, tau^2); with a and v mean
and variance of the score before, given r,

    g | r  ~  N( rho a,  1 - rho^2 (1 - v) )

A truncated normal that is hardly cut has the scores (x - m) / s, m and s its parent's. Then 1 - v is
k = s^2 / (s^2 + tau^2), a is k (r - m) / s, and X | r is a truncated normal again,
N(m + rho k (r - m), s^2 (1 - rho^2 k)) on its range. Of one that is cut severely the parent says nothing of how its
values go together, so its scores are those of what is left of it. A reading beyond the range counts as at its end, as
far as its error does not explain it; one beyond a sample as up to one spread off.

A natural range apart from the range of setpoints: tap water of pH 7.8 where 5.5 to 6.5 can be chosen.

The unit interval is what can be chosen. A variable that is left alone may be elsewhere, so its distribution is one of
[0, 1] stretched over its natural range. Kernels depend on distances only: integrals over the natural range are those of
[0, 1] with a kernel as much narrower, exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import Kernel1D
from rigctl.core.experiment.marginals.families import ByRule, Discrete, Empirical, Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.marginals.gaussian import WIDEST, largest_sd, panels
from rigctl.flaws import Flaw, require
from rigctl.text import in_full


@dataclass(frozen=True, slots=True)
class Stretched:
    """Distribute a variable over [low, high] as another marginal is distributed over [0, 1].

    Raises:
        ValueError: the interval is empty or not finite.
    """

    marginal: Marginal
    low: float
    """Unit cube; may lie outside [0, 1], as `high` may."""
    high: float

    def __post_init__(self) -> None:
        rising = -np.inf < self.low < self.high < np.inf
        require(rising, [self.low, self.high], "must be finite and rising", where="natural range")

    @property
    def mean(self) -> float:
        return self.low + self.span * self.marginal.mean

    def quantile(self, p: FloatArray) -> FloatArray:
        return np.asarray(self.low + self.span * self.marginal.quantile(p))

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        return self.marginal.z(self.inside(b), kernel.narrowed(self.span))

    def Z(self, b: FloatArray, b2: FloatArray, kernel: Kernel1D) -> FloatArray:  # noqa: N802 - the paper's symbol
        return self.marginal.Z(self.inside(b), self.inside(b2), kernel.narrowed(self.span))

    def zz(self, kernel: Kernel1D) -> float:
        return self.marginal.zz(kernel.narrowed(self.span))

    @property
    def span(self) -> float:
        return self.high - self.low

    def inside(self, b: FloatArray | float) -> FloatArray:
        """Return where values lie on the marginal that is stretched, elementwise."""
        return np.asarray((np.asarray(b, dtype=float) - self.low) / self.span)


def stretched(marginal: Marginal, low: float, high: float) -> Marginal:
    """Return a marginal of [0, 1] over [low, high], unit cube; itself where that is [0, 1]."""
    return marginal if (low, high) == (0.0, 1.0) else Stretched(marginal, low, high)


def natural_marginal(
    kind: str,
    params: Mapping[str, float] | Sequence[float],
    setpoints: tuple[float, float],
    natural: tuple[float, float] | None = None,
    unit: str = "",
) -> Marginal:
    """Make a marginal on the unit cube of setpoints of what an operator writes, in engineering units.

    Args:
        kind: `truncated_normal`, `uniform` or `empirical`.
        params: `{mean, sd}` or `{loc, scale}`; nothing or `{low, high}`; readings.
        setpoints: lowest and highest setpoint.
        natural: lowest and highest natural value; None: those of the setpoints.
        unit: for people.

    Raises:
        ValueError: kind or parameters are not among these, or no such distribution exists.
    """
    if not isinstance(params, Mapping):  # readings are where they are
        return Empirical(tuple(share_of(float(value), setpoints) for value in params))
    low, high = ends = natural or setpoints
    unit = unit and f" {unit}"
    must, elsewhere = f"must lie within the natural_range, {in_full(low)} to {in_full(high)}{unit}", ""
    if natural is None:
        must = f"must lie within the range, {in_full(low)} to {in_full(high)}{unit}"
        elsewhere = "if it is elsewhere while uncontrolled, say where: natural_range: [low, high]"
    make = {"uniform": _uniform, "truncated_normal": _truncated_normal}.get(kind)
    if make is None:
        raise ValueError(Flaw("", "must be truncated_normal, uniform or empirical", got=kind, where="marginal"))
    inside = make(params, ends, unit, Flaw("", must, elsewhere))
    return stretched(inside, share_of(low, setpoints), share_of(high, setpoints))


def _uniform(params: Mapping[str, float], ends: tuple[float, float], unit: str, astray: Flaw) -> Marginal:
    if not params.keys() <= {"low", "high"}:
        raise ValueError(Flaw("", "must be nothing, or low and high", got=" and ".join(params)))
    first, last = params.get("low", ends[0]), params.get("high", ends[1])
    found = f"{in_full(first)} to {in_full(last)}{unit}"
    if not first < last:
        remedy = f"write {{low: {in_full(last)}, high: {in_full(first)}}}" if first > last else ""
        raise ValueError(Flaw("", "must rise from low to high", remedy, found))
    if first < ends[0] or last > ends[1]:
        raise ValueError(replace(astray, got=found))
    return Uniform(share_of(first, ends), share_of(last, ends))


def _truncated_normal(params: Mapping[str, float], ends: tuple[float, float], unit: str, astray: Flaw) -> Marginal:
    span = ends[1] - ends[0]
    if params.keys() == {"loc", "scale"}:
        if not params["scale"] > 0:
            raise ValueError(Flaw("", "must be more than nothing", got=f"{params['scale']:g}{unit}", where="scale"))
        return TruncatedNormal(share_of(params["loc"], ends), params["scale"] / span)
    if params.keys() != {"mean", "sd"}:
        must, found = "must be mean and sd, or loc and scale", " and ".join(params) or "nothing"
        raise ValueError(Flaw("", must, "write its spread, e.g. sd: ...", found))
    mean, sd = params["mean"], params["sd"]
    if not 0 < share_of(mean, ends) < 1:
        raise ValueError(replace(astray, got=f"{in_full(mean)}{unit}", where="mean"))
    most = largest_sd(share_of(mean, ends)) * span
    if not 0 < sd < most * WIDEST:
        must = f"must be more than 0 and less than {in_full(most, 3)}{unit} for a mean of {in_full(mean)}{unit}"
        raise ValueError(Flaw("", must, "for a wider spread write natural: uniform", f"{in_full(sd)}{unit}", "sd"))
    return TruncatedNormal.from_moments(share_of(mean, ends), sd / span)


def share_of(value: float, setpoints: tuple[float, float]) -> float:
    """Return where a value lies between lowest and highest setpoint: 0 and 1 there."""
    return (value - setpoints[0]) / (setpoints[1] - setpoints[0])


LEAST_SPREAD = 1e-3
"""Of a conditional marginal, as a share of the range: no reading says more, and nothing is divided by 0."""
HARDLY_CUT = 0.9
"""Share of the parent within the range from which on a truncated normal's scores are its parent's."""
MOST_SCORE = 3.5
"""Scores beyond are those of one value in 4000, or of one that cannot be."""
QUANTILES = 128
"""As many stand for what a sample says after a reading."""
_REACH = 6.0
"""Spreads of a normal distribution beyond which 2e-9 of it are left."""
_GRID = 281
"""Scores that a reading with an error is compared with."""


@dataclass(frozen=True, slots=True)
class Scored(ByRule):
    """Distribute the normal score of a variable by N(at, spread^2) instead of N(0, 1)."""

    marginal: Uniform | TruncatedNormal
    """Of the variable, all readings together."""
    at: float
    spread: float
    nodes: tuple[float, ...]
    """(k,), unit cube, rising: of expectations."""
    weights: tuple[float, ...]
    """(k,), sum 1."""

    @classmethod
    def of(cls, marginal: Uniform | TruncatedNormal, at: float, spread: float) -> Scored:
        """Make one with nodes close enough for features a tenth of its spread wide."""
        from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

        score, weights = panels(-_REACH, _REACH, _REACH / 4)
        weights = weights * np.exp(-0.5 * np.square(score))
        nodes = marginal.quantile(ndtr(at + spread * score))
        return cls(marginal, at, spread, tuple(nodes.tolist()), tuple((weights / weights.sum()).tolist()))

    @property
    def mean(self) -> float:
        nodes, weights = self.rule()
        return float(weights @ nodes)

    def quantile(self, p: FloatArray) -> FloatArray:
        from scipy.special import ndtr, ndtri  # noqa: PLC0415 - heavy: not for `rigctl --help`

        p = np.clip(np.asarray(p, dtype=float), np.finfo(float).tiny, 1.0 - np.finfo(float).eps / 2)
        return self.marginal.quantile(ndtr(self.at + self.spread * ndtri(p)))

    def rule(self) -> tuple[FloatArray, FloatArray]:
        return np.array(self.nodes), np.array(self.weights)


def conditional(marginal: Marginal, rho: float, tau: float, reading: float) -> Marginal:
    """Return how a variable varies in a trial before which it read this.

    Args:
        marginal: of the variable, all readings together.
        rho: how far its value persists, in [0, 1]: correlation of the scores before and during the trial.
        tau: standard deviation of the reading's error, unit cube.
        reading: unit cube; may lie outside [0, 1].

    Returns:
        The marginal itself where the reading says nothing: rho is 0, tau infinite, or there is no rule for its kind.

    Raises:
        ValueError: rho is not in [0, 1], tau negative, or the reading not finite.
    """
    given, holds = {"rho": rho, "tau": tau, "reading": reading}, 0.0 <= rho <= 1.0 and tau >= 0.0
    allowed = "must be rho in [0, 1], tau >= 0 and a finite reading"
    require(holds and np.isfinite(reading), given, allowed, where="conditional")
    if rho == 0.0 or np.isinf(tau):
        return marginal
    if isinstance(marginal, Stretched):
        inner = conditional(marginal.marginal, rho, tau / marginal.span, float(marginal.inside(reading)))
        return marginal if inner is marginal.marginal else Stretched(inner, marginal.low, marginal.high)
    if not isinstance(marginal, Uniform | TruncatedNormal | Empirical):
        return marginal.given(reading, rho) if isinstance(marginal, Discrete) else marginal
    score, error = (float(v[0]) for v in score_before(marginal, np.array([reading]), np.array([tau])))
    at, spread = rho * score, sqrt(max(1.0 - rho * rho * (1.0 - error), 0.0))
    if isinstance(marginal, Empirical):
        return _sample_of(marginal, at, max(spread, LEAST_SPREAD), rho * _beyond(marginal, reading, tau))
    if isinstance(marginal, TruncatedNormal) and hardly_cut(marginal):
        s = marginal.scale
        return TruncatedNormal(marginal.loc + s * at, max(s * spread, min(LEAST_SPREAD, s)))
    return Scored.of(marginal, at, max(spread, min(LEAST_SPREAD / _steepest(marginal), 1.0)))


def score_before(marginal: Marginal, readings: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance of the score that a reading is of, (n,) each.

    Args:
        marginal: of the variable, concrete.
        readings: (n,), unit cube; may lie outside [0, 1].
        errors: (n,), unit cube: standard deviations of the readings' errors; finite.
    """
    if isinstance(marginal, Stretched):
        return score_before(marginal.marginal, marginal.inside(readings), errors / marginal.span)
    if isinstance(marginal, TruncatedNormal) and hardly_cut(marginal):
        counts = marginal.scale**2 / (marginal.scale**2 + np.square(errors))
        return counts * scores(marginal, readings), 1.0 - counts
    means, variances = scores(marginal, readings), np.zeros(len(readings))
    erring = np.flatnonzero(errors > 0.0)
    if erring.size:
        means[erring], variances[erring] = _by_bayes(marginal, readings[erring], errors[erring])
    return means, variances


def _by_bayes(marginal: Marginal, readings: FloatArray, errors: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Weigh a grid of scores by what they and the reading's error make likely."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

    score = np.linspace(-MOST_SCORE, MOST_SCORE, _GRID)
    values = _smoothly(marginal, ndtr(score))
    step = np.gradient(values)
    wide = np.maximum(errors[:, None], step)  # an error below the grid's step would fall between two of its points
    logs = -0.5 * np.square(score) - 0.5 * np.square((readings[:, None] - values) / wide)
    logs -= np.log(wide)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    means = weights @ score
    return means, weights @ np.square(score) - np.square(means)


def spread_of(marginal: Marginal) -> float:
    """Return the spread that errors of readings are compared with: the parent's where that is hardly cut."""
    if isinstance(marginal, TruncatedNormal) and hardly_cut(marginal):
        return marginal.scale
    if isinstance(marginal, Stretched):
        return marginal.span * spread_of(marginal.marginal)
    return float(marginal.quantile((np.arange(64) + 0.5) / 64).std())


def scores(marginal: Marginal, x: FloatArray) -> FloatArray:
    """Return the normal scores of values (n,), unit cube: as N(0, 1) when they are distributed as the marginal says."""
    from scipy.special import ndtri  # noqa: PLC0415 - heavy: not for `rigctl --help`

    x = np.asarray(x, dtype=float)
    if isinstance(marginal, Stretched):
        return scores(marginal.marginal, marginal.inside(x))
    if isinstance(marginal, TruncatedNormal):
        inside = np.clip(x, 0.0, 1.0)
        if hardly_cut(marginal):
            return np.asarray((inside - marginal.loc) / marginal.scale)
        below = marginal.distribution(inside)
    elif isinstance(marginal, Uniform):
        below = (x - marginal.low) / (marginal.high - marginal.low)
    else:
        below = _ranks(marginal, x)
    most = MOST_SCORE
    return np.asarray(np.clip(ndtri(np.clip(below, 0.0, 1.0)), -most, most))


def hardly_cut(marginal: TruncatedNormal) -> bool:
    """Return whether so much of the parent is within the range that its parameters tell of the values themselves."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

    low, high = -marginal.loc / marginal.scale, (1.0 - marginal.loc) / marginal.scale
    return bool(ndtr(high) - ndtr(low) >= HARDLY_CUT)


def _ranks(marginal: Marginal, x: FloatArray) -> FloatArray:
    """Return the share of a sample below x, (n,), between two of its values in proportion."""
    if not isinstance(marginal, Empirical):
        raise TypeError(f"scores: got {type(marginal).__name__}; need a concrete marginal")
    ordered = np.sort(marginal.sample)
    shares = (np.arange(len(ordered)) + 0.5) / len(ordered)
    values, first, count = np.unique(ordered, return_index=True, return_counts=True)
    return np.interp(x, values, shares[first] + (count - 1) / (2 * len(ordered)))


def _sample_of(marginal: Empirical, at: float, spread: float, beyond: float) -> Empirical:
    """Return quantiles of what the sample says of scores N(at, spread^2)."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415 - heavy: not for `rigctl --help`

    middles = (np.arange(QUANTILES) + 0.5) / QUANTILES
    return Empirical(tuple((_smoothly(marginal, ndtr(at + spread * ndtri(middles))) + beyond).tolist()))


def _smoothly(marginal: Marginal, p: FloatArray) -> FloatArray:
    """Return quantiles, (n,), of a sample between two of its values in proportion."""
    if isinstance(marginal, Empirical):
        return np.asarray(np.quantile(np.array(marginal.sample), p, method="hazen"))
    return marginal.quantile(p)


def _beyond(marginal: Empirical, reading: float, tau: float) -> float:
    """Return how far a reading's own part lies outside the sample, at most one spread."""
    low, high, own = min(marginal.sample), max(marginal.sample), spread_of(marginal)
    outside = reading - min(max(reading, low), high)
    return min(max(outside * own**2 / (own**2 + tau**2), -own), own) if own > 0.0 else 0.0


def _steepest(marginal: Uniform | TruncatedNormal) -> float:
    """Return the largest slope of the value by its score, unit cube."""
    from scipy.special import ndtr  # noqa: PLC0415 - heavy: not for `rigctl --help`

    scored = np.linspace(-4.0, 4.0, 65)
    return float(np.diff(marginal.quantile(ndtr(scored))).max() / (scored[1] - scored[0]))
