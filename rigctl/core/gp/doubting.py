"""Which outcomes does nothing else bear out? Leaves out those that are too far from what all others predict.

With K the covariance of the outcomes and alpha = K^-1 (y - mean), the outcomes of the rows S are predicted from all
others with the covariance C = ((K^-1)_SS)^-1 and the errors C alpha_S (Rasmussen and Williams 2006, eqs. 5.10 to 5.12,
for one row). The worst is left out, K^-1 is brought up to date, and so on. False outcomes at one place predict each
other and make the true ones there look false, so the search is repeated with those at each place that are off to one
side left out first.

An outcome that is left out is looked at again in every decision: two more like it at that place bear it out, if no more
contradict them there. Several in a row are no outliers but a change of the response (`core.gp.noticing`).

Hyper-parameters that were learned with a false outcome make room for it. So outcomes that are a little strange by them,
by the last ones or by a first guess are left out for trial, and hyper-parameters are learned anew from the others. The
most probable pair of hyper-parameters and false outcomes is the answer: a false outcome may be anything, and the share
of false ones is learned, too (a mixture as likelihood; Box and Tiao 1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lgamma

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.ageing import evidence, given
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import SIDE, OutcomeRecord
from rigctl.core.gp.priors import log_prior
from rigctl.core.gp.surrogate import Posterior, first_guess, fit

MOST = 5
"""At most one outcome in so many is left out: where more are strange it is the model that is wrong."""
DOUBTED = 4.0
"""Spreads of its prediction from all others beyond which one of many outcomes is left out."""
LEARNED = 3
"""Hyper-parameters besides lengthscales: fewer outcomes than those say nothing of spreads."""
SAME = 0.95
"""Correlation of the responses at two places that count as one."""
TRUE = 49.0
"""One outcome in fifty is false before any is known: a Beta(1, 49) prior of their share."""
WIDTH = 4.0
"""False outcomes are spread over so many standard deviations of those that count."""
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

    Too far is more than `limit` spreads (None: what is `believable`). The posterior is given all outcomes.
    """
    n, L, alpha = len(record.y), posterior.L, posterior.alpha
    limit = believable(*record.x.shape) if limit is None else limit
    if n < MOST or not np.isfinite(limit):
        return NOTHING
    if len(posterior.x) != n:
        return _of_many(record, options, posterior, limit, memo or Memo())
    # (K^-1)_ii is at least 1 / L_ii^2: most rows need no more than that
    near = np.flatnonzero(np.abs(alpha) * L.diagonal() > limit)
    if not (np.square(alpha[near]) > limit**2 * np.square(solve(L, np.eye(n)[near])).sum(axis=1)).any():
        return NOTHING
    same = posterior.hyperparameters.product_kernel.matrix(record.x, record.x) > SAME
    same &= np.equal.outer(alpha > 0, alpha > 0)
    places = {tuple(np.flatnonzero(row).tolist()) for row in same if 1 < row.sum() <= n // MOST}
    found = [_with_worst(posterior, place, limit) for place in ((), *sorted(places))]
    out = np.sort(max(found, key=lambda rows: _gain(posterior, rows, limit)))
    covariance = np.linalg.inv(posterior.K_inv[np.ix_(out, out)])
    errors = covariance @ alpha[out] / np.sqrt(covariance.diagonal())
    return _single(record, posterior.hyperparameters, out, errors, limit)


def _with_worst(posterior: Posterior, first: Sequence[int], limit: float) -> IntArray:
    """Return these rows and, the worst first, those that are beyond the limit without them."""
    K_inv, alpha, out = posterior.K_inv, posterior.alpha.copy(), list[int]()
    spread, left = K_inv.diagonal().copy(), np.empty((len(alpha) // MOST, len(alpha)))
    for turn in range(len(left)):
        errors = np.abs(alpha) / np.sqrt(spread)
        worst = first[turn] if turn < len(first) else int(errors.argmax())
        if turn >= len(first) and errors[worst] <= limit:
            break
        # of K^-1 without the rows that are out, only this column and the diagonal are needed
        column = (K_inv[worst] - left[:turn, worst] @ left[:turn]) / np.sqrt(spread[worst])
        left[turn] = column
        alpha -= column * (alpha[worst] / np.sqrt(spread[worst]))
        spread -= np.square(column)
        out.append(worst)
        alpha[out], spread[out] = 0.0, 1.0
    return np.array(out, dtype=np.int64)


def _gain(posterior: Posterior, out: IntArray, limit: float) -> float:
    """Return how much the log likelihood rises if each of these is as far off as the limit, the others given."""
    covariance, alpha = np.linalg.inv(posterior.K_inv[np.ix_(out, out)]), posterior.alpha[out]
    together = np.linalg.slogdet(covariance)[1] - np.log(covariance.diagonal()).sum()
    return float(0.5 * (alpha @ covariance @ alpha + together - len(out) * limit**2))


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

    `SIDE` at the same place that are as far off bear each other out, as two may both be lucky, unless more than those
    count no farther away; and so do as many in succession: a change.
    """
    close, found = h.product_kernel.matrix(record.x[rows], record.x), set[int]()
    near, agree = close[:, rows], np.abs(np.subtract.outer(errors, errors)) < limit
    agree &= (near > SAME) & (np.abs(errors) > limit)
    reach = np.sort(np.where(agree, near, 0.0))[:, -SIDE:].min(axis=1, keepdims=True)
    against = (close >= reach).sum(axis=1) - (near >= reach).sum(axis=1)
    alone = (agree.sum(axis=1) < SIDE) | (against > SIDE)
    for side in (-1.0, 1.0):
        mine = rows[alone & (side * errors > limit)]
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
    Then only those that are not believable. Of the sets without a believable outcome the most probable one is returned.
    """
    whole = fit(record.x, record.y, options, previous, memo=memo, noise=record.noise, light=light)
    limit = min(float(np.sqrt(2 * np.log(max(len(record.y), 1)))), believable(*record.x.shape))

    def by(h: Hyperparameters) -> Posterior:
        return given(record, h, options, Memo())

    first = by(first_guess(record.x.shape[1], record.y, options))
    tried = {NOTHING.tobytes(): (NOTHING, whole)}
    for start in (whole, first, *([by(previous)] if previous else ())):
        posterior = start
        for narrower in (limit, limit, limit, None, None):
            out = doubted(record, options, posterior, narrower)
            if not out.size:
                break
            key, rest = out.tobytes(), without(record, out)
            if key not in tried:
                learned = fit(rest.x, rest.y, options, whole.hyperparameters, noise=rest.noise, light=light)
                tried[key] = out, learned
            posterior = by(tried[key][1].hyperparameters)
    if len(tried) == 1:
        return NOTHING, whole
    far = [(o, p) for o, p in tried.values() if np.isin(o, doubted(record, options, by(p.hyperparameters))).all()]
    return max(far, key=lambda one: _log_probability(record, one[0], one[1].hyperparameters, options))


def _log_probability(record: OutcomeRecord, out: IntArray, h: Hyperparameters, options: ModelOptions) -> float:
    """Return the log posterior of these hyper-parameters and of these outcomes being false, up to a constant."""
    rows = record.thinned_rows()
    rest = record.of(np.setdiff1d(rows, out))
    n, k = len(rows), len(rows) - len(rest.y)
    share = lgamma(1 + k) + lgamma(TRUE + n - k)
    likelihood = evidence(rest, h, ()) - n * float(np.log(h.y_scale)) - k * float(np.log(WIDTH))
    return likelihood + share + log_prior(options.prior, record.x.shape[1]).of_logarithms(h.theta)
