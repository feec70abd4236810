"""What systems do in ways of their own: locks, owners of files, the flags they are opened with; and what stands in.

On Linux all of it is as POSIX has it. Elsewhere only what drives no instrument runs: there are no owners and modes to
look at, and no sockets for who asks a running campaign.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0)
NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
BINARY: Final[int] = getattr(os, "O_BINARY", 0)
"""Elsewhere lines would end otherwise than they are written."""
KILL: Final[signal.Signals] = getattr(signal, "SIGKILL", signal.SIGTERM)
FAR: Final = 1 << 30
"""Where msvcrt locks: beyond what is read, since nobody else may read a byte that is locked."""

POLITE: Final = 15
"""The nice value of processes that nobody waits for; see nice(2)."""

SOCKETS: Final = hasattr(socket, "AF_UNIX") and hasattr(socket, "SO_PEERCRED")
"""Whether processes of this machine can ask each other by the name of a file, and be told who asks."""


def module(name: str) -> Any:
    """Return a module that only some systems have; None where it is missing."""
    try:
        return __import__(name)
    except ImportError:
        return None


def drives_instruments() -> bool:
    """Tell whether what a real rig needs is here: locks, serial ports, and sockets for who asks its campaign."""
    return sys.platform == "linux" and SOCKETS and all(module(name) for name in ("fcntl", "termios"))


def lock(descriptor: int, *, wait: bool = False) -> None:
    """Lock an open file for this process alone, until it is closed.

    Raises:
        BlockingIOError: somebody else has, and it is not to be waited.
    """
    fcntl = module("fcntl")
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        return
    msvcrt = module("msvcrt")
    if msvcrt is None:
        return
    os.lseek(descriptor, FAR, os.SEEK_SET)
    try:
        msvcrt.locking(descriptor, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    except OSError as error:
        raise BlockingIOError(error.errno, error.strerror) from error


def user() -> int:
    """Return the number of who runs this; 0 where users have none, as their files then say, too."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def owner(there: os.stat_result) -> int:
    return there.st_uid if hasattr(os, "geteuid") else 0


def mode(there: os.stat_result) -> int:
    """Return who may do what with a file; where modes mean nothing, that it is its owner's alone."""
    return there.st_mode & 0o7777 if hasattr(os, "geteuid") else 0o700


def end_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask a process to end, as far as there are any."""
    names = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
    return tuple(getattr(signal, name) for name in names if hasattr(signal, name))


def dump_no_core() -> None:
    """Have no memory written to disk if this process crashes: it may hold secrets."""
    resource = module("resource")
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def environment() -> dict[str, str]:
    """Return the environment in which another process finds the same modules as this one."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(entry or os.curdir for entry in sys.path)}


def step_back(pid: int) -> None:
    """Give a process (0: this one) the lowest claim to processor and memory; harmless if it has ended."""
    if hasattr(os, "setpriority"):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, pid, POLITE)
            Path(f"/proc/{pid or 'self'}/oom_score_adj").write_text("1000", encoding="ascii")  # ended before a campaign


def sync(path: os.PathLike[str]) -> None:
    """Have a file, or the names in a folder, on disk when this returns."""
    if os.path.isdir(path) and module("fcntl") is None:  # noqa: PTH112 - which cannot be opened there
        return
    descriptor = os.open(path, (os.O_RDONLY if module("fcntl") else os.O_RDWR) | CLOEXEC | BINARY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_at(descriptor: int, size: int) -> bytes:
    """Return what a file begins with."""
    os.lseek(descriptor, 0, os.SEEK_SET)
    return os.read(descriptor, size)


def write_all(descriptor: int, data: bytes) -> None:
    """Put this in the place of all that is in a file."""
    os.ftruncate(descriptor, 0)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.write(descriptor, data)


def end_group(pid: int, number: int) -> None:
    """Send a signal to a process and all that it has started; harmless if it is gone."""
    with suppress(ProcessLookupError):
        if hasattr(os, "killpg"):
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
