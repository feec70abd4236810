"""The Cholesky factor of the data's covariance, grown as trials come in.

Rows are factorised in blocks of a fixed size, each block from those above it (the left-looking blocked Cholesky
algorithm). A block that is full never changes, so from one trial to the next only the last one is computed, O(n^2);
and as the steps depend on nothing but the data, a factor grown over weeks and one computed in a fresh process agree
bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.gp.hyperparameters import Hyperparameters

BLOCK = 64
"""Rows factorised together: enough for fast matrix products, few enough to be done again with every trial."""


@dataclass(frozen=True, slots=True, eq=False)
class Factor:
    """Keep this for the next trial."""

    x: FloatArray
    """(n, d), unit cube."""
    L: FloatArray
    """(n, n), lower, C order."""
    noise: FloatArray | None = None
    """(n,), noise variances, standardised, where they are not all lam."""


def factorise(
    x: FloatArray, h: Hyperparameters, jitter: float, known: Factor | None = None, noise: FloatArray | None = None
) -> Factor | None:
    """Return the lower Cholesky factor of K + (lam + jitter) I, standardised; None if it is not safely definite.

    Args:
        x: (n, d), unit cube.
        h: kernel, signal and noise.
        jitter: added to the diagonal, standardised.
        known: a factor of the same hyper-parameters and jitter; what it shares with this one is taken over.
        noise: (n,), each row's own lam, standardised; None: that of `h`.
    """
    done = 0 if known is None else min(_shared(known.x, x), _alike(known.noise, noise, len(x)))
    if known is not None and done == len(x) == len(known.x):
        return known
    L = np.zeros((len(x), len(x)))
    if known is not None:
        L[:done, :done] = known.L[:done, :done]
    for begin in range(done, len(x), BLOCK):
        if not _append(L, x, h, (h.noise_sd**2 if noise is None else noise[begin : begin + BLOCK]) + jitter, begin):
            return None
    return Factor(x, L, noise)


def _shared(before: FloatArray, now: FloatArray) -> int:
    """Return how many rows at the head are the same, in whole blocks (all, if nothing has changed)."""
    if before.shape == now.shape and np.array_equal(before, now):
        return len(now)
    whole = min(len(before), len(now)) // BLOCK * BLOCK
    return whole if np.array_equal(before[:whole], now[:whole]) else 0


def _alike(before: FloatArray | None, now: FloatArray | None, rows: int) -> int:
    """Return how many rows at the head have the same noise, in whole blocks (all, if nothing has changed)."""
    if before is None and now is None:
        return rows
    return 0 if before is None or now is None else _shared(before, now)


def _append(L: FloatArray, x: FloatArray, h: Hyperparameters, added: float | FloatArray, begin: int) -> bool:
    """Compute the block of rows from `begin` on; return False where a pivot is no more than rounding error."""
    from scipy.linalg.lapack import dpotrf  # noqa: PLC0415 - heavy: not for `rigctl --help`

    end = min(begin + BLOCK, len(x))
    rows = h.signal_variance * h.product_kernel.matrix(x[begin:end], x[:end])
    for left in range(0, begin, BLOCK):
        right = left + BLOCK
        rows[:, left:right] -= rows[:, :left] @ L[left:right, :left].T
        rows[:, left:right] = solve(L[left:right, left:right], rows[:, left:right])
    corner = rows[:, begin:]
    np.fill_diagonal(corner, h.signal_variance + added)
    corner -= rows[:, :begin] @ rows[:, :begin].T
    pivots, info = dpotrf(corner, lower=1, clean=1)
    L[begin:end, :begin] = rows[:, :begin]
    L[begin:end, begin:end] = pivots
    # a pivot of pure rounding error would pass as positive and blow up alpha; the limit is the full block's, so that
    # a block fails whether or not later rows are there
    least = (begin + BLOCK) * np.finfo(float).eps * h.signal_variance
    return info == 0 and bool(np.square(np.diag(pivots)).min() > least)


def solve(L: FloatArray, rows: FloatArray, *, transposed: bool = False) -> FloatArray:
    """Return (L^-1 r')' for rows r (b, n), or (L^-T r')'; L (n, n) is lower, both in C order.

    BLAS directly: rows in C order are columns in Fortran order, so nothing is copied but the result.
    """
    from scipy.linalg.blas import dtrsm  # noqa: PLC0415 - heavy: not for `rigctl --help`

    if not rows.size:
        return rows
    upper = np.ascontiguousarray(L).T
    return np.asarray(dtrsm(1.0, upper, np.ascontiguousarray(rows).T, lower=0, trans_a=int(not transposed)).T)
