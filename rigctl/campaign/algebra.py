"""How many threads linear algebra may use; to be said before any of it is loaded."""

from __future__ import annotations

import os

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def keep_to_one_thread() -> None:
    """Keep linear algebra to one thread, whatever the environment says.

    A decision's matrices are small: more threads double its CPU time, take cores from the buses, and change the last
    bits of its result, which `replay` compares.
    """
    for variable in VARIABLES:
        os.environ[variable] = "1"
