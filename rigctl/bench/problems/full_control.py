"""Ordinary full-control problems: Ackley, Levy and Rosenbrock, with uniform and with varying costs.

From Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box Gittins
index", section 4.2 and appendix C (eqs. 74 to 77). Every variable is controlled in every trial, there is no noise, and
d is 4, 8 or 16. Read off the paper's figures: budgets of 10 d (uniform costs of 1) and 25 d (varying costs), neither
including the 2(d+1) Sobol points that every run starts from.

Differences, and what was decided:

- Here larger is better: the papers' functions are negated, so that the best value is 0.
- The paper prints the cost 20 ||S(x)||_1 + 1 with S onto [0, 1]^d. Its budgets buy next to nothing then (2 to 3 trials
  for d = 16), and its published code takes the *mean* of the coordinates, 20 mean(S(x)) + 1. The latter is
  `varying`; what is printed is `varying-sum`.
- The paper's model is an isotropic-distance Matern-5/2; this project's `matern-5/2` kernel is a product of
  one-dimensional Matern-5/2 kernels, which agrees with it along the axes only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.problem import CostField

FunctionName = Literal["ackley", "levy", "rosenbrock"]
Costs = Literal["uniform", "varying", "varying-sum"]
UNIFORM_BUDGET, VARYING_BUDGET = 10, 25
"""Per variable, currency units."""


def ackley(x: FloatArray) -> FloatArray:
    """Eq. 74 on [-1, 1]^d, negated: many local maxima, the best in the middle; (b,) for x (b, d), unit cube."""
    z = 2.0 * x - 1.0
    root, waves = np.sqrt(np.square(z).mean(axis=1)), np.cos(2 * np.pi * z).mean(axis=1)
    return np.asarray(20.0 * np.expm1(-0.2 * root) + np.exp(waves) - np.e)


def levy(x: FloatArray) -> FloatArray:
    """Eq. 75 on [-10, 10]^d, negated: multimodal, the best at 1 in every variable; (b,) for x (b, d), unit cube."""
    w = 1.0 + (20.0 * x - 10.0 - 1.0) / 4.0
    first = np.square(np.sin(np.pi * w[:, 0]))
    inner = np.square(w[:, :-1] - 1.0) * (1.0 + 10.0 * np.square(np.sin(np.pi * w[:, :-1] + 1.0)))
    last = np.square(w[:, -1] - 1.0) * (1.0 + np.square(np.sin(2 * np.pi * w[:, -1])))
    return np.asarray(-(first + inner.sum(axis=1) + last))


def rosenbrock(x: FloatArray) -> FloatArray:
    """Eq. 76 on [-5, 10]^d, negated: one curved valley, the best at 1 in every variable; (b,) for x (b, d)."""
    z = 15.0 * x - 5.0
    bend, rest = z[:, 1:] - np.square(z[:, :-1]), z[:, :-1] - 1.0
    return np.asarray(-(100.0 * np.square(bend) + np.square(rest)).sum(axis=1))


@dataclass(frozen=True, slots=True)
class LinearCost:
    """`base + slope * sum of the setting`: the same for every control set, and known, so that `upper` is the mean."""

    base: float
    """Currency units."""
    slope: float
    """Currency units per range of one variable."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """(b,), currency units, for settings (b, k), unit cube."""
        return np.asarray(self.base + self.slope * settings.sum(axis=1))

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:  # noqa: ARG002
        """(b, k)."""
        return np.full(settings.shape, self.slope)

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        """(b,)."""
        return self.mean(control_set, settings)


@dataclass(frozen=True, slots=True)
class FullControl:
    """A function to maximise by controlling every variable."""

    name: str
    f: Callable[[FloatArray], FloatArray]
    """(b, d), unit cube -> (b,), larger is better."""
    best: float
    """Its maximum."""
    best_at: tuple[float, ...]
    """(d,), unit cube: where."""
    cost: CostField
    budget: float
    """Currency units, the initial points not included."""
    dimension: int
    initial: int
    """Sobol points known beforehand, free of charge."""


def full_control_problem(name: FunctionName, dimension: int, costs: Costs = "uniform") -> FullControl:
    """One of the paper's problems; any dimension from 2 on (the paper's are 4, 8 and 16).

    Raises:
        ValueError: no such function or costs, or fewer than two variables.
    """
    functions = {"ackley": (ackley, 0.5), "levy": (levy, 0.55), "rosenbrock": (rosenbrock, 0.4)}
    if name not in functions:
        raise ValueError(f"full-control problem: got {name!r}, allowed: {', '.join(functions)}")
    if dimension < 2:
        raise ValueError(f"{name}: got {dimension} variables, need at least 2")
    f, at = functions[name]
    return FullControl(
        name=f"{name}{dimension}",
        f=f,
        best=0.0,
        best_at=(at,) * dimension,
        cost=_cost(costs, dimension),
        budget=float(dimension * (UNIFORM_BUDGET if costs == "uniform" else VARYING_BUDGET)),
        dimension=dimension,
        initial=2 * (dimension + 1),
    )


def _cost(costs: Costs, dimension: int) -> LinearCost:
    slopes = {"uniform": 0.0, "varying": 20.0 / dimension, "varying-sum": 20.0}
    if costs not in slopes:
        raise ValueError(f"costs: got {costs!r}, allowed: {', '.join(get_args(Costs))}")
    return LinearCost(1.0, slopes[costs])
