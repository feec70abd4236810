"""The Cholesky factor of the data's covariance, grown as trials come in; and few inputs that stand for many.

Rows are factorised in blocks of a fixed size, each block from those above it (the left-looking blocked Cholesky
algorithm). A block that is full never changes, so from one trial to the next only the last one is computed, O(n^2);
and as the steps depend on nothing but the data, a factor grown over weeks and one computed in a fresh process agree
bit for bit.

Many trials are represented by a few of their inputs: the sparse variational posterior (Titsias 2009).

With inducing inputs U chosen among the data, Q = Kfu Kuu^-1 Kuf the covariance they explain, and S = V V' / lam where
Kuu = R R', V = R^-1 Kuf, the posterior at w = k_u(x) is (Titsias 2009, eq. 6)

    mean = w' alpha,               alpha = R^-T (I + S)^-1 V y / lam
    var  = k(x, x) - w' (L L')^-1 w,   L L' = R (I + S^-1) R'

since Kuu^-1 - (Kuu + Kuf Kfu / lam)^-1 = R^-T (I - (I + S)^-1) R^-1. So it has the form of an ordinary posterior whose
data lie at U, and everything that integrates or climbs one works as it is.

U is chosen by greedy pivoted Cholesky, for which the error is bounded by what is left of the trace of K - Q (Burt,
Rasmussen and van der Wilk 2020, theorem 2): first among the best outcomes, where the campaign will go on playing and
must not mistake what it knows for unknown; then among all. Repeats of a setting are not chosen again, but all
outcomes count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.gp.hyperparameters import Hyperparameters

TAIL_SHARE = 8
"""U is chosen anew every `max_points` / this many trials; the trials since are added to it as they come."""
BEST_SHARE = 3
"""One in this many inducing inputs is chosen among as many trials with the best outcomes."""
RESIDUE = 0.01
"""Inputs of which less than this share of the noise variance is unexplained are not chosen: they would add nothing."""
LEAST_AND_MOST = 1e-4, 1e4
"""A trial's own noise variance counts as no more or less than so many parts of the model's: S must stay definite."""
SMALLEST = 1e-9
"""Shares of the signal variance smaller than this drown in rounding error: neither noise nor residue goes below."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Hold what the posterior is made of: sums over all trials. n trials, m inducing inputs; standardised."""

    points: FloatArray
    """U, (m, d), unit cube."""
    R: FloatArray
    """(m, m), lower: Kuu = R R'."""
    square: FloatArray
    """(m, m), V V'."""
    projected: FloatArray
    """(m,), V times the residual."""
    picks: IntArray
    """(m,), which trials U are."""
    unexplained: FloatArray
    """(n,), what U leaves of the prior variance at each trial: nothing where it is one of U."""


@dataclass(frozen=True, slots=True, eq=False)
class Base:
    """Hold the trials up to the last choice of U, until the next."""

    x: FloatArray
    """(n, d), unit cube."""
    residual: FloatArray
    """(n,), outcomes less the prior mean."""
    V: FloatArray
    """(m, n), R^-1 Kuf."""
    sums: Sums
    roots: FloatArray | None = None
    """(n,), sqrt(lam / each trial's own noise variance): so much V and the residual count in the sums; None: all 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Reduced:
    """Hold what `Posterior` is made of, and what to keep for the next trial."""

    points: FloatArray
    """U, (m, d), unit cube."""
    L: FloatArray
    """(m, m), lower, C order."""
    alpha: FloatArray
    """(m,)."""
    jitter: float
    """What was added to the noise variance."""
    uncertainty: tuple[FloatArray, FloatArray]
    """As in `Posterior`: R and the Cholesky factor of S, as Lambda = R S^-1 R'."""
    elsewhere: tuple[FloatArray, FloatArray]
    """As in `Posterior`."""
    base: Base


def reduced(
    x: FloatArray,
    residual: FloatArray,
    h: Hyperparameters,
    most: int,
    known: Base | None = None,
    *,
    noise: FloatArray | None = None,
) -> Reduced:
    """Return the posterior of n > `most` trials by at most `most` inducing inputs.

    Args:
        x: (n, d), unit cube.
        residual: (n,), outcomes less the prior mean, standardised, larger is better.
        h: kernel, signal and noise.
        most: inducing inputs at most.
        known: of an earlier call with the same hyper-parameters and `most`; used if it is still the one to use.
        noise: (n,), each trial's own noise variance, standardised; None: that of `h`.
    """
    roots = None if noise is None else np.sqrt(np.clip(_noise(h) / noise, *LEAST_AND_MOST))
    step = max(1, most // TAIL_SHARE)
    begin = most + (len(x) - most) // step * step
    base, head = known, None if roots is None else roots[:begin]
    if base is None or not (
        np.array_equal(base.x, x[:begin])
        and np.array_equal(base.residual, residual[:begin])
        and _same(base.roots, head)
    ):
        base = _base(x[:begin], residual[:begin], h, most - step, head)
    return _posterior(_extended(base, x, residual, h, roots), base, h)


def _same(before: FloatArray | None, now: FloatArray | None) -> bool:
    return before is now if before is None or now is None else np.array_equal(before, now)


def _counted(rows: FloatArray, roots: FloatArray | None) -> FloatArray:
    """Return columns (or entries), one per trial, as they count in the sums."""
    return rows if roots is None else rows * roots


def _noise(h: Hyperparameters) -> float:
    return max(h.noise_sd**2, SMALLEST * h.signal_variance)


def _residue(h: Hyperparameters) -> float:
    return max(RESIDUE * _noise(h), SMALLEST * h.signal_variance)


def _base(x: FloatArray, residual: FloatArray, h: Hyperparameters, most: int, roots: FloatArray | None) -> Base:
    """Choose U, O(n m^2)."""
    correlations = h.product_kernel.to(x)

    def row(i: int) -> FloatArray:
        return np.asarray(h.signal_variance * correlations.matrix(x[i : i + 1])[0])

    best = np.argsort(-residual, kind="stable")[: most // BEST_SHARE]
    picks, V, left = _pivoted(row, np.full(len(x), h.signal_variance), most, _residue(h), best)
    R = np.ascontiguousarray(V[:, picks].T)
    counted = _counted(V, roots)
    square, projected = counted @ counted.T, counted @ _counted(residual, roots)
    return Base(x, residual, V, Sums(x[picks], R, square, projected, picks, left), roots)


def _pivoted(
    row: Callable[[int], FloatArray], diagonal: FloatArray, most: int, residue: float, first: IntArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Factorise by greedy pivots (m,).

    Returns them, V (m, n) with V' V as near to the matrix as they make it, and what is left of the diagonal, (n,).

    Args:
        row: a row of the matrix, (n,).
        diagonal: of the matrix, (n,).
        most: pivots at most.
        residue: no pivot has less than this left.
        first: rows from which pivots are taken until none of them has more than `residue` left.
    """
    left = diagonal.copy()
    V = np.empty((min(most, len(left)), len(left)))
    picks = np.empty(len(V), dtype=np.int64)
    count = 0
    among_first = len(first) > 0
    while count < len(V):
        i = int(first[left[first].argmax()]) if among_first else int(left.argmax())
        if left[i] <= residue:
            if not among_first:
                break
            among_first = False
            continue
        root = np.sqrt(left[i])
        new = V[count]
        np.subtract(row(i), V[:count, i] @ V[:count], out=new)
        new /= root
        # exactly, not up to rounding error divided by the root of a small pivot
        new[picks[:count]], new[i] = 0.0, root
        left -= np.square(new)
        picks[count] = i
        left[i] = -np.inf
        count += 1
    return picks[:count], V[:count], np.maximum(left, 0.0)


def _extended(base: Base, x: FloatArray, residual: FloatArray, h: Hyperparameters, roots: FloatArray | None) -> Sums:
    """Add the trials since the choice, which join U if U does not explain them."""
    old, known = len(base.x), base.sums
    if old == len(x):
        return known
    s2, kernel = h.signal_variance, h.product_kernel
    tail, tail_residual = x[old:], residual[old:]
    top = solve(known.R, s2 * kernel.matrix(tail, known.points)).T
    unexplained = s2 * kernel.matrix(tail, tail) - top.T @ top
    diagonal = s2 - np.einsum("ij,ij->j", top, top)
    picks, bottom, left = _pivoted(
        lambda i: unexplained[i], diagonal, len(tail), _residue(h), np.empty(0, dtype=np.int64)
    )
    corner = np.ascontiguousarray(bottom[:, picks].T)
    across = top[:, picks].T
    rest = s2 * kernel.matrix(tail[picks], base.x) - across @ base.V
    before = solve(corner, np.ascontiguousarray(rest.T)).T
    # from here on as they count; where all trials are alike these are the same arrays
    tail_roots = None if roots is None else roots[old:]
    top, bottom = _counted(top, tail_roots), _counted(bottom, tail_roots)
    before, V = _counted(before, base.roots), _counted(base.V, base.roots)
    tail_residual, earlier = _counted(tail_residual, tail_roots), _counted(base.residual, base.roots)
    mixed = before @ V.T + bottom @ top.T
    square = np.block([[known.square + top @ top.T, mixed.T], [mixed, before @ before.T + bottom @ bottom.T]])
    R = np.block([[known.R, np.zeros((len(known.R), len(picks)))], [across, corner]])
    projected = [known.projected + top @ tail_residual, before @ earlier + bottom @ tail_residual]
    points, chosen = np.concatenate([known.points, tail[picks]]), np.concatenate([known.picks, old + picks])
    return Sums(points, R, square, np.concatenate(projected), chosen, np.concatenate([known.unexplained, left]))


def _posterior(sums: Sums, base: Base, h: Hyperparameters) -> Reduced:
    """Return L and alpha, O(m^3)."""
    from scipy.linalg.blas import dtrmm  # noqa: PLC0415 - heavy: not for `rigctl --help`
    from scipy.linalg.lapack import dpotrf, dpotri, dtrtri  # noqa: PLC0415

    noise = _noise(h)
    S = sums.square / noise
    # U is among the data, so S >= R' R / lam: its smallest eigenvalue is about the smallest pivot over the noise
    precise, _ = dpotrf(S, lower=1, clean=1)
    inverse, _ = dpotri(precise, lower=1)
    inverse[np.diag_indices_from(inverse)] += 1.0
    root = dpotrf(inverse, lower=1, clean=1)[0]
    L = dtrmm(1.0, root, sums.R.T, lower=1, trans_a=1).T
    S[np.diag_indices_from(S)] += 1.0
    plus = np.ascontiguousarray(dpotrf(S, lower=1, clean=1)[0])
    white = solve(plus, solve(plus, sums.projected[None, :] / noise), transposed=True)
    alpha = solve(sums.R, white, transposed=True)[0]
    # the mean at U is Kuu alpha, so what the others of U say of one is lower by alpha_i / (Kuu^-1)_ii
    left, lift = sums.unexplained.copy(), np.zeros(len(sums.unexplained))
    left[sums.picks] = 1.0 / np.square(dtrtri(sums.R.T, lower=0)[0]).sum(axis=1)
    lift[sums.picks] = alpha * left[sums.picks]
    uncertainty = (sums.R, np.ascontiguousarray(precise))
    return Reduced(sums.points, L, alpha, noise - h.noise_sd**2, uncertainty, (lift, left), base)


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
