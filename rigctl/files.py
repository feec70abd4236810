"""Files that people keep: one has its name once it is whole and on disk; what had the name stays until then."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Give where to write a file, beside `path`; it takes that name at the end, and none if anything goes wrong.

    A pipe or a device such as /dev/stdout is written as it is; a link stays one, what it leads to is replaced. A file
    that is replaced hands on who may read it.

    Raises:
        FileExistsError: there is one, and none is to be replaced.
        OSError: it cannot be written; nothing has changed.
    """
    place = Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        yield place
        return
    new = place.with_name(f".{secrets.token_hex(8)}.new")  # a long name has no room for more
    try:
        mode = place.stat().st_mode & 0o777 if place.exists() else None
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
        if mode is not None:
            new.chmod(mode)
        yield new
        _sync(new)
        if replace:
            new.replace(place)
        else:
            _take(new, place)
    finally:
        with suppress(OSError):
            new.unlink()


def _take(new: Path, place: Path) -> None:
    """Give a file a name that none has; raises FileExistsError."""
    try:
        os.link(new, place)  # unlike a rename, it never replaces
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        if place.exists():
            raise FileExistsError(place) from None
        new.rename(place)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
