"""What several outcomes can be had together: the Pareto front of what was tried, and the hypervolume of it.

A trial's own outcomes are one draw: what was left alone will be different next time. So the front is made of what the
models expect of each setting that was tried; the measured outcomes stand beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.core.bounds.expectations import Expectations
from rigctl.core.bounds.levels import snapped
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.gp.model import Fitted
from rigctl.core.multi_objective.hypervolume import hypervolume
from rigctl.core.multi_objective.outcomes import fit_further, measured_whole, outcome_values, reference_of, signs
from rigctl.core.multi_objective.pareto import non_dominated


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
    """Return the front after these trials; None if there is one outcome only, or nothing was measured.

    Args:
        problem: with its further outcomes.
        history: all trials.
        first: the first outcome's model.
        remembered: what the policy remembers of the further outcomes' models.
    """
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
