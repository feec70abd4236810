"""A SQLite VFS that asks before it writes, syncs, truncates or deletes; everything else is the default unix VFS itself.

It is registered by ctypes in the very library that Python's `sqlite3` uses, as the default: the journal opens through
it without knowing. A file's method table is copied and a few of its entries replaced; reads, shared memory and what the
device is said to be capable of go to SQLite's own code, at its own price. See https://www.sqlite.org/vfs.html and
sqlite3.h for the structures.
"""

import _sqlite3
import ctypes
import os
import sqlite3
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Any, Protocol

from rigctl.errors import UsageError

NAME = b"simulated"

OPEN_CREATE, OPEN_MAIN_JOURNAL, OPEN_SUPER_JOURNAL, OPEN_WAL = 0x4, 0x800, 0x4000, 0x80000
SYNCS_ITS_DIRECTORY = OPEN_MAIN_JOURNAL | OPEN_SUPER_JOURNAL | OPEN_WAL
"""What the unix VFS opens to create, it makes known to the directory when it is first synced."""


class _Vfs(ctypes.Structure):
    """`sqlite3_vfs`, version 3."""

    _fields_ = (
        ("iVersion", c_int),
        ("szOsFile", c_int),
        ("mxPathname", c_int),
        ("pNext", c_void_p),
        ("zName", c_char_p),
        ("pAppData", c_void_p),
        ("xOpen", c_void_p),
        ("xDelete", c_void_p),
        ("xAccess to xDlClose", c_void_p * 6),
        ("xRandomness", c_void_p),
        ("xSleep to xNextSystemCall", c_void_p * 7),
    )


class _Methods(ctypes.Structure):
    """`sqlite3_io_methods`, version 3."""

    _fields_ = (
        ("iVersion", c_int),
        ("xClose", c_void_p),
        ("xRead", c_void_p),
        ("xWrite", c_void_p),
        ("xTruncate", c_void_p),
        ("xSync", c_void_p),
        ("xFileSize", c_void_p),
        ("xLock", c_void_p),
        ("xUnlock to xUnfetch", c_void_p * 11),
    )


class _File(ctypes.Structure):
    """The part of a `sqlite3_file` that every VFS has."""

    _fields_ = (("pMethods", POINTER(_Methods)),)


_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_RANDOMNESS = CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
_CLOSE = CFUNCTYPE(c_int, c_void_p)
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_LOCK = _SYNC = CFUNCTYPE(c_int, c_void_p, c_int)


class Keeper(Protocol):
    """Decides what becomes of an operation; each call returns SQLite's code, 0 for "go on". None raises."""

    def opening(self, path: Path, flags: int) -> tuple[int, Any]:
        """Return what stands for the open file from now on."""

    def closed(self, file: Any) -> None: ...
    def write(self, file: Any, offset: int, data: bytes) -> int: ...
    def truncate(self, file: Any, size: int) -> int: ...
    def sync(self, file: Any) -> int: ...
    def lock(self, file: Any) -> int: ...
    def delete(self, path: Path, *, synced: bool) -> int: ...
    def keeps(self, path: Path) -> bool:
        """Tell whether this file is one of its own; others are SQLite's alone."""

    def randomness(self, count: int) -> bytes: ...


def library() -> ctypes.CDLL:
    """Return the SQLite that Python's `sqlite3` uses.

    Raises:
        UsageError: it is built into the module and cannot be reached.
    """
    mapped = {line.split(maxsplit=5)[-1].strip() for line in Path("/proc/self/maps").read_text().splitlines()}
    found = sorted(name for name in mapped if os.path.basename(name).startswith("libsqlite3"))  # noqa: PTH119
    loaded = ctypes.CDLL(found[0] if found else _sqlite3.__file__)
    if not hasattr(loaded, "sqlite3_vfs_find"):
        raise UsageError(
            f"{_sqlite3.__file__}: this Python has SQLite built in, so its disk cannot be simulated; "
            "use a Python that is linked with libsqlite3"
        )
    loaded.sqlite3_vfs_find.argtypes, loaded.sqlite3_vfs_find.restype = [c_char_p], POINTER(_Vfs)
    loaded.sqlite3_vfs_register.argtypes = [POINTER(_Vfs), c_int]
    loaded.sqlite3_vfs_unregister.argtypes = [POINTER(_Vfs)]
    loaded.sqlite3_randomness.argtypes, loaded.sqlite3_randomness.restype = [c_int, c_void_p], None
    return loaded


class Shim:
    """The VFS while it is registered. What SQLite still points to is never given back: an open file may outlive it."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._library = library()
        self._real = self._library.sqlite3_vfs_find(b"unix").contents
        self._real_open, self._real_delete = _OPEN(self._real.xOpen), _DELETE(self._real.xDelete)
        self._tables: dict[int, tuple[_Methods, Any]] = {}
        self._files: dict[int, Any] = {}
        self._kept: list[Any] = []
        self._vfs = _Vfs.from_buffer_copy(self._real)
        self._vfs.pNext, self._vfs.zName = None, NAME
        self._vfs.xOpen = self._callback(_OPEN, self._open, sqlite3.SQLITE_CANTOPEN)
        self._vfs.xDelete = self._callback(_DELETE, self._delete, sqlite3.SQLITE_IOERR_DELETE)
        self._vfs.xRandomness = self._callback(_RANDOMNESS, self._randomness, 0)
        self.mishap: BaseException | None = None

    def register(self) -> None:
        self._library.sqlite3_vfs_register(self._vfs, 1)
        self._library.sqlite3_randomness(0, None)  # sown anew, from ours: a log's salts are the seed's, too

    def unregister(self) -> None:
        self._library.sqlite3_vfs_unregister(self._vfs)
        self._library.sqlite3_randomness(0, None)
        if self._files:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        if self.mishap is not None:
            raise self.mishap

    def _callback(self, kind: Any, work: Callable[..., int], failed: int) -> int:
        def guarded(*arguments: Any) -> int:
            try:
                return work(*arguments)
            except BaseException as error:  # noqa: BLE001 - it would vanish in C
                self.mishap = self.mishap or error
                return failed

        made = kind(guarded)
        self._kept.append(made)
        return ctypes.cast(made, c_void_p).value or 0

    # the file system ------------------------------------------------------------------------------------------------

    def _open(self, _: int, name: int | None, file: int, flags: int, out_flags: int | None) -> int:
        path = None if name is None else Path(os.fsdecode(ctypes.string_at(name)))
        if path is None or not self._keeper.keeps(path):
            return int(self._real_open(ctypes.addressof(self._real), name, file, flags, out_flags))
        code, kept = self._keeper.opening(path, flags)
        if code:
            return code
        code = int(self._real_open(ctypes.addressof(self._real), name, file, flags, out_flags))
        if code:
            self._keeper.closed(kept)
            return code
        opened = _File.from_address(file)
        opened.pMethods = ctypes.pointer(self._table(opened.pMethods.contents)[0])
        self._files[file] = kept
        return 0

    def _delete(self, _: int, name: int, sync: int) -> int:
        path = Path(os.fsdecode(ctypes.string_at(name)))
        if self._keeper.keeps(path):
            code = self._keeper.delete(path, synced=bool(sync & 1))
            if code:
                return code
        return int(self._real_delete(ctypes.addressof(self._real), name, 0))

    def _randomness(self, _: int, count: int, out: int) -> int:
        ctypes.memmove(out, self._keeper.randomness(count), count)
        return count

    # a file ---------------------------------------------------------------------------------------------------------

    def _table(self, real: _Methods) -> tuple[_Methods, Any]:
        where = ctypes.addressof(real)
        if where not in self._tables:
            self._tables[where] = self._made(real), real
        return self._tables[where]

    def _made(self, real: _Methods) -> _Methods:
        table = _Methods.from_buffer_copy(real)
        real_close, real_write, real_truncate = _CLOSE(real.xClose), _WRITE(real.xWrite), _TRUNCATE(real.xTruncate)
        real_lock = _LOCK(real.xLock)
        keeper, files = self._keeper, self._files

        def close(file: int) -> int:
            keeper.closed(files.pop(file))
            return int(real_close(file))

        def write(file: int, data: int, count: int, offset: int) -> int:
            return keeper.write(files[file], offset, ctypes.string_at(data, count)) or real_write(
                file, data, count, offset
            )

        def truncate(file: int, size: int) -> int:
            return keeper.truncate(files[file], size) or real_truncate(file, size)

        def lock(file: int, level: int) -> int:
            return keeper.lock(files[file]) or real_lock(file, level)

        def sync(file: int, _: int) -> int:
            return keeper.sync(files[file])  # what is durable is the keeper's to say: the real disk is not troubled

        table.xClose = self._callback(_CLOSE, close, sqlite3.SQLITE_IOERR_CLOSE)
        table.xWrite = self._callback(_WRITE, write, sqlite3.SQLITE_IOERR_WRITE)
        table.xTruncate = self._callback(_TRUNCATE, truncate, sqlite3.SQLITE_IOERR_TRUNCATE)
        table.xLock = self._callback(_LOCK, lock, sqlite3.SQLITE_IOERR_LOCK)
        table.xSync = self._callback(_SYNC, sync, sqlite3.SQLITE_IOERR_FSYNC)
        return table
