"""Ordinary full-control problems: Ackley, Levy and Rosenbrock, with uniform and with varying costs.

From Xie, Astudillo, Frazier, Scully and Terenin, "Cost-aware Bayesian optimization via the Pandora's Box Gittins
index", section 4.2 and appendix C (eqs. 74 to 77). Every variable is controlled in every trial, there is no noise, and
d is 4, 8 or 16. The paper's budgets do not include the 2(d+1) Sobol points that every run starts from.

Differences, and what was decided:

- Here larger is better: the papers' functions are negated, so that the best value is 0.
- The paper prints the cost 20 ||S(x)||_1 + 1 with S onto [0, 1]^d. Its budgets buy next to nothing then (2 to 3 trials
  for d = 16), and its published code takes the *mean* of the coordinates, 20 mean(S(x)) + 1. The latter is
  `varying`; what is printed is `varying-sum`.
- The paper's model is an isotropic-distance Matern-5/2; this project's `matern-5/2` kernel is a product of
  one-dimensional Matern-5/2 kernels, which agrees with it along the axes only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from rigctl.bench.problems.problem import BenchProblem, Noise, TrialCosts, one_set
from rigctl.bench.problems.truth import BestOfSet, ProblemTruth
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.problem import ModelOptions

FunctionName = Literal["ackley", "levy", "rosenbrock"]
CostsName = Literal["uniform", "varying", "varying-sum"]


def ackley(x: FloatArray) -> FloatArray:
    """Return eq. 74 on [-1, 1]^d, negated, (b,) for x (b, d), unit cube: many local maxima, the best in the middle."""
    z = 2.0 * x - 1.0
    root, waves = np.sqrt(np.square(z).mean(axis=1)), np.cos(2 * np.pi * z).mean(axis=1)
    return np.asarray(20.0 * np.expm1(-0.2 * root) + np.exp(waves) - np.e)


def levy(x: FloatArray) -> FloatArray:
    """Return eq. 75 on [-10, 10]^d, negated, (b,) for x (b, d), unit cube: multimodal, the best at 1 everywhere."""
    w = 1.0 + (20.0 * x - 10.0 - 1.0) / 4.0
    first = np.square(np.sin(np.pi * w[:, 0]))
    inner = np.square(w[:, :-1] - 1.0) * (1.0 + 10.0 * np.square(np.sin(np.pi * w[:, :-1] + 1.0)))
    last = np.square(w[:, -1] - 1.0) * (1.0 + np.square(np.sin(2 * np.pi * w[:, -1])))
    return np.asarray(-(first + inner.sum(axis=1) + last))


def rosenbrock(x: FloatArray) -> FloatArray:
    """Return eq. 76 on [-5, 10]^d, negated, (b,) for x (b, d), unit cube: a curved valley, the best at 1 everywhere."""
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
        """Return eq. 77 of settings (b, k), unit cube: (b,), currency units."""
        return np.asarray(self.base + self.slope * settings.sum(axis=1))

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:  # noqa: ARG002
        return np.full(settings.shape, self.slope)

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        return self.mean(control_set, settings)


def full_control(name: FunctionName, dimension: int, costs: CostsName = "uniform") -> BenchProblem:
    """Return one of the paper's problems; of any dimension from 2 on (the paper's are 4, 8 and 16)."""
    f, at = {"ackley": (ackley, 0.5), "levy": (levy, 0.55), "rosenbrock": (rosenbrock, 0.4)}[name]
    floor = float(f(sobol(dimension, 1 << 12)).min())
    slope = {"uniform": 0.0, "varying": 20.0 / dimension, "varying-sum": 20.0}[costs]
    return BenchProblem(
        space=one_set(dimension),
        objective=f,
        costs=TrialCosts(field=LinearCost(1.0, slope), told=True),
        truth=ProblemTruth((f,), (BestOfSet(0.0, (at,) * dimension),), floor),
        noise=Noise(0.0),
        initial=lambda rng: sobol(dimension, 2 * (dimension + 1), rng),
        model=ModelOptions(kernel="matern-5/2"),
    )
