"""Has the response changed? Looks for a change of level in the errors of predicting each outcome from the past.

With K = L L' the covariance of the outcomes, e = L^-1 (y - mean) are the standardised errors of predicting each
outcome from those before it: independent standard normals while the model holds. A change of level at row a adds
b 1[t >= a] to the outcomes and so b v to the errors, v = L^-1 1[t >= a], which fades as the model takes the new level
in. The likelihood ratio of that is exp(b v'e - b^2 v'v / 2), here for b of 1.2 noise-plus-model spreads up or down, and
its sum over all a is compared with a threshold (Shiryaev 1963, Roberts 1966; Pollak 1985, "Optimal detection of a
change in distribution"). Forward substitution makes e and v of the first m rows the heads of those of all rows, so
every past moment is judged by what was known at it.

Outcomes with their times, and what has become of the response since each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray, thinned
from rigctl.core.experiment.marginals.drift import Change
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters, Term, covariance

MOST_ROWS = 500
"""More outcomes than this are thinned to judge terms: the last ones, and others evenly spread over the past."""
LAST_ROWS = 200


@dataclass(frozen=True, slots=True, eq=False)
class OutcomeRecord:
    """Hold the outcomes with their times."""

    x: FloatArray
    """(n, d), unit cube."""
    y: FloatArray
    """(n,), own units, larger is better."""
    times: FloatArray
    """(n,), trial numbers, rising."""
    now: float
    """The last trial."""
    noise: FloatArray | None = None
    """(n, 2), as in `History.noise`."""

    def thinned(self) -> OutcomeRecord:
        """Return at most `MOST_ROWS` of them."""
        return self if len(self.y) <= MOST_ROWS else self.of(self.thinned_rows())

    def thinned_rows(self) -> IntArray:
        """Return which rows `thinned` keeps."""
        n = len(self.y)
        if n <= MOST_ROWS:
            return np.arange(n)
        return np.concatenate([thinned(n - LAST_ROWS, MOST_ROWS - LAST_ROWS), np.arange(n - LAST_ROWS, n)])

    def of(self, rows: IntArray) -> OutcomeRecord:
        noise = None if self.noise is None else self.noise[rows]
        return OutcomeRecord(self.x[rows], self.y[rows], self.times[rows], self.now, noise)

    def residual(self, h: Hyperparameters) -> FloatArray:
        """Return the outcomes less the prior mean, (n,), standardised."""
        return h.residual(self.y)

    def signal(self, h: Hyperparameters) -> FloatArray:
        """Return the prior covariance of the response, (n, n), standardised."""
        return np.asarray(h.signal_variance * h.product_kernel.matrix(self.x, self.x))

    def factor(self, h: Hyperparameters, terms: Sequence[Term]) -> FloatArray | None:
        """Return the lower Cholesky factor of their covariance, (n, n); None where it is not positive definite."""
        signal = self.signal(h)
        return cholesky(signal + self.scatter(h, terms, signal))

    def scatter(self, h: Hyperparameters, terms: Sequence[Term], signal: FloatArray) -> FloatArray:
        """Return the covariance of all that is not the response of now: noise and ageing, (n, n), standardised."""
        scale = h.y_scale**2
        aged = covariance(terms, self.times, self.times, self.now, scale * signal) / scale
        variances = h.noise_sd**2 if self.noise is None else h.noise_variances(self.noise)
        aged[np.diag_indices(len(aged))] += variances
        return np.asarray(aged)


def differences(
    record: OutcomeRecord, h: Hyperparameters, terms: Sequence[Term], times: FloatArray, only: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return posterior mean and variance of D at these times, (m,) each, own units; of all terms or `only` one.

    Changes of shape are left out: they have no one size.
    """
    rows = record.thinned()
    L = rows.factor(h, terms)
    level = [replace(t, reshaped=0.0) for t in (terms if only is None else terms[only : only + 1])]
    prior = sum((np.diag(t.covariance(times, times, record.now)) for t in level), np.zeros(len(times)))
    if L is None:
        return np.zeros(len(times)), np.asarray(prior)
    cross = covariance(level, times, rows.times, record.now)
    scaled = solve(L, cross / h.y_scale)
    mean = -scaled @ solve(L, rows.residual(h)[None, :])[0]  # outcomes are the response of now less D
    return np.asarray(mean), np.maximum(prior - np.square(scaled).sum(axis=1), 0.0)


def cholesky(K: FloatArray) -> FloatArray | None:
    """Return the lower factor of K (n, n); None where it is not positive definite."""
    try:
        return np.asarray(np.linalg.cholesky(K))
    except np.linalg.LinAlgError:
        return None


WINDOW = 60
"""Rows that a change is looked for in at most: what has gone unnoticed for longer is left to the model."""
BEFORE = 20
"""Fewest outcomes before a change: with fewer, hyper-parameters are guesses, and so are the errors' sizes."""
SIDE = 3
"""Fewest outcomes since it: one or two outliers are no change."""
SOUGHT = 1.2
"""Size of the change looked for, in spreads of one prediction: finds one of 1.0 soonest."""
THRESHOLD = 6.2
"""Of the logarithm of the summed likelihood ratios; `docs/decisions/0017-ageing.md` has what it was measured to do."""
STRANGE = 8.0
"""An error of so many spreads has hyper-parameters learned anew, but not before `SIDE` outcomes have come since."""
WIDER, RECENT = 1.1, 20
"""Errors that have been so many times as large as they should be count as the smaller; but for the newest, as a
change makes them large, too."""
LATEST, OFF = 10, 2.0
"""Outcomes whose mean error tells whether predictions have become right again, and its standard errors beyond which
they have not."""
LARGEST = 3.0
"""Errors beyond so many standard deviations count as so many: an outlier is not a change."""


def noticed(
    record: OutcomeRecord,
    h: Hyperparameters,
    terms: Sequence[Term],
    *,
    every: bool,
    begin: int = 0,
    factor: FloatArray | None = None,
) -> Change | None:
    """Return the first change that the outcomes give away besides the terms known.

    With `every`, each outcome from the `begin`-th on may give it away, else only the last one. `factor` is the lower
    factor, (n, n), of the covariance of all outcomes, if it is known.
    """
    rows = record if factor is not None else record.thinned()
    left_out, least = len(record.y) - len(rows.y), BEFORE + SIDE - 1
    last = len(rows.y) - 1
    if last < least:
        return None
    if left_out:  # what came before is not whole
        least = max(least, len(rows.y) - LAST_ROWS + WINDOW)
    factor = rows.factor(h, terms) if factor is None else factor
    if factor is None:
        return None
    ends = range(max(begin - left_out, least) if every else last, last + 1)
    found = scanned(factor, rows.residual(h), ends)
    return found and replace(found, begins=found.begins + left_out, noticed=found.noticed + left_out)


def puzzling(record: OutcomeRecord, h: Hyperparameters, since: int) -> int:
    """Return how many outcomes there are from the first on that is too far off to be believed; 0: none is.

    It may be the first of a change. Hyper-parameters learned with it would call all that was known noise, and the
    change could not be told any more. If it was none once `SIDE` outcomes are there, it is they that are wrong.
    """
    rows = record.thinned()
    if len(rows.y) < BEFORE + SIDE:
        return 0
    L = rows.factor(h, h.ageing)
    if L is None:
        return 0
    newest = np.abs(solve(L, rows.residual(h)[None, :])[0][-min(len(record.y) - since, LAST_ROWS) :])
    return len(newest) - int(np.argmax(newest > STRANGE)) if (newest > STRANGE).any() else 0


def still_off(record: OutcomeRecord, h: Hyperparameters) -> bool:
    """Tell whether the newest outcomes are, in the mean, not what is predicted of each from those before it."""
    rows = record.thinned()
    L = rows.factor(h, h.ageing)
    if L is None:
        return True
    newest = np.clip(solve(L, rows.residual(h)[None, :])[0][-LATEST:], -LARGEST, LARGEST)
    return bool(abs(newest.sum()) > OFF * np.sqrt(len(newest)))


def scanned(L: FloatArray, residual: FloatArray, ends: range) -> Change | None:
    """Return the first alarm at one of these last rows."""
    errors = np.clip(solve(L, residual[None, :])[0], -LARGEST, LARGEST)
    for end in ends:
        low = max(0, end + 1 - WINDOW)
        size = end + 1 - low
        starts = np.arange(max(BEFORE - low, 0), size - SIDE + 1)
        corner = L[low : end + 1, low : end + 1]
        v = solve(corner, np.asarray(np.arange(size) >= starts[:, None], dtype=float))
        earlier = errors[max(0, end - 2 * WINDOW) : max(end + 1 - RECENT, SIDE)]
        spread = max(1.0, float(np.sqrt(np.square(earlier).mean())) / WIDER)
        height = SOUGHT * float(np.sqrt(np.square(corner.diagonal()).mean()))
        # bounded as the errors are: what would be five spreads off is only ever seen as three
        expected = np.clip(height / spread * v, -LARGEST, LARGEST)
        pull = expected @ errors[low : end + 1]
        own = 0.5 * np.square(expected).sum(axis=1)
        # as likely up as down: ln cosh(pull) - own, without overflow
        ratios = np.logaddexp(pull, -pull) - np.log(2.0) - own
        if np.logaddexp.reduce(ratios) > THRESHOLD:
            return Change(low + int(starts[ratios.argmax()]), end)
    return None
