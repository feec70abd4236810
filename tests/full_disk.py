"""A disk with little room left."""

from __future__ import annotations

import resource
import sys
from contextlib import contextmanager


@contextmanager
def full_disk(room=100):
    """Let no file of this process grow beyond so many bytes meanwhile; no cut bytecode is left for later imports."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = written
