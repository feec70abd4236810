"""A plant that ages: the posterior of the response as it is now.

The errors of predicting outcomes are watched (`core.gp.noticing`). What is noticed is explained by the term in time
(`core.gp.hyperparameters`: steps, ramps, seasons and wandering levels) with the largest marginal likelihood, less what
its parameters are worth, and becomes correlated noise on the past: if that explains the outcomes better than
hyper-parameters learned anew without it do. Whenever they are learned anew later it is put to that test again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import Memo
from rigctl.core.experiment.marginals.drift import Change
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters, Term
from rigctl.core.gp.noticing import OutcomeRecord, cholesky, differences, noticed
from rigctl.core.gp.surrogate import Posterior, fit, steadied

WORTH = 3.0
"""What a term must add to the log marginal likelihood for each of its parameters (twice that is a chi^2 of 6)."""
ASKED, ASKED_FROM = 8.0, 40
"""What it must add where no outcome stood out, and the fewest outcomes that can ask for it."""
VAGUE = 2.0
"""Prior sd of a change, in standard deviations of all outcomes."""
PERIODS = 24
SHORTEST_PERIOD, TURNS = 8.0, 1.5
"""Of a season, trials; and how many of them must have been seen."""
RESHAPED = (0.0, 0.5, 2.0)
WANDERS = (0.03, 0.1, 0.3)
"""Rise per trial, in standard deviations of all outcomes."""


def answered(record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...], found: Change) -> tuple[Term, ...]:
    """Return what explains a suspicion best: the terms known and another, or another instead of them."""
    rows = record.thinned()
    fresh = list(_fresh(record, h, found))
    candidates = [(*terms, term) for term in fresh]
    # what passed for a wandering level may have been the first of two steps
    steps = tuple(replace(t, kind="step", scale=VAGUE * h.y_scale) if t.kind == "wander" else t for t in terms)
    candidates += [(*steps, term) for term in fresh] if steps != terms else []
    if terms:
        candidates += [(term,) for term in fresh if term.kind != "step"]
    return _best(rows, h, candidates)


def reconsidered(record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...]) -> tuple[Term, ...]:
    """Return what explains the outcomes best now: these terms, fewer, others instead of them, or another shape."""
    first, last = min(t.since for t in terms), terms[-1]
    begins = int(np.searchsorted(record.times, last.since))
    end = int(np.searchsorted(record.times, last.noticed))
    found = Change(min(begins, len(record.y) - 1), min(end, len(record.y) - 1))
    candidates = [terms, ()]
    for k, term in enumerate(terms):
        others = (*terms[:k], *terms[k + 1 :])
        candidates += [others] if others else []
        if term.kind == "step":
            candidates += [(*others, replace(term, reshaped=share)) for share in RESHAPED if share != term.reshaped]
    fresh = [replace(t, since=max(t.since, first) if t.kind == "wander" else t.since) for t in _fresh(record, h, found)]
    candidates += [(term,) for term in fresh]
    return _best(record.thinned(), h, [tuple(sorted(c, key=lambda t: t.noticed)) for c in candidates])


def asked_for(record: OutcomeRecord, h: Hyperparameters) -> tuple[Term, ...]:
    """Return the term that the outcomes ask for although none of them stood out; none while they do not ask loudly.

    A swing or a slow drift passes for noise while hyper-parameters are learned along with it.
    """
    last = len(record.y) - 1
    if last < ASKED_FROM:
        return ()
    found = Change(last, last)
    rows = record.thinned()
    fresh = [(t,) for t in _fresh(record, h, found) if t.kind != "step"]
    best = _best(rows, h, [(), *fresh])
    return best if best and evidence(rows, h, best) - evidence(rows, h, ()) > ASKED * parameters(best[0]) else ()


def evidence(
    record: OutcomeRecord, h: Hyperparameters, terms: Sequence[Term], signal: FloatArray | None = None
) -> float:
    """Return the log marginal likelihood of the standardised outcomes; -inf where it cannot be computed."""
    signal = record.signal(h) if signal is None else signal
    L = cholesky(signal + record.scatter(h, terms, signal))
    if L is None:
        return -np.inf
    errors = solve(L, record.residual(h)[None, :])[0]
    return float(-0.5 * errors @ errors - np.log(L.diagonal()).sum() - 0.5 * len(errors) * np.log(2 * np.pi))


def _fresh(record: OutcomeRecord, h: Hyperparameters, found: Change) -> Iterator[Term]:
    """Propose single terms for a change that may have begun there."""
    times, size = record.times, h.y_scale
    since, at = int(times[found.begins]), int(times[found.noticed])
    first, span = float(times[0]), float(record.now - times[0])
    near = {int(t) for t in times[max(found.begins - 3, 1) : found.begins + 4]}
    for start in sorted(near):
        yield Term("step", start, at, VAGUE * size)
    yield Term("step", since, at, VAGUE * size, reshaped=RESHAPED[-1])
    for start in sorted({int(t) for t in np.linspace(first, since, 8)}):
        yield Term("ramp", start, at, VAGUE * size / max(record.now - start, 1.0))
    for rise in WANDERS:
        yield Term("wander", int(first), at, rise * size)
    longest = span / TURNS
    if longest > SHORTEST_PERIOD:
        for period in np.geomspace(SHORTEST_PERIOD, longest, PERIODS):
            yield Term("season", 0, at, 0.5 * VAGUE * size, period=float(round(period, 2)))


def _best(rows: OutcomeRecord, h: Hyperparameters, candidates: Sequence[tuple[Term, ...]]) -> tuple[Term, ...]:
    signal = rows.signal(h)
    scores = [evidence(rows, h, terms, signal) - WORTH * sum(map(parameters, terms)) for terms in candidates]
    return candidates[int(np.argmax(scores))]


def parameters(term: Term) -> int:
    """Count what is chosen of a term, its size included; a wandering level may go any way, and counts as two."""
    return 1 + (term.kind in {"season", "wander"}) + (term.reshaped > 0)


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
        posterior = fitted or fit(
            record.x, record.y, options, previous, refit=refit, memo=memo, noise=record.noise, light=advice
        )
        h, whole = posterior.hyperparameters, posterior.L if len(posterior.x) == len(record.y) else None
    else:
        h = previous
    found = noticed(record, h, terms, every=previous is None, factor=whole)
    explanations = _reasons(record, h, terms, refit=refit) if found is None else ()
    if explanations:
        terms, h, notes = _judged(record, h, explanations, options, light=advice)
    for _ in range(MOST_TERMS):
        if found is None or len(terms) >= MOST_TERMS:
            break
        verdict = _judged(record, h, (terms, answered(record, h, terms, found)), options, light=advice)
        if verdict[0] != terms:  # else it was a false alarm, and all stays as it was
            terms, h, notes = verdict
        since = found.noticed + 1
        found = noticed(record, h, terms, every=True, begin=since) if previous is None else None
    if advice and _young(record, terms, FRESH):
        terms, h, notes = _judged(record, h, (_older(terms), terms), options, light=advice, proof=SURE)
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

    def factors(jitter: float) -> tuple[FloatArray, FloatArray] | None:
        wide = scatter + jitter * np.eye(len(scatter))
        L, A = cholesky(signal + wide), cholesky(wide)
        return None if L is None or A is None else (L, A)

    (L, A), jitter = steadied(h, factors)
    alpha = solve(L, solve(L, record.residual(h)[None, :]), transposed=True)[0]
    return Posterior(h, record.x, L, alpha, jitter, notes, uncertainty=(A, np.eye(len(A))))


def _judged(
    record: OutcomeRecord,
    h: Hyperparameters,
    explanations: Collection[tuple[Term, ...]],
    options: ModelOptions,
    *,
    light: bool,
    proof: float = PROVEN,
) -> tuple[tuple[Term, ...], Hyperparameters, tuple[str, ...]]:
    """Return the explanation that the outcomes bear out best, each with hyper-parameters of its own, and those.

    By the hyper-parameters of before alone, any change would explain what they, few outcomes ago, could not foresee.
    """
    rows = record.thinned()
    ranked: list[tuple[float, tuple[Term, ...], Hyperparameters, tuple[str, ...]]] = []
    for terms in dict.fromkeys(explanations):
        learned, notes = _relearned(record, h, terms, options, light=light)
        own_units = evidence(rows, learned, terms) - len(rows.y) * float(np.log(learned.y_scale))
        ranked.append((own_units - proof * sum(map(parameters, terms)), terms, learned, notes))
    return max(ranked, key=lambda one: one[0])[1:]


def _relearned(
    record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...], options: ModelOptions, *, light: bool
) -> tuple[Hyperparameters, tuple[str, ...]]:
    """Learn hyper-parameters from the outcomes as they would be now."""
    rows = record.thinned()
    mean, _ = differences(record, h, terms, rows.times)
    learned = fit(rows.x, rows.y + mean, options, replace(h, ageing=()), noise=rows.noise, light=light)
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
