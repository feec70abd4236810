"""Families that problems are drawn from: each makes a function of so many variables from a random generator.

All are sums of products of one-dimensional factors (`terms`), so true values need no sampling. A new family is a
function here and a row of `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, pi, sqrt

import numpy as np

from rigctl.bench.problems.functions import Objective, ackley, hartmann3, hartmann6, in_parts, levy
from rigctl.bench.problems.terms import curve_terms, wave_terms
from rigctl.core.experiment.arrays import FloatArray

FEATURES = 512
"""Random Fourier features of a draw from a Gaussian process."""
SHARP = 0.02
"""Width of the edge of a step or plateau, unit cube."""
Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class Family:
    """How functions of one family are made, and of how many variables."""

    make: Callable[[int, Rng], Objective]
    """From the number of variables that matter."""
    least: int = 2
    most: int = 8


def families() -> Mapping[str, Family]:
    """Return all families by name. A new one goes last: which problem a seed draws depends on their order."""
    return {
        "gp-squared-exponential": Family(partial(gp_draw, nu=inf), 2, 7),
        "gp-matern-5/2": Family(partial(gp_draw, nu=2.5), 2, 7),
        "gp-matern-3/2": Family(partial(gp_draw, nu=1.5), 2, 6),
        "hartmann3": Family(lambda _d, _rng: hartmann3(), 3, 3),
        "hartmann6": Family(lambda _d, _rng: hartmann6(), 6, 6),
        "ackley": Family(lambda d, _rng: ackley(d), 2, 6),
        "levy": Family(lambda d, _rng: levy(d)),
        "griewank": Family(lambda d, _rng: griewank(d)),
        "rosenbrock": Family(lambda d, _rng: rosenbrock(d)),
        "michalewicz": Family(lambda d, _rng: michalewicz(d), 2, 6),
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
    return _waves(rng.standard_normal(FEATURES) * sqrt(2.0 / FEATURES), frequencies, rng.uniform(0.0, 2 * pi, FEATURES))


def _waves(weights: FloatArray, frequencies: FloatArray, phases: FloatArray) -> Objective:
    """Return sum_j w_j cos(omega_j x + b_j)."""
    f = in_parts(lambda x: np.asarray(np.cos(x @ frequencies.T + phases) @ weights))
    return Objective(frequencies.shape[1], f, lambda: (wave_terms(weights * np.exp(1j * phases), frequencies),))


def _curves(
    dimension: int,
    weights: FloatArray,
    curves: Callable[[int, FloatArray], FloatArray],
    width: float,
    hints: FloatArray | None = None,
) -> Objective:
    """Return the function that is a sum of products of curves, (variable, x (n,)) -> (n, J), as it stands."""

    def f(x: FloatArray) -> FloatArray:
        product = curves(0, x[:, 0])
        for variable in range(1, dimension):
            product = product * curves(variable, x[:, variable])
        return np.asarray(product @ weights)

    return Objective(dimension, in_parts(f, 4096), lambda: (curve_terms(weights, curves, width),), hints=hints)


def _alone(values: FloatArray, variable: int, terms: int) -> FloatArray:
    """Return factors (n, terms) that are 1 but in the term of this variable."""
    out = np.ones((len(values), terms))
    out[:, variable] = values
    return out


def griewank(dimension: int) -> Objective:
    """Return minus Griewank's function on [-30, 30]^d: a bowl with a product of cosines; maximum 0 in the middle."""

    def curves(variable: int, x: FloatArray) -> FloatArray:
        z = 60.0 * x - 30.0
        out = _alone(np.square(z) / 4000.0, variable, dimension + 2)
        out[:, dimension] = np.cos(z / sqrt(variable + 1.0))
        return out

    weights = np.array([-1.0] * dimension + [1.0, -1.0])
    return _curves(dimension, weights, curves, width=0.02, hints=np.full((1, dimension), 0.5))


def rosenbrock(dimension: int) -> Objective:
    """Return minus Rosenbrock's function on [-2, 2]^d: a curved valley; maximum 0 at 0.75, unit cube.

    100 (z' - z^2)^2 + (z - 1)^2 = 100 z'^2 - 200 z' z^2 + 100 z^4 + (z - 1)^2 for each pair of neighbours z, z'.
    """
    pairs = dimension - 1

    def curves(variable: int, x: FloatArray) -> FloatArray:
        z, out = 4.0 * x - 2.0, np.ones((len(x), 3 * pairs))
        if variable > 0:
            out[:, [3 * variable - 3, 3 * variable - 2]] = np.stack([100.0 * np.square(z), z], axis=1)
        if variable < pairs:
            own = 100.0 * z**4 + np.square(z - 1.0)
            out[:, [3 * variable + 1, 3 * variable + 2]] = np.stack([np.square(z), own], axis=1)
        return out

    hints = np.full((1, dimension), 0.75)
    return _curves(dimension, np.array([-1.0, 200.0, -1.0] * pairs), curves, width=0.1, hints=hints)


def michalewicz(dimension: int) -> Objective:
    """Return Michalewicz' function on [0, pi]^d, m = 10: narrow valleys whose crossing is the best."""

    def curves(variable: int, x: FloatArray) -> FloatArray:
        z = pi * x
        return _alone(np.sin(z) * np.sin((variable + 1) * np.square(z) / pi) ** 20, variable, dimension)

    return _curves(dimension, np.ones(dimension), curves, width=0.01)


def _edge(x: FloatArray) -> FloatArray:
    return np.asarray(0.5 + 0.5 * np.tanh(x / SHARP))


def steps(dimension: int, rng: Rng) -> Objective:
    """Return staircases along every variable, each up and down at random, and one step that needs several at once."""
    at, height = rng.uniform(0.1, 0.9, (dimension, 4)), rng.normal(size=(dimension, 4))
    gates = rng.uniform(0.2, 0.6, dimension)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        out = _alone(_edge(x[:, None] - at[variable]) @ height[variable], variable, dimension + 1)
        out[:, dimension] = _edge(x - gates[variable])
        return out

    weights = np.append(np.full(dimension, 1.0 / sqrt(dimension)), rng.uniform(0.5, 2.0))
    return _curves(dimension, weights, curves, width=SHARP)


def plateaus(dimension: int, rng: Rng) -> Objective:
    """Return eight flat boxes with steep sides, laid over each other, on a gentle slope."""
    centres = rng.random((8, dimension))
    half = rng.uniform(0.15, 0.45, (8, dimension))
    slopes = rng.normal(size=dimension) * 0.2

    def curves(variable: int, x: FloatArray) -> FloatArray:
        away = x[:, None] - centres[:, variable]
        boxes = _edge(away + half[:, variable]) * _edge(half[:, variable] - away)
        return np.concatenate([boxes, _alone(slopes[variable] * x, variable, dimension)], axis=1)

    return _curves(dimension, np.append(rng.uniform(0.3, 1.5, 8), np.ones(dimension)), curves, width=SHARP)


def ridge(dimension: int, rng: Rng) -> Objective:
    """Return a narrow ridge across all variables: a bump of a.x, by its Fourier series, with a period of 4 |a|_1."""
    along = rng.normal(size=dimension)
    length = 4.0 * float(np.abs(along).sum())
    width = rng.uniform(0.05, 0.15) * float(np.linalg.norm(along))
    k = np.arange(0, int(length / width) + 1)
    weights = (
        np.where(k > 0, 2.0, 1.0)
        * width
        * sqrt(2 * pi)
        / length
        * np.exp(-0.5 * np.square(2 * pi * k * width / length))
    )
    waves = 2 * pi * k / length
    tilt = rng.normal(size=dimension) * 0.1
    frequencies = np.concatenate([np.outer(waves, along), np.diag(rng.uniform(1.0, 3.0, dimension))])
    phases = np.concatenate(
        [-waves * float(along @ rng.uniform(0.3, 0.7, dimension)), rng.uniform(0.0, 2 * pi, dimension)]
    )
    return _waves(np.append(weights, tilt), frequencies, phases)


def corner(dimension: int, rng: Rng) -> Objective:
    """Return a function that rises towards one corner along every variable, slowly at first, and as a product."""
    rates = rng.uniform(0.5, 5.0, dimension)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        rise = np.expm1(rates[variable] * x) / np.expm1(rates[variable])
        out = _alone(rise, variable, dimension + 1)
        out[:, dimension] = rise
        return out

    return _curves(dimension, np.append(rng.uniform(0.2, 1.0, dimension), float(dimension)), curves, width=0.1)


def interaction(dimension: int, rng: Rng) -> Objective:
    """Return waves of pairs of variables: the best setting of one depends on where the other happens to be."""
    pairs = [(i, j) for i in range(dimension) for j in range(i)]
    frequencies = np.zeros((2 * len(pairs) + dimension, dimension))
    for row, (i, j) in enumerate(pairs):
        frequencies[2 * row, [i, j]] = rng.uniform(2.0, 6.0, 2)
        frequencies[2 * row + 1, [i, j]] = rng.uniform(2.0, 6.0, 2) * (1.0, -1.0)
    frequencies[2 * len(pairs) :] = np.diag(rng.uniform(2.0, 6.0, dimension))
    count = len(frequencies)
    return _waves(rng.normal(size=count), frequencies, rng.uniform(0.0, 2 * pi, count))
