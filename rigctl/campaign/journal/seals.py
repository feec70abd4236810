"""Checksums of everything that the tables hold, so that a bit flipped on the disk is found (fault 80).

SQLite's own check looks at the structure of a file, not at what stands in it. So each table has a seal: the sum of the
CRC-32 of all its rows, as Python writes them, and the sum of these times each row's key, its first column. Sums can be
kept while rows come, change and go, at the same price however many there are; they are the same in any order, and a
missing row shows as well as a changed one. Where a single row is not as it was, the two differences together give its
key. A seal is committed with the rows, so it holds after any crash.

The seal of a table that another program has changed is void (triggers in the file see to that), and is made anew when
the journal is next opened for writing: a person may edit a journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from rigctl.campaign.journal.rows import TABLES, VERSION

APPLICATION_ID: Final = 0x52494743
"""`RIGC`, in the file's header."""
SEALS: Final = """CREATE TABLE seals (  -- checksums, see seals.py
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
    """Of its file, which errors name."""


def lay_out(connection: sqlite3.Connection) -> None:
    """Make the tables of a journal in an empty file."""
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
    after = [
        (sums[0] + change[0], (sums[1] + change[1]) % _FIELD, table)
        for table, change in connection.changes.items()
        if (sums := before.get(table)) is not None
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
    """Of the one row that makes the difference."""

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
