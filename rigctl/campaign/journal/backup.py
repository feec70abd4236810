"""A copy of a journal that is good by itself, also while a daemon writes the original.

SQLite's backup copies pages as one read transaction sees them, a few at a time; writers go on beside it. The copy is
made under a passing name, checked as a whole, synced, and only then given its own: what has a backup's name is one.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from rigctl import system
from rigctl.campaign.journal.database import close_in_good_order, connect, guarded, open_for_reading, snapshot
from rigctl.campaign.journal.integrity import SealingConnection, damage, log_of, lost_its_log, watch
from rigctl.campaign.journal.verifying import JournalContents, held
from rigctl.errors import JournalCorrupt, JournalUnwritable, UsageError, reason

PAGES: Final = 64
"""Copied at a time: 256 kB."""
REST_S: Final = 0.002
"""Wall seconds between two steps: disk and processor belong to the campaign first."""
_NAMED: Final = re.compile(r"\d{8}T\d{6}Z\.sqlite")


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy that was made and verified."""

    file: Path
    size: int
    """Bytes."""
    holds: JournalContents
    removed: tuple[Path, ...] = ()
    """Older ones, beyond as many as are kept."""


def named(directory: Path, now: datetime) -> Path:
    """Return the name of a backup that is made now, UTC: in the order they were made."""
    return directory / f"{now:%Y%m%dT%H%M%SZ}.sqlite"


def back_up(path: Path, target: Path) -> Backup:
    """Copy the journal at `path` to a new file, readable by its owner alone, and verify it.

    Raises:
        UsageError: there is no journal, or `target` is there already.
        JournalCorrupt: the journal, or the copy, is damaged.
        JournalUnwritable: the copy cannot be written; nothing of it is left.
    """
    with closing(open_for_reading(path, whole=False)) as source, guarded(path), snapshot(source):
        if lost_its_log(source, path):
            raise JournalCorrupt(
                f"{path}: its log is missing, so a copy would not be whole; run `rigctl journal recover`", "no-log"
            )
        if target.exists():
            raise UsageError(f"{target}: is there already, and a backup replaces nothing; choose another name")
        if not target.parent.is_dir():
            raise UsageError(f"{target}: there is no directory {target.parent}; make it, or choose another")
        there = held(source)
        with _passing(target) as passing:
            _copy(source, passing)
            _verify(passing, there, path)
            _settle(passing, target)
    return Backup(target, target.stat().st_size, there)


def keep_newest(newest: Path, count: int) -> tuple[Path, ...]:
    """Remove all but so many backups of the same campaign that `named` has named beside this one; return which.

    What is another campaign's stays, for several may share a directory; so does what does not read.
    """
    of, beside = _begun(newest), (file for file in newest.parent.iterdir() if _NAMED.fullmatch(file.name))
    old = sorted(file for file in beside if _begun(file) == of)[:-count]
    for file in old:
        file.unlink()
    return tuple(old)


def _begun(backup: Path) -> str:
    """Return when the campaign in a backup was begun, by which it is known; empty: it cannot be read."""
    try:
        with closing(connect(backup, "?mode=ro&immutable=1")) as copy:
            (begun,) = copy.execute("SELECT created_utc FROM campaign").fetchone()
    except (sqlite3.Error, OSError, TypeError):  # TypeError: there is no row
        return ""
    return str(begun)


@contextmanager
def _passing(target: Path) -> Iterator[Path]:
    """Give the name under which the copy is made; nothing is left under it."""
    passing = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        os.close(os.open(passing, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        yield passing
    except OSError as error:
        raise JournalUnwritable(_unwritten(target, reason(error))) from error
    finally:
        for file in (passing, log_of(passing), passing.with_name(f"{passing.name}-journal")):
            with suppress(OSError):
                file.unlink()


def _copy(source: sqlite3.Connection, passing: Path) -> None:
    try:
        with closing(sqlite3.connect(passing, factory=SealingConnection, isolation_level=None)) as copy:
            source.backup(copy, pages=PAGES, progress=lambda *_: time.sleep(REST_S))
            copy.execute("PRAGMA journal_mode = DELETE")
            # the original is open, or was when its process died; the copy has no log that could be missing
            watch(copy)
            close_in_good_order(copy, passing)
    except sqlite3.Error as error:
        raise JournalUnwritable(_unwritten(passing, str(error))) from error


def _verify(passing: Path, there: JournalContents, path: Path) -> None:
    """Raise `JournalCorrupt` unless the copy is whole and has all that the original had."""
    with closing(connect(passing, "?mode=ro&immutable=1")) as copy:
        try:
            found: object = damage(copy) or ("" if held(copy) == there else "it has other rows than the journal")
        except sqlite3.Error as error:
            found = str(error)
    if found:
        raise JournalCorrupt(
            f"{path}: its backup does not check out ({found}) and was removed; run `rigctl journal verify`"
        )


def _settle(passing: Path, target: Path) -> None:
    """Have it on disk under its own name, unless something has that name by now."""
    system.sync(passing)
    try:
        os.link(passing, target)
    except OSError as error:
        if isinstance(error, FileExistsError) or target.exists():
            raise UsageError(f"{target}: is there by now, and a backup replaces nothing; choose another name") from None
        passing.rename(target)  # a file system without links
    system.sync(target.parent)


def _unwritten(target: Path, why: str) -> str:
    return f"{target}: the backup cannot be written ({why}); free space or choose another place; nothing of it is left"
