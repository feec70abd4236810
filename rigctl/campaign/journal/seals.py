"""Checksums of everything that the tables hold, so that a bit flipped on the disk is found (fault 80).

SQLite's own check looks at the structure of a file, not at what stands in it. So each table has a seal: the sum of the
CRC-32 of all its rows, as Python writes them. A sum can be kept while rows come, change and go, is the same in any
order, and a missing row shows as well as a changed one. It is committed with the rows, so it holds after any crash.

The seal of a table that another program has changed is void (triggers in the file see to that), and is made anew when
the journal is next opened for writing: a person may edit a journal.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from zlib import crc32

from rigctl.campaign.journal.schema import SEALED_TABLES, has_table

VERSION_SEAL: Final = "user_version"
"""The journal's version, which stands in the file's header too."""
_CHANGES: Final = {"INSERT": (("NEW", 1),), "DELETE": (("OLD", -1),), "UPDATE": (("OLD", -1), ("NEW", 1))}


class SealingConnection(sqlite3.Connection):
    """A connection whose transactions keep the seals."""

    changes: dict[str, int] | None = None
    """By table: what this transaction has changed of its seal. None: not watching (yet)."""


def watch(connection: SealingConnection) -> None:
    """From now on every change of a row is counted towards its table's seal."""
    changes: dict[str, int] = {}

    def count(table: str, sign: int, *row: Any) -> None:
        changes[table] = changes.get(table, 0) + sign * _of(row)

    connection.create_function("count_towards_seal", -1, count)
    connection.execute("PRAGMA temp_store = MEMORY")
    for table in SEALED_TABLES:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for event, rows in _CHANGES.items():
            counted = " ".join(
                f"SELECT count_towards_seal('{table}', {sign}, {', '.join(f'{row}.{c}' for c in columns)});"
                for row, sign in rows
            )
            connection.execute(
                f"CREATE TEMP TRIGGER count_{table}_{event} AFTER {event} ON main.{table} BEGIN {counted} END"
            )
    connection.changes = changes


@contextmanager
def sealing(connection: sqlite3.Connection) -> Iterator[None]:
    """Inside a transaction: what the block changes is sealed when it ends."""
    if not isinstance(connection, SealingConnection) or connection.changes is None:
        yield
        return
    before = dict(connection.execute("SELECT name, digest FROM seals"))
    connection.changes.clear()
    yield
    after = [(before[t] + change, t) for t, change in connection.changes.items() if before.get(t) is not None]
    connection.executemany("UPDATE seals SET digest = ? WHERE name = ?", after)


def seal(connection: sqlite3.Connection, version: int) -> None:
    """Inside a transaction: seal what is not sealed."""
    sealed = {name for name, digest in connection.execute("SELECT name, digest FROM seals") if digest is not None}
    digests = {VERSION_SEAL: version} | {t: _digest(connection, t) for t in SEALED_TABLES if t not in sealed}
    connection.executemany("INSERT OR REPLACE INTO seals (name, digest) VALUES (?, ?)", digests.items())


def unsealed(connection: sqlite3.Connection) -> bool:
    """Whether a table has no seal: an older version wrote it, another program has changed it or recovered the file."""
    if not has_table(connection, "seals"):
        return True
    (sealed,) = connection.execute("SELECT count(digest) FROM seals").fetchone()
    return bool(sealed <= len(SEALED_TABLES))


def broken_seal(connection: sqlite3.Connection) -> str:
    """What is not as it was sealed; empty if everything is."""
    seals = dict(connection.execute("SELECT name, digest FROM seals"))
    if not seals:  # as a person leaves it who has recovered the file and checked it
        return ""
    if set(seals) != {VERSION_SEAL, *SEALED_TABLES}:
        return "the list of its checksums is not complete"
    for table in SEALED_TABLES:
        if seals[table] is not None and seals[table] != _digest(connection, table):
            return f"the checksum of its table {table} does not hold"
    return ""


def _digest(connection: sqlite3.Connection, table: str) -> int:
    return sum(map(_of, connection.execute(f"SELECT * FROM {table}")))  # noqa: S608 - our own names


def _of(row: tuple[Any, ...]) -> int:
    return crc32(repr(row).encode())
