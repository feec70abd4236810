"""How has the response changed? Judges steps, ramps, seasons and wandering levels by the marginal likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.gp.factor import solve
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import Suspicion
from rigctl.core.gp.record import OutcomeRecord, cholesky
from rigctl.core.gp.terms import Term

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


def answered(record: OutcomeRecord, h: Hyperparameters, terms: tuple[Term, ...], found: Suspicion) -> tuple[Term, ...]:
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
    found = Suspicion(min(begins, len(record.y) - 1), min(end, len(record.y) - 1))
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
    found = Suspicion(last, last)
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


def _fresh(record: OutcomeRecord, h: Hyperparameters, found: Suspicion) -> Iterator[Term]:
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
