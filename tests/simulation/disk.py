"""A disk that keeps what was synced and forgets, at a power loss, as much of the rest as a seed chooses.

It lies below SQLite (see `vfs`) and below Python's `fsync`, `replace` and `unlink`, for the files of one directory. For
each it knows what is durable and what was written since. At a power loss any part of the latter is lost: writes are
dropped or kept, in any order, or torn at the boundary of a sector; a file may be as long as it was, but zeros. Within a
sector, and outside of what a write covers, nothing is ever damaged, which is what SQLite takes for granted of the unix
VFS (SQLITE_IOCAP_POWERSAFE_OVERWRITE). Names come and go in the order in which they were made and deleted, as on every
file system with a journal; how many of them were in time is the seed's choice until their directory is synced.

Every life begins on new files of the same contents, so that nothing of a dead one, a lock or an open descriptor, is
shared with it.
"""

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.simulation.inode import Directory, Inode, Truncate, Write
from tests.simulation.vfs import OPEN_CREATE, SYNCS_ITS_DIRECTORY, Shim

_ERRORS = {
    "write": sqlite3.SQLITE_IOERR_WRITE,
    "truncate": sqlite3.SQLITE_IOERR_TRUNCATE,
    "sync": sqlite3.SQLITE_IOERR_FSYNC,
    "delete": sqlite3.SQLITE_IOERR_DELETE,
    "lock": sqlite3.SQLITE_IOERR_LOCK,
}


class SimulatedCrash(BaseException):
    """The world ends here: raised before an operation, by whoever looks on."""


@dataclass(frozen=True, slots=True)
class Handle:
    """A file that SQLite has open."""

    inode: Inode
    name: str
    life: int
    notes_its_name: bool
    """Whether a sync of it syncs its directory, too."""


class Disk:
    """The disk under one directory.

    Args:
        rng: chooses what a power loss leaves.
    """

    def __init__(self, rng: Random) -> None:
        self.on_operation: Callable[[str, str], None] = lambda operation, name: None
        """Told of each write, sync, truncate, delete and rename before it is done, with the file's name ("." for the
        directory). It may raise: `SimulatedCrash`, and the disk is dead; OSError, and the operation fails with it."""
        self.full = False
        self.dead = False
        self.counts: Counter[str] = Counter()
        self.files = Directory()
        self.rng = rng
        self._life = 0
        self._place: Path | None = None

    @contextmanager
    def installed(self, directory: Path) -> Iterator[None]:
        """Keep the files of this directory, through whatever SQLite opens by default and Python's `os`.

        What is there already is durable.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._place = directory.resolve()
        self.files.look(self._place)
        self.files.settle()
        shim, python = Shim(_Keeper(self)), _Python(self)
        shim.register()
        try:
            with python.instead_of_os():
                yield
        finally:
            shim.unregister()

    # what befalls it ------------------------------------------------------------------------------------------------

    def kill(self) -> None:
        if not self.dead:
            self.files.look(self.place)
            self.dead = True

    def lose_power(self, left: Mapping[str, bytes] | None = None) -> None:
        """End the world that writes; the files are left with what was synced and part of what was not.

        Or with what `if_power_failed` has said before.
        """
        self.kill()
        left = self.if_power_failed() if left is None else left
        self.files.names = {name: Inode(bytearray(content)) for name, content in left.items()}
        self.files.settle()

    def if_power_failed(self) -> dict[str, bytes]:
        """Return what could be left if the power failed now, by name; it does not."""
        if not self.dead:
            self.files.look(self.place)
        return {name: bytes(inode.content) for name, inode in self.files.after_power_loss(self.rng).items()}

    def revive(self) -> None:
        self.kill()
        for path in self.place.iterdir():
            if path.is_file() and path.name not in self.files.names:
                _unlink(path)
        for name, inode in self.files.names.items():
            new = self.place / f".{name}.reborn"
            new.write_bytes(inode.content)
            _replace(new, self.place / name)
            inode.handles = 0
        self._life += 1
        self.dead = False

    # what is asked of it --------------------------------------------------------------------------------------------

    @property
    def place(self) -> Path:
        if self._place is None:
            raise RuntimeError("no directory is kept; see `installed`")
        return self._place

    def keeps(self, path: Path) -> bool:
        return path.parent == self._place

    def before(self, operation: str, name: str) -> None:
        """Count an operation, and let whoever looks on end the world here.

        Raises:
            OSError: the operation fails; always, once the disk is dead.
            SimulatedCrash: it has just died.
        """
        if self.dead:
            raise OSError(errno.EIO, "the disk is dead", name)
        self.counts[operation] += 1
        try:
            self.on_operation(operation, name)
        except SimulatedCrash:
            self.kill()
            raise

    def opened(self, path: Path, flags: int) -> Handle:
        inode = self.files.names.get(path.name)
        if inode is None:
            inode = Inode()
            self.files.create(path.name, inode)
        if not inode.handles and path.exists():
            inode.found(path.read_bytes())
        inode.handles += 1
        return Handle(inode, path.name, self._life, bool(flags & OPEN_CREATE and flags & SYNCS_ITS_DIRECTORY))

    def closed(self, handle: Handle) -> None:
        if handle.life == self._life:
            handle.inode.handles -= 1

    def live(self, handle: Handle) -> None:
        """Raise OSError if the life that has opened this file is over."""
        if self.dead or handle.life != self._life:
            raise OSError(errno.EIO, "its life is over", handle.name)

    def change(self, handle: Handle, operation: Write | Truncate) -> None:
        """Do something to an open file; raise OSError if the disk is full, or dead."""
        self.live(handle)
        self.before("write" if isinstance(operation, Write) else "truncate", handle.name)
        if isinstance(operation, Write):
            _make_room(self, handle.inode, operation.offset + len(operation.data))
        handle.inode.do(operation)

    def sync(self, handle: Handle) -> None:
        self.live(handle)
        self.before("sync", handle.name)
        handle.inode.sync()
        if handle.notes_its_name:
            self.files.sync()

    def delete(self, path: Path, *, synced: bool) -> None:
        self.before("delete", path.name)
        self.files.remove(path.name)
        if synced:
            self.files.sync()


def firm(disk: Disk, name: str) -> bool:
    """Tell whether a power loss now would leave all files that begin so as they are."""
    return not any(inode.pending for file, inode in disk.files.names.items() if file.startswith(name))


def _make_room(disk: Disk, inode: Inode, size: int) -> None:
    """Raise OSError if it would have to grow, and there is no room."""
    if disk.full and size > len(inode.content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class _Keeper:
    """The disk as the VFS asks it: codes instead of exceptions."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.keeps = disk.keeps
        self.closed = disk.closed
        self.randomness = disk.rng.randbytes

    def opening(self, path: Path, flags: int) -> tuple[int, Any]:
        if self._disk.dead or (not flags & OPEN_CREATE and not path.exists()):
            return sqlite3.SQLITE_CANTOPEN, None
        return 0, self._disk.opened(path, flags)

    def write(self, file: Handle, offset: int, data: bytes) -> int:
        return _coded("write", self._disk.change, file, Write(offset, data))

    def truncate(self, file: Handle, size: int) -> int:
        return _coded("truncate", self._disk.change, file, Truncate(size))

    def sync(self, file: Handle) -> int:
        return _coded("sync", self._disk.sync, file)

    def lock(self, file: Handle) -> int:
        # who closes last deletes the log, by its name, if it gets the lock: not one whose life is over
        return _coded("lock", self._disk.live, file)

    def delete(self, path: Path, *, synced: bool) -> int:
        if not path.exists():
            return sqlite3.SQLITE_IOERR_DELETE_NOENT
        return _coded("delete", lambda: self._disk.delete(path, synced=synced))


def _coded(operation: str, work: Callable[..., None], *arguments: Any) -> int:
    try:
        work(*arguments)
    except OSError as error:
        return sqlite3.SQLITE_FULL if error.errno == errno.ENOSPC else _ERRORS[operation]
    except SimulatedCrash:
        return _ERRORS[operation]
    return 0


_fsync, _replace, _unlink = os.fsync, os.replace, os.unlink


class _Python:
    """The disk as Python's own files meet it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    @contextmanager
    def instead_of_os(self) -> Iterator[None]:
        os.fsync, os.replace, os.unlink = self.fsync, self.replace, self.unlink  # type: ignore[assignment]
        try:
            yield
        finally:
            os.fsync, os.replace, os.unlink = _fsync, _replace, _unlink

    def fsync(self, file: Any) -> None:
        disk = self._disk
        descriptor = file if isinstance(file, int) else file.fileno()
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path == disk.place:
            disk.before("sync", ".")
            disk.files.look(path)
            disk.files.sync()
        elif disk.keeps(path):
            disk.before("sync", path.name)
            _make_room(disk, disk.files.names.get(path.name) or Inode(), path.stat().st_size)
            disk.files.look(disk.place)
            disk.files.names[path.name].sync()
        else:
            _fsync(file)

    def replace(self, old: Any, new: Any, **places: Any) -> None:
        source, target = Path(old).absolute(), Path(new).absolute()
        if self._disk.keeps(source) and self._disk.keeps(target):
            self._disk.before("rename", target.name)
            self._disk.files.look(self._disk.place)
            self._disk.files.rename(source.name, target.name)
        _replace(old, new, **places)

    def unlink(self, path: Any, **places: Any) -> None:
        if self._disk.keeps(Path(path).absolute()) and Path(path).exists():
            self._disk.delete(Path(path), synced=False)
        _unlink(path, **places)
