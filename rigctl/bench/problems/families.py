"""Families that problems are drawn from: each makes a function of the wanted dimension from a random generator.

All are sums of products of one-dimensional factors (`terms`), so true values need no sampling. A new family is a
function here and a row of `families()`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf, pi, sqrt

import numpy as np

from rigctl.bench.problems import functions
from rigctl.bench.problems.functions import Objective, alone, in_parts, of_waves
from rigctl.bench.problems.terms import Factor, curve_terms
from rigctl.core.experiment.arrays import FloatArray

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
