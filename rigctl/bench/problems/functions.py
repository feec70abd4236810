"""Benchmark functions on the unit cube, to be maximised (algorithms, section 5).

Each says what it is as a plain formula (`f`) and, apart from that, as a sum of products (`terms`), from which
true values of settings are computed; tests hold one against the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import e, pi, sqrt
from pathlib import Path

import numpy as np

from rigctl.bench.problems.terms import (
    Terms,
    curve_terms,
    gaussian_terms,
    matern52_as_gaussians,
    root_exponential_as_gaussians,
    wave_terms,
)
from rigctl.core.experiment.arrays import FloatArray
from rigctl.errors import UsageError

FEATURES = 2048
"""Random Fourier features of a draw from a Gaussian process."""
DATA_FILES = {"plant": "plant_growth.npz", "airfoil": "airfoil.npz"}


def data_file(name: str, directory: Path | None) -> Path:
    """Return where the arrays of `plant` or `airfoil` are.

    Raises:
        UsageError: no directory was named, or it has no such file.
    """
    file = DATA_FILES[name]
    if directory is None:
        raise UsageError(f"problem {name} needs {file}; name the directory that has it with --data DIR")
    path = Path(directory) / file
    if not path.is_file():
        raise UsageError(f"problem {name}: no file {path}; name the directory that has {file} with --data DIR")
    return path


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """A function of the unit cube, and its decomposition."""

    dimension: int
    """Number of variables that matter, d."""
    f: Callable[[FloatArray], FloatArray]
    """(n, d), unit cube -> (n,)."""
    terms: Callable[[], tuple[Terms, ...]]
    """The same function as sums of products, over its d variables, without the constant."""
    constant: float = 0.0
    """What has to be added to the terms."""
    hints: FloatArray | None = None
    """(h, d): points near which maxima may be, unit cube."""

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.f(x)


def hartmann3() -> Objective:
    """Return Hartmann's function of three variables; maximum 3.86278 at (0.114614, 0.555649, 0.852547)."""
    A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
    P = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
    return _hartmann(A, P)


def hartmann6() -> Objective:
    """Return that of six; maximum 3.32237 at (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)."""
    A = [
        [10, 3, 17, 3.5, 1.7, 8],
        [0.05, 10, 17, 0.1, 8, 14],
        [3, 3.5, 1.7, 10, 17, 8],
        [17, 8, 0.05, 10, 0.1, 14],
    ]
    P = [
        [1312.0, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
    return _hartmann(np.array(A), 1e-4 * np.array(P))


def _hartmann(A: FloatArray, P: FloatArray) -> Objective:
    """Return sum_i a_i exp(-sum_l A_il (x_l - P_il)^2), Hartmann 1973, turned to be maximised; A and P (4, d)."""
    heights = np.array([1.0, 1.2, 3.0, 3.2])

    def f(x: FloatArray) -> FloatArray:
        exponent = (A * np.square(x[:, None, :] - P)).sum(axis=2)
        return np.asarray(np.exp(-exponent) @ heights)

    # four groups of one term each, four hills
    return Objective(A.shape[1], f, lambda: (gaussian_terms(heights, P, 2 * A),), hints=P)


def kernel_sum(name: str, directory: Path | None) -> Objective:
    """Return `plant` or `airfoil`, a fitted process' posterior mean, from the arrays in a directory.

    It is constant + scale sum_j alpha_j k(r2_j) (the arrays' README).

    Raises:
        UsageError: no directory was named, or it has no such file.
    """
    with np.load(data_file(name, directory), allow_pickle=False) as arrays:
        centres, lengthscales, kernel = arrays["centers"], arrays["lengthscales"], str(arrays["kernel"])
        weights, constant = float(arrays["outputscale"]) * arrays["alpha"], float(arrays["mean_constant"])

    def some(x: FloatArray) -> FloatArray:
        r2 = np.square((x / lengthscales)[:, None, :] - centres / lengthscales).sum(axis=2)
        if kernel == "rbf":
            return np.asarray(constant + np.exp(-0.5 * r2) @ weights)
        s = np.sqrt(5.0 * r2)
        return np.asarray(constant + ((1.0 + s + np.square(s) / 3.0) * np.exp(-s)) @ weights)

    def terms() -> tuple[Terms, ...]:
        # one group of Gaussians, or for Matern-5/2 some tens
        w, t = (np.ones(1), np.ones(1)) if kernel == "rbf" else matern52_as_gaussians()
        return (gaussian_terms((w[:, None] * weights).ravel(), centres, 1.0 / (t[:, None] * np.square(lengthscales))),)

    f = in_parts(some)
    highest = centres[np.argsort(-f(centres), kind="stable")[:64]]
    return Objective(centres.shape[1], f, terms, constant, highest)


def gp_sample(dimension: int, lengthscale: float, seed: int) -> Objective:
    """Return a draw from a zero-mean process with a squared-exponential kernel of variance 1, that seed's.

    sqrt(2/M) sum_j w_j cos(omega_j x + b_j), w ~ N(0, 1), omega ~ N(0, 1/l^2), b ~ U(0, 2 pi) (Rahimi and Recht 2007).
    With M = 2048 its covariance is the kernel's to about 1/sqrt(M).
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, dimension]))
    frequencies = rng.standard_normal((FEATURES, dimension)) / lengthscale
    phases = rng.uniform(0.0, 2 * pi, FEATURES)
    weights = rng.standard_normal(FEATURES) * sqrt(2.0 / FEATURES)

    return of_waves(weights, frequencies, phases)


def of_waves(weights: FloatArray, frequencies: FloatArray, phases: FloatArray) -> Objective:
    """Return sum_j w_j cos(omega_j x + b_j); weights and phases (J,), frequencies (J, d)."""
    f = in_parts(lambda x: np.asarray(np.cos(x @ frequencies.T + phases) @ weights))
    return Objective(frequencies.shape[1], f, lambda: (wave_terms(weights * np.exp(1j * phases), frequencies),))


def in_parts(f: Callable[[FloatArray], FloatArray], rows: int = 512) -> Callable[[FloatArray], FloatArray]:
    """Return the function evaluated at so many points at a time, which bounds its memory."""
    return lambda x: np.concatenate([f(x[begin : begin + rows]) for begin in range(0, max(len(x), 1), rows)])


def ackley(dimension: int, half: float = 32.768) -> Objective:
    """Return minus Ackley's function on [-half, half]^d (Ackley 1987; 20, 0.2, 2 pi); best 0, in the middle."""
    constant = -20.0 - e

    def f(x: FloatArray) -> FloatArray:
        u = half * (2 * np.asarray(x) - 1)
        bowl = 20 * np.exp(-0.2 * np.sqrt(np.square(u).mean(axis=1)))
        return np.asarray(bowl + np.exp(np.cos(2 * pi * u).mean(axis=1)) + constant)

    def ripple(_variable: int, x: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.cos(2 * pi * scale * (x - 0.5)) / dimension))[:, None]

    def terms() -> tuple[Terms, ...]:
        # the bowl as Gaussians of all widths; the ripple is a product as it is
        w, t = root_exponential_as_gaussians()
        precision = 2 * 0.04 / dimension * scale**2 * t
        bowl = gaussian_terms(20 * w, middle, np.repeat(precision[:, None], dimension, axis=1))
        return bowl, curve_terms(np.ones(1), ripple, width=0.2 / scale)

    scale, middle = 2 * half, np.full((1, dimension), 0.5)
    return Objective(dimension, f, terms, constant, middle)


def levy(dimension: int) -> Objective:
    """Return minus Levy's function number 8 on [-10, 10]^d (Surjanovic and Bingham); maximum 0 at 0.55, unit cube."""

    def part(w: FloatArray, variable: int) -> FloatArray:
        last = variable == dimension - 1
        bend = np.square(np.sin(2 * pi * w)) if last else 10 * np.square(np.sin(pi * w + 1))
        first = np.square(np.sin(pi * w)) if variable == 0 else 0.0
        return np.asarray(np.square(w - 1) * (1 + bend) + first)

    def f(x: FloatArray) -> FloatArray:
        w = 1 + (20 * np.asarray(x) - 11) / 4
        return np.asarray(-sum(part(w[:, i], i) for i in range(dimension)))

    def curves(variable: int, x: FloatArray) -> FloatArray:
        return alone(part(1 + (20 * x - 11) / 4, variable), variable, dimension)

    # one term per variable, 1 in all others
    def terms() -> tuple[Terms, ...]:
        return (curve_terms(np.full(dimension, -1.0), curves, width=0.02),)

    return Objective(dimension, f, terms, hints=np.full((1, dimension), 0.55))


def alone(values: FloatArray, variable: int, terms: int) -> FloatArray:
    """Return factors (n, terms) that are 1 but in the term of this variable."""
    out = np.ones((len(values), terms))
    out[:, variable] = values
    return out


def rosenbrock(dimension: int, low: float = -2.0, high: float = 2.0) -> Objective:
    """Return minus Rosenbrock's function on [low, high]^d: a curved valley; maximum 0 where all are 1.

    100 (z' - z^2)^2 + (z - 1)^2 = 100 z'^2 - 200 z' z^2 + 100 z^4 + (z - 1)^2 for each pair of neighbours z, z'.
    """
    pairs = dimension - 1

    def f(x: FloatArray) -> FloatArray:
        z = low + (high - low) * np.asarray(x)
        bend, rest = z[:, 1:] - np.square(z[:, :-1]), z[:, :-1] - 1.0
        return np.asarray(-(100.0 * np.square(bend) + np.square(rest)).sum(axis=1))

    def curves(variable: int, x: FloatArray) -> FloatArray:
        z, out = low + (high - low) * x, np.ones((len(x), 3 * pairs))
        if variable > 0:
            out[:, [3 * variable - 3, 3 * variable - 2]] = np.stack([100.0 * np.square(z), z], axis=1)
        if variable < pairs:
            own = 100.0 * z**4 + np.square(z - 1.0)
            out[:, [3 * variable + 1, 3 * variable + 2]] = np.stack([np.square(z), own], axis=1)
        return out

    weights, hints = np.array([-1.0, 200.0, -1.0] * pairs), np.full((1, dimension), (1.0 - low) / (high - low))
    return Objective(dimension, f, lambda: (curve_terms(weights, curves, width=0.1),), hints=hints)


def griewank(dimension: int) -> Objective:
    """Return minus Griewank's function on [-30, 30]^d: a bowl with a product of cosines; maximum 0 in the middle."""
    roots = np.sqrt(np.arange(1.0, dimension + 1))

    def f(x: FloatArray) -> FloatArray:
        z = 60.0 * np.asarray(x) - 30.0
        return np.asarray(np.cos(z / roots).prod(axis=1) - np.square(z).sum(axis=1) / 4000.0 - 1.0)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        z = 60.0 * x - 30.0
        return np.append(
            alone(np.square(z) / 4000.0, variable, dimension), np.cos(z / roots[variable])[:, None], axis=1
        )

    weights, hints = np.append(np.full(dimension, -1.0), 1.0), np.full((1, dimension), 0.5)
    return Objective(dimension, f, lambda: (curve_terms(weights, curves, width=0.02),), -1.0, hints)


def michalewicz(dimension: int) -> Objective:
    """Return Michalewicz' function on [0, pi]^d, m = 10: narrow valleys whose crossing is the best."""
    numbers = np.arange(1.0, dimension + 1)

    def part(z: FloatArray, number: FloatArray) -> FloatArray:
        return np.asarray(np.sin(z) * np.sin(number * np.square(z) / pi) ** 20)

    def curves(variable: int, x: FloatArray) -> FloatArray:
        return alone(part(pi * x, numbers[variable]), variable, dimension)

    def terms() -> tuple[Terms, ...]:
        return (curve_terms(np.ones(dimension), curves, width=0.01),)

    return Objective(dimension, lambda x: part(pi * np.asarray(x), numbers).sum(axis=1), terms)
