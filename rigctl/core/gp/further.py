"""Fits a model of every further outcome, each as a problem of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rigctl.core.experiment.history import History, Memo, Observation
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import Fitted, fit_again

MEMO = "further outcomes"
"""Under this key the history's memo keeps one of its own for each further outcome's model."""


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
    own = problem.model
    learned = replace(own, hyperparameters="learned", kernel=own.kernel_used, signal_sd=None, noise_sd=None, mean=None)
    alone = replace(problem, maximise=further.maximise, floor=further.floor, model=learned, further=())
    return alone, History.of((replace(o, y=_further_of(o, k), noise_sd=None) for o in history.observations), memo)


def _further_of(o: Observation, k: int) -> float | None:
    return o.further[k] if o.y is not None and len(o.further) > k else None
