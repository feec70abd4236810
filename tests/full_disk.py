"""A disk with little room left."""

from __future__ import annotations

import resource
from contextlib import contextmanager


@contextmanager
def full_disk(room=100):
    """Let no file of this process grow beyond so many bytes meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
