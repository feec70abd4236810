"""One process per state directory (fault 44)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rigctl.errors import JournalUnwritable, Locked

FILE_NAME = "lock"
UNKNOWN = "(unknown)"


@contextmanager
def state_lock(directory: Path) -> Iterator[None]:
    """Hold the state directory, made if missing. The kernel lets go when the process ends, however it ends.

    Raises:
        Locked: another process holds it; names its pid.
        JournalUnwritable: the directory cannot be made or written.
    """
    path = directory / FILE_NAME
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise JournalUnwritable(f"{directory}: cannot keep state here ({error}), so nothing may move") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Locked(
                f"{directory}: process {_holder(descriptor)} runs this campaign; "
                "`rigctl status` shows it, `rigctl stop` ends it"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def holder(directory: Path) -> str:
    """Pid of the process that holds this state directory (or held it last), in words if it is not known."""
    try:
        descriptor = os.open(directory / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return UNKNOWN
    try:
        return _holder(descriptor)
    finally:
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or UNKNOWN
