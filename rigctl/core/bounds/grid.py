"""Points that fill the cube evenly."""

from __future__ import annotations

import numpy as np

from rigctl.core.bounds.sobol import scrambled
from rigctl.core.experiment.arrays import FloatArray


def sobol(dimension: int, count: int, rng: np.random.Generator | None = None) -> FloatArray:
    """Draw the first `count` points of a scrambled Sobol sequence, (count, dimension).

    Without a generator they are always the same.
    """
    return scrambled(dimension, 0, count, rng or np.random.default_rng(0))


def lattice(dimension: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Draw a randomly shifted Kronecker sequence, (count, dimension), whose every first part fills the cube evenly too.

    Point j is the fractional part of u + j (1/g, 1/g^2, ..., 1/g^d) where g solves g^(d+1) = g + 1: the golden ratio in
    one dimension, and its generalisation in more (Roberts 2018, "The unreasonable effectiveness of quasirandom
    sequences"). As good as a scrambled Sobol sequence to begin a search from, at a twentieth of the cost.
    """
    ratio = 2.0
    for _ in range(60):  # a contraction: the last digit is reached long before
        ratio = (1.0 + ratio) ** (1.0 / (dimension + 1))
    steps = ratio ** -np.arange(1.0, dimension + 1)
    return np.asarray((rng.random(dimension) + np.arange(1, count + 1)[:, None] * steps) % 1.0)
