"""How far a reading taken before a trial can be trusted for the trial itself, learned from pairs of both.

A pair is what a variable read before a trial that left it alone, and what was measured of it in that trial. The model
is that of `core.marginals.conditional`: the scores of both have correlation rho, and the reading's error is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.marginals.conditional import QUANTILES, conditional, score_before, scores, spread_of
from rigctl.core.experiment.marginals.families import Discrete, Marginal
from rigctl.core.experiment.problem import Problem

CANDIDATES = 201
"""Values of rho that are weighed against each other, evenly from 0 to 1."""
NONE, WHOLE = 0.25, 0.25
"""Prior probability that nothing of a deviation persists, and that all but a little does."""
ALIKE, MOSTLY = 0.5, 0.7
"""Prior probability that as much persists of one variable as of another, and then of each that it is so of this one."""
APART: Final = (0.03, 0.08, 0.15)
"""How far apart they may be then, standard deviations; one is as likely as another."""
CENTRES = 5
"""Every so many candidates is one that they may be near."""
MOST_PAIRS = 200
"""The latest ones count: they tell rho to 0.05, and what persists may change slowly."""
FEWEST_TOGETHER = 20
"""Pairs of two variables from which on they are tested for varying together."""
TOGETHER = 4.5
"""Standard deviations: by chance in one of 150,000 tests."""
LITTLE = 0.02
"""How far from 1 is as good as 1: a thermometer and a tank are never the same."""


@dataclass(frozen=True, slots=True)
class Persistence:
    """Say how far a variable's reading is trusted."""

    rho: float
    """Share of a deviation that is still there in the trial, in scores; 0 while there are too few pairs."""
    tau: float
    """Standard deviation of its readings' errors, unit cube."""
    pairs: int
    """Trials that left it alone after a reading, since its supply has changed last."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadingPairs:
    """Hold what a variable read before trials that left it alone, and what was measured of it in them."""

    rows: NDArray[np.int64]
    """(n,), rising: which trials."""
    before: FloatArray
    """(n,), unit cube."""
    errors: FloatArray
    """(n,), unit cube: standard deviation of each reading's error; 0 where it is not known."""
    during: FloatArray
    """(n,), unit cube."""

    def last(self, most: int) -> ReadingPairs:
        return ReadingPairs(self.rows[-most:], self.before[-most:], self.errors[-most:], self.during[-most:])


@dataclass(frozen=True, slots=True)
class ReadBefore:
    """Say what a variable read before a trial, and what a decision made of it. Engineering units."""

    variable: str
    value: float | None
    """None: it was not read."""
    error: float
    """Standard deviation of the reading's error; 0 where it is not known."""
    rho: float
    """Share of a deviation that is expected to be there in the trial; 0: the reading is not trusted."""
    pairs: int
    """Trials that this was learned from."""
    mean: float
    """Expected in a trial that leaves it alone."""
    sd: float
    usual_mean: float
    """Expected without a reading."""
    usual_sd: float


def what_persists(
    marginals: Sequence[Marginal], pairs: Sequence[ReadingPairs], at_least: Sequence[int], told: Sequence[float | None]
) -> tuple[Persistence | None, ...]:
    """Return how far each variable is trusted to persist; None where it was never read and nothing is told of it.

    Marginals are concrete. `pairs` are all that each variable has since its supply has changed last; with fewer than
    `at_least` it is not trusted. `told` is what persists, where it is known.
    """
    recent = [p.last(MOST_PAIRS) for p in pairs]
    enough = [
        i
        for i, (marginal, p) in enumerate(zip(marginals, pairs, strict=True))
        if told[i] is None and len(p.rows) >= max(at_least[i], 1) and spread_of(marginal) > 0.0
    ]
    shares = shares_that_persist([marginals[i] for i in enough], [recent[i] for i in enough])
    known: dict[int, float | None] = {i: told[i] for i in range(len(pairs))} | dict(zip(enough, shares, strict=True))
    return tuple(_known(known[i], p, len(pairs[i].rows)) for i, p in enumerate(recent))


def _known(rho: float | None, recent: ReadingPairs, count: int) -> Persistence | None:
    if rho is None and not count:
        return None
    tau = float(np.sqrt(np.mean(np.square(recent.errors)))) if count else 0.0
    return Persistence(rho or 0.0, tau, count)


def shares_that_persist(marginals: Sequence[Marginal], pairs: Sequence[ReadingPairs]) -> tuple[float, ...]:
    """Return the posterior mean of each variable's rho.

    Between the same look and the same trial as much may persist of one variable as of another, or not: how alike they
    are is learned along with them (a hierarchical prior), so that each also learns from the others' pairs.
    """
    if not marginals:
        return ()
    logs = np.array([_log_likelihood(marginal, p) for marginal, p in zip(marginals, pairs, strict=True)])
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))  # (d, c)
    priors, probability = _common_priors() if len(marginals) > 1 else (_prior()[None, :], np.ones(1))
    evidence = likelihood @ priors.T  # (d, k)
    weighed = np.log(probability) + np.log(evidence).sum(axis=0)
    posterior = np.exp(weighed - weighed.max())
    means = (likelihood * _candidates()) @ priors.T / evidence
    return tuple(np.minimum(means @ posterior / posterior.sum(), 1.0).tolist())  # rounding goes beyond


def _log_likelihood(marginal: Marginal, pairs: ReadingPairs) -> FloatArray:
    """Return the log-likelihood of every candidate, (c,).

    Given the marginal, a pair says that the score during is N(rho a, 1 - rho^2 (1 - v)), a and v mean and variance of
    the score before; so readings of different quality count for what they are worth. A level is the same again with
    probability rho, else drawn anew.
    """
    if isinstance(marginal, Discrete):
        before, during = marginal.places(pairs.before), marginal.places(pairs.during)
        same, drawn = (before == during).astype(float), np.maximum(np.array(marginal.weights)[during], LITTLE)
        still = np.minimum(_candidates(), 1.0 - LITTLE)[:, None]
        return np.asarray(np.log(still * same + (1.0 - still) * drawn).sum(axis=1))
    score, error = score_before(marginal, pairs.before, pairs.errors)
    rho = _candidates()[:, None]
    variance = np.maximum(1.0 - np.square(rho) * (1.0 - error), LITTLE**2)
    residual = scores(marginal, pairs.during) - rho * score
    return np.asarray(-0.5 * (np.log(variance) + np.square(residual) / variance).sum(axis=1))


def _candidates() -> FloatArray:
    return np.linspace(0.0, 1.0, CANDIDATES)


def _prior() -> FloatArray:
    """Return the prior probability of every candidate for one variable alone, (c,)."""
    near = np.maximum(_candidates() - (1.0 - 2 * LITTLE), 0.0)
    prior = np.full(CANDIDATES, (1.0 - NONE - WHOLE) / CANDIDATES) + WHOLE * near / near.sum()
    prior[0] += NONE
    return np.asarray(prior)


def _common_priors() -> tuple[FloatArray, FloatArray]:
    """Return the priors of a variable's rho that all may share, (k, c), and their own probabilities, (k,).

    The first is that of each alone; the others have most of the variables near one value, which is as likely as it is
    for one alone.
    """
    alone, rho = _prior(), _candidates()
    off = (rho - rho[::CENTRES, None]) / np.array(APART)[:, None, None]
    near = np.exp(-0.5 * np.square(off))
    near = (1.0 - MOSTLY) * alone + MOSTLY * near / near.sum(axis=-1, keepdims=True)
    share = np.bincount(np.rint(np.arange(CANDIDATES) / CENTRES).astype(np.int64), alone)
    return (
        np.concatenate([alone[None, :], near.reshape(-1, CANDIDATES)]),
        np.concatenate([[1.0 - ALIKE], np.tile(ALIKE / len(APART) * share, len(APART))]),
    )


def conditioned(problem: Problem, persistences: Sequence[Persistence | None], look: Look) -> Problem:
    """Return a presented problem with what its variables are expected to be after this look.

    A variable that was not read, or of which nothing is known to persist, keeps its marginal. How they vary over all
    readings is kept as `usual`, and what persists as `persistence`.
    """
    variables = tuple(
        v
        if known is None or read is None
        else replace(v, marginal=conditional(v.marginal, known.rho, sd or known.tau, read))
        for v, known, read, sd in zip(problem.space.variables, persistences, look.x, look.sd, strict=True)
    )
    trusted = tuple(
        0.0 if known is None or read is None else known.rho for known, read in zip(persistences, look.x, strict=True)
    )
    space = replace(problem.space, variables=variables)
    return replace(problem, space=space, usual=problem.space, persistence=trusted)


def read_before(
    usual: Problem, presented: Problem, persistences: Sequence[Persistence | None], look: Look
) -> tuple[ReadBefore, ...]:
    """Report what every variable read, and what is expected with and without that."""
    found = []
    both = zip(usual.space.variables, presented.space.variables, strict=True)
    for (before, v), known, read, error in zip(both, persistences, look.x, look.sd, strict=True):
        span, trusted = v.high - v.low, known if read is not None else None
        (mean, sd), (usual_mean, usual_sd) = _moments(v.marginal), _moments(before.marginal)
        found.append(
            ReadBefore(
                variable=v.name,
                value=None if read is None else v.value(read),
                error=span * error,
                rho=0.0 if trusted is None else trusted.rho,
                pairs=0 if trusted is None else trusted.pairs,
                mean=v.value(mean),
                sd=span * sd,
                usual_mean=v.value(usual_mean),
                usual_sd=span * usual_sd,
            )
        )
    return tuple(found)


def _moments(marginal: Marginal) -> tuple[float, float]:
    """Return mean and standard deviation, unit cube."""
    values = marginal.quantile((np.arange(QUANTILES) + 0.5) / QUANTILES)
    return float(values.mean()), float(values.std())


def together(
    problem: Problem, persistences: Sequence[Persistence | None], pairs: Sequence[ReadingPairs]
) -> tuple[str, ...]:
    """Say which variables still vary together once their readings are known, though they are taken to be independent.

    Fisher's z of the residuals' correlation, at a level so low that looking again after every trial seldom errs.
    """
    left = np.full((max((int(p.rows[-1]) + 1 for p in pairs if len(p.rows)), default=0), len(pairs)), np.nan)
    for column, (v, known, of_it) in enumerate(zip(problem.space.variables, persistences, pairs, strict=True)):
        if known is not None and not v.levels and spread_of(v.marginal) > 0.0:
            recent = of_it.last(MOST_PAIRS)
            left[recent.rows, column] = _residuals(v.marginal, known.rho, recent)
    count, correlation = _correlations(left)
    scores_apart = np.arctanh(np.clip(np.abs(correlation), 0.0, 1.0 - 1e-12)) * np.sqrt(np.maximum(count - 3, 0))
    found = np.argwhere(np.triu((count >= FEWEST_TOGETHER) & (scores_apart > TOGETHER), 1))
    names = problem.space.names
    return tuple(
        f"{names[i]} and {names[j]}: they vary together after a reading. Decisions take them to be independent"
        for i, j in found.tolist()
    )


def _residuals(marginal: Marginal, rho: float, pairs: ReadingPairs) -> FloatArray:
    """Return what a variable's readings have left open of their trials, (n,), as N(0, 1); outliers count for 3."""
    score, error = score_before(marginal, pairs.before, pairs.errors)
    spread = np.sqrt(np.maximum(1.0 - rho**2 * (1.0 - error), LITTLE**2))
    return np.clip((scores(marginal, pairs.during) - rho * score) / spread, -3.0, 3.0)


def _correlations(table: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return over how many rows each two columns of (n, d) have a value, and their correlation there, (d, d) each."""
    there = np.isfinite(table)
    known, values = there.astype(float), np.where(there, table, 0.0)
    count = known.T @ known
    most = np.maximum(count, 1.0)
    means = values.T @ known / most  # of the row's variable, where the column's has a value too
    variances = np.square(values).T @ known / most - np.square(means)
    covariances = values.T @ values / most - means * means.T
    scale = np.sqrt(np.maximum(variances * variances.T, 1e-12))
    return count, covariances / scale
