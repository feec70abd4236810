"""Keeps the memory of one batch of arrays for the next."""

from __future__ import annotations

import numpy as np

LARGEST = 32_000_000
"""Bytes; just below the most that glibc learns from (M_MMAP_THRESHOLD, mallopt(3))."""


def keep_freed_memory() -> None:
    """Have the C library keep the memory of arrays that are freed; call it before much work on middle-sized arrays.

    glibc maps every array above 128 kB anew and gives it back at once, so that each is filled by page faults: half the
    time of a decision on 300 trials. It learns from the largest array that was freed to keep up to twice as much; this
    one is never touched, so it costs neither time nor memory. Elsewhere than on glibc nothing happens.
    """
    np.empty(LARGEST, dtype=np.uint8)
