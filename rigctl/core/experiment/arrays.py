"""The arrays of the core: what their shapes mean stands where they are used."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

CACHED = 1 << 17
"""Largest intermediate array while many rows are looked at, in numbers: 1 MB stays in the cache."""


def blocks(rows: int, width: int, most: int = CACHED) -> Iterator[slice]:
    """Cut so many rows into pieces, of which no array with so many columns has more than `most` numbers."""
    size = max(1, most // max(width, 1))
    return (slice(begin, begin + size) for begin in range(0, rows, size))


def thinned(rows: int, most: int) -> IntArray:
    """Return so many of the rows at most, rising, evenly spread from the first to the last."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).round().astype(np.int64))
