"""What the model says beyond the last decision: worked out once per trial, in a process that nobody waits for."""

from __future__ import annotations

import numpy as np

from rigctl.campaign.journal import Reader
from rigctl.config.load import LoadedConfig
from rigctl.core.arrays import FloatArray
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem, sign
from rigctl.core.experiment.space import Space
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_history
from rigctl.core.gp.surrogate import Posterior
from rigctl.core.marginals.drift import scan
from rigctl.core.natural import Learned, present
from rigctl.core.policy import trial_rng
from rigctl.core.recommend import Option, Recommendation, recommend
from rigctl.page.shown import Slice, Study, Supply

PLACES = 33
"""Points along a slice."""
NEAR = 0.05
"""A trial this near on the unit interval counts as tried there."""
TWO_SIDED = 1.959964
"""Standard deviations of the 95 % interval."""
NINE_IN_TEN = np.array([0.05, 0.95])


def study(reader: Reader, loaded: LoadedConfig) -> Study:
    """Work out of a journal what the model says now; takes seconds.

    Raises:
        JournalError: it cannot be read.
    """
    problem = loaded.problem
    history = reader.history(problem.space, [f.name for f in problem.further])
    return study_of(loaded, history, reader.policy_state() or {})


def study_of(loaded: LoadedConfig, history: History, state: JsonState) -> Study:
    """Work it out of any history, with what the policy remembers."""
    problem, notes = present(loaded.problem, history)
    bands, supplies = _bands(problem.space), _supplies(loaded.problem, history)
    if not history.complete:
        return Study(len(history), None, (), bands, supplies, (), notes)
    stored = state.get("hyperparameters")
    known = None if stored is None else Hyperparameters.from_json(stored)
    rng = trial_rng(loaded.seed, len(history) + 1)
    found = recommend(loaded.problem, history, rng, loaded.tolerance, known, further=state.get("further", ()))
    posterior = fit_history(problem, history, known).posterior
    return Study(len(history), found, _slices(problem, history, posterior, found), bands, supplies, (), notes)


def _bands(space: Space) -> dict[str, tuple[float, float]]:
    out = {}
    for v in space.variables:
        low, high = v.low + (v.high - v.low) * v.marginal.quantile(NINE_IN_TEN)
        out[v.name] = (float(low), float(high))
    return out


def _supplies(problem: Problem, history: History) -> tuple[Supply, ...]:
    """Return the stretches of every variable whose marginal is learned and whose supply has changed."""
    space, rows = problem.space, [o for o in history.observations if o.x is not None and o.control_set >= 0]
    found: list[Supply] = []
    for column, variable in enumerate(space.variables):
        alone = [o for o in rows if column not in space.control_sets[o.control_set].indices]
        values = np.array([(o.x or ())[column] for o in alone], dtype=float)
        changes = scan(values).changes if isinstance(variable.marginal, Learned) and len(values) else ()
        if not changes:
            continue
        begins = [0, *(change.begins for change in changes)]
        for begin, end in zip(begins, [*begins[1:], len(values)], strict=True):
            mean = variable.low + (variable.high - variable.low) * float(values[begin:end].mean())
            found.append(Supply(variable.name, alone[begin].trial, alone[end - 1].trial, mean))
    return tuple(found)


def _slices(problem: Problem, history: History, posterior: Posterior, found: Recommendation) -> tuple[Slice, ...]:
    return tuple(_slice(problem, history, posterior, found.choice, i) for i in range(problem.space.dimension))


def _slice(problem: Problem, history: History, posterior: Posterior, choice: Option, index: int) -> Slice:
    """Return what is expected along one variable, those of the recommendation at their setpoints, the rest left alone.

    A variable that the recommendation leaves alone is looked at as if it were controlled besides.
    """
    space, variable = problem.space, problem.space.variables[index]
    names = {*choice.control_set, variable.name}
    members = tuple(i for i, v in enumerate(space.variables) if v.name in names)
    wider = Space.of(space.variables, [[space.variables[i].name for i in members]])
    u = np.linspace(0.0, 1.0, PLACES)
    points = np.full((PLACES, space.dimension), 0.5)
    for i in members:
        v = space.variables[i]
        points[:, i] = u if i == index else (choice.setpoints[v.name] - v.low) / (v.high - v.low)
    mean, sd = Expectations.of(posterior, wider).values(points, np.zeros(PLACES, dtype=np.int64))
    outcome, half = sign(problem) * mean, TWO_SIDED * sd
    return Slice(
        variable=variable.name,
        unit="" if variable.unit == "1" else variable.unit,
        at=_numbers(variable.low + (variable.high - variable.low) * u),
        mean=_numbers(outcome),
        low=_numbers(outcome - half),
        high=_numbers(outcome + half),
        tried=tuple(bool(t) for t in _tried(history, index, u)),
        chosen=choice.setpoints.get(variable.name),
    )


def _tried(history: History, index: int, u: FloatArray) -> FloatArray:
    """(n,), whether a trial with an outcome was near each place."""
    seen = history.x[:, index]
    return np.asarray((np.abs(seen[None, :] - u[:, None]) <= NEAR).any(axis=1))


def _numbers(values: FloatArray) -> tuple[float, ...]:
    return tuple(map(float, values))
