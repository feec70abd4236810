"""A plant that ages: the posterior of the response as it is now.

The errors of predicting outcomes are watched (`core.gp.noticing`). What is noticed is explained by the term in time
(`core.gp.terms`) with the largest marginal likelihood, less what its parameters are worth (`core.gp.answers`), and
becomes correlated noise on the past: if that explains the outcomes better than hyper-parameters learned anew without it
do. Whenever they are learned anew later it is put to that test again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.memo import Memo
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.answers import answered, asked_for, evidence, parameters, reconsidered
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import noticed
from rigctl.core.gp.record import OutcomeRecord, cholesky, differences
from rigctl.core.gp.surrogate import JITTERS, Posterior, fit
from rigctl.core.gp.terms import Term

MOST_TERMS = 6
"""More changes than this are left to the noise."""
PROVEN = 4.5
"""What a term must add to the log marginal likelihood for each of its parameters, hyper-parameters learned with and
without it: `docs/decisions/0017-ageing.md` has what that was measured to do."""
YOUNG = 10
"""Outcomes for which what was noticed is put to the test again with each of them; later whenever a refit is due."""
FRESH, SURE = 3, 7.0
"""Outcomes for which advice counts on it only if it adds so much: nobody will see what comes of it if it is none."""


def fit_ageing(
    record: OutcomeRecord,
    options: ModelOptions,
    previous: Hyperparameters | None,
    *,
    refit: bool,
    memo: Memo,
    advice: bool = False,
    fitted: Posterior | None = None,
) -> Posterior:
    """Return the posterior of the response of now; as `surrogate.fit` does, to the bit, while it has not aged.

    With `previous` only the newest outcome can give a change away; without, every one can, in order.

    Args:
        record: the outcomes.
        options: of a model that is learned.
        previous: of the last fit, with what was noticed until then.
        refit: whether hyper-parameters are learned anew, and what was noticed is looked at again.
        memo: of the history.
        advice: whether it is asked for what to run from now on, not for what to try next.
        fitted: what `surrogate.fit` returns of the same, if that is known.
    """
    terms = _of(previous)
    notes: tuple[str, ...] = ()
    whole: FloatArray | None = None
    if previous is None or not terms:
        posterior = fitted or fit(record.x, record.y, options, previous, refit=refit, memo=memo, noise=record.noise)
        h, whole = posterior.hyperparameters, posterior.L if len(posterior.x) == len(record.y) else None
    else:
        h = previous
    found = noticed(record, h, terms, every=previous is None, factor=whole)
    explanations = _reasons(record, h, terms, refit=refit) if found is None else ()
    if explanations:
        terms, h, notes = _judged(record, h, explanations, options)
    for _ in range(MOST_TERMS):
        if found is None or len(terms) >= MOST_TERMS:
            break
        verdict = _judged(record, h, (terms, answered(record, h, terms, found)), options)
        if verdict[0] != terms:  # else it was a false alarm, and all stays as it was
            terms, h, notes = verdict
        since = found.noticed + 1
        found = noticed(record, h, terms, every=True, begin=since) if previous is None else None
    if advice and _young(record, terms, FRESH):
        terms, h, notes = _judged(record, h, (_older(terms), terms), options, proof=SURE)
    if terms:
        if terms != _of(previous):
            terms = tuple(_estimated(record, h, terms, k) for k in range(len(terms)))
        return condition(record, replace(h, ageing=terms), options, memo, notes)
    if _of(previous):  # what was believed has passed, or never was
        return fit(record.x, record.y, options, replace(h, ageing=()), refit=False, memo=memo, noise=record.noise)
    return posterior


def _of(previous: Hyperparameters | None) -> tuple[Term, ...]:
    return () if previous is None else previous.ageing


def _reasons(
    record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...], *, refit: bool
) -> tuple[tuple[Term, ...], ...]:
    """Return the explanations to choose from although nothing was noticed now; none while there is no occasion."""
    if refit:
        looked = reconsidered(record, h, terms) if terms else asked_for(record, h)
        return ((), looked) if terms or looked else ()
    # most that is no change does not outlive the next few outcomes
    return (_older(terms), terms) if _young(record, terms, YOUNG) else ()


def _young(record: OutcomeRecord, terms: Sequence[Term], outcomes: int) -> bool:
    last = max((t.noticed for t in terms), default=0)
    return bool(terms) and int((record.times > last).sum()) <= outcomes


def _older(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Return what was noticed before the last of them."""
    return tuple(t for t in terms if t.noticed < max(t.noticed for t in terms))


def given(record: OutcomeRecord, h: Hyperparameters, options: ModelOptions, memo: Memo) -> Posterior:
    """Return the posterior of the response of now by these hyper-parameters, given all outcomes."""
    if h.ageing:
        return condition(record, h, options, memo)
    return fit(record.x, record.y, options, h, refit=False, memo=memo, noise=record.noise)


def condition(
    record: OutcomeRecord, h: Hyperparameters, options: ModelOptions, memo: Memo, notes: tuple[str, ...] = ()
) -> Posterior:
    """Return the posterior of the response of now.

    Of more than `max_points` outcomes the past is brought to what it would be now, and is the noisier for it.
    """
    if len(record.y) > options.max_points:
        mean, variance = differences(record, h, h.ageing, record.times)
        own = h.y_scale * h.noise_sd if record.noise is None else h.y_scale * np.sqrt(h.noise_variances(record.noise))
        noise = np.stack([np.sqrt(np.square(own) + variance), np.ones(len(variance))], axis=1)
        still = replace(h, ageing=())
        brought = fit(record.x, record.y + mean, options, still, refit=False, memo=memo, noise=noise)
        return replace(brought, hyperparameters=h, notes=(*notes, *brought.notes))
    signal = record.signal(h)
    scatter = record.scatter(h, h.ageing, signal)
    for share in (*JITTERS, 1.0):
        jitter = share * h.signal_variance
        wide = scatter + jitter * np.eye(len(scatter))
        L, A = cholesky(signal + wide), cholesky(wide)
        if L is not None and A is not None:
            break
    else:
        raise AssertionError("unreachable: noise as large as the signal")
    alpha = solve(L, solve(L, record.residual(h)[None, :]), transposed=True)[0]
    return Posterior(h, record.x, L, alpha, jitter, notes, uncertainty=(A, np.eye(len(A))))


def _judged(
    record: OutcomeRecord,
    h: Hyperparameters,
    explanations: Collection[tuple[Term, ...]],
    options: ModelOptions,
    *,
    proof: float = PROVEN,
) -> tuple[tuple[Term, ...], Hyperparameters, tuple[str, ...]]:
    """Return the explanation that the outcomes bear out best, each with hyper-parameters of its own, and those.

    By the hyper-parameters of before alone, any change would explain what they, few outcomes ago, could not foresee.
    """
    rows = record.thinned()
    ranked: list[tuple[float, tuple[Term, ...], Hyperparameters, tuple[str, ...]]] = []
    for terms in dict.fromkeys(explanations):
        learned, notes = _relearned(record, h, terms, options)
        own_units = evidence(rows, learned, terms) - len(rows.y) * float(np.log(learned.y_scale))
        ranked.append((own_units - proof * sum(map(parameters, terms)), terms, learned, notes))
    return max(ranked, key=lambda one: one[0])[1:]


def _relearned(
    record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...], options: ModelOptions
) -> tuple[Hyperparameters, tuple[str, ...]]:
    """Learn hyper-parameters from the outcomes as they would be now."""
    rows = record.thinned()
    mean, _ = differences(record, h, terms, rows.times)
    learned = fit(rows.x, rows.y + mean, options, replace(h, ageing=()), refit=True, noise=rows.noise)
    return learned.hyperparameters, learned.notes


def _estimated(record: OutcomeRecord, h: Hyperparameters, terms: Sequence[Term], k: int) -> Term:
    """Return the k-th term with how much it has changed the value by: of a season, half its swing."""
    term = terms[k]
    if term.kind == "season":
        turn = record.now - np.linspace(0.0, term.period, 25)
        mean, variance = differences(record, h, terms, turn, only=k)
        return replace(term, change=float(np.ptp(mean) / 2), change_sd=float(np.sqrt(variance.mean() / 2)))
    before = np.array([float(term.since) - (term.kind == "step")])
    mean, variance = differences(record, h, terms, before, only=k)
    return replace(term, change=float(mean[0]), change_sd=float(np.sqrt(variance[0])))
