"""Who holds a serial port, as far as Linux tells: `/proc/locks` first, then everybody's open files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def holder_of(port: Path, proc: Path = Path("/proc")) -> str:
    """`pid 412 (minicom)` for the process holding `port`, empty if that cannot be found out.

    The holder of an exclusive lock is named before others that merely have the port open: whoever made a virtual
    port keeps it open too, and is not in the way.
    """
    try:
        found = _locker(port, proc) or next(_openers(port, proc), None)
    except OSError:  # no /proc here, or not ours to read: the message does without the holder
        return ""
    return "" if found is None else f"pid {found}{_name(found, proc)}"


def _locker(port: Path, proc: Path) -> int | None:
    """The pid in `/proc/locks` whose lock is on this file: fields are id, kind, mode, access, pid, device:inode."""
    stat = port.stat()
    wanted = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in (proc / "locks").read_text().splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
            return int(fields[4])
    return None


def _openers(port: Path, proc: Path) -> Iterator[int]:
    """Other processes that have this file open."""
    target = os.path.realpath(port)
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _has_open(entry, target):
            yield int(entry.name)


def _has_open(process: Path, target: str) -> bool:
    try:
        return any(os.path.realpath(link) == target for link in (process / "fd").iterdir())
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return False


def _name(pid: int, proc: Path) -> str:
    try:
        name = (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
    return f" ({name}{', this very process' if pid == os.getpid() else ''})"
