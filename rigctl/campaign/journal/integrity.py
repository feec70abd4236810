"""Whether a journal's file is what was written: its header, its schema, and what stands in its tables (33, 79, 80, 88).

SQLite's own check looks at the structure of a file, not at what stands in it. So each table has a seal: the sum of the
CRC-32 of all its rows, as Python writes them, and the sum of these times each row's key, its first column. Sums can be
kept while rows come, change and go, at the same price however many there are; they are the same in any order, and a
missing row shows as well as a changed one. Where a single row is not as it was, the two differences together give its
key. A seal is committed with the rows, so it holds after any crash.

The seal of a table that another program has changed is void (triggers in the file see to that), and is made anew when
the journal is next opened for writing: a person may edit a journal.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from rigctl.campaign.journal.rows import TABLES, VERSION

APPLICATION_ID: Final = 0x52494743
"""`RIGC`, in the file's header."""
SEALS: Final = """CREATE TABLE seals (  -- checksums, see integrity.py
    name TEXT PRIMARY KEY,  -- of the table, or user_version
    digest INTEGER,  -- NULL: changed by another program since
    place INTEGER  -- the same sum, each row's share times its key
) WITHOUT ROWID"""
VERSION_SEAL: Final = "user_version"
"""The journal's version, which stands in the file's header too."""
_FIELD: Final = 2**61 - 1
"""A prime: weighted sums are kept modulo it, fit SQLite's integers, and can be divided."""
_LARGEST_KEY: Final = 2**31
"""What the two differences give where more than one row has changed is hardly ever as small."""
_CHANGES: Final = {"INSERT": (("NEW", 1),), "DELETE": (("OLD", -1),), "UPDATE": (("OLD", -1), ("NEW", 1))}


Sums = tuple[int, int]


class SealingConnection(sqlite3.Connection):
    """A connection whose transactions keep the seals."""

    changes: dict[str, Sums] | None = None
    """By table: what this transaction has changed of its seal. None: not watching (yet)."""
    path = Path()
    """Its file, which errors name."""


def lay_out(connection: sqlite3.Connection) -> None:
    """Make the tables of a journal in an empty file, and say whose it is."""
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute(SEALS)
    for table in TABLES.values():
        for statement in table.definition():
            connection.execute(statement)


def has_table(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether there is such a table; in a damaged file it may be gone, or a view in its place."""
    rows = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ? AND sql LIKE 'CREATE TABLE%'", (name,))
    return rows.fetchone() is not None


def watch(connection: SealingConnection) -> None:
    """Count every change of a row towards its table's seal from now on."""
    changes: dict[str, Sums] = {}

    def count(table: str, sign: int, *row: Any) -> None:
        digest, place = changes.get(table, (0, 0))
        checksum, weighted = _of(row)
        changes[table] = digest + sign * checksum, place + sign * weighted

    connection.create_function("count_towards_seal", -1, count)
    connection.execute("PRAGMA temp_store = MEMORY")
    for table, declared in TABLES.items():
        for event, rows in _CHANGES.items():
            counted = " ".join(
                f"SELECT count_towards_seal('{table}', {sign}, {', '.join(f'{row}.{c}' for c in declared.columns)});"
                for row, sign in rows
            )
            connection.execute(
                f"CREATE TEMP TRIGGER count_{table}_{event} AFTER {event} ON main.{table} BEGIN {counted} END"
            )
    connection.changes = changes


@contextmanager
def sealing(connection: sqlite3.Connection) -> Iterator[None]:
    """Seal what the block changes when it ends; inside a transaction."""
    if not isinstance(connection, SealingConnection) or connection.changes is None:
        yield
        return
    before = _seals(connection)
    connection.changes.clear()
    yield
    sealed = {table: sums for table, sums in before.items() if sums is not None}
    after = [
        (sealed[table][0] + change[0], (sealed[table][1] + change[1]) % _FIELD, table)
        for table, change in connection.changes.items()
        if table in sealed
    ]
    connection.executemany("UPDATE seals SET digest = ?, place = ? WHERE name = ?", after)


def seal(connection: sqlite3.Connection) -> None:
    sealed = {name for name, sums in _seals(connection).items() if sums is not None}
    made = {VERSION_SEAL: (VERSION, 0)} | {t: _sums(connection, t) for t in TABLES if t not in sealed}
    rows = [(name, *sums) for name, sums in made.items()]
    connection.executemany("INSERT OR REPLACE INTO seals (name, digest, place) VALUES (?, ?, ?)", rows)


def unsealed(connection: sqlite3.Connection) -> bool:
    """Tell whether a table has no seal: it is new, or another program has changed or recovered it."""
    (sealed,) = connection.execute("SELECT count(digest) FROM seals").fetchone()
    return bool(sealed <= len(TABLES))


def void_seals(connection: sqlite3.Connection) -> tuple[str, ...]:
    """Return the tables that another program has changed since they were sealed."""
    return tuple(name for name, sums in _seals(connection).items() if sums is None)


@dataclass(frozen=True, slots=True)
class Damage:
    """What does not check out."""

    what: str
    table: str = ""
    """Whose checksum does not hold."""
    key: int | None = None
    """The one row that makes the difference."""

    def __str__(self) -> str:
        return self.what if self.key is None else f"{self.what}: look at {TABLES[self.table].key[0]} {self.key}"


def broken_seal(connection: sqlite3.Connection) -> Damage | None:
    """Return what is not as it was sealed; None if everything is."""
    seals = _seals(connection)
    if not seals:  # as a person leaves it who has recovered the file and checked it
        return None
    if set(seals) != {VERSION_SEAL, *TABLES}:
        return Damage("the list of its checksums is not complete")
    for table in TABLES:
        sealed, found = seals[table], _sums(connection, table)
        if sealed is not None and sealed != found:
            return Damage(f"the checksum of its table {table} does not hold", table, located(sealed, found))
    return None


def located(sealed: Sums, found: Sums) -> int | None:
    """Return the key of the one row that makes the difference; None where more than one does."""
    off, weighted = ((was - now) % _FIELD for was, now in zip(sealed, found, strict=True))
    key = weighted * pow(off, -1, _FIELD) % _FIELD if off else _FIELD
    return key if key < _LARGEST_KEY else None


def _seals(connection: sqlite3.Connection) -> dict[str, Sums | None]:
    """Return the seals by table, None where one is void.

    Raises:
        sqlite3.DatabaseError: one is no whole number; one bit decides what kind of value SQLite takes it for.
    """
    rows = connection.execute("SELECT name, digest, place FROM seals").fetchall()
    if not all(isinstance(value, int | None) for _, *values in rows for value in values):
        raise sqlite3.DatabaseError("a checksum of its tables is no whole number")
    return {name: None if digest is None else (digest, place or 0) for name, digest, place in rows}


def _sums(connection: sqlite3.Connection, table: str) -> Sums:
    return sums_of(connection.execute(f"SELECT * FROM {table}"))  # noqa: S608 - our own names


def sums_of(rows: Iterable[tuple[Any, ...]]) -> Sums:
    """Return what the seal of a table with these rows is."""
    digest = place = 0
    for row in rows:
        checksum, weighted = _of(row)
        digest, place = digest + checksum, place + weighted
    return digest, place % _FIELD


def _of(row: tuple[Any, ...]) -> Sums:
    checksum = crc32(repr(row).encode())
    return checksum, checksum * row[0] if isinstance(row[0], int) else 0


# The file as a whole --------------------------------------------------------------------------------------------------

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


def pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


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
    if (pragma(connection, "application_id") ^ APPLICATION_ID).bit_count() == 1:
        return Damage("a bit of its application id is not as it was written")
    version = pragma(connection, "user_version")
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
    if (pragma(connection, "user_version"), pragma(connection, "application_id")) != (VERSION, APPLICATION_ID):
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
    return broken_seal(connection) if pragma(connection, "user_version") == VERSION else None


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
    return sqlite3.sqlite_version_info


def for_threads() -> bool:
    """Tell whether it may be used from more than one thread."""
    return sqlite3.threadsafety > 0


def reset_bug(version: tuple[int, ...]) -> bool:
    """Tell whether a write may be lost when two connections write and one resets the log."""
    if version < (3, 7, 0) or version >= max(WAL_RESET_FIXED):
        return False
    return not any(version[:2] == fixed[:2] and version >= fixed for fixed in WAL_RESET_FIXED)
