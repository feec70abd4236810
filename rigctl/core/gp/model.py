"""Fits the surrogate to a history when the refit schedule says so; shared by policies and recommendation.

Every further outcome has a model of its own, as if it were the only one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Memo
from rigctl.core.experiment.problem import JsonState, ModelOptions, Problem, sign, values
from rigctl.core.gp.ageing import fit_ageing, given
from rigctl.core.gp.doubting import NOTHING, doubted, judged, without
from rigctl.core.gp.hyperparameters import Hyperparameters, told
from rigctl.core.gp.noticing import SIDE, OutcomeRecord, puzzling
from rigctl.core.gp.plausible import plausible
from rigctl.core.gp.surrogate import Posterior, believing, fit

REFIT_GROWTH = 1.25
"""Learned hyper-parameters are refitted when the data have grown by a quarter, so O(log n) times in a campaign; and
where outcomes stay next to impossible by them (`due`)."""
FEW = 100
"""Up to so many outcomes, hyper-parameters that contradict one which came after them are learned again with it."""
MOST_ROWS = 300
"""Of more outcomes the most likely hyper-parameters stand for all."""
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


@dataclass(frozen=True, slots=True)
class Learning:
    """Keep what advice has learned of a history, for whoever asks for advice on the same one.

    It gives the posterior back to the bit. Whoever keeps it longer than the code that made it keeps that in mind.
    """

    of: str
    """A digest of all that it was learned of, and by."""
    hyperparameters: Hyperparameters
    left_out: tuple[int, ...]
    notes: tuple[str, ...]


LEARNED = "learned"
"""The key of a history's memo under which the last `Learning` of it is."""


def fit_again(problem: Problem, history: History, state: JsonState, *, under_way: bool = True) -> Fitted:
    """Fit as `fit_history` does, going on from the last decision's `Fitted.to_state`, if the state has it."""
    known, fitted_at = Hyperparameters.remembered(state), int(state.get("fitted_at", 0))
    return fit_history(problem, history, known, fitted_at, under_way=under_way)


def fit_known(problem: Problem, history: History, state: JsonState | None) -> Fitted:
    """Fit for advice: what is known by now, hyper-parameters learned anew from those the policy remembers, if any."""
    return fit_history(problem, history, Hyperparameters.remembered(state), under_way=False)


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
    asked = _digest(record, options, previous, fitted_at) if advice else ""
    known: Learning | None = memo.get(LEARNED)
    if known is not None and known.of == asked:
        rest = without(record, np.array(known.left_out, dtype=np.int64))
        posterior = given(rest, known.hyperparameters, options, _memo_without(memo, known.left_out))
        return replace(posterior, notes=known.notes, left_out=known.left_out), True
    if previous is not None:
        left_out = doubted(record, options, given(record, previous, options, memo), memo=memo)
    kept = without(record, left_out)
    # hyper-parameters learned before an outcome came are no witness against it
    fresh = len(record.y) <= FEW and bool((left_out >= fitted_at).any())
    refit = fresh or due(kept, previous, fitted_at - int((left_out < fitted_at).sum()))
    if refit and not (previous and previous.ageing):
        left_out, fitted = judged(record, options, previous, memo, light=advice)
        kept = without(record, left_out)
    out = tuple(left_out.tolist())
    posterior = fit_ageing(
        kept, options, previous, refit=refit, memo=_memo_without(memo, out), advice=advice, fitted=fitted
    )
    if advice and refit:
        memo.keep(LEARNED, Learning(asked, posterior.hyperparameters, out, posterior.notes))
    return replace(posterior, left_out=out) if out else posterior, refit


def _memo_without(memo: Memo, rows: Sequence[int]) -> Memo:
    """Return the memo of the outcomes without these; the same one if there are none."""
    if not rows:
        return memo
    apart = memo.get("doubting") or Memo()
    memo.keep("doubting", apart)
    return apart


def _digest(record: OutcomeRecord, options: ModelOptions, previous: Hyperparameters | None, fitted_at: int) -> str:
    """Return what tells apart all that hyper-parameters are learned from."""
    found = hashlib.sha256(repr((options, previous, fitted_at, record.now, record.x.shape)).encode())
    for array in (record.x, record.y, record.times, record.noise):
        found.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


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


def with_plausible(problem: Problem, history: History, posterior: Posterior) -> tuple[Posterior, ...]:
    """Return the posterior, and those by other hyper-parameters that the outcomes leave open, each as likely.

    It is alone where hyper-parameters are given, where the response has aged, and where outcomes are so many
    (`MOST_ROWS`) that they leave little open.
    """
    h, record = posterior.hyperparameters, _record(problem, history)
    if problem.model.hyperparameters != "learned" or h.ageing or not 0 < len(record.y) <= MOST_ROWS:
        return (posterior,)
    rest, options = without(record, np.array(posterior.left_out, dtype=np.int64)), turned(problem)
    others = plausible(rest, h, problem.model.prior, np.random.default_rng(0))
    return (posterior, *(replace(given(rest, o, options, Memo()), left_out=posterior.left_out) for o in others))


def _record(problem: Problem, history: History) -> OutcomeRecord:
    x = history.x if len(history.y) else np.empty((0, problem.space.dimension))
    return OutcomeRecord(x, values(problem, history), *_times(history), history.noise)


def _times(history: History) -> tuple[FloatArray, float]:
    """Return the trial number of every outcome, (n,), and the last trial's."""
    times = np.array([o.trial for o in history.complete], dtype=float)
    return np.maximum.accumulate(times), float(history.observations[-1].trial if history.observations else 0)


def turned(problem: Problem) -> ModelOptions:
    """Return the model's options, its mean as a value."""
    model = problem.model.over(problem.space.levels)
    return model if problem.maximise or model.mean is None else replace(model, mean=-model.mean)


def _keep_freed_memory() -> None:
    """Have the C library keep the memory of arrays that are freed.

    glibc maps every array above 128 kB anew and gives it back at once, so that each is filled by page faults: half the
    time of a decision on 300 trials. It learns from the largest array that was freed to keep up to twice as much; this
    one is never touched, so it costs neither time nor memory. Elsewhere than on glibc nothing happens.
    """
    np.empty(LARGEST_KEPT, dtype=np.uint8)


MEMO = "further outcomes"
"""Under this key the history's memo keeps one of its own for each further outcome's model."""


def fit_further(
    problem: Problem, history: History, remembered: Sequence[JsonState] = (), *, under_way: bool = True
) -> tuple[Fitted, ...]:
    """Fit one model per further outcome, learning anew when the schedule says so.

    `remembered` are `Fitted.to_state` of the last fits, each with the outcome's `name`; empty before the first. For
    `under_way` see `fit_history`.
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
    trials = (
        replace(o, y=o.further[k] if o.y is not None and len(o.further) > k else None, noise_sd=None)
        for o in history.observations
    )
    return alone, History.of(trials, memo)
