"""What several outcomes can be had together: the Pareto front of what was tried, and the hypervolume of it.

A trial's own outcomes are one draw: what was left alone will be different next time. So the front is made of what the
models expect of each setting that was tried; the measured outcomes stand beside it.

Which of several settings no other one beats in every outcome: the Pareto front (Abdolshah et al., eq. 3 and 4).

All outcomes are values here: turned so that larger is better.

The hypervolume that a set of outcomes dominates: exact, for any number of outcomes (a handful in practice).

Two outcomes by one sweep; more by the recursion of While, Bradstreet and Barone, "A fast way of calculating exact
hypervolumes" (IEEE Transactions on Evolutionary Computation 2012): a point adds its own box less what the points before
it dominate of that box.

Several outcomes: each as a problem of its own, and all of them as values (larger is better).

The order is that of `outcome_names`: the first outcome, then the further ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.ascent import snapped
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.arrays import BoolArray, FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import Fitted, fit_further

MARGIN = 0.1
"""Of the range seen: how far below the worst value a reference point lies where no floor is declared."""


def non_dominated(values: FloatArray) -> BoolArray:
    """Tell which rows of values (n, K) no other row dominates, (n,).

    A row dominates another if it is nowhere smaller and somewhere larger; of equal rows none dominates the other.

    Raises:
        ValueError: values are not (n, K), or not finite.
    """
    values = _checked(values)
    # Whatever dominates a row has a larger sum, so it comes before it; rounding can only make the sums equal.
    order = np.lexsort((*(-values.T[::-1]), -values.sum(axis=1)))
    kept = np.zeros(len(values), dtype=bool)
    front = np.empty((0, values.shape[1]))
    for row in order:
        value = values[row]
        if ((front >= value).all(axis=1) & (front > value).any(axis=1)).any():
            continue
        kept[row] = True
        front = np.vstack([front, value])
    return kept


def reference_point(values: FloatArray, floors: FloatArray) -> FloatArray:
    """Return a point (K,) that every row of values (n, K) dominates, from which hypervolumes are counted.

    Per outcome: the declared floor, the worst value it can take, unless something worse has been seen. Without a floor
    (NaN) it lies a tenth of the range seen below the worst value, so that the extreme ends of the front count too.
    Where all values are equal, the range is taken to be their size, or 1.

    Raises:
        ValueError: there are no values, or they are not (n, K), or not finite.
    """
    values = _checked(values)
    if not len(values):
        raise ValueError("reference point: needs at least one row of values")
    worst, span = values.min(axis=0), np.ptp(values, axis=0)
    size = np.abs(values).max(axis=0)
    span = np.where(span > 0, span, np.where(size > 0, size, 1.0))
    below = worst - MARGIN * span
    return np.asarray(np.where(floors <= worst, floors, below))  # a comparison with NaN never holds


def _checked(values: FloatArray) -> FloatArray:
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or not values.shape[1] or not np.isfinite(values).all():
        raise ValueError(f"outcomes: got shape {values.shape}, need finite (n, K), K > 0")
    return values


def hypervolume(values: FloatArray, reference: FloatArray) -> float:
    """Return the volume between the reference point (K,) and the front of values (n, K); larger is better.

    Points that are not better than the reference in every outcome add nothing. Units: the product of the outcomes'.

    Raises:
        ValueError: shapes do not match, or a number is not finite.
    """
    values, reference = np.asarray(values, dtype=float), np.asarray(reference, dtype=float)
    if values.ndim != 2 or reference.shape != values.shape[1:] or not reference.size:
        raise ValueError(f"hypervolume: got values {values.shape} and reference {reference.shape}; need (n, K), (K,)")
    if not (np.isfinite(values).all() and np.isfinite(reference).all()):
        raise ValueError("hypervolume: values and reference must be finite; leave out failed trials")
    boxes = values - reference
    return _volume(_front(boxes[(boxes > 0).all(axis=1)]))


def _front(boxes: FloatArray) -> FloatArray:
    """Drop dominated and repeated rows; falling in the last outcome, limit sets soon become small."""
    if not len(boxes):
        return boxes
    front = np.unique(boxes[non_dominated(boxes)], axis=0)
    return np.asarray(front[np.argsort(-front[:, -1], kind="stable")])


def _volume(front: FloatArray) -> float:
    """Add up a front as `_front` gives it."""
    if not len(front):
        return 0.0
    if front.shape[1] == 1:
        return float(front[0, 0])
    if front.shape[1] == 2:  # along a front that falls in the second outcome, the first rises
        return float(np.diff(front[:, 0], prepend=0.0) @ front[:, 1])
    # The rows before one reach at least as far in the last outcome, so what they take of its box has one outcome fewer.
    total = 0.0
    for row, box in enumerate(front):
        before = np.minimum(front[:row, :-1], box[:-1])
        total += float(box[-1]) * (float(np.prod(box[:-1])) - _volume(_front(before)))
    return total


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


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """Hold a setting that was tried, and that no other one tried is expected to beat in every outcome."""

    trial: int
    """The trial that tried it; 0 for a point known beforehand."""
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    """What was imposed, as measured; engineering units."""
    expected: tuple[float, ...]
    """(K,), posterior means, own units."""
    sd: tuple[float, ...]
    """(K,), posterior spread of those."""
    measured: tuple[float, ...]
    """(K,), what the trial gave."""


@dataclass(frozen=True, slots=True)
class Front:
    """Hold the Pareto front, best first outcome first."""

    points: tuple[FrontPoint, ...]
    reference: tuple[float, ...]
    """(K,), own units: from where hypervolumes are counted."""
    hypervolume: float
    """Of the expected outcomes; in the product of the outcomes' units."""
    measured_hypervolume: float
    """Of the measured outcomes of all trials."""
    measured_trials: tuple[int, ...]
    """Trials whose measured outcomes no other trial's dominate."""


def front_of(problem: Problem, history: History, first: Fitted, remembered: Sequence[JsonState] = ()) -> Front | None:
    """Return the front after these trials; None if there is one outcome only, or nothing was measured."""
    tried = [row for row, o in enumerate(measured_whole(problem, history)) if o.control_set >= 0]
    if not problem.further or not tried:
        return None
    whole = [measured_whole(problem, history)[row] for row in tried]
    means, sds = _expected(problem, whole, (first, *fit_further(problem, history, remembered, under_way=False)))
    reference, turned = reference_of(problem, history), signs(problem)
    seen = outcome_values(problem, history)[tried]
    points = [
        FrontPoint(
            trial=whole[i].trial,
            control_set=problem.space.control_sets[whole[i].control_set].names,
            setpoints=_setpoints(problem, whole[i]),
            expected=_numbers(turned * means[i]),
            sd=_numbers(sds[i]),
            measured=_numbers(turned * seen[i]),
        )
        for i in np.flatnonzero(non_dominated(means))
    ]
    return Front(
        points=tuple(sorted(points, key=lambda p: (-turned[0] * p.expected[0], p.trial))),
        reference=_numbers(turned * reference),
        hypervolume=hypervolume(means, reference),
        measured_hypervolume=hypervolume(seen, reference),
        measured_trials=tuple(whole[i].trial for i in np.flatnonzero(non_dominated(seen))),
    )


def _expected(
    problem: Problem, whole: Sequence[Observation], models: Sequence[Fitted]
) -> tuple[FloatArray, FloatArray]:
    """Return means and spreads of every setting that was tried, as values, (n, K) each."""
    x = snapped(np.clip(np.array([o.x for o in whole], dtype=float), 0.0, 1.0), problem.space.steps)
    sets = np.array([o.control_set for o in whole])
    means, sds = zip(
        *(Expectations.of(fitted.posterior, problem.space).values(x, sets) for fitted in models), strict=True
    )
    return np.stack(means, axis=1), np.stack(sds, axis=1)


def _setpoints(problem: Problem, o: Observation) -> Mapping[str, float]:
    at = np.clip(np.array(o.x, dtype=float), 0.0, 1.0)
    return problem.space.setpoints(o.control_set, problem.space.setting(o.control_set, at))


def _numbers(row: FloatArray) -> tuple[float, ...]:
    return tuple(float(v) for v in row)
