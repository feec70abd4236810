"""Locks: one process per state directory (fault 44) and one per bus (fault 67); and whether a process still lives.

The files of a state directory stay where their names lead to (fault 68). A bus is locked on this host, whatever the
state directory, because Modbus TCP servers answer to anybody: by a listening socket in Linux's abstract namespace. The
kernel lets go of that when its process ends, however it ends, there is no file that somebody could delete, and who is
refused can ask the kernel whose it is. It holds within a network namespace: a container with its own, or another host,
is not kept out. `rigctl safe` takes none.
"""

from __future__ import annotations

import errno
import hashlib
import os
import select
import shlex
import signal
import socket
import stat
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

from rigctl import system
from rigctl.errors import JournalUnwritable, Locked, UsageError, reason
from rigctl.people import person
from rigctl.rig.clocks import boot_id
from rigctl.rig.places import physical

# Whether a process still lives ----------------------------------------------------------------------------------------

_NOT_SAID = ""
"""The system does not say when a process started."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Names a process so that later ones with the same number can be told from it."""

    pid: int
    started: str
    """Clock ticks since boot at its start."""
    boot: str

    @classmethod
    def this_process(cls) -> Self:
        return cls(os.getpid(), _started(os.getpid()), boot_id())

    @property
    def alive(self) -> bool:
        """Tell whether it still runs; one that has ended and was not waited for does not."""
        return self.boot == boot_id() and self.started != _NOT_SAID and self.started == _started(self.pid)


def _started(pid: int) -> str:
    """Say when a process started, and nothing of one that has ended; see proc(5), fields 3 and 22 of `stat`."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return _NOT_SAID
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may hold spaces and brackets
    return _NOT_SAID if state in ("Z", "X") else fields[18]


# One process per state directory --------------------------------------------------------------------------------------

FILE_NAME = "lock"
UNKNOWN = "(unknown)"
LOCKS = Path("/proc/locks")
TRIES = 3
"""How often the list is read: Linux gives it in parts, and a lock that is held may be missing from one reading."""
PRIVATE_DIRECTORY = 0o700
OTHERS = 0o077
"""What nobody but the owner may do with what a campaign writes."""


@dataclass(frozen=True, slots=True)
class Held:
    """A file as it was when it was opened."""

    path: Path
    device: int
    inode: int

    @classmethod
    def of(cls, path: Path, descriptor: int | None = None) -> Self:
        """Return the file at this path, or the one open there under this descriptor."""
        found = path.stat() if descriptor is None else os.fstat(descriptor)
        return cls(path, found.st_dev, found.st_ino)

    def trouble(self) -> str:
        """Say what is wrong with it now; empty if nothing is. Asks the file system's own memory: microseconds."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return f"{self.path}: deleted while it was in use"
        except OSError as error:
            return f"{self.path}: cannot be seen any more ({error.strerror})"
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return f"{self.path}: replaced by another file while it was in use"
        return ""


@contextmanager
def state_lock(directory: Path) -> Iterator[Held]:
    """Hold the state directory, made if missing. The kernel lets go when the process ends, however it ends.

    Yields:
        The lock's file, which can be asked whether it is still there.

    Raises:
        Locked: another process holds it; names its pid.
        JournalUnwritable: the directory cannot be made or written.
        UsageError: as `make_directory`.
    """
    path = directory / FILE_NAME
    make_directory(directory)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | system.CLOEXEC | system.NOFOLLOW, 0o600)
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        try:
            system.lock(descriptor)
        except BlockingIOError as error:
            raise Locked(_refusal(directory, descriptor)) from error
        _sign(directory, descriptor)
        yield Held.of(path, descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path) -> None:
    """Make a state directory, for its owner alone, unless it is there.

    Raises:
        JournalUnwritable: it cannot be made.
        UsageError: it is another's, or others may replace its files (fault 86).
    """
    try:
        directory.mkdir(PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        there = directory.stat()
    except OSError as error:
        raise _unwritable(directory, error) from error
    if system.owner(there) != system.user():
        raise UsageError(
            f"{directory}: belongs to {person(there.st_uid)}, and this is {person(system.user())}; run it as the owner "
            f"(`sudo -u '#{there.st_uid}' rigctl ...`), or choose another directory with --state"
        )
    if system.mode(there) & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError("; ".join(open_to_others(directory)))


@contextmanager
def unseen_by_others() -> Iterator[None]:
    """Make whatever this process writes meanwhile its owner's alone: journal, word of what is driven, lock."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(directory: Path) -> tuple[str, str]:
    """Say what others may do with a state directory, and the remedy; both empty: nothing, or it is not there."""
    try:
        mode = system.mode(directory.stat())
    except OSError:
        return "", ""
    if not mode & OTHERS:
        return "", ""
    may = "replace or delete its files" if mode & (stat.S_IWGRP | stat.S_IWOTH) else "read what is in it"
    remedy = f"`chmod 700 {shlex.quote(str(directory))}`"
    return f"{directory}: others on this machine may {may} (mode {mode:o})", remedy


def _unwritable(directory: Path, error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"{directory}: cannot keep state here ({reason(error)}), so nothing may move; free space or make it writable, "
        "or choose another directory with --state"
    )


def _sign(directory: Path, descriptor: int) -> None:
    me = Writer.this_process()
    try:
        system.write_all(descriptor, f"{me.pid}\n{me.started} {me.boot}\n".encode())
    except OSError as error:
        raise _unwritable(directory, error) from error


def _refusal(directory: Path, descriptor: int) -> str:
    campaign = _signed(directory)
    if campaign is not None and campaign.alive:
        return (
            f"{directory}: process {campaign.pid} runs this campaign; `rigctl status` shows it, `rigctl stop` ends it"
        )
    return (
        f"{directory / FILE_NAME}: locked by process {_locker(descriptor)}, which is no rigctl campaign; "
        "end it, then run again. `rigctl safe` does not need the lock"
    )


def holder(directory: Path) -> str:
    """Return the pid of who holds this state directory (or held it last), in words if it is not known."""
    signed = _signed(directory)
    return UNKNOWN if signed is None else str(signed.pid)


def campaign_here(directory: Path) -> int | None:
    """Return the pid of the living process that runs this campaign; None: nobody does, whoever else holds the lock."""
    signed = _signed(directory)
    return signed.pid if signed is not None and signed.alive and signed.pid != os.getpid() else None


def end_campaign(directory: Path, within_s: float) -> bool:
    """End the process that runs this campaign: ask it first, kill it if that does not help; return whether it is gone.

    Asking and killing may take `within_s` wall seconds each. Only a process that has signed the lock, lives since then,
    and holds the lock as the kernel has it, is touched.
    """
    pid = campaign_here(directory)
    if pid is None:
        return True
    with suppress(ProcessLookupError):
        process = os.pidfd_open(pid)  # from here on no other process can be meant
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                with (directory / FILE_NAME).open("rb") as lock:
                    held = _locker(lock.fileno()) == str(pid)
                if not held or campaign_here(directory) != pid:
                    break
                signal.pidfd_send_signal(process, number)
                if select.select([process], [], [], within_s)[0]:
                    return True
        finally:
            os.close(process)
    return campaign_here(directory) is None


def _signed(directory: Path) -> Writer | None:
    """Return who held the lock last, as it signed; None: nobody has, or it cannot be read."""
    try:
        pid, _, rest = (directory / FILE_NAME).read_text(encoding="utf-8", errors="replace").partition("\n")
    except OSError:
        return None
    started, _, boot = rest.strip().partition(" ")
    return Writer(int(pid), started, boot) if pid.isdecimal() else None


def _locker(descriptor: int) -> str:
    """Say who holds the lock, as the kernel has it."""
    there = os.fstat(descriptor)
    file = f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x}:{there.st_ino}"
    with suppress(OSError):
        for line in chain.from_iterable(LOCKS.read_text(encoding="ascii").splitlines() for _ in range(TRIES)):
            _, kind, *fields = line.split()  # see proc(5)
            if kind == "FLOCK" and file in fields:
                return fields[2]
    return UNKNOWN


# One process per bus --------------------------------------------------------------------------------------------------


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
            raise _bus_refusal(refused)
        yield


def _take(held: ExitStack, name: str) -> int | None:
    """Take one lock; return None if it is ours now, else the pid of its holder, 0 if that is not known."""
    if not system.SOCKETS:
        return _take_file(held, name)
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | system.CLOEXEC | system.NOFOLLOW, 0o666)
    except OSError:
        return 0
    held.callback(os.close, descriptor)
    try:
        system.lock(descriptor)
    except BlockingIOError:
        told = system.read_at(descriptor, 32).strip()
        return int(told) if told.isdigit() else 0
    system.write_all(descriptor, f"{os.getpid()}\n".encode())
    return None


def _listener(name: str) -> int:
    """Ask the kernel who listens there; return 0 if the query fails or the process runs in a container."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as end, suppress(OSError):
        end.setblocking(False)
        end.connect(f"\0{name}")
        return peer(end)[0]
    return 0


def peer(line: socket.socket) -> tuple[int, int]:
    """Return process and user at the other end, as the kernel has them; see SO_PEERCRED in unix(7)."""
    credentials = struct.Struct("3i")
    pid, user, _ = credentials.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, credentials.size))
    return pid, user


def _bus_refusal(refused: Mapping[str, int]) -> Locked:
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
