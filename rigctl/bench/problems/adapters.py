"""Problems of other shapes through the same loop and table: every variable controlled, and several outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rigctl.bench.problems.full_control import Costs, FullControl, FunctionName, full_control_problem
from rigctl.bench.problems.multi_outcome import INITIAL, MultiOutcome
from rigctl.bench.problems.problem import BenchProblem, Progress, SetCosts
from rigctl.bench.problems.truth import Best
from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import CostField, FurtherOutcome, ModelOptions
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.marginals.families import Uniform
from rigctl.core.multi_objective.hypervolume import hypervolume

FLOOR_POINTS = 1 << 12


@dataclass(frozen=True, slots=True)
class FieldCosts:
    """Costs that depend on the setting, are known, and never vary otherwise."""

    field: CostField
    known: tuple[float, ...] | None = None

    def mean(self, control_set: int, setting: Sequence[float]) -> float:
        """At that setting."""
        return float(self.field.mean(control_set, np.array([setting], dtype=float))[0])

    def draw(self, control_set: int, setting: Sequence[float], deviate: float) -> float:  # noqa: ARG002  # no noise
        """The mean."""
        return self.mean(control_set, setting)


@dataclass(frozen=True, slots=True, eq=False)
class FullTruth:
    """Of a function whose every variable is controlled: itself."""

    problem: FullControl

    @property
    def best(self) -> tuple[Best, ...]:
        """Of the one control set."""
        return (Best(self.problem.best, self.problem.best_at),)

    @property
    def floor(self) -> float:
        """About the smallest value, from fixed points."""
        return float(self.problem.f(_sobol(self.problem.dimension, FLOOR_POINTS, np.random.default_rng(0))).min())

    def value(self, control_set: int, settings: FloatArray) -> FloatArray:  # noqa: ARG002  # there is one
        """(n,) for settings (n, d)."""
        return self.problem.f(settings)


def full_control(function: FunctionName, dimension: int, costs: Costs) -> BenchProblem:
    """A full-control problem: its initial points are Sobol's, its kernel Matern-5/2 (Xie et al., section 4)."""
    problem = full_control_problem(function, dimension, costs)
    return BenchProblem(
        name=problem.name,
        space=_one_set([f"x{i + 1}" for i in range(dimension)]),
        objective=problem.f,
        costs=FieldCosts(problem.cost),
        truth=FullTruth(problem),
        noise_sd=0.0,
        initial=lambda rng: _sobol(dimension, problem.initial, rng),
        model=ModelOptions(kernel="matern-5/2"),
    )


def multi_outcome(problem: MultiOutcome) -> BenchProblem:
    """A problem of several outcomes: a trial costs 1, and the budget is a number of trials (Abdolshah et al.)."""
    return BenchProblem(
        name=problem.name,
        space=_one_set(problem.names),
        objective=problem.f,
        costs=SetCosts((1.0,), noise_sd=0.0, told=True),
        truth=None,
        noise_sd=0.0,
        initial=lambda rng: rng.random((INITIAL, problem.dimension)),
        options={"ca-mobo": {"order": problem.order_names}},
        further=tuple(FurtherOutcome(f"y{k + 2}") for k in range(len(problem.reference) - 1)),
        progress=lambda history: _progress(problem, history),
    )


def _progress(problem: MultiOutcome, history: History) -> Progress:
    charged = [o for o in history.observations if o.control_set >= 0]
    first = len(history) - len(charged)
    used, y = np.cumsum(history.x[first:], axis=0).reshape(-1, problem.dimension), history.outcomes
    reference = np.array(problem.reference)
    return Progress(
        dear_input=used[:, problem.order[0]],
        hypervolume=np.array([hypervolume(y[: first + t], reference) for t in range(1, len(charged) + 1)]),
        used=used,
    )


def _one_set(names: Sequence[str]) -> Space:
    return Space.of([Variable(name, "", 0.0, 1.0, Uniform()) for name in names], [names])


def _sobol(dimension: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Scrambled Sobol points (count, d); a power of two is drawn and cut, as fewer would not be balanced."""
    from scipy.stats import qmc  # noqa: PLC0415 - slow to import

    points = qmc.Sobol(dimension, rng=rng).random_base2(int(count - 1).bit_length())
    return np.asarray(points[:count])
