"""Which outcomes are false? An outcome is the response's, or one in `1 / FALSE` is not and may be anything.

Which ones are, and the hyper-parameters, are the most likely pair: they maximise

    ln p(outcomes that count | theta) + ln p(theta) + the sum over those left out of ln [FALSE / (1 - FALSE) / width]

(a mixture likelihood, Jaynes and Box; its mode instead of its mean). With K the covariance of all outcomes and
alpha = K^-1 (y - mean), those of the rows S have the density

    ln p(y_S | all others) = (ln |Q| - alpha_S' Q^-1 alpha_S - |S| ln 2 pi) / 2,    Q = (K^-1)_SS

(Rasmussen and Williams 2006, eqs. 5.10 to 5.12, for one row), so by given hyper-parameters it is known at once what is
gained by leaving out any one more. The one that gains most is left out, and so on. False ones at the same place bear
each other out, and make the true ones around them look false: so it is tried to believe those left out near others.

Several in a row are no false outcomes but a change of the response (`core.gp.noticing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.ageing import evidence, given
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import SIDE, OutcomeRecord
from rigctl.core.gp.priors import log_prior
from rigctl.core.gp.surrogate import Posterior, fit

MOST = 5
"""At most one outcome in so many is left out: where more are strange it is the model that is wrong."""
DOUBTED = 4.0
"""Spreads of its prediction from all others beyond which one of many outcomes is suspected."""
FAR = 0.7
"""So much of that limit those that are left out together are off at least, each from what all that count predict."""
LEARNED = 3
"""Hyper-parameters besides lengthscales: fewer outcomes than those say nothing of spreads."""
FALSE = 0.02
"""Share of outcomes that are false, before anything is known."""
WIDE = 4.0
"""The width that false outcomes are spread over, in robust standard deviations of all outcomes."""
TAIL, BETWEEN_TAILS = 0.1, 2.563
"""The share of outcomes at either end that the width does not count, and the width between, in standard deviations."""
NEAR = 0.5
"""Correlation of the responses at two places from which on one may make the other look false."""
SMALL = 1e-12
"""Shares of a product that are rounding error."""
SAME = 0.99
"""Correlation at two places that count as one: `SIDE` outcomes there that agree bear each other out."""
HIDDEN = 128
"""Up to so many outcomes, false ones may have taught the model so much noise that none is strange by it."""
LOOKS = 4
"""How often those that are left out and hyper-parameters follow one another from one start."""
NOTHING = np.empty(0, dtype=np.int64)


def believable(n: int, d: int) -> float:
    """Return how many spreads off one of n outcomes of d variables may be: as unlikely as `DOUBTED` of very many.

    Spreads of few outcomes are not known well, so the prediction is a Student t with as many degrees of freedom as
    there are outcomes beyond the hyper-parameters.
    """
    free = n - d - LEARNED
    return float(np.sqrt(free * np.expm1(DOUBTED**2 / (free + 1)))) if free > 0 else np.inf


def doubted(record: OutcomeRecord, options: ModelOptions, posterior: Posterior, memo: Memo | None = None) -> IntArray:
    """Return the rows, in order, of outcomes that are false by these hyper-parameters; none while all are believable.

    Args:
        record: the outcomes.
        options: of the model.
        posterior: given all of them.
        memo: of the history behind the record.
    """
    limit, alpha, L = believable(*record.x.shape), posterior.alpha, posterior.L
    if len(record.y) < MOST or not np.isfinite(limit):
        return NOTHING
    if len(posterior.x) == len(record.y):
        # (K^-1)_ii is at least 1 / L_ii^2: most rows need no more than that
        near = np.flatnonzero(np.abs(alpha) * L.diagonal() > limit)
        if not (np.square(alpha[near]) > limit**2 * np.square(solve(L, np.eye(len(L))[near])).sum(axis=1)).any():
            return NOTHING
    return _false(record, options, posterior, memo or Memo())


def _false(record: OutcomeRecord, options: ModelOptions, posterior: Posterior, memo: Memo) -> IntArray:
    """Return the rows, in order, of the outcomes that are most likely false by the posterior's hyper-parameters."""
    exact = len(posterior.x) == len(record.y)
    rows, errors = _explained(record, posterior) if exact else _of_many(record, options, posterior, memo)
    runs = np.split(np.arange(len(rows)), np.flatnonzero((np.diff(rows) > 1) | (np.diff(np.sign(errors)) != 0)) + 1)
    return rows[[row for run in runs if len(run) < SIDE for row in run]]


def _of_many(
    record: OutcomeRecord, options: ModelOptions, posterior: Posterior, memo: Memo
) -> tuple[IntArray, FloatArray]:
    """Return the rows of false ones among more outcomes than the posterior has points, and their errors in spreads.

    Strange is what is off by what inducing inputs elsewhere say: a mean that follows a false outcome is not, and where
    they leave much unexplained, much is off.
    """
    h, off, limit = posterior.hyperparameters, record.y - posterior.mean(record.x), believable(*record.x.shape)
    own = np.full(len(record.y), h.noise_sd) if record.noise is None else np.sqrt(h.noise_variances(record.noise))
    lift, left = posterior.elsewhere or (0.0, 0.0)
    errors = np.abs(off + h.y_scale * lift) / (h.y_scale * np.sqrt(np.square(own) + left))
    worst = np.argsort(-errors, kind="stable")[: len(errors) // MOST]
    rows = np.sort(worst[errors[worst] > limit])
    if not rows.size:
        return NOTHING, np.empty(0)
    # from one decision to the next they are mostly the same
    apart = memo.get("others") or Memo()
    memo.keep("others", apart)
    others = given(without(record, rows), h, options, apart)
    spread = np.hypot(others.sd(record.x[rows]), h.y_scale * own[rows])
    errors = (record.y[rows] - others.mean(record.x[rows])) / spread
    far = np.abs(errors) > limit
    return rows[far], errors[far]


def without(record: OutcomeRecord, rows: IntArray) -> OutcomeRecord:
    """Return the record without these; the same one if there are none."""
    return record.of(np.delete(np.arange(len(record.y)), rows)) if rows.size else record


def _spread(record: OutcomeRecord) -> float:
    """Return the robust standard deviation of the outcomes, own units; 0 where all are alike."""
    return float(np.ptp(np.quantile(record.y, (TAIL, 1 - TAIL)))) / BETWEEN_TAILS or float(record.y.std())


def _price(record: OutcomeRecord) -> float:
    """Return what leaving one outcome out adds to the logarithm, own units."""
    return float(np.log(FALSE / (1 - FALSE)) - np.log(WIDE * _spread(record)))


@dataclass(frozen=True, eq=False)
class _Search:
    """Look for the outcomes whose leaving out makes all most likely, by given hyper-parameters; standardised."""

    K_inv: FloatArray
    """(n, n)."""
    alpha: FloatArray
    """(n,)."""
    price: float
    """What leaving one out adds, and half of ln 2 pi."""

    def predicted(self, out: Sequence[int]) -> tuple[FloatArray, FloatArray]:
        """Return by how much each outcome is better than all others that count predict, and the variance, (n,) each."""
        rows = list(out)
        covariance = np.linalg.inv(self.K_inv[np.ix_(rows, rows)])
        columns = covariance @ self.K_inv[rows]
        own = self.K_inv.diagonal()
        variances = 1.0 / np.maximum(own - (self.K_inv[rows] * columns).sum(axis=0), SMALL * own)
        errors = variances * (self.alpha - self.alpha[rows] @ columns)
        errors[rows], variances[rows] = covariance @ self.alpha[rows], covariance.diagonal()
        return errors, variances

    def total(self, out: Sequence[int]) -> float:
        """Return what is gained by leaving these out."""
        Q, alpha = self.K_inv[np.ix_(out, out)], self.alpha[list(out)]
        return float(0.5 * (alpha @ np.linalg.solve(Q, alpha) - np.linalg.slogdet(Q)[1]) + len(alpha) * self.price)

    def climbed(self, out: Sequence[int], kept: Sequence[int] = ()) -> list[int]:
        """Return what comes of leaving out, besides these, the one that gains most, until none does; `kept` count."""
        found, most = list(out), len(self.alpha) // MOST
        for _ in range(4 * most):
            errors, variances = self.predicted(found)
            gains = 0.5 * (np.square(errors) / variances + np.log(variances)) + self.price
            least = min(found, key=gains.__getitem__, default=None)
            if least is not None and gains[least] <= 0:
                found.remove(least)
                continue
            gains[[*found, *kept]] = -np.inf
            best = int(gains.argmax())
            if gains[best] <= 0 or len(found) >= most:
                break
            found.append(best)
        return found


def _explained(record: OutcomeRecord, posterior: Posterior) -> tuple[IntArray, FloatArray]:
    """Return the rows of false ones, and their errors in spreads.

    Of those near one another it may be the others that are false: that is tried, too.
    """
    h = posterior.hyperparameters
    price = _price(record) + float(np.log(h.y_scale)) + 0.5 * float(np.log(2 * np.pi))
    search = _Search(posterior.K_inv, posterior.alpha, price)
    best = search.climbed(())
    near = h.product_kernel.matrix(record.x[best], record.x[best]) > NEAR
    places = {tuple(np.array(best)[row].tolist()): None for row in near if row.sum() > 1}
    for place in places if len(record.y) <= HIDDEN else ():
        other = search.climbed(search.climbed([i for i in best if i not in place], place))
        best = other if search.total(other) > search.total(best) else best
    rows = np.sort(np.array(best, dtype=np.int64))
    errors, variances = (part[rows] for part in search.predicted(rows.tolist()))
    errors = errors / np.sqrt(variances)
    agree = np.abs(np.subtract.outer(errors, errors)) < DOUBTED
    agree &= h.product_kernel.matrix(record.x[rows], record.x[rows]) > SAME
    alone = (agree.sum(axis=1) < SIDE) & (np.abs(errors) > FAR * believable(*record.x.shape))
    return rows[alone], errors[alone]


def judged(
    record: OutcomeRecord, options: ModelOptions, previous: Hyperparameters | None, memo: Memo
) -> tuple[IntArray, Posterior]:
    """Learn hyper-parameters and which outcomes are false; return the rows of these, and the posterior of the others.

    Hyper-parameters that were learned with false outcomes make room for them. So the search begins from those that are
    learned from all outcomes, those of before, and those that the prior expects, with little noise. The most likely
    pair of hyper-parameters and outcomes that count is the answer.
    """
    whole = fit(record.x, record.y, options, previous, refit=True, memo=memo, noise=record.noise)
    if len(record.y) < MOST or not np.isfinite(believable(*record.x.shape)) or not _spread(record):
        return NOTHING, whole
    prior = log_prior(options.prior, record.x.shape[1])
    found, best, tried = (NOTHING, whole), _score(record, NOTHING, whole, options), {NOTHING.tobytes()}
    signal, noise, *lengthscales = map(float, prior.modes)
    expected = replace(
        whole.hyperparameters,
        lengthscales=tuple(lengthscales),
        signal_sd=signal,
        noise_sd=noise,
        y_shift=float(np.median(record.y)),
        y_scale=_spread(record),
    )
    starts = (whole.hyperparameters, previous, expected if len(record.y) <= HIDDEN else None)
    for begun in filter(None, starts):
        h = begun
        for _ in range(LOOKS):
            out = _false(record, options, given(record, h, options, Memo()), Memo())
            if out.tobytes() in tried:
                break
            tried.add(out.tobytes())
            rest = without(record, out)
            learned = fit(rest.x, rest.y, options, h, refit=True, noise=rest.noise)
            h, score = learned.hyperparameters, _score(record, out, learned, options)
            if score > best:
                found, best = (out, learned), score
    return found


def _score(record: OutcomeRecord, out: IntArray, posterior: Posterior, options: ModelOptions) -> float:
    """Return the log posterior density, own units, of hyper-parameters and of these outcomes alone being false."""
    h, rows = posterior.hyperparameters, record.thinned_rows()
    rest = record.of(np.setdiff1d(rows, out))
    theta = np.log(np.array([h.signal_sd, h.noise_sd, *h.lengthscales]))
    prior, _ = log_prior(options.prior, len(theta) - 2).value_and_gradient(theta)
    lost = (len(rows) - len(rest.y)) * _price(record)
    return evidence(rest, h, ()) - len(rest.y) * float(np.log(h.y_scale)) + lost + prior
