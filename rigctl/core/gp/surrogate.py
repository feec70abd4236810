"""The Gaussian-process surrogate: `fit` gives a frozen `Posterior` (algorithms, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, blocks
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.kernels import Correlations
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.factor import factorise, reduced, solve
from rigctl.core.gp.hyperparameters import FitFailed, Hyperparameters
from rigctl.core.gp.priors import LogPosterior, PriorName, log_prior

F = TypeVar("F")

JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
"""Added to the diagonal, as a share of the signal variance, one after the other until the matrix factorises."""
FEWEST_TO_LEARN = 3
"""Below this many observations the prior's modes are used: a likelihood of one or two points says nothing."""
MOST_VALUES = 1 << 20
"""Largest covariance of settings with the data, in numbers: 8 MB."""
NO_SPREAD = 1e-10
"""Outcomes this equal, relative to their size, teach nothing either: the likelihood would make the model certain."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """Hold the process given the data: frozen arrays, standardised inside, the outcome's own units outward.

    Of up to `max_points` trials it is exact. Of more it is that of inducing inputs (`core.gp.factor`): `x` are then
    those, and Lambda, their uncertainty, stands where lam I stood.
    """

    hyperparameters: Hyperparameters
    x: FloatArray
    """(n, d), unit cube."""
    L: FloatArray
    """(n, n), lower Cholesky factor of K + lam I (or K + Lambda), standardised; C order."""
    alpha: FloatArray
    """(n,), (K + lam I)^-1 (y' - mean), standardised."""
    jitter: float = 0.0
    """What was added to the diagonal besides the noise variance, standardised."""
    notes: tuple[str, ...] = ()
    """What went wrong in the fit and was done instead (fault 49); empty when all is well."""
    uncertainty: tuple[FloatArray, FloatArray] | None = None
    """Of inducing inputs (A, B), both (n, n) and lower: Lambda = A (B B')^-1 A'. None where Lambda is lam I."""
    own_noise: FloatArray | None = None
    """(n,), noise variances of the outcomes at `x`, standardised, where they are not all lam."""
    elsewhere: tuple[FloatArray, FloatArray] | None = None
    """What inducing inputs elsewhere say of every trial, (n,) each, standardised: by how much the mean there is lower,
    and what they leave of the prior variance. None where `x` are all."""
    left_out: tuple[int, ...] = ()
    """Rows of outcomes that it is not given, as all others speak against them (`core.gp.doubting`)."""

    kept: Memo = field(default_factory=Memo, init=False, repr=False)
    """What was worked out of it, for whoever asks again; `replace` begins with none."""

    @cached_property
    def K_inv(self) -> FloatArray:  # noqa: N802 - the name of the mathematics
        """Return (K + lam I)^-1, (n, n), standardised; computed when first asked for."""
        from scipy.linalg.lapack import dpotri  # noqa: PLC0415 - heavy: not for `rigctl --help`

        if not len(self.x):
            return np.zeros((0, 0))
        upper, _ = dpotri(np.ascontiguousarray(self.L).T, lower=0)
        return np.asarray(np.triu(upper) + np.triu(upper, 1).T)

    @property
    def variance(self) -> float:
        """Return an outcome's prior variance, noise included, standardised (by inducing inputs: no less than that)."""
        h = self.hyperparameters
        return h.signal_variance + h.noise_sd**2 + self.jitter

    @cached_property
    def correlations(self) -> Correlations:
        """Prepare the correlations of other points with `x`."""
        return self.hyperparameters.product_kernel.to(self.x)

    def mean(self, x: FloatArray) -> FloatArray:
        """Return the posterior mean of the outcome, (b,), own units; x is (b, d), unit cube."""
        h, x = self.hyperparameters, np.atleast_2d(x)
        parts = [self.covariance(x[part]) @ self.alpha for part in blocks(len(x), len(self.x), MOST_VALUES)]
        return np.asarray(h.y_shift + h.y_scale * (h.mean + np.concatenate([np.empty(0), *parts])))

    def sd(self, x: FloatArray) -> FloatArray:
        """Return the posterior sd of the noise-free outcome, (b,), own units; x is (b, d), unit cube."""
        h, x = self.hyperparameters, np.atleast_2d(x)
        white = (self.whiten(self.covariance(x[part])) for part in blocks(len(x), len(self.x), MOST_VALUES))
        explained = np.concatenate([np.empty(0), *(np.square(part).sum(axis=1) for part in white)])
        return np.asarray(h.y_scale * np.sqrt(np.maximum(h.signal_variance - explained, 0.0)))

    def covariance(self, x: FloatArray) -> FloatArray:
        """Return the prior covariance with the data, (b, n), standardised; x is (b, d), unit cube."""
        return self.hyperparameters.signal_variance * self.correlations.matrix(np.atleast_2d(x))

    def whiten(self, w: FloatArray) -> FloatArray:
        """Return (L^-1 w')' for rows w (b, n): a row's squared norm is w' (K + lam I)^-1 w, never negative."""
        return solve(self.L, w)

    def unwhiten(self, t: FloatArray) -> FloatArray:
        """Return (L^-T t')' for rows t (b, n); after `whiten` this completes (K + lam I)^-1 w."""
        return solve(self.L, t, transposed=True)

    def noise(self, z: FloatArray) -> FloatArray:
        """Draw the noise on the outcomes at `x`, (b, n), standardised, from standard normal z (b, n).

        Added to a draw of the prior at `x` it is what the data might have been: its covariance is L L'.
        """
        if self.uncertainty is None:
            variance = self.hyperparameters.noise_sd**2 if self.own_noise is None else self.own_noise
            return np.asarray(z * np.sqrt(variance + self.jitter))
        wide, precise = self.uncertainty
        return np.asarray(solve(precise, z, transposed=True) @ wide.T)


def fit(
    x: FloatArray,
    y: FloatArray,
    options: ModelOptions,
    previous: Hyperparameters | None = None,
    *,
    refit: bool = True,
    memo: Memo | None = None,
    noise: FloatArray | None = None,
    light: bool = False,
) -> Posterior:
    """Condition the surrogate on data, learning its hyper-parameters if asked to.

    Fixed hyper-parameters are taken from `options` as they are, without standardisation. Learned ones are refitted if
    `refit` or if there are no `previous` ones; otherwise `previous` is used exactly.

    Args:
        x: (n, d), unit cube; n may be 0.
        y: (n,), the outcome's own units, larger is better.
        options: kernel, and fixed hyper-parameters or a starting point.
        previous: of the last fit; also the fallback if this one fails.
        refit: whether to learn hyper-parameters anew.
        memo: of the history behind x and y: saves time where only rows were added, changes no bit of the result.
        noise: (n, 2), as in `History.noise`; None: all outcomes are as noisy as the model believes.
        light: learn without loading scikit-learn, to the same last bit: for advice, and for costs.

    Raises:
        ValueError: shapes do not match, a value is not finite, or fixed hyper-parameters are missing.
    """
    x, y = _checked(x, y)
    given = _Data(x, y, options.max_points, memo or Memo(), noise)
    if options.hyperparameters == "fixed":
        return _condition(given, _fixed(options, x.shape[1]), ())
    if previous is not None and len(previous.lengthscales) != x.shape[1]:
        raise ValueError(f"previous hyper-parameters: got {len(previous.lengthscales)} lengthscales, d = {x.shape[1]}")
    if previous is not None and not refit:
        return _condition(given, previous, ())
    initial = first_guess(x.shape[1], y, options)
    if len(y) < FEWEST_TO_LEARN or np.ptp(y) <= NO_SPREAD * np.abs(y).max():
        return _condition(given, initial, ())
    return _learned(given, initial, previous, options.prior, light=light)


def believing(posterior: Posterior, x: FloatArray) -> Posterior:
    """Return the posterior as if each point of x had given what is expected of it: trials under way, (k, d), unit cube.

    The "kriging believer" of Ginsbourger, Le Riche and Carraro (2010): with the posterior mean in place of an outcome
    the residual there is 0, and so is its weight in alpha. The mean stays what it is everywhere; the variance is that
    of a process that also has these points, each with the noise of an outcome.
    """
    h = posterior.hyperparameters
    lam = h.noise_sd**2 + posterior.jitter
    x = np.asarray(x, dtype=float)
    below = posterior.whiten(posterior.covariance(x))
    left = h.signal_variance * h.product_kernel.matrix(x, x) - below @ below.T
    # a point that was tried without noise leaves nothing but rounding error, which must not make a pivot
    least = np.finfo(float).eps * h.signal_variance * (len(posterior.x) + len(x))
    left[np.diag_indices_from(left)] = np.maximum(np.diag(left), 0.0) + max(lam, least)
    corner = np.linalg.cholesky(left)
    n, k = len(posterior.x), len(x)
    uncertainty, own = posterior.uncertainty, posterior.own_noise
    if uncertainty is not None:
        wide, precise = uncertainty
        uncertainty = _beside(wide, np.sqrt(lam) * np.eye(k)), _beside(precise, np.eye(k))
    return replace(
        posterior,
        x=np.concatenate([posterior.x, x]) if n else x,
        L=np.asarray(np.block([[posterior.L, np.zeros((n, k))], [below, corner]]) if n else corner),
        alpha=np.concatenate([posterior.alpha, np.zeros(k)]),
        uncertainty=uncertainty,
        own_noise=None if own is None else np.concatenate([own, np.full(k, h.noise_sd**2)]),
    )


def _beside(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return both on the diagonal of one matrix."""
    return np.block([[a, np.zeros((len(a), len(b)))], [np.zeros((len(b), len(a))), b]])


@dataclass(frozen=True, slots=True, eq=False)
class _Data:
    x: FloatArray
    y: FloatArray
    most: int
    """Rows at most before inducing inputs stand for them."""
    memo: Memo
    noise: FloatArray | None

    def variances(self, h: Hyperparameters) -> FloatArray | None:
        """Return the noise variances, (n,), standardised; None where all are the model's own."""
        return None if self.noise is None else h.noise_variances(self.noise)


def _learned(
    given: _Data, initial: Hyperparameters, previous: Hyperparameters | None, prior: PriorName, *, light: bool
) -> Posterior:
    from rigctl.core.gp import searching  # noqa: PLC0415 - imports scipy.optimize: only where something is learned

    posterior = LogPosterior.of(given.x, given.y, initial, prior, given.noise, most=searching.MOST_ROWS)
    starts = searching.starting_points(initial, previous)
    try:
        values = searching.climbed(posterior, starts) if light else _fitted(posterior, starts)
        return _condition(given, initial.with_values(values), ())
    except FitFailed as failure:
        kept = "last fit" if previous else "first guess"
        note = f"the model could not be fitted anew, so the {kept} was used: {failure}"
        return _condition(given, previous or initial, (note,))


def _fitted(posterior: LogPosterior, starts: Sequence[FloatArray]) -> FloatArray:
    from rigctl.core.gp.learning import fitted  # noqa: PLC0415 - imports scikit-learn: only where it fits

    return fitted(posterior, starts)


def _checked(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    x, y = np.ascontiguousarray(x, dtype=float), np.asarray(y, dtype=float)
    if x.ndim != 2 or y.ndim != 1 or len(x) != len(y) or not x.shape[1]:
        raise ValueError(f"fit: got x {x.shape} and y {y.shape}; need (n, d) and (n,), d > 0 (x (0, d) without data)")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("fit: x and y must be finite; leave out failed trials and INVALID readings")
    return x, y


def _fixed(options: ModelOptions, d: int) -> Hyperparameters:
    given = (options.lengthscales, options.signal_sd, options.noise_sd, options.mean)
    lengthscales, signal_sd, noise_sd, mean = given
    if lengthscales is None or signal_sd is None or noise_sd is None or mean is None:
        raise ValueError("model: fixed hyper-parameters need lengthscales, signal_sd, noise_sd and mean")
    if len(lengthscales) != d or not all(v > 0 for v in (*lengthscales, signal_sd)) or noise_sd < 0:
        raise ValueError(f"model: need {d} lengthscales > 0, signal_sd > 0, noise_sd >= 0; got {given}")
    scales, kernel = tuple(map(float, lengthscales)), options.kernel_used
    return Hyperparameters(scales, signal_sd, noise_sd, mean, kernel=kernel, levels=options.levels)


def first_guess(d: int, y: FloatArray, options: ModelOptions) -> Hyperparameters:
    """Take, before anything is learned, the options where given, else the prior's modes, on standardised y."""
    shift, scale = standardisation(y, options)
    signal_sd, noise_sd, *modes = (float(v) for v in log_prior(options.prior, d).modes)
    return Hyperparameters(
        lengthscales=tuple(map(float, options.lengthscales)) if options.lengthscales else tuple(modes),
        signal_sd=signal_sd,
        noise_sd=options.noise_sd / scale if options.noise_sd else noise_sd,
        mean=0.0,
        y_shift=shift,
        y_scale=scale,
        kernel=options.kernel_used,
        levels=options.levels,
    )


def standardisation(y: FloatArray, options: ModelOptions) -> tuple[float, float]:
    """Return (shift, scale) that give y mean 0 and standard deviation 1.

    Divided by the largest magnitude first, as squares of 1e200 overflow. Where y has no spread, its own magnitude is
    the only scale there is (or what the options say).
    """
    magnitude = float(np.abs(y).max(initial=0.0))
    if magnitude < np.finfo(float).tiny:
        return options.mean or 0.0, options.signal_sd or 1.0
    relative = y / magnitude
    spread = float(relative.std())
    scale = magnitude * spread if spread > NO_SPREAD else options.signal_sd or magnitude
    return magnitude * float(relative.mean()), max(scale, float(np.finfo(float).tiny))


def _condition(given: _Data, h: Hyperparameters, notes: tuple[str, ...]) -> Posterior:
    residual = h.residual(given.y)
    if len(residual) <= given.most:
        return _exact(given, residual, h, notes)
    key = ("inducing", given.most, h)
    found = reduced(given.x, residual, h, given.most, given.memo.get(key), noise=given.variances(h))
    given.memo.keep(key, found.base)
    notes += _jittered(found.jitter, h)
    of = found.points, found.L, found.alpha, found.jitter
    return Posterior(h, *of, notes, found.uncertainty, elsewhere=found.elsewhere)


def _exact(given: _Data, residual: FloatArray, h: Hyperparameters, notes: tuple[str, ...]) -> Posterior:
    key, variances = ("factor", h), given.variances(h)
    known = given.memo.get(key)
    factor, jitter = steadied(h, lambda jitter: factorise(given.x, h, jitter, None if jitter else known, variances))
    if not jitter:
        given.memo.keep(key, factor)
    alpha = solve(factor.L, solve(factor.L, residual[None, :]), transposed=True)[0]
    return Posterior(h, given.x, factor.L, alpha, jitter, notes + _jittered(jitter, h), own_noise=variances)


def steadied(h: Hyperparameters, factorised: Callable[[float], F | None]) -> tuple[F, float]:
    """Return a factorisation with as little added to the diagonal as it takes, and that jitter, standardised."""
    # as much noise as signal always factorises: the diagonal then outweighs rounding by 1e15
    for share in (*JITTERS, 1.0):
        found = factorised(share * h.signal_variance)
        if found is not None:
            return found, share * h.signal_variance
    raise AssertionError("unreachable: noise as large as the signal")


def _jittered(jitter: float, h: Hyperparameters) -> tuple[str, ...]:
    if not jitter:
        return ()
    share = jitter / h.signal_variance
    what = f"{share:g} of the signal variance was added to its noise"
    return (f"some trials are nearly alike, so the model was steadied a little: {what}",)
