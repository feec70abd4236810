"""Several outcomes: each as a problem of its own, and all of them as values (larger is better).

The order is that of `outcome_names`: the first outcome, then the further ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.memo import Memo
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import Fitted, fit_again
from rigctl.core.multi_objective.pareto import reference_point

MEMO = "further outcomes"
"""Under this key the history's memo keeps one of its own for each further outcome's model."""


def signs(problem: Problem) -> FloatArray:
    """Return +1 for an outcome to maximise, -1 for one to minimise, (K,)."""
    directions = (problem.maximise, *(f.maximise for f in problem.further))
    return np.array([1.0 if maximise else -1.0 for maximise in directions])


def measured_whole(problem: Problem, history: History) -> tuple[Observation, ...]:
    """Return the complete observations that have every outcome: those before further outcomes were added have not."""
    return tuple(o for o in history.complete if len(o.further) >= len(problem.further))


def outcome_values(problem: Problem, history: History) -> FloatArray:
    """Return the outcomes of every observation of `measured_whole`, as values, (n, K)."""
    rows = [(o.y, *o.further[: len(problem.further)]) for o in measured_whole(problem, history)]
    table = np.array(rows, dtype=float).reshape(len(rows), len(problem.further) + 1)
    return np.asarray(signs(problem) * table)


def floors(problem: Problem) -> FloatArray:
    """Return the worst values the outcomes can take, (K,); NaN where none is declared."""
    declared = (problem.floor, *(f.floor for f in problem.further))
    return np.asarray(signs(problem) * np.array([np.nan if floor is None else floor for floor in declared]))


def reference_of(problem: Problem, history: History) -> FloatArray:
    """Return the values hypervolumes are counted from (`reference_point`), (K,); 0 before anything was measured."""
    seen = outcome_values(problem, history)
    return reference_point(seen, floors(problem)) if len(seen) else np.zeros(seen.shape[1])


def fit_further(
    problem: Problem, history: History, remembered: Sequence[JsonState] = (), *, under_way: bool = True
) -> tuple[Fitted, ...]:
    """Fit one model per further outcome, learning anew when the schedule says so.

    Args:
        problem: with K - 1 further outcomes.
        history: all trials.
        remembered: `Fitted.to_state` of the last fits, each with the outcome's `name`; empty before the first.
        under_way: see `fit_history`.
    """
    memos: Mapping[int, Memo] = history.memo.get(MEMO) or {}
    kept = {k: memos.get(k) or Memo() for k in range(len(problem.further))}
    history.memo.keep(MEMO, kept)
    by_name = {state.get("name"): state for state in remembered}
    fits = []
    for k, memo in kept.items():
        last = by_name.get(problem.further[k].name, {})
        fits.append(fit_again(*as_first(problem, history, k, memo), last, under_way=under_way))
    return tuple(fits)


def as_first(problem: Problem, history: History, k: int, memo: Memo | None = None) -> tuple[Problem, History]:
    """Return the problem whose only outcome is the k-th further one (from 0), and its history.

    Signal, noise and mean of the configured model are in the first outcome's units, so the others' are learned;
    lengthscales are then where learning starts.
    """
    further = problem.further[k]
    model = replace(problem.model, hyperparameters="learned", signal_sd=None, noise_sd=None, mean=None)
    alone = replace(problem, maximise=further.maximise, floor=further.floor, model=model, further=())
    return alone, History.of((replace(o, y=_further_of(o, k), noise_sd=None) for o in history.observations), memo)


def _further_of(o: Observation, k: int) -> float | None:
    return o.further[k] if o.y is not None and len(o.further) > k else None
