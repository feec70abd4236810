"""Which outcomes does nothing else bear out? Leaves out single ones that are too far from what all others predict.

With K the covariance of the outcomes and alpha = K^-1 (y - mean), outcome i is predicted from all others with the error
alpha_i / (K^-1)_ii and the variance 1 / (K^-1)_ii (Rasmussen and Williams 2006, eqs. 5.10 to 5.12). The worst is left
out, K^-1 is brought up to date, and so on; then each of those left out is predicted from all that are left.

An outcome that is left out is looked at again in every decision: another one like it bears it out. Several in a row are
no outliers but a change of the response (`core.gp.noticing`). Hyper-parameters that were learned with a false outcome
make room for it: one that is a little strange by them is left out for trial, they are learned anew, and the likelihoods
are compared.
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.ageing import evidence, given
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import SIDE, OutcomeRecord
from rigctl.core.gp.surrogate import Posterior, fit

MOST = 5
"""At most one outcome in so many is left out: where more are strange it is the model that is wrong."""
DOUBTED = 4.0
"""Spreads of its prediction from all others beyond which one of many outcomes is left out."""
LEARNED = 3
"""Hyper-parameters besides lengthscales: fewer outcomes than those say nothing of spreads."""
SAME = 0.95
"""Correlation of the responses at two places that count as one."""
NOTHING = np.empty(0, dtype=np.int64)


def believable(n: int, d: int) -> float:
    """Return how many spreads off one of n outcomes of d variables may be: as unlikely as `DOUBTED` of very many.

    Spreads of few outcomes are not known well, so the prediction is a Student t with as many degrees of freedom as
    there are outcomes beyond the hyper-parameters.
    """
    free = n - d - LEARNED
    return float(np.sqrt(free * np.expm1(DOUBTED**2 / (free + 1)))) if free > 0 else np.inf


def doubted(
    record: OutcomeRecord,
    options: ModelOptions,
    posterior: Posterior,
    limit: float | None = None,
    memo: Memo | None = None,
) -> IntArray:
    """Return the rows, in order, of outcomes that are too far off what all others predict.

    Args:
        record: the outcomes.
        options: of the model.
        posterior: given all of them.
        limit: spreads; None: as far off as is `believable`.
        memo: of the history behind the record.
    """
    n, L, alpha = len(record.y), posterior.L, posterior.alpha.copy()
    limit = believable(*record.x.shape) if limit is None else limit
    if n < MOST or not np.isfinite(limit):
        return NOTHING
    if len(posterior.x) != n:
        return _of_many(record, options, posterior, limit, memo or Memo())
    # (K^-1)_ii is at least 1 / L_ii^2: most rows need no more than that
    near = np.flatnonzero(np.abs(alpha) * L.diagonal() > limit)
    if not (np.square(alpha[near]) > limit**2 * np.square(solve(L, np.eye(n)[near])).sum(axis=1)).any():
        return NOTHING
    K_inv, out = posterior.K_inv.copy(), []
    for _ in range(n // MOST):
        errors = np.abs(alpha) / np.sqrt(K_inv.diagonal())
        worst = int(errors.argmax())
        if errors[worst] <= limit:
            break
        out.append(worst)
        column = K_inv[:, worst] / K_inv[worst, worst]
        alpha -= column * alpha[worst]
        K_inv -= np.outer(column, K_inv[worst])
        alpha[out], K_inv[out, out] = 0.0, 1.0
    # their block of K^-1 is the inverse of their covariance given all others
    covariance = np.linalg.inv(posterior.K_inv[np.ix_(out, out)])
    errors = covariance @ posterior.alpha[out] / np.sqrt(covariance.diagonal())
    order = np.argsort(out)
    return _single(record, posterior.hyperparameters, np.array(out)[order], errors[order], limit)


def _of_many(record: OutcomeRecord, options: ModelOptions, posterior: Posterior, limit: float, memo: Memo) -> IntArray:
    """Return the rows of more outcomes than the posterior has points.

    Strange is what is off by what inducing inputs elsewhere say: a mean that follows a false outcome is not, and where
    they leave much unexplained, much is off.
    """
    h, off = posterior.hyperparameters, record.y - posterior.mean(record.x)
    own = np.full(len(record.y), h.noise_sd) if record.noise is None else np.sqrt(h.noise_variances(record.noise))
    lift, left = posterior.elsewhere or (0.0, 0.0)
    errors = np.abs(off + h.y_scale * lift) / (h.y_scale * np.sqrt(np.square(own) + left))
    worst = np.argsort(-errors, kind="stable")[: len(errors) // MOST]
    rows = np.sort(worst[errors[worst] > limit])
    if not rows.size:
        return NOTHING
    # from one decision to the next they are mostly the same
    apart = memo.get("others") or Memo()
    memo.keep("others", apart)
    others = given(without(record, rows), h, options, apart)
    spread = np.hypot(others.sd(record.x[rows]), h.y_scale * own[rows])
    return _single(record, h, rows, (record.y[rows] - others.mean(record.x[rows])) / spread, limit)


def _single(record: OutcomeRecord, h: Hyperparameters, rows: IntArray, errors: FloatArray, limit: float) -> IntArray:
    """Return the rows, of these in order, that are beyond the limit and have nothing to bear them out.

    Another one at the same place that is as far off bears one out; and so do `SIDE` in succession: a change.
    """
    near, found = h.product_kernel.matrix(record.x[rows], record.x[rows]) > SAME, set[int]()
    agree = near & (np.abs(np.subtract.outer(errors, errors)) < limit)
    for side in (-1.0, 1.0):
        far = side * errors > limit
        mine = rows[far & ((agree & far).sum(axis=1) == 1)]
        runs = np.split(mine, np.flatnonzero(np.diff(mine) > 1) + 1)
        found.update(int(row) for run in runs if len(run) < SIDE for row in run)
    return np.array(sorted(found), dtype=np.int64)


def without(record: OutcomeRecord, rows: IntArray) -> OutcomeRecord:
    """Return the record without these; the same one if there are none."""
    return record.of(np.delete(np.arange(len(record.y)), rows)) if rows.size else record


def judged(
    record: OutcomeRecord, options: ModelOptions, previous: Hyperparameters | None, memo: Memo, *, light: bool = False
) -> tuple[IntArray, Posterior]:
    """Learn hyper-parameters; return the rows that were left out for that, and the posterior of the others.

    First all are left out that are as far off as the largest of so many is by chance, since false ones hide each other.
    Then only those that are not believable. The likelihood decides.
    """
    whole = fit(record.x, record.y, options, previous, memo=memo, noise=record.noise, light=light)
    limit = min(float(np.sqrt(2 * np.log(max(len(record.y), 1)))), believable(*record.x.shape))
    out = NOTHING if previous is None else _by(record, options, previous, limit)
    out = out if out.size else doubted(record, options, whole, limit)
    if not out.size:
        return NOTHING, whole
    found, best, tried = (NOTHING, whole), _score(record, NOTHING, whole), {NOTHING.tobytes()}
    for narrower in (limit, limit, limit, None, None):
        if out.tobytes() not in tried:
            tried.add(out.tobytes())
            rest = without(record, out)
            learned = fit(rest.x, rest.y, options, whole.hyperparameters, noise=rest.noise, light=light)
            score = _score(record, out, learned)
            if score > best:
                found, best = (out, learned), score
        out = _by(record, options, learned.hyperparameters, narrower)
    return found


def _by(record: OutcomeRecord, options: ModelOptions, h: Hyperparameters, limit: float | None = None) -> IntArray:
    return doubted(record, options, given(record, h, options, Memo()), limit)


def _score(record: OutcomeRecord, out: IntArray, posterior: Posterior) -> float:
    """Return the log likelihood of all outcomes, own units; one that is left out is as far off as is believable."""
    h, rows = posterior.hyperparameters, record.thinned_rows()
    rest, others = record.of(np.setdiff1d(rows, out)), record.of(np.intersect1d(rows, out))
    spread = np.hypot(posterior.sd(others.x), h.y_scale * h.noise_sd)
    apart = -0.5 * believable(*record.x.shape) ** 2 - np.log(spread) - 0.5 * np.log(2 * np.pi)
    return evidence(rest, h, ()) - len(rest.y) * float(np.log(h.y_scale)) + float(apart.sum())
