"""One process per bus on this host, whatever its state directory (fault 67): Modbus TCP servers answer to anybody.

A lock is a listening socket in Linux's abstract namespace. The kernel lets go of it when its process ends, however it
ends, there is no file that somebody could delete, and who is refused can ask the kernel whose it is. It holds within a
network namespace: a container with its own, or another host, is not kept out. `rigctl safe` takes none.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import socket
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from rigctl.errors import Locked
from rigctl.rig.places import physical


@contextmanager
def bus_locks(urls: Iterable[str]) -> Iterator[None]:
    """Hold every bus that leads to something known; the kernel lets go when the process ends.

    Raises:
        Locked: others hold some of them; names each bus, the pid and, where it can be seen, the state directory.
    """
    wanted = {place: url for url in urls for place in physical(url)}
    with ExitStack() as held:
        found = {
            url: _take(held, f"rigctl-bus-{hashlib.sha256(place.encode()).hexdigest()}")
            for place, url in sorted(wanted.items())
        }
        refused = {url: holder for url, holder in found.items() if holder is not None}
        if refused:
            raise _refusal(refused)
        yield


def _take(held: ExitStack, name: str) -> int | None:
    """Take one lock; return None if it is ours now, else the pid of its holder, 0 if that is not known."""
    end = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
    try:
        end.bind(f"\0{name}")
        end.listen(128)  # for who asks the holder's pid; nobody is ever let in
    except OSError as error:
        return _listener(name) if error.errno == errno.EADDRINUSE else _take_file(held, name)
    return None


def _take_file(held: ExitStack, name: str) -> int | None:
    """Do as `_take` does, where there is no abstract namespace: lock a file in the temporary directory."""
    path = Path(tempfile.gettempdir()) / name
    try:  # everybody may write there: what is not a file of this name is somebody's trap
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError:
        return 0
    held.callback(os.close, descriptor)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        told = os.pread(descriptor, 32, 0).strip()
        return int(told) if told.isdigit() else 0
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return None


def _listener(name: str) -> int:
    """Ask the kernel who listens there; return 0 if it cannot be asked or the process lives in a container."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end:
        end.setblocking(False)
        try:
            end.connect(f"\0{name}")
            credentials = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        except OSError:
            return 0
    return int(struct.unpack("3i", credentials)[0])


def _refusal(refused: Mapping[str, int]) -> Locked:
    told = []
    for pid in sorted(set(refused.values())):
        buses = ", ".join(url for url, holder in refused.items() if holder == pid)
        directory = _state_of(pid)
        who = f"another rigctl, pid {pid}" if pid else "another rigctl"
        where = f" with state directory {directory}; `rigctl stop --state {directory}` ends it" if directory else ""
        told.append(f"{buses}: driven by {who}{where}")
    return Locked("; ".join(told) + ". Two on one bus would overwrite each other's setpoints, so nothing was opened")


def _state_of(pid: int) -> Path | None:
    """Find a process's state directory by the lock it has open; return None if that cannot be seen."""
    try:
        opened = [link.readlink() for link in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return None
    return next((path.parent for path in opened if path.name == "journal.sqlite"), None)
