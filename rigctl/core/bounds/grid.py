"""Points that fill the cube evenly.

Scrambled Sobol sequences are those of `scipy.stats.qmc.Sobol` to the bit, without loading scipy.stats, which takes
0.35 s and 20 MB. Directions by Joe and Kuo (2008); scrambled by a random matrix for each variable and a shift (Matousek
1998).
"""

from __future__ import annotations

import numpy as np

from rigctl.core.experiment.arrays import FloatArray, IntArray

BITS = 30
"""Of a coordinate, and so many numbers are drawn for the scrambling of each."""
NUMBERS = (
    (1, 1),
    (3, 1),
    (7, 1, 3),
    (11, 1, 3, 1),
    (13, 1, 1, 1),
    (19, 1, 1, 3, 3),
    (25, 1, 3, 5, 13),
    (37, 1, 1, 5, 5, 17),
    (41, 1, 1, 5, 5, 5),
    (47, 1, 1, 7, 11, 19),
    (55, 1, 1, 5, 1, 1),
    (59, 1, 1, 1, 3, 11),
    (61, 1, 3, 5, 5, 31),
    (67, 1, 3, 3, 9, 7, 49),
    (91, 1, 1, 1, 15, 21, 21),
    (97, 1, 3, 1, 13, 27, 49),
    (103, 1, 1, 1, 15, 7, 5),
    (109, 1, 3, 1, 15, 13, 25),
    (115, 1, 1, 5, 5, 19, 61),
    (131, 1, 3, 7, 11, 23, 15, 103),
    (137, 1, 3, 7, 13, 13, 15, 69),
    (143, 1, 1, 3, 13, 7, 35, 63),
    (145, 1, 3, 5, 9, 1, 25, 53),
    (157, 1, 3, 1, 13, 9, 35, 107),
    (167, 1, 3, 1, 5, 27, 61, 31),
    (171, 1, 1, 5, 11, 19, 41, 61),
    (185, 1, 3, 5, 3, 3, 13, 69),
    (191, 1, 1, 7, 13, 1, 19, 1),
    (193, 1, 3, 7, 5, 13, 19, 59),
    (203, 1, 1, 3, 9, 25, 29, 41),
    (211, 1, 3, 5, 13, 23, 1, 55),
    (213, 1, 3, 7, 3, 13, 59, 17),
)
"""By variable: its primitive polynomial as bits, and the first directions."""


def scrambled(dimension: int, first: int, count: int, rng: np.random.Generator) -> FloatArray:
    """Return so many points from the `first` (from 0) on, (count, dimension), unit cube; larger dimensions by SciPy."""
    if count <= 0:
        return np.empty((0, dimension))
    if dimension > len(NUMBERS):
        from scipy.stats import qmc  # noqa: PLC0415 - heavy: that many variables are rare

        sequence = qmc.Sobol(dimension, rng=rng)
        if first:  # scipy's fast_forward(0) overflows
            sequence.fast_forward(first)
        return np.asarray(sequence.random(count))
    own, bits = rng.spawn(1)[0], np.arange(BITS)
    shift = own.integers(2, size=(dimension, BITS), dtype=np.uint32).astype(np.int64) @ (1 << bits)
    lower = np.tril(own.integers(2, size=(dimension, BITS, BITS), dtype=np.uint32)).astype(np.int64)
    lower[:, bits, bits] = 1
    rows = lower @ (1 << bits[::-1])
    # bit p of a direction is the parity of what row p of the matrix and the direction have in common
    odd = np.bitwise_count(rows[:, :, None] & _directions(dimension)[:, None, :]) & 1
    directions = np.einsum("dpj,p->jd", odd.astype(np.int64), 1 << bits[::-1])
    # in Gray code one bit changes from a number to the next: the lowest that is set in that
    steps = np.arange(1, first + count)
    changes = directions[np.bitwise_count((steps & -steps) - 1)]
    points = np.bitwise_xor.accumulate(np.concatenate([shift[None], changes]), axis=0)
    return np.asarray(points[first:] * 2.0**-BITS)


def _directions(dimension: int) -> IntArray:
    """Return the directions of every variable, (dimension, BITS)."""
    found = np.ones((dimension, BITS), dtype=np.int64)
    for row, (polynomial, *begun) in enumerate(NUMBERS[1:dimension], start=1):
        degree, v = len(begun), list(begun)
        for j in range(degree, BITS):
            new = v[j - degree]
            for k in range(1, degree + 1):
                new ^= (v[j - k] << k) * (polynomial >> (degree - k) & 1)
            v.append(new)
        found[row] = v
    return found << np.arange(BITS)[::-1]


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
