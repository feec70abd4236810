"""Keeps linear algebra to one thread.

The matrices of a decision are small: more threads take five times its CPU time, and change the last bits of its result,
which `replay` compares.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Say how many threads linear algebra may use; they are to be set before any of it is loaded."""


def keep_to_one_thread() -> None:
    """Keep this process to one thread from now on, whatever the environment says."""
    for variable in VARIABLES:
        os.environ[variable] = "1"


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep to one thread meanwhile, in a process whose linear algebra is its user's: afterwards all is as it was."""
    if os.environ.get(VARIABLES[0]) == "1":
        yield
        return
    # both bring a library of their own, which counts from when it is loaded
    import scipy.linalg.blas  # noqa: F401, PLC0415 - heavy: not for `rigctl --help`
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - with scikit-learn

    with threadpool_limits(limits=1):
        yield
