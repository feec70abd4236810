"""The bench's functions on the unit cube, to be maximised (algorithms, section 5).

Each says what it is as a plain formula (`__call__`) and, apart from that, as a sum of products (`terms`), from which
true values of settings are computed; tests hold one against the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, pi, sqrt
from pathlib import Path
from typing import Protocol

import numpy as np

from rigctl.bench.problems.terms import (
    CurveTerms,
    GaussianTerms,
    Terms,
    WaveTerms,
    matern52_as_gaussians,
    root_exponential_as_gaussians,
)
from rigctl.core.arrays import FloatArray
from rigctl.errors import UsageError

FEATURES = 2048
"""Random Fourier features of a draw from a Gaussian process."""
DATA_FILES = {"plant": "plant_growth.npz", "airfoil": "airfoil.npz"}


def data_file(name: str, directory: Path | None) -> Path:
    """Where the arrays of `plant` or `airfoil` are.

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


class Objective(Protocol):
    """A function of the unit cube with its exact decomposition."""

    @property
    def dimension(self) -> int:
        """Number of variables that matter, d."""
        ...

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d), unit cube."""
        ...

    def terms(self) -> tuple[Terms, ...]:
        """The same function as sums of products, over its d variables, without the constant."""
        ...

    @property
    def constant(self) -> float:
        """What has to be added to the terms."""
        ...

    @property
    def hints(self) -> FloatArray:
        """(h, d): points near which maxima may be, unit cube."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Hartmann:
    """sum_i a_i exp(-sum_l A_il (x_l - P_il)^2), Hartmann 1973, turned to be maximised."""

    A: FloatArray
    """(4, d)."""
    P: FloatArray
    """(4, d)."""
    constant: float = 0.0

    @classmethod
    def three(cls) -> Hartmann:
        """Three variables; maximum 3.86278 at (0.114614, 0.555649, 0.852547)."""
        A = np.array([[3.0, 10, 30], [0.1, 10, 35], [3, 10, 30], [0.1, 10, 35]])
        P = 1e-4 * np.array([[3689.0, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]])
        return cls(A, P)

    @classmethod
    def six(cls) -> Hartmann:
        """Six variables; maximum 3.32237 at (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573)."""
        A = np.array(
            [
                [10, 3, 17, 3.5, 1.7, 8],
                [0.05, 10, 17, 0.1, 8, 14],
                [3, 3.5, 1.7, 10, 17, 8],
                [17, 8, 0.05, 10, 0.1, 14],
            ]
        )
        P = 1e-4 * np.array(
            [
                [1312.0, 1696, 5569, 124, 8283, 5886],
                [2329, 4135, 8307, 3736, 1004, 9991],
                [2348, 1451, 3522, 2883, 3047, 6650],
                [4047, 8828, 8732, 5743, 1091, 381],
            ]
        )
        return cls(A, P)

    @property
    def heights(self) -> FloatArray:
        """(4,)."""
        return np.array([1.0, 1.2, 3.0, 3.2])

    @property
    def dimension(self) -> int:
        """Number of variables."""
        return int(self.A.shape[1])

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d)."""
        exponent = (self.A * np.square(x[:, None, :] - self.P)).sum(axis=2)
        return np.asarray(np.exp(-exponent) @ self.heights)

    def terms(self) -> tuple[Terms, ...]:
        """Four groups of one term each."""
        return (GaussianTerms(self.heights, self.P, 2 * self.A),)

    @property
    def hints(self) -> FloatArray:
        """The four hills."""
        return self.P


@dataclass(frozen=True, slots=True, eq=False)
class KernelSum:
    """A fitted process' posterior mean: constant + scale sum_j alpha_j k(r2_j) (the arrays' README)."""

    centres: FloatArray
    """(J, d), unit cube."""
    weights: FloatArray
    """(J,), scale * alpha."""
    lengthscales: FloatArray
    """(d,)."""
    kernel: str
    """`rbf` or `matern52`."""
    constant: float

    @classmethod
    def load(cls, name: str, directory: Path | None) -> KernelSum:
        """`plant` or `airfoil` from the arrays in a directory.

        Raises:
            UsageError: no directory was named, or it has no such file.
        """
        with np.load(data_file(name, directory), allow_pickle=False) as arrays:
            return cls(
                centres=arrays["centers"],
                weights=float(arrays["outputscale"]) * arrays["alpha"],
                lengthscales=arrays["lengthscales"],
                kernel=str(arrays["kernel"]),
                constant=float(arrays["mean_constant"]),
            )

    @property
    def dimension(self) -> int:
        """Number of variables."""
        return int(self.centres.shape[1])

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d)."""
        a, c = x / self.lengthscales, self.centres / self.lengthscales
        out = np.empty(len(x))
        for begin in range(0, len(x), 512):
            r2 = np.square(a[begin : begin + 512, None, :] - c).sum(axis=2)
            if self.kernel == "rbf":
                k = np.exp(-0.5 * r2)
            else:
                s = np.sqrt(5.0 * r2)
                k = (1.0 + s + np.square(s) / 3.0) * np.exp(-s)
            out[begin : begin + 512] = self.constant + k @ self.weights
        return out

    def terms(self) -> tuple[Terms, ...]:
        """One group of Gaussians, or for Matern-5/2 some tens."""
        w, t = (np.ones(1), np.ones(1)) if self.kernel == "rbf" else matern52_as_gaussians()
        weights = (w[:, None] * self.weights).ravel()
        return (GaussianTerms(weights, self.centres, 1.0 / (t[:, None] * np.square(self.lengthscales))),)

    @property
    def hints(self) -> FloatArray:
        """The centres with the highest values, 64 at most."""
        return self.centres[np.argsort(-self(self.centres), kind="stable")[:64]]


@dataclass(frozen=True, slots=True, eq=False)
class GpSample:
    """A draw from a zero-mean process with a squared-exponential kernel of variance 1, by random Fourier features.

    sqrt(2/M) sum_j w_j cos(omega_j x + b_j), w ~ N(0, 1), omega ~ N(0, 1/l^2), b ~ U(0, 2 pi) (Rahimi and Recht 2007).
    With M = 2048 its covariance is the kernel's to about 1/sqrt(M).
    """

    frequencies: FloatArray
    """(M, d)."""
    phases: FloatArray
    """(M,)."""
    weights: FloatArray
    """(M,)."""
    constant: float = 0.0

    @classmethod
    def draw(cls, dimension: int, lengthscale: float, seed: int) -> GpSample:
        """The draw of that seed."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, dimension]))
        frequencies = rng.standard_normal((FEATURES, dimension)) / lengthscale
        phases = rng.uniform(0.0, 2 * pi, FEATURES)
        return cls(frequencies, phases, rng.standard_normal(FEATURES) * sqrt(2.0 / FEATURES))

    @property
    def dimension(self) -> int:
        """Number of variables."""
        return int(self.frequencies.shape[1])

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d)."""
        out = np.empty(len(x))
        for begin in range(0, len(x), 512):
            out[begin : begin + 512] = np.cos(x[begin : begin + 512] @ self.frequencies.T + self.phases) @ self.weights
        return out

    def terms(self) -> tuple[Terms, ...]:
        """Complex waves."""
        return (WaveTerms(self.weights * np.exp(1j * self.phases), self.frequencies),)

    @property
    def hints(self) -> FloatArray:
        """None."""
        return np.empty((0, self.dimension))


@dataclass(frozen=True, slots=True, eq=False)
class Ackley:
    """Minus Ackley's function on [-32.768, 32.768]^d (Ackley 1987; 20, 0.2, 2 pi); best 0, in the middle."""

    dimension: int
    half: float = 32.768
    constant: float = -20.0 - e

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d)."""
        u = self.half * (2 * np.asarray(x) - 1)
        bowl = 20 * np.exp(-0.2 * np.sqrt(np.square(u).mean(axis=1)))
        return np.asarray(bowl + np.exp(np.cos(2 * pi * u).mean(axis=1)) + self.constant)

    def terms(self) -> tuple[Terms, ...]:
        """The bowl as Gaussians of all widths; the ripple is a product as it is."""
        d, scale = self.dimension, 2 * self.half
        w, t = root_exponential_as_gaussians()
        precision = 2 * 0.04 / d * scale**2 * t
        bowl = GaussianTerms(20 * w, np.full((1, d), 0.5), np.repeat(precision[:, None], d, axis=1))

        def ripple(_variable: int, x: FloatArray) -> FloatArray:
            return np.asarray(np.exp(np.cos(2 * pi * scale * (x - 0.5)) / d))[:, None]

        return bowl, CurveTerms(np.ones(1), ripple, width=0.2 / scale)

    @property
    def hints(self) -> FloatArray:
        """The maximum."""
        return np.full((1, self.dimension), 0.5)


@dataclass(frozen=True, slots=True, eq=False)
class Levy:
    """Minus Levy's function number 8 on [-10, 10]^d (Surjanovic and Bingham); maximum 0 at 0.55 on the unit cube."""

    dimension: int
    constant: float = 0.0

    def _parts(self, w: FloatArray, variable: int) -> FloatArray:
        """The summand of one variable; the function is the sum of d of them."""
        last = variable == self.dimension - 1
        bend = np.square(np.sin(2 * pi * w)) if last else 10 * np.square(np.sin(pi * w + 1))
        first = np.square(np.sin(pi * w)) if variable == 0 else 0.0
        return np.asarray(np.square(w - 1) * (1 + bend) + first)

    def __call__(self, x: FloatArray) -> FloatArray:
        """(n,) for x (n, d)."""
        w = 1 + (20 * np.asarray(x) - 11) / 4
        return np.asarray(-sum(self._parts(w[:, i], i) for i in range(self.dimension)))

    def terms(self) -> tuple[Terms, ...]:
        """One term per variable, 1 in all others."""

        def curves(variable: int, x: FloatArray) -> FloatArray:
            out = np.ones((len(x), self.dimension))
            out[:, variable] = self._parts(1 + (20 * x - 11) / 4, variable)
            return out

        return (CurveTerms(np.full(self.dimension, -1.0), curves, width=0.02),)

    @property
    def hints(self) -> FloatArray:
        """The maximum."""
        return np.full((1, self.dimension), 0.55)
