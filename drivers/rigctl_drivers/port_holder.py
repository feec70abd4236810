"""Who holds a port or bus, as far as Linux tells: `/proc/locks` first, then everybody's open files."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from pathlib import Path

from rigctl.errors import PortHeld, PortUnavailable

PTY = "/dev/pts/"
OTHER_ENDS = ("/dev/ptmx", f"{PTY}ptmx")


@dataclass(frozen=True, slots=True)
class Node:
    """A file of `/dev` that is opened for one process alone."""

    path: Path
    kind: str
    """What people call it: port, bus."""
    missing: str
    """What to do if it is not there."""
    group: str
    """Who usually may open it."""

    def why_not(self, problem: Exception, url: str) -> PortUnavailable:
        """Return the error for one that cannot be opened."""
        code = getattr(problem, "errno", None)
        if not self.path.exists():
            what = f"there is no {self.kind} {self.path}; {self.missing}"
        elif code in (errno.EAGAIN, errno.EBUSY, errno.EWOULDBLOCK):
            return self.held(holder_of(self.path) or "another process", url)
        elif code in (errno.EACCES, errno.EPERM):
            what = f"no permission to open {self.path}; join the group that owns it (often `{self.group}`)"
        else:
            what = f"{self.kind} {self.path} cannot be opened ({problem})"
        return PortUnavailable(what, bus=url)

    def held(self, holder: str, url: str) -> PortHeld:
        return PortHeld(f"{self.kind} {self.path} is held by {holder}; stop it or use another {self.kind}", bus=url)


def holder_of(port: Path, proc: Path = Path("/proc")) -> str:
    """Name the process holding `port`, e.g. `pid 412 (minicom)`; empty if that cannot be found out.

    The holder of an exclusive lock is named before others that merely have the port open: whoever made a virtual
    port keeps it open too, and is not in the way.
    """
    return _described(lambda: _locker(port, proc) or next(_openers(port, proc), None), proc)


def other_user_of(port: Path, proc: Path = Path("/proc")) -> str:
    """Name another process that has `port` open although we hold it, as `holder_of`; empty if none can be seen.

    The process at the other end of a pseudo-terminal keeps our end open too, and is the instrument.
    """
    target = os.path.realpath(port)
    number = int(target.removeprefix(PTY)) if target.startswith(PTY) and target.removeprefix(PTY).isdigit() else None
    return _described(lambda: next((p for p in _openers(port, proc) if not _made(p, number, proc)), None), proc)


def _described(find: Callable[[], int | None], proc: Path) -> str:
    try:
        found = find()
    except OSError:  # no /proc here, or not ours to read: the message does without the holder
        return ""
    return "" if found is None else f"pid {found}{_name(found, proc)}"


def _locker(port: Path, proc: Path) -> int | None:
    """Find the pid whose lock in `/proc/locks` is on this file: id, kind, mode, access, pid, device:inode."""
    stat = port.stat()
    wanted = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in (proc / "locks").read_text().splitlines():
        fields = line.split()
        if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == wanted and int(fields[4]) > 0:
            return int(fields[4])
    return None


def _openers(port: Path, proc: Path) -> Iterator[int]:
    target = os.path.realpath(port)
    for entry in proc.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _leading_to(entry, target):
            yield int(entry.name)


def _leading_to(process: Path, *targets: str) -> list[str]:
    """Name the open files of a process that are one of these."""
    try:
        return [link.name for link in (process / "fd").iterdir() if _leads_to(link, targets)]
    except OSError:  # it ended meanwhile, or belongs to somebody else
        return []


def _leads_to(link: Path, targets: Container[str]) -> bool:
    try:
        return str(link.readlink()) in targets
    except OSError:  # closed meanwhile
        return False


def _made(pid: int, number: int | None, proc: Path) -> bool:
    """Tell whether a process holds the other end (`/dev/ptmx`) of the pseudo-terminal of this number."""
    if number is None:
        return False
    process = proc / str(pid)
    ends = _leading_to(process, *OTHER_ENDS)
    return any(f"tty-index:\t{number}\n" in _text(process / "fdinfo" / name) for name in ends)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # closed or ended meanwhile
        return ""


def _name(pid: int, proc: Path) -> str:
    name = _text(proc / str(pid) / "comm").strip()
    return f" ({name}{', this very process' if pid == os.getpid() else ''})" if name else ""
