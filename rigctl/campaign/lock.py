"""One process per state directory (fault 44), whose files stay where their names lead to (fault 68)."""

from __future__ import annotations

import fcntl
import os
import select
import shlex
import signal
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from rigctl.campaign.alive import Writer
from rigctl.campaign.people import person
from rigctl.errors import JournalUnwritable, Locked, UsageError, reason

FILE_NAME = "lock"
UNKNOWN = "(unknown)"
LOCKS = Path("/proc/locks")
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
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise _unwritable(directory, error) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
    if there.st_uid != os.geteuid():
        raise UsageError(
            f"{directory}: belongs to {person(there.st_uid)}, and this is {person(os.geteuid())}; run it as the owner "
            f"(`sudo -u '#{there.st_uid}' rigctl ...`), or choose another directory with --state"
        )
    if there.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(open_to_others(directory))


@contextmanager
def unseen_by_others() -> Iterator[None]:
    """Make whatever this process writes meanwhile its owner's alone: journal, word of what is driven, lock."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(directory: Path) -> str:
    """Say what others may do with a state directory, and the remedy; empty: nothing, or it is not there."""
    try:
        mode = stat.S_IMODE(directory.stat().st_mode)
    except OSError:
        return ""
    if not mode & OTHERS:
        return ""
    may = "replace or delete its files" if mode & (stat.S_IWGRP | stat.S_IWOTH) else "read what is in it"
    return f"{directory}: others on this machine may {may} (mode {mode:o}); `chmod 700 {shlex.quote(str(directory))}`"


def _unwritable(directory: Path, error: OSError) -> JournalUnwritable:
    return JournalUnwritable(
        f"{directory}: cannot keep state here ({reason(error)}), so nothing may move; free space or make it writable, "
        "or choose another directory with --state"
    )


def _sign(directory: Path, descriptor: int) -> None:
    me = Writer.this_process()
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{me.pid}\n{me.started} {me.boot}\n".encode(), 0)
    except OSError as error:
        raise _unwritable(directory, error) from error


def _refusal(directory: Path, descriptor: int) -> str:
    campaign = _signed(descriptor)
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
    signed = _reading(directory)
    return UNKNOWN if signed is None else str(signed.pid)


def campaign_here(directory: Path) -> int | None:
    """Return the pid of the living process that runs this campaign; None: nobody does, whoever else holds the lock."""
    signed = _reading(directory)
    return signed.pid if signed is not None and signed.alive and not signed.is_this_process else None


def end_campaign(directory: Path, within_s: float) -> bool:
    """End the process that runs this campaign: ask it first, kill it if that does not help; return whether it is gone.

    Only who has signed the lock, lives since then, and holds the lock as the kernel has it, is touched.

    Args:
        directory: of its state.
        within_s: wall seconds for each of the two.
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


def _reading(directory: Path) -> Writer | None:
    try:
        descriptor = os.open(directory / FILE_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return _signed(descriptor)
    finally:
        os.close(descriptor)


def _signed(descriptor: int) -> Writer | None:
    """Return who held the lock last, as it signed; None: nobody has, or it cannot be read."""
    pid, _, rest = os.pread(descriptor, 256, 0).decode(errors="replace").partition("\n")
    started, _, boot = rest.strip().partition(" ")
    return Writer(int(pid), started, boot) if pid.isdecimal() else None


def _locker(descriptor: int) -> str:
    """Say who holds the lock, as the kernel has it."""
    there = os.fstat(descriptor)
    file = f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x}:{there.st_ino}"
    with suppress(OSError):
        for line in LOCKS.read_text(encoding="ascii").splitlines():
            _, kind, *fields = line.split()  # see proc(5)
            if kind == "FLOCK" and file in fields:
                return fields[2]
    return UNKNOWN
