"""From a history to a fitted posterior: direction, refit schedule, floor. Shared by policies and recommendation.

Inside, a *value* is the outcome turned so that larger is better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.gp.allocation import keep_freed_memory
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.history import History
from rigctl.core.policy import ModelOptions, Problem
from rigctl.core.surrogate import Posterior, fit

REFIT_GROWTH = 1.25
"""Learned hyper-parameters are refitted when the data have grown by a quarter: O(log n) fits in a campaign."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """A posterior, and what to remember of its fit."""

    posterior: Posterior
    hyperparameters: Hyperparameters
    fitted_at: int
    """Number of observations the hyper-parameters were last fitted to."""
    refitted: bool
    """Whether they changed in this call: confidence bounds before and after must not be mixed."""


def sign(problem: Problem) -> float:
    """+1 to maximise, -1 to minimise: value = sign * outcome."""
    return 1.0 if problem.maximise else -1.0


def values(problem: Problem, history: History) -> FloatArray:
    """(n,): outcomes as values, larger is better."""
    return sign(problem) * history.y


def fit_history(
    problem: Problem, history: History, previous: Hyperparameters | None = None, fitted_at: int = 0
) -> Fitted:
    """The posterior of the value given the history, refitting hyper-parameters when the schedule says so."""
    keep_freed_memory()
    y = values(problem, history)
    n = len(y)
    x = history.x if n else np.empty((0, problem.space.dimension))
    due = previous is None or n >= REFIT_GROWTH * max(fitted_at, 1)
    refit = problem.model.hyperparameters == "learned" and due
    posterior = fit(x, y, _turned(problem), previous, refit=refit, memo=history.memo)
    changed = previous is not None and posterior.hyperparameters != previous
    return Fitted(posterior, posterior.hyperparameters, n if refit else fitted_at, refitted=changed)


def _turned(problem: Problem) -> ModelOptions:
    model = problem.model
    return model if problem.maximise or model.mean is None else replace(model, mean=-model.mean)


def value_floor(problem: Problem, history: History) -> float:
    """The worst value the outcome can take: the worst seen so far (re-estimated every trial) or the configured one.

    A configured floor that an outcome has already been below was wrong; with it a share of the distance to the best
    would be negative, and no set good enough.
    """
    seen = values(problem, history)
    worst = float(seen.min()) if seen.size else np.inf
    if problem.floor is not None:
        return min(sign(problem) * problem.floor, worst)
    return worst if np.isfinite(worst) else 0.0
