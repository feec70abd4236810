"""Files that people keep: one has its name once it is whole and on disk; what had the name stays until then."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rigctl import system
from rigctl.errors import RigctlError


def own(path: Path, others: int = 0o022) -> str:
    """Return what stands in a file that nobody but its owner and root could have put there or changed.

    No link is followed. `others` is what nobody else may do with the file, as bits of its mode.

    Raises:
        RigctlError: somebody else could.
        OSError: it cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | system.NOFOLLOW | system.NONBLOCK | system.CLOEXEC)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        there, me = os.fstat(descriptor), system.user()
        if system.owner(there) not in (me, 0 if me else path.parent.stat().st_uid) or system.mode(there) & others:
            raise RigctlError(
                f"{path}: got mode {there.st_mode & 0o7777:04o} and owner {there.st_uid}, so others may read or change "
                f"it; must be 0600 and {me}: `chmod 600 {path}` if it is yours, and delete it if it is not"
            )
        return file.read()


@contextmanager
def whole(path: Path, *, replace: bool = True, private: bool = False) -> Iterator[Path]:
    """Give where to write a file, beside `path`; it takes that name at the end, and none if anything goes wrong.

    A pipe or a device such as /dev/stdout is written as it is; a link stays one, what it leads to is replaced. A file
    that is replaced hands on who may read it. A `private` one is its owner's alone, and replaces a link.

    Raises:
        FileExistsError: there is one, and none is to be replaced.
        OSError: it cannot be written; nothing has changed.
    """
    place = path if private else Path(os.path.realpath(path))
    if place.exists() and not place.is_file():
        yield place
        return
    new = place.with_name(f".{secrets.token_hex(8)}.new")  # a long name has no room for more
    try:
        mode = place.stat().st_mode & 0o777 if place.exists() and not private else None
        if private:  # as often as it is written, what a killed process has left would pile up
            new = place.with_suffix(".new")
            new.unlink(missing_ok=True)
        os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | system.CLOEXEC, 0o600 if private else 0o666))
        if mode is not None:
            new.chmod(mode)
        yield new
        system.sync(new)
        if replace:
            new.replace(place)
        else:
            _take(new, place)
        if private:
            system.sync(place.parent)
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
