"""The bench's problems: a function, how uncontrolled variables vary, control sets, costs (algorithms, section 5).

Problems of two outcomes (Abdolshah et al., Experiments), and how a policy does on them (algorithms, section 4.5).

Everything is turned so that larger is better, inputs are on the unit cube, and outcomes are mapped to about [0, 1], as
in the paper. There is no noise; a trial costs 1, so the budget is a number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import e, exp, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from rigctl.bench.problems.functions import Objective, ackley, gp_sample, hartmann3, hartmann6, kernel_sum, levy
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.marginals.families import Marginal, TruncatedNormal, Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import CostField, FurtherOutcome, ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.multi_objective.trade_off import hypervolume
from rigctl.errors import UsageError
from rigctl.flaws import got

ZDT3_LEAST = 0.7733691
"""Minus the least f2 of ZDT3."""
TRAY_BEST, TABLE_BEST = 2.06261, 19.2085
"""Minus the least values of cross-in-tray and Hoelder table."""


def zdt3(dimension: int = 5, *, mapped: bool = True) -> BenchProblem:
    """Return T3 of Zitzler, Deb and Thiele (2000): a front of five pieces, along x1, where all others are 0.

    f1 = x1, f2 = g (1 - sqrt(f1/g) - f1/g sin(10 pi f1)), g = 1 + 9 mean(x2 ... xd); f2 in [-0.774, 10], both small.
    Not mapped (`zdt3-unscaled`), the values are -f1 and -f2, and hypervolumes are larger by f2's range, 10.773.
    """

    def f(x: FloatArray) -> FloatArray:
        first, g = x[:, 0], 1.0 + 9.0 * x[:, 1:].mean(axis=1)
        second = g * (1.0 - np.sqrt(first / g) - first / g * np.sin(10 * np.pi * first))
        span = 10.0 + ZDT3_LEAST if mapped else 1.0
        return np.stack([worst[0] - first, (worst[1] - second) / span], axis=1)

    worst = (1.0, 10.0) if mapped else (0.0, 0.0)
    reference = (0.0, 0.0) if mapped else (-1.0, -10.0)
    return _problem(f, dimension, reference)


def trays() -> BenchProblem:
    """Return cross-in-tray and Hoelder table on [-10, 10]^2: many settings are equally good in each."""

    def f(x: FloatArray) -> FloatArray:
        at = 20.0 * x - 10.0
        radius = np.hypot(at[:, 0], at[:, 1]) / np.pi
        waves = np.sin(at[:, 0]) * np.sin(at[:, 1]) * np.exp(np.abs(100.0 - radius))
        tray = 1e-4 * (np.abs(waves) + 1.0) ** 0.1
        table = np.abs(np.sin(at[:, 0]) * np.cos(at[:, 1]) * np.exp(np.abs(1.0 - radius)))
        return np.stack([tray / TRAY_BEST, table / TABLE_BEST], axis=1)

    return _problem(f, 2, (0.0, 0.0))


def _problem(f: Callable[[FloatArray], FloatArray], dimension: int, reference: Sequence[float]) -> BenchProblem:
    """Return the problem of two outcomes f, (n, d) -> (n, 2); inputs are dear to use in their order, the first most.

    Points known beforehand count neither as trials nor as use of the dear input.
    """
    space = one_set(dimension)

    def progress(history: History) -> dict[str, list[float]]:
        first = len(history) - sum(o.control_set >= 0 for o in history.observations)
        used, y = np.cumsum(history.x[first:], axis=0).reshape(-1, dimension), history.outcomes
        volumes = [hypervolume(y[: first + t], np.array(reference)) for t in range(1, len(used) + 1)]
        each = {f"used_{i + 1}": used[:, i].tolist() for i in range(dimension)}
        return {"dear_input": used[:, 0].tolist(), "hypervolume": volumes, **each}

    return BenchProblem(
        space=space,
        objective=f,
        costs=TrialCosts((1.0,), noise_sd=0.0, told=True),
        truth=None,
        noise=Noise(0.0),
        options={"ca-mobo": {"order": space.names}},
        further=(FurtherOutcome("y2"),),
        progress=progress,
    )


COST_SETS = {
    "cheap": (0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 1.0),
    "moderate": (0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0),
    "expensive": (0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0),
}
"""Mean costs by position of the control set (C, section 5)."""
COST_NOISE_SD = 0.02
NOISY_FROM = 0.1
"""Costs vary where their mean is at least this (U, Experiments)."""
SMALLEST_COST = 0.001
NOISE_SD = 0.01
"""Of observations (C, appendix C)."""
OUTLYING = 15.0
CHECKPOINTS = 20
"""Even steps of the budget at which a recommendation is asked for; 25, 50 and 100 % are among them."""
SUBSETS_OF_3 = ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2))
SETS_OF_12 = tuple(tuple(range(*r)) for r in ((0, 3), (3, 6), (6, 9), (9, 12), (0, 6), (6, 12), (0, 12)))
PLANT_SETS = ((0, 1), (2, 3), (3, 4), (0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 1, 2, 3, 4))
AIRFOIL_SETS = ((3, 4), (1, 4), (0, 3), (1, 2), (2, 4), (0, 1), (2, 3))


@dataclass(frozen=True, slots=True, eq=False)
class LinearCost:
    """Costs that are linear in the setting of each control set. They are certain, so `upper` is the mean."""

    bases: FloatArray
    """(m,), currency units, where the setting is 0 throughout."""
    slopes: tuple[FloatArray, ...]
    """Per control set (k,), currency units per range of each of its variables."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Return costs of settings (b, k), unit cube: (b,), currency units."""
        return np.asarray(self.bases[control_set] + settings @ self.slopes[control_set])

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:
        return np.broadcast_to(self.slopes[control_set], settings.shape)

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        return self.mean(control_set, settings)


@dataclass(frozen=True, slots=True)
class TrialCosts:
    """Costs of trials, currency units: a mean per control set, or a field of its settings.

    Where a set's mean is at least 0.1, a trial costs N(mean, 0.02) (U, Experiments), but never less than 0.001.
    """

    means: tuple[float, ...] = ()
    noise_sd: float = COST_NOISE_SD
    told: bool = False
    """Whether policies know the means, or the field."""
    field: CostField | None = None
    spread: float = 0.0
    """Relative spread of trials around the mean (standard deviation of the log cost), in place of `noise_sd`."""

    @classmethod
    def named(cls, name: str) -> TrialCosts:
        """Return `cheap`, `moderate` or `expensive`: unknown and noisy.

        With `-exact` unknown and always the same, with `-known` always the same and told to the policies.
        """
        base, _, kind = name.partition("-")
        return cls(COST_SETS[base], 0.0 if kind else COST_NOISE_SD, told=kind == "known")

    @property
    def known(self) -> tuple[float, ...] | None:
        """Return the mean of every set, (m,), where policies are told them."""
        return self.means if self.told and self.field is None else None

    def mean(self, control_set: int, setting: Sequence[float]) -> float:
        if self.field is None:
            return self.means[control_set]
        return float(self.field.mean(control_set, np.array([setting], dtype=float))[0])

    def draw(self, control_set: int, setting: Sequence[float], deviate: float) -> float:
        """Return the cost of one trial, given a standard normal deviate."""
        mean = self.mean(control_set, setting)
        if self.spread:
            return mean * exp(self.spread * deviate - 0.5 * self.spread**2)
        noisy = self.field is None and mean >= NOISY_FROM and self.noise_sd > 0
        return max(mean + self.noise_sd * deviate, SMALLEST_COST) if noisy else mean


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise of outcomes, symmetric about 0. Every trial takes the same numbers of the stream, whatever is played."""

    sd: float = NOISE_SD
    """Standard deviation in the middle of the cube, outliers not counted; outcome units."""
    slopes: tuple[float, ...] = ()
    """(d,): rise of the log standard deviation over the range of each variable."""
    heavy: bool = False
    """Whether deviates are Student's t with 3 degrees of freedom, scaled to `sd`."""
    outliers: float = 0.0
    """Share of outcomes whose deviate is multiplied by `OUTLYING`."""

    def draw(self, x: FloatArray, outcomes: int, rng: np.random.Generator) -> FloatArray:
        """Return noise at points x (n, d), unit cube, for each of the outcomes: (n, outcomes)."""
        z = rng.standard_normal((len(x), outcomes))
        if self.heavy:
            z = z / np.sqrt(rng.chisquare(3.0, z.shape))
        if self.outliers:
            z = np.where(rng.random(z.shape) < self.outliers, OUTLYING * z, z)
        if self.slopes:
            z = z * np.exp((x - 0.5) @ np.array(self.slopes))[:, None]
        return np.asarray(self.sd * z)


@dataclass(frozen=True, slots=True, eq=False)
class BenchProblem:
    """Everything a simulated campaign needs."""

    space: Space
    objective: Callable[[FloatArray], FloatArray]
    """The outcome without noise: (n, d) unit cube -> (n,), or (n, K) where there are several."""
    costs: TrialCosts
    truth: ProblemTruth | None
    """None where no single outcome is optimised."""
    floor: float | None = None
    """What policies are told of the worst outcome."""
    noise: Noise = field(default_factory=Noise)
    initial: Callable[[np.random.Generator], FloatArray] | None = None
    """The free points known beforehand, (n, d), unit cube; None: five, uniform over the cube."""
    lengthscale: float = 0.2
    """Of `hyperparameters: fixed`, unit cube; the rest of those is signal 1, noise 0.01, mean 0, as in the papers."""
    model: ModelOptions = field(default_factory=lambda: ModelOptions(kernel="squared-exponential"))
    """What policies start from otherwise."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By policy name: options that are a property of the problem, e.g. the order in which inputs are dear."""
    further: tuple[FurtherOutcome, ...] = ()
    progress: Callable[[History], Mapping[str, list[float]]] | None = None
    """Columns of a history, initial points included, with one entry per charged trial; None: one outcome."""
    natural: tuple[Marginal, ...] | None = None
    """How variables left alone really vary; None: as policies are told."""
    checkpoints: int = CHECKPOINTS
    changeovers: tuple[float, ...] = ()
    """(d,), currency units: what a trial costs more that brings a variable elsewhere than the last one left it; empty:
    nothing."""
    level: Callable[[int], float] | None = None
    """What a plant that ages adds to the outcome of a trial, by its number; None: nothing."""

    def initial_points(self, rng: np.random.Generator) -> FloatArray:
        return rng.random((5, self.space.dimension)) if self.initial is None else self.initial(rng)

    @property
    def marginals(self) -> tuple[Marginal, ...]:
        """Return how variables left alone really vary, (d,)."""
        return self.natural or tuple(v.marginal for v in self.space.variables)

    def left_alone(self, quantiles: FloatArray) -> FloatArray:
        """Return what the variables would be if none were controlled, (d,), unit cube, at these quantiles (d,)."""
        return np.array([m.quantile(q) for m, q in zip(self.marginals, quantiles, strict=True)])

    def problem(self, budget: float, model: Mapping[str, Any] | None = None) -> Problem:
        """Return what the policy is told; `budget` in currency units, `model` overrides single model options.

        Raises:
            ValueError: the budget is not finite, or a model option is out of its range.
        """
        given = dict(model or {})
        scales = (self.lengthscale,) * self.space.dimension
        fixed = ModelOptions("fixed", lengthscales=scales, signal_sd=1.0, noise_sd=NOISE_SD, mean=0.0)
        base = fixed if given.get("hyperparameters") == "fixed" else self.model
        return Problem(
            space=self.space,
            budget=to_micros(budget),
            floor=self.floor,
            model=replace(base, **given),
            known_costs=self.costs.known,
            cost_model="per-set" if self.costs.field is None else "per-setting",
            changeovers=tuple(i for i, part in enumerate(self.changeovers) if part),
            known_cost_field=self.costs.field if self.costs.told else None,
            further=self.further,
        )


def cube(marginals: Sequence[Marginal], control_sets: Sequence[Sequence[int]]) -> Space:
    """Return a space x1, x2, ... on the unit cube, of variables that vary so."""
    variables = [Variable(f"x{i}", "", 0.0, 1.0, marginal) for i, marginal in enumerate(marginals, 1)]
    return Space.of(variables, [[variables[i].name for i in members] for members in control_sets])


def one_set(dimension: int) -> Space:
    """Return a space whose one control set is all of it."""
    return cube([Uniform()] * dimension, [range(dimension)])


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a problem with control sets is made."""

    objective: Callable[[int, Path | None], Objective]
    """From seed and data directory."""
    dimension: int
    control_sets: tuple[tuple[int, ...], ...]
    lengthscale: float
    """The papers' fixed one."""
    floor: float | None
    seeded: bool = False


def recipes() -> Mapping[str, Recipe]:
    return {
        "hartmann3": Recipe(lambda *_: hartmann3(), 3, SUBSETS_OF_3, 0.1, 0.0),
        "gp-sample3": Recipe(lambda seed, _: gp_sample(3, 0.1, seed), 3, SUBSETS_OF_3, 0.1, None, seeded=True),
        "plant": Recipe(lambda _, data: kernel_sum("plant", data), 5, PLANT_SETS, 0.2, None),
        "airfoil": Recipe(lambda _, data: kernel_sum("airfoil", data), 5, AIRFOIL_SETS, 0.2, None),
        "hartmann6+6": Recipe(lambda *_: hartmann6(), 12, SETS_OF_12, 0.1, 0.0),
        "ackley6+6": Recipe(lambda *_: ackley(6), 12, SETS_OF_12, 0.2, -20.0 - e),
        "levy6+6": Recipe(lambda *_: levy(6), 12, SETS_OF_12, 0.2, None),
    }


def control_set_problem(
    name: str, costs: str, variance: float, seed: int, data: Path | None = None, *, solved: bool = True
) -> BenchProblem:
    """Return one of `recipes()`; not `solved`, it has no truth, which can take seconds to find.

    Raises:
        UsageError: its data are not there, or no truncated normal has that variance.
    """
    recipe = recipes()[name]
    objective = recipe.objective(seed, data)
    marginals = [_marginal(variance)] * recipe.dimension
    return BenchProblem(
        space=cube(marginals, recipe.control_sets),
        objective=lambda x: objective(np.asarray(x)[:, : objective.dimension]),
        costs=TrialCosts.named(costs),
        truth=ProblemTruth.of(objective, marginals, recipe.control_sets, recipe.floor) if solved else None,
        floor=recipe.floor,
        lengthscale=recipe.lengthscale,
    )


def _marginal(variance: float) -> TruncatedNormal:
    if not variance > 0:
        raise UsageError(got(variance, "must be more than 0 and less than the uniform's 1/12", where="variance"))
    try:
        return TruncatedNormal.from_moments(0.5, sqrt(variance))
    except ValueError as error:
        raise UsageError(f"variance: got {variance:g}; {error}") from error
