"""Problems drawn from a seed: function, noise, control sets, costs and budget, none of them chosen by anybody.

Seeds 0 to 199 are for development. Seeds from 10,000 on are for one comparison at the end, and are looked at once.

Functions are drawn from families, each of which makes one of the wanted dimension from a random generator. All are sums
of products of one-dimensional factors (`terms`), so true values need no sampling. A new family is a function here and a
row of `families()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache, partial
from math import exp, inf, log, pi, sqrt
from typing import Any

import numpy as np

from rigctl.bench.problems import functions
from rigctl.bench.problems.functions import Objective, alone, in_parts, of_waves
from rigctl.bench.problems.problem import BenchProblem, LinearCost, Noise, TrialCosts, cube
from rigctl.bench.problems.terms import Factor, Natural, Terms, curve_terms
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.kernels import Kernel1D
from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import Space

FEATURES = 512
"""Random Fourier features of a draw from a Gaussian process."""
SHARP = 0.02
"""Width of the edge of a step or plateau, unit cube."""
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Family:
    """One family of functions, and the dimensions it is drawn in."""

    make: Callable[[int, Rng], Objective]
    """Takes the number of variables that matter."""
    least: int = 2
    most: int = 8


def families() -> Mapping[str, Family]:
    """Return all families by name. The order decides which problem a seed draws."""
    return {
        "gp-squared-exponential": Family(partial(gp_draw, nu=inf), 2, 7),
        "gp-matern-5/2": Family(partial(gp_draw, nu=2.5), 2, 7),
        "gp-matern-3/2": Family(partial(gp_draw, nu=1.5), 2, 6),
        "hartmann3": Family(lambda _d, _rng: functions.hartmann3(), 3, 3),
        "hartmann6": Family(lambda _d, _rng: functions.hartmann6(), 6, 6),
        "ackley": Family(lambda d, _rng: functions.ackley(d), 2, 6),
        "levy": Family(lambda d, _rng: functions.levy(d)),
        "griewank": Family(lambda d, _rng: functions.griewank(d)),
        "rosenbrock": Family(lambda d, _rng: functions.rosenbrock(d)),
        "michalewicz": Family(lambda d, _rng: functions.michalewicz(d), 2, 6),
        "steps": Family(steps, 2, 6),
        "plateaus": Family(plateaus, 2, 5),
        "ridge": Family(ridge, 2, 6),
        "corner": Family(corner),
        "interaction": Family(interaction, 2, 8),
    }


def gp_draw(dimension: int, rng: Rng, nu: float) -> Objective:
    """Return a draw from a process with a Matern kernel of that smoothness, variance 1 and random lengthscales.

    Spectral sampling (Rahimi and Recht 2007): frequencies are normal, or Student's t with 2 nu degrees of freedom.
    Lengthscales grow with the square root of the dimension, so that draws in many variables are not mere noise.
    """
    scales = sqrt(dimension / 3) * np.exp(rng.uniform(np.log(0.15), np.log(0.6), dimension))
    frequencies = rng.standard_normal((FEATURES, dimension)) / scales
    if nu < inf:
        frequencies *= np.sqrt(2 * nu / rng.chisquare(2 * nu, FEATURES))[:, None]
    weights = rng.standard_normal(FEATURES) * sqrt(2.0 / FEATURES)
    return of_waves(weights, frequencies, rng.uniform(0.0, 2 * pi, FEATURES))


def _edge(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(x / SHARP))


def of_curves(dimension: int, weights: FloatArray, curves: Factor, width: float) -> Objective:
    """Return the sum of products of curves, which have no feature narrower than `width`."""

    def f(x: FloatArray) -> FloatArray:
        product = curves(0, x[:, 0])
        for variable in range(1, dimension):
            product = product * curves(variable, x[:, variable])
        return np.asarray(product @ weights)

    return Objective(dimension, in_parts(f, 4096), lambda: (curve_terms(weights, curves, width),))


def steps(dimension: int, rng: Rng) -> Objective:
    """Return staircases along every variable, each up and down at random, and one step that needs several at once."""
    at, height = rng.uniform(0.1, 0.9, (dimension, 4)), rng.normal(size=(dimension, 4))
    gates = rng.uniform(0.2, 0.6, dimension)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        out = alone(_edge(x[:, None] - at[variable]) @ height[variable], variable, dimension + 1)
        out[:, dimension] = _edge(x - gates[variable])
        return out

    weights = np.append(np.full(dimension, 1.0 / sqrt(dimension)), rng.uniform(0.5, 2.0))
    return of_curves(dimension, weights, curves, width=SHARP)


def plateaus(dimension: int, rng: Rng) -> Objective:
    """Return eight flat boxes with steep sides, laid over each other, on a gentle slope."""
    centres = rng.random((8, dimension))
    half = rng.uniform(0.15, 0.45, (8, dimension))
    slopes = rng.normal(size=dimension) * 0.2

    def curves(variable: int, x: FloatArray) -> FloatArray:
        away = x[:, None] - centres[:, variable]
        boxes = _edge(away + half[:, variable]) * _edge(half[:, variable] - away)
        return np.concatenate([boxes, alone(slopes[variable] * x, variable, dimension)], axis=1)

    return of_curves(dimension, np.append(rng.uniform(0.3, 1.5, 8), np.ones(dimension)), curves, width=SHARP)


def ridge(dimension: int, rng: Rng) -> Objective:
    """Return a narrow ridge across all variables: a bump of a.x, by its Fourier series, with a period of 4 |a|_1."""
    along = rng.normal(size=dimension)
    length = 4.0 * float(np.abs(along).sum())
    width = rng.uniform(0.05, 0.15) * float(np.linalg.norm(along))
    waves = 2 * pi * np.arange(int(length / width) + 1) / length
    weights = sqrt(8 * pi) * width / length * np.exp(-0.5 * np.square(width * waves))
    weights[0] /= 2
    tilt, own = rng.normal(size=dimension) * 0.1, np.diag(rng.uniform(1.0, 3.0, dimension))
    crest = float(along @ rng.uniform(0.3, 0.7, dimension))
    phases = np.append(-waves * crest, rng.uniform(0.0, 2 * pi, dimension))
    return of_waves(np.append(weights, tilt), np.concatenate([np.outer(waves, along), own]), phases)


def corner(dimension: int, rng: Rng) -> Objective:
    """Return a function that rises towards one corner along every variable, slowly at first, and as a product."""
    rates = rng.uniform(0.5, 5.0, dimension)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        rise = np.expm1(rates[variable] * x) / np.expm1(rates[variable])
        out = alone(rise, variable, dimension + 1)
        out[:, dimension] = rise
        return out

    return of_curves(dimension, np.append(rng.uniform(0.2, 1.0, dimension), float(dimension)), curves, width=0.1)


def interaction(dimension: int, rng: Rng) -> Objective:
    """Return waves of pairs of variables: the best setting of one depends on where the other happens to be."""
    pairs = [(i, j) for i in range(dimension) for j in range(i)]
    frequencies = np.zeros((2 * len(pairs) + dimension, dimension))
    for row, (i, j) in enumerate(pairs):
        frequencies[2 * row, [i, j]] = rng.uniform(2.0, 6.0, 2)
        frequencies[2 * row + 1, [i, j]] = rng.uniform(2.0, 6.0, 2) * (1.0, -1.0)
    frequencies[2 * len(pairs) :] = np.diag(rng.uniform(2.0, 6.0, dimension))
    count = len(frequencies)
    return of_waves(rng.normal(size=count), frequencies, rng.uniform(0.0, 2 * pi, count))


# a problem ------------------------------------------------------------------------------------------------------------


PREFIX = "drawn-"
FEWEST, MOST = 3, 12
"""Variables of a problem."""
CLASSES = {"cheap": (0.03, 2.5), "moderate": (0.1, 1.5), "expensive": (0.6, 1.0)}
"""Cost of the smallest subsets as a share of the cost of everything; power of a subset's share by which costs rise."""
NOISES = {"equal": 0.4, "unequal": 0.2, "student": 0.2, "outliers": 0.2}
"""Kinds of noise and how often they are drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Drawn:
    """One drawn problem, and how it was drawn."""

    seed: int
    family: str
    noise: str
    """One of `NOISES`."""
    costs: str
    """One of `CLASSES`."""
    additive: bool
    """Whether a set costs the sum of what its variables cost."""
    weak: int
    """Number of variables that matter little or not at all."""
    budget: float
    """Currency units."""
    bench: BenchProblem

    def by_name(self) -> dict[str, Any]:
        """Return the draw by name, with the share of the outcome's range that each control set attains."""
        space, truth, told = self.bench.space, self.bench.truth, {}
        if truth is not None:
            most = max(b.value for b in truth.best)
            shares = [(b.value - truth.floor) / (most - truth.floor) for b in truth.best]
            told = {s.label: f"{v:.3g}" for s, v in zip(space.control_sets, shares, strict=True)}
        head = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"seed", "bench"}}
        of_space = {"variables": space.dimension, "control_sets": len(space.control_sets), "best": told}
        return {"problem": f"{PREFIX}{self.seed}", **head, **of_space}


def seed_of(problem: str) -> int | None:
    """Return the seed of `drawn-17`; None for the name of another problem."""
    number = problem.removeprefix(PREFIX)
    return int(number) if problem.startswith(PREFIX) and number.isdecimal() and f"{int(number)}" == number else None


@lru_cache(maxsize=32)
def drawn(seed: int, *, solved: bool = True) -> Drawn:
    """Draw the problem of that seed; without its truth, which can take seconds to find, if not `solved`."""
    # a generator for each part, so that a change of one part leaves the others as they are
    of_family, of_space, of_noise, of_costs = np.random.default_rng(np.random.SeedSequence([seed, 28])).spawn(4)
    known = families()
    family = str(of_family.choice(list(known)))
    least, most = known[family].least, known[family].most
    matter = int(of_family.integers(least, most + 1))
    d = int(np.clip(matter + of_space.integers(0, 9), max(FEWEST, matter), MOST))
    little = int(of_space.integers(0, d - matter + 1))
    objective = placed(known[family].make(matter, of_family), little, of_family)
    marginals = _marginals(d, of_space)
    inner = of_space.permutation(d)
    sets = _control_sets(d, sorted(np.argsort(inner)[:matter].tolist()), of_space)
    space = cube([marginals[v] for v in inner], sets)
    controlled = [[int(inner[i]) for i in chosen.indices] for chosen in space.control_sets]
    noise, kind = _noise(objective, d, of_noise)
    costs, of_class, additive = _costs(space, of_costs)
    means = np.array([costs.mean(i, (0.5,) * len(s.indices)) for i, s in enumerate(space.control_sets)])
    trials = exp(of_costs.uniform(log(15), log(100)))
    budget = float(f"{max(trials * exp(np.log(means).mean()), 3 * means.max()):.3g}")
    bench = BenchProblem(
        space=space,
        objective=lambda x: objective(np.asarray(x)[:, np.argsort(inner)[: objective.dimension]]),
        costs=costs,
        truth=ProblemTruth.of(objective, marginals, controlled) if solved else None,
        noise=noise,
        model=ModelOptions(kernel="matern-5/2"),
        checkpoints=4,
    )
    return Drawn(seed, family, kind, of_class, additive, d - matter, budget, bench)


def _marginals(d: int, rng: Rng) -> list[TruncatedNormal]:
    """Return marginals of the same variance, .02 to .08, with means near the middle."""
    variance = rng.uniform(0.02, 0.08)
    # as the variance comes close to that of the uniform distribution, 1/12, the mean must come close to the middle
    room = 2.5 * (1 / 12 - variance)
    return [TruncatedNormal.from_moments(0.5 + room * float(u), sqrt(variance)) for u in rng.uniform(-1, 1, d)]


def _control_sets(d: int, matter: Sequence[int], rng: Rng) -> list[tuple[int, ...]]:
    """Return 5 to 12 different control sets, or all that there are; small ones are more likely.

    The set of everything is usually among them, and that of all variables that matter every second time.
    """
    everything, wanted = tuple(range(d)), int(rng.integers(5, 13))
    sets = {everything} if rng.random() < 0.85 else set()
    if rng.random() < 0.5:
        sets.add(tuple(matter))
    wanted = min(wanted, 2**d - 2 + (everything in sets))
    while len(sets) < wanted:
        size = min(1 + int(rng.geometric(0.35)) - (rng.random() < 0.4), d - 1)
        sets.add(tuple(sorted(rng.choice(d, size, replace=False).tolist())))
    return sorted(sets, key=lambda s: (len(s), s))


def _noise(objective: Objective, d: int, rng: Rng) -> tuple[Noise, str]:
    """Return noise of .3 to 6 % of the outcome's range, and its kind."""
    sd = exp(rng.uniform(log(0.003), log(0.06))) * float(np.ptp(objective(sobol(objective.dimension, 1 << 11))))
    kind = str(rng.choice(list(NOISES), p=list(NOISES.values())))
    slopes = tuple((rng.normal(size=d) * 2.0 / sqrt(d)).tolist()) if kind == "unequal" else ()
    outliers = rng.uniform(0.02, 0.05) if kind == "outliers" else 0.0
    return Noise(sd, slopes, heavy=kind == "student", outliers=outliers), kind


def _costs(space: Space, rng: Rng) -> tuple[TrialCosts, str, bool]:
    """Return costs, their class, and whether they are additive."""
    of_class = str(rng.choice(list(CLASSES)))
    base, power = CLASSES[of_class]
    additive, unit = bool(rng.random() < 0.5), 10 ** rng.uniform(-1, 1)
    prices = np.exp(rng.normal(size=space.dimension))
    shares = np.array([prices[list(s.indices)].sum() for s in space.control_sets]) / prices.sum()
    means = base + (1 - base) * shares ** (1.0 if additive else power)
    means = unit * means * (1.0 if additive else np.exp(0.2 * rng.normal(size=len(means))))
    told = bool(rng.random() < 0.15)
    spread = 0.0 if told else float(rng.choice([0.0, 0.05, 0.2, 0.6]))
    rises, field = 1.2 * rng.uniform(-1.0, 1.0, space.dimension), None
    if rng.random() >= 0.7:  # costs depend on setpoints, and less than double from the middle to a corner
        slopes = [m * rises[list(s.indices)] / len(s.indices) for m, s in zip(means, space.control_sets, strict=True)]
        field = LinearCost(means - 0.5 * np.array([s.sum() for s in slopes]), tuple(slopes))
    return TrialCosts(tuple(means.tolist()), 0.0, told, field, spread), of_class, additive


@dataclass(frozen=True, slots=True)
class Moved:
    """The distribution of shift + stretch X, given the marginal of X."""

    marginal: Natural
    stretch: float
    shift: float

    def z(self, b: FloatArray, kernel: Kernel1D) -> FloatArray:
        """Return E[k(X, b)], (n,), for b (n,)."""
        return self.marginal.z((b - self.shift) / self.stretch, kernel.narrowed(abs(self.stretch)))

    def rule(self, width: float) -> tuple[FloatArray, FloatArray]:
        """Return nodes and weights (sum 1) for expectations of functions with features no narrower than `width`."""
        nodes, weights = self.marginal.rule(width / abs(self.stretch))
        return self.shift + self.stretch * nodes, weights


def placed(base: Objective, little: int, rng: Rng) -> Objective:
    """Place a function on a random box of its cube and a random scale; add `little` variables that hardly matter.

    Each variable is stretched, shifted and perhaps turned round, so that the best may lie anywhere, or outside.
    """
    d = base.dimension
    stretch = np.exp(rng.uniform(log(0.35), 0.0, d))
    shift = rng.uniform(0.0, 1.0 - stretch)
    turned = rng.random(d) < 0.5
    shift, stretch = np.where(turned, shift + stretch, shift), np.where(turned, -stretch, stretch)
    waves, phases = rng.uniform(2.0, 6.0, little), rng.uniform(0.0, 2 * pi, little)
    sample = base(shift + stretch * sobol(d, 1 << 11))
    scale, level = 10 ** rng.uniform(-1, 2) / float(np.ptp(sample)), rng.uniform(-1, 1)
    small = rng.uniform(0.002, 0.02, little) * float(np.ptp(sample)) * scale

    def f(x: FloatArray) -> FloatArray:
        return np.asarray(level + scale * base(shift + stretch * x[:, :d]) + np.sin(waves * x[:, d:] + phases) @ small)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        i = variable - d
        return alone(np.sin(waves[i] * x + phases[i]), i, little) if i >= 0 else np.ones((len(x), little))

    def terms() -> tuple[Terms, ...]:
        placed = tuple(_placed_terms(kind, scale, stretch, shift) for kind in base.terms())
        return (*placed, curve_terms(small, curves, width=0.1)) if little else placed

    hints = None if base.hints is None else (base.hints - shift) / stretch
    if hints is not None and little:
        hints = np.concatenate([hints, np.full((len(hints), little), 0.5)], axis=1)
    return Objective(d + little, f, terms, level + scale * base.constant, hints)


def _placed_terms(base: Terms, scale: float, stretch: FloatArray, shift: FloatArray) -> Terms:
    d = len(stretch)

    def factor(variable: int, x: FloatArray) -> FloatArray:
        if variable >= d:
            return np.ones((len(x), len(base.weights)))
        return base.factor(variable, shift[variable] + stretch[variable] * x)

    def expected(variable: int, marginal: Natural) -> FloatArray:
        if variable >= d:
            return np.ones(len(base.weights))
        return base.expected(variable, Moved(marginal, float(stretch[variable]), float(shift[variable])))

    placed, sum_of = Terms(scale * base.weights, factor, expected), base.summed
    if sum_of is None:
        return placed

    def summed(w: FloatArray, variables: Sequence[int], x: FloatArray) -> FloatArray:
        columns = [c for c, v in enumerate(variables) if v < d]
        there = [variables[c] for c in columns]
        return sum_of(w, there, shift[there] + stretch[there] * x[:, columns])

    return replace(placed, summed=summed)
