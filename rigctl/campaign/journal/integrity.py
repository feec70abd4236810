"""Whether a journal's file is whole: its header, structure, tables and what stands in them (faults 33, 79, 80)."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Final

from rigctl.campaign.journal.rows import VERSION
from rigctl.campaign.journal.seals import APPLICATION_ID, VERSION_SEAL, Damage, broken_seal, has_table, lay_out

MAGIC: Final = b"SQLite format 3\x00"
_FORMATS: Final = (b"\x01\x01", b"\x02\x02")
"""Bytes 18 and 19 of the header: with a rollback journal, with a log."""
_PASSING: Final = frozenset(
    {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_FULL}
    | {sqlite3.SQLITE_INTERRUPT}
)
"""Primary codes of errors that say nothing of what stands in the file, or are told where they are caught."""


def log_of(path: Path) -> Path:
    """Return the path of SQLite's write-ahead log: what is committed and not yet in the file itself."""
    return path.with_name(path.name + "-wal")


def damaged_header(path: Path) -> str:
    """Say what is wrong with the first bytes; empty if nothing is, or there are none."""
    with path.open("rb") as file:
        head = file.read(20)
    if head and head[:16] != MAGIC:
        return "its header is not SQLite's"
    return "" if len(head) < 20 or head[18:] in _FORMATS else "its header names no format there is"


def never_begun(path: Path) -> bool:
    """Tell whether nothing was ever kept there.

    The very first transaction, the only one with a rollback journal, was cut short before a byte of the file was on
    disk; SQLite takes it back, whatever length the file has.
    """
    if path.stat().st_size == 0:
        return True
    return path.with_name(path.name + "-journal").exists() and not any(path.read_bytes())


def damage(connection: sqlite3.Connection) -> Damage | None:
    """Return what does not check out; None if all does. Other programs' and other versions' files are left alone.

    Raises:
        sqlite3.Error: it cannot be read now, whatever stands in it.
    """
    try:
        return _flipped(connection) or redefined(connection) or _broken(connection)
    except (MemoryError, UnicodeDecodeError) as error:  # a length, or a name, that cannot be true
        return Damage(f"{type(error).__name__}: {error}")
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING:
            raise
        return Damage(str(error))


def _flipped(connection: sqlite3.Connection) -> Damage | None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if (application ^ APPLICATION_ID).bit_count() == 1:
        return Damage("a bit of its application id is not as it was written")
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == VERSION or not has_table(connection, "seals"):
        return None
    sealed = connection.execute("SELECT digest FROM seals WHERE name = ?", (VERSION_SEAL,)).fetchone()
    if sealed is None or not isinstance(sealed[0], int):
        return None
    # another rigctl would have sealed its own version
    one_bit = (sealed[0] ^ version).bit_count() == 1
    return Damage("a bit of its version is not as it was written") if one_bit else None


def redefined(connection: sqlite3.Connection) -> Damage | None:
    """Return which tables, views, indexes and triggers are not as they were made, or nobody here made (fault 88).

    Asked before anything is read: a view in a table's place may be endless, and a trigger may do anything.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if version != VERSION or application != APPLICATION_ID:
        return None
    made, there = _made(), _objects(connection)
    lost = sorted({name for name, _ in made - there})
    added = sorted({name for name, _ in there - made}.difference(lost))
    told = [f"not as it was made: {', '.join(lost)}"] if lost else []
    told += [f"not made by rigctl: {', '.join(added)}"] if added else []
    return Damage("; ".join(told)) if told else None


@cache  # each verb opens the journal more than once
def _made() -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as ideal:
        lay_out(ideal)
        return frozenset(_objects(ideal))


def _broken(connection: sqlite3.Connection) -> Damage | None:
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(3)")]
    if found != ["ok"]:
        return Damage("; ".join(found))
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return broken_seal(connection) if version == VERSION else None


def _objects(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    """Return tables, views, indexes and triggers, by name and definition without its comments.

    Statistics that a person has had SQLite collect are left out: they change no answer.
    """
    sql = "SELECT type || ' ' || name, tbl_name || ' ' || coalesce(sql, '') FROM sqlite_master"
    rows = connection.execute(f"{sql} WHERE name NOT GLOB 'sqlite_stat[1-4]'")
    return {(name, " ".join(re.sub(r"--[^\n]*", "", sql).split())) for name, sql in rows}


def lost_its_file(path: Path) -> bool:
    """Tell whether there is a log but no journal: SQLite would make a new file and drop the log."""
    there, log = (p.stat().st_size if p.exists() else 0 for p in (path, log_of(path)))
    return log > 0 and not there


def lost_its_log(connection: sqlite3.Connection, path: Path) -> bool:
    """Tell whether the file was not closed in good order, and the log that has the rest is not there."""
    if log_of(path).exists() or not has_table(connection, "starts"):
        return False
    closed = connection.execute("SELECT closed FROM starts ORDER BY id DESC LIMIT 1").fetchone()
    return closed is not None and not closed[0] and not log_of(path).exists()


# The library ----------------------------------------------------------------------------------------------------------

WAL_RESET_FIXED: Final = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""Releases from which on their series are rid of https://sqlite.org/wal.html#walresetbug."""


def sqlite_version() -> tuple[int, ...]:
    """Return the version that this Python uses."""
    return sqlite3.sqlite_version_info


def for_threads() -> bool:
    """Tell whether it may be used from more than one thread."""
    return sqlite3.threadsafety > 0


def reset_bug(version: tuple[int, ...]) -> bool:
    """Tell whether a write may be lost when two connections write and one resets the log."""
    if version < (3, 7, 0) or version >= max(WAL_RESET_FIXED):
        return False
    return not any(version[:2] == fixed[:2] and version >= fixed for fixed in WAL_RESET_FIXED)
