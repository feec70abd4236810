"""Fits the surrogate to a history when the refit schedule says so; shared by policies and recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Memo
from rigctl.core.experiment.problem import JsonState, ModelOptions, Problem, sign, values
from rigctl.core.gp.ageing import fit_ageing, given
from rigctl.core.gp.doubting import NOTHING, doubted, judged, without
from rigctl.core.gp.hyperparameters import Hyperparameters, told
from rigctl.core.gp.noticing import SIDE, OutcomeRecord, puzzling
from rigctl.core.gp.surrogate import Posterior, believing, fit

REFIT_GROWTH = 1.25
"""Learned hyper-parameters are refitted when the data have grown by a quarter, so O(log n) times in a campaign; and
where outcomes stay next to impossible by them (`due`)."""
LARGEST_KEPT = 32_000_000
"""Bytes; just below the most that glibc learns from (M_MMAP_THRESHOLD, mallopt(3))."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Hold a posterior, and what to remember of its fit."""

    posterior: Posterior
    hyperparameters: Hyperparameters
    fitted_at: int
    """Number of observations the hyper-parameters were last fitted to."""
    refitted: bool
    """Whether they changed in this call: confidence bounds before and after must not be mixed."""

    def to_state(self) -> dict[str, object]:
        """Return what `fit_again` goes on from; JSON."""
        return {"hyperparameters": self.hyperparameters.to_json(), "fitted_at": self.fitted_at}


def fit_again(problem: Problem, history: History, state: JsonState, *, under_way: bool = True) -> Fitted:
    """Fit as `fit_history` does, going on from the last decision's `Fitted.to_state`, if the state has it."""
    known, fitted_at = Hyperparameters.remembered(state), int(state.get("fitted_at", 0))
    return fit_history(problem, history, known, fitted_at, under_way=under_way)


def fit_history(
    problem: Problem,
    history: History,
    previous: Hyperparameters | None = None,
    fitted_at: int = 0,
    *,
    under_way: bool = True,
) -> Fitted:
    """Return the posterior of the value given the history, refitting hyper-parameters when the schedule says so.

    An outcome that they call next to impossible has them refitted before that, once it is no change of the response.

    Trials whose outcome is awaited shrink the variance where they stand, unless `under_way` is false: who asks what to
    try next wants to go elsewhere, who asks what is known by now counts no outcome that has not come. They never move
    the mean, and nothing is learned from them. Who asks what is known counts no change of the response either that the
    last few outcomes alone speak for, unless they do so clearly.
    """
    _keep_freed_memory()
    record = _record(problem, history)
    refit = False
    if problem.model.hyperparameters == "learned":
        posterior, refit = _learned(problem, record, previous, fitted_at, history.memo, advice=not under_way)
    else:
        posterior = fit(
            record.x, record.y, turned(problem), previous, refit=False, memo=history.memo, noise=record.noise
        )
    if posterior.hyperparameters.ageing:
        # a note stays as it is until the term is looked at again, so that it is an alarm once
        aged = (told(term, sign(problem)) for term in posterior.hyperparameters.ageing)
        posterior = replace(posterior, notes=(*posterior.notes, *aged))
    changed = previous is not None and posterior.hyperparameters != previous
    if under_way and len(history.awaited):
        posterior = believing(posterior, history.awaited)
    return Fitted(posterior, posterior.hyperparameters, len(record.y) if refit else fitted_at, refitted=changed)


def _learned(
    problem: Problem,
    record: OutcomeRecord,
    previous: Hyperparameters | None,
    fitted_at: int,
    memo: Memo,
    *,
    advice: bool,
) -> tuple[Posterior, bool]:
    """Return the posterior without the outcomes that are doubted, and whether hyper-parameters are learned anew."""
    options, fitted, left_out = turned(problem), None, NOTHING
    if previous is not None:
        left_out = doubted(record, options, given(record, previous, options, memo), memo=memo)
    kept = without(record, left_out)
    refit = due(kept, previous, fitted_at - int((left_out < fitted_at).sum()))
    if refit and not (previous and previous.ageing):
        left_out, fitted = judged(record, options, previous, memo)
        kept = without(record, left_out)
    if left_out.size:
        whole, memo = memo, memo.get("doubting") or Memo()
        whole.keep("doubting", memo)
    posterior = fit_ageing(kept, options, previous, refit=refit, memo=memo, advice=advice, fitted=fitted)
    return replace(posterior, left_out=tuple(left_out.tolist())) if left_out.size else posterior, refit


def due(record: OutcomeRecord, previous: Hyperparameters | None, fitted_at: int) -> bool:
    """Tell whether hyper-parameters last fitted to so many outcomes are to be refitted; 0: nobody knows to how many."""
    n = len(record.y)
    if previous is None or n <= fitted_at:
        return previous is None
    strange = puzzling(record, previous, fitted_at or n - SIDE)
    return strange > SIDE or (not strange and n >= REFIT_GROWTH * fitted_at)


def given_without(problem: Problem, history: History, posterior: Posterior, rows: Sequence[int]) -> Posterior:
    """Return the posterior by the same hyper-parameters without these of the complete observations."""
    rest = without(_record(problem, history), np.array(rows, dtype=np.int64))
    return replace(given(rest, posterior.hyperparameters, turned(problem), Memo()), left_out=tuple(rows))


def _record(problem: Problem, history: History) -> OutcomeRecord:
    x = history.x if len(history.y) else np.empty((0, problem.space.dimension))
    return OutcomeRecord(x, values(problem, history), *_times(history), history.noise)


def _times(history: History) -> tuple[FloatArray, float]:
    """Return the trial number of every outcome, (n,), and the last trial's."""
    times = np.array([o.trial for o in history.complete], dtype=float)
    return np.maximum.accumulate(times), float(history.observations[-1].trial if history.observations else 0)


def turned(problem: Problem) -> ModelOptions:
    """Return the model's options, its mean as a value."""
    model = problem.model
    return model if problem.maximise or model.mean is None else replace(model, mean=-model.mean)


def _keep_freed_memory() -> None:
    """Have the C library keep the memory of arrays that are freed.

    glibc maps every array above 128 kB anew and gives it back at once, so that each is filled by page faults: half the
    time of a decision on 300 trials. It learns from the largest array that was freed to keep up to twice as much; this
    one is never touched, so it costs neither time nor memory. Elsewhere than on glibc nothing happens.
    """
    np.empty(LARGEST_KEPT, dtype=np.uint8)
