"""Fits the surrogate to a history when the refit schedule says so; shared by policies and recommendation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import ModelOptions, Problem, values
from rigctl.core.gp.allocation import keep_freed_memory
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.surrogate import Posterior, fit

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
