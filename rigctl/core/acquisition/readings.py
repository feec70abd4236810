"""The readings to come, which a rule is sought for: what may be expected after each, and how much they tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rigctl.core.bounds.grid import lattice
from rigctl.core.experiment.history import Look
from rigctl.core.experiment.marginals.conditional import spread_of
from rigctl.core.experiment.persistence import Persistence, conditioned
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space


def after_readings_to_come(problem: Problem, count: int, rng: np.random.Generator) -> tuple[Space, ...]:
    """Return what is expected after each of `count` readings that may come; none where readings tell nothing.

    Args:
        problem: as `conditioned` gives it.
        count: how many readings are drawn, evenly.
        rng: they are the same for the same generator state.
    """
    if problem.usual is None or problem.look is None or not any(problem.persistence or ()):
        return ()
    variables, errors = problem.usual.variables, problem.look.sd
    uniform, deviates = lattice(len(variables), count, rng), rng.standard_normal((count, len(variables)))
    readings = np.stack([v.marginal.quantile(u) for v, u in zip(variables, uniform.T, strict=True)], axis=1)
    trusted = [Persistence(rho, sd, 0) for rho, sd in zip(problem.persistence or (), errors, strict=True)]
    return tuple(
        conditioned(replace(problem, space=problem.usual), trusted, Look(tuple(map(float, row)), errors)).space
        for row in readings + np.array(errors) * deviates
    )


def told(problem: Problem) -> float:
    """Return the share of the variables' variance that their readings take away, on average, from 0 to 1."""
    if problem.usual is None or problem.look is None:
        return 0.0
    each = zip(problem.usual.variables, problem.persistence or (), problem.look.sd, strict=True)
    own = [(rho**2, spread_of(v.marginal) ** 2, sd**2) for v, rho, sd in each]
    return float(np.mean([share * of_it / (of_it + error) if share and of_it else 0.0 for share, of_it, error in own]))
