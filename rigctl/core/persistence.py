"""How far a reading taken before a trial can be trusted for the trial itself, learned from pairs of both.

A pair is what a variable read before a trial that left it alone, and what was measured of it in that trial. The model
is that of `core.marginals.conditional`: the scores of both have correlation rho, and the reading's error is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.problem import Problem
from rigctl.core.marginals.conditional import conditional, scores, spread_of
from rigctl.core.marginals.families import Marginal

CANDIDATES = 201
"""Values of rho that are weighed against each other, evenly from 0 to 1."""
NONE, WHOLE = 0.25, 0.25
"""Prior probability that nothing of a deviation persists, and that all but a little does."""
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


def share_that_persists(marginal: Marginal, before: FloatArray, errors: FloatArray, during: FloatArray) -> float:
    """Return what persists of a variable's deviations: the posterior mean of rho.

    Given the marginal, a pair says that the score during is N(rho k g, 1 - rho^2 k) of the score g before, with k the
    share of the reading that is not error; so readings of different quality count for what they are worth.

    Args:
        marginal: of the variable, concrete.
        before: (n,), unit cube: readings.
        errors: (n,), unit cube: standard deviation of each reading's error.
        during: (n,), unit cube: measured in the trials.
    """
    own = spread_of(marginal)
    if own <= 0.0 or not len(before):
        return 0.0
    counts = own**2 / (own**2 + np.square(errors))
    middle = float(marginal.quantile(np.array(0.5)))
    g = scores(marginal, middle + counts * (before - middle))
    rho = np.linspace(0.0, 1.0, CANDIDATES)[:, None]
    variance = np.maximum(1.0 - np.square(rho) * counts, LITTLE**2)
    residual = scores(marginal, during) - rho * g
    logs = -0.5 * (np.log(variance) + np.square(residual) / variance).sum(axis=1)
    posterior = np.exp(logs - logs.max()) * _prior()
    return float(posterior @ rho[:, 0] / posterior.sum())


def _prior() -> FloatArray:
    """Return the prior probability of every candidate, (c,)."""
    rho = np.linspace(0.0, 1.0, CANDIDATES)
    near = np.maximum(rho - (1.0 - 2 * LITTLE), 0.0)
    prior = np.full(CANDIDATES, (1.0 - NONE - WHOLE) / CANDIDATES) + WHOLE * near / near.sum()
    prior[0] += NONE
    return np.asarray(prior)


def conditioned(problem: Problem, persistences: Sequence[Persistence | None], look: Look) -> Problem:
    """Return a presented problem with what its variables are expected to be after this look.

    A variable that was not read, or of which nothing is known to persist, keeps its marginal.
    """
    variables = tuple(
        v
        if known is None or read is None
        else replace(v, marginal=conditional(v.marginal, known.rho, sd or known.tau, read))
        for v, known, read, sd in zip(problem.space.variables, persistences, look.x, look.sd, strict=True)
    )
    return replace(problem, space=replace(problem.space, variables=variables))
