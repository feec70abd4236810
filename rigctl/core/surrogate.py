"""The Gaussian-process surrogate: `fit` gives a frozen `Posterior` (algorithms, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rigctl.core.hyperparameters import FitFailed, Hyperparameters, lengthscale_prior_location
from rigctl.core.kernels import FloatArray
from rigctl.core.policy import ModelOptions

JITTERS = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4)
"""Added to the diagonal, as a share of the signal variance, one after the other until the matrix factorises."""
FEWEST_TO_LEARN = 3
"""Below this many observations the prior's modes are used: a likelihood of one or two points says nothing."""
NO_SPREAD = 1e-10
"""Outcomes this equal, relative to their size, teach nothing either: the likelihood would make the model certain."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The process given the data: frozen arrays, standardised inside, the outcome's own units outward."""

    hyperparameters: Hyperparameters
    x: FloatArray
    """(n, d), unit cube."""
    L: FloatArray
    """(n, n), lower Cholesky factor of K + lam I, standardised; Fortran order, as LAPACK wants it."""
    alpha: FloatArray
    """(n,), (K + lam I)^-1 (y' - mean), standardised."""
    jitter: float = 0.0
    """What was added to the diagonal besides the noise variance, standardised."""
    notes: tuple[str, ...] = ()
    """What went wrong in the fit and was done instead (fault 49); empty when all is well."""

    @cached_property
    def K_inv(self) -> FloatArray:  # noqa: N802 - the name of the mathematics
        """(n, n), (K + lam I)^-1, standardised; computed when first asked for."""
        from scipy.linalg.lapack import dpotri  # noqa: PLC0415 - heavy: not for `rigctl --help`

        if not len(self.x):
            return np.zeros((0, 0))
        lower, _ = dpotri(self.L, lower=1)
        return np.asarray(np.tril(lower) + np.tril(lower, -1).T)

    def mean(self, x: FloatArray) -> FloatArray:
        """Posterior mean of the outcome, (b,), own units; x is (b, d), unit cube."""
        h = self.hyperparameters
        standardised = h.mean + self.covariance(x) @ self.alpha
        return np.asarray(h.y_shift + h.y_scale * standardised)

    def sd(self, x: FloatArray) -> FloatArray:
        """Posterior standard deviation of the noise-free outcome, (b,), own units; x is (b, d), unit cube."""
        h = self.hyperparameters
        explained = np.square(self.whiten(self.covariance(x))).sum(axis=1)
        return np.asarray(h.y_scale * np.sqrt(np.maximum(h.signal_variance - explained, 0.0)))

    def covariance(self, x: FloatArray) -> FloatArray:
        """Prior covariance with the data, (b, n), standardised; x is (b, d), unit cube."""
        h = self.hyperparameters
        return h.signal_variance * h.product_kernel.matrix(np.atleast_2d(x), self.x)

    def whiten(self, w: FloatArray) -> FloatArray:
        """(L^-1 w')' for rows w (b, n): the squared norm of a row is w' (K + lam I)^-1 w, never negative."""
        return _triangular(self.L, w, transposed=False)

    def unwhiten(self, t: FloatArray) -> FloatArray:
        """(L^-T t')' for rows t (b, n); after `whiten` this completes (K + lam I)^-1 w."""
        return _triangular(self.L, t, transposed=True)


def _triangular(L: FloatArray, rows: FloatArray, *, transposed: bool) -> FloatArray:
    """BLAS directly: rows in C order are columns in Fortran order, so nothing is copied but the result."""
    from scipy.linalg.blas import dtrsm  # noqa: PLC0415 - heavy: not for `rigctl --help`

    if not rows.size:
        return rows
    return np.asarray(dtrsm(1.0, L, np.ascontiguousarray(rows).T, lower=1, trans_a=int(transposed)).T)


def fit(
    x: FloatArray, y: FloatArray, options: ModelOptions, previous: Hyperparameters | None = None, *, refit: bool = True
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

    Raises:
        ValueError: shapes do not match, a value is not finite, or fixed hyper-parameters are missing.
    """
    x, y = _checked(x, y)
    if options.hyperparameters == "fixed":
        return _condition(x, y, _fixed(options, x.shape[1]), ())
    if previous is not None and len(previous.lengthscales) != x.shape[1]:
        raise ValueError(f"previous hyper-parameters: got {len(previous.lengthscales)} lengthscales, d = {x.shape[1]}")
    if previous is not None and not refit:
        return _condition(x, y, previous, ())
    initial = _initial(x.shape[1], y, options)
    if len(y) < FEWEST_TO_LEARN or np.ptp(y) <= NO_SPREAD * np.abs(y).max():
        return _condition(x, y, initial, ())
    return _learned(x, y, initial, previous)


def _learned(x: FloatArray, y: FloatArray, initial: Hyperparameters, previous: Hyperparameters | None) -> Posterior:
    from rigctl.core.learning import learn  # noqa: PLC0415 - imports scikit-learn: only where it fits

    try:
        return _condition(x, y, learn(x, y, initial, previous), ())
    except FitFailed as failure:
        kept = "the previous ones" if previous else "the prior's"
        return _condition(x, y, previous or initial, (f"hyper-parameters: {failure}; kept {kept}",))


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
    return Hyperparameters(tuple(map(float, lengthscales)), signal_sd, noise_sd, mean, kernel=options.kernel)


def _initial(d: int, y: FloatArray, options: ModelOptions) -> Hyperparameters:
    """Before anything is learned: the options where given, else the prior's modes, on standardised y."""
    shift, scale = standardisation(y, options)
    mode = float(np.exp(lengthscale_prior_location(d) - 3.0))
    return Hyperparameters(
        lengthscales=tuple(map(float, options.lengthscales)) if options.lengthscales else (mode,) * d,
        signal_sd=1.0,
        noise_sd=options.noise_sd / scale if options.noise_sd else 0.05,
        mean=0.0,
        y_shift=shift,
        y_scale=scale,
        kernel=options.kernel,
    )


def standardisation(y: FloatArray, options: ModelOptions) -> tuple[float, float]:
    """(shift, scale) that give y mean 0 and standard deviation 1.

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


def _condition(x: FloatArray, y: FloatArray, h: Hyperparameters, notes: tuple[str, ...]) -> Posterior:
    """Factorise, with as little jitter as it takes."""
    correlation = h.product_kernel.matrix(x, x)
    np.fill_diagonal(correlation, 1.0)
    for jitter in JITTERS:
        L = _factor(correlation, h, jitter)
        if L is not None:
            break
    else:
        # as much noise as signal always factorises: the diagonal then outweighs rounding by 1e15
        jitter, L = 1.0, np.asarray(_factor(correlation, h, 1.0))
    if jitter:
        notes = (*notes, f"covariance not positive definite: added {jitter:g} of the signal variance to its diagonal")
    residual = (y - h.y_shift) / h.y_scale - h.mean
    alpha = _triangular(L, _triangular(L, residual[None, :], transposed=False), transposed=True)[0]
    return Posterior(h, x, L, alpha, jitter * h.signal_variance, notes)


def _factor(correlation: FloatArray, h: Hyperparameters, jitter: float) -> FloatArray | None:
    """Lower Cholesky factor, or None if the matrix is not safely positive definite."""
    from scipy.linalg.lapack import dpotrf  # noqa: PLC0415 - heavy: not for `rigctl --help`

    matrix = np.array(h.signal_variance * correlation, order="F")
    matrix[np.diag_indices_from(matrix)] += h.noise_sd**2 + jitter * h.signal_variance
    if not len(matrix):
        return matrix
    L, info = dpotrf(matrix, lower=1, clean=1, overwrite_a=1)
    # a pivot of pure rounding error would pass as positive and blow up alpha
    safe = info == 0 and np.square(np.diag(L)).min() > len(L) * np.finfo(float).eps * h.signal_variance
    return np.asarray(L) if safe else None
