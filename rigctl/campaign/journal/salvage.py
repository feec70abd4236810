"""What can still be read of a damaged journal: row by row, past what cannot be.

Nothing is written into the damaged file: a copy is read, whose header is put right if need be. Rows are read in the
order of their keys; where SQLite cannot go on, the next key that it can read is looked for, so that a bad page costs
the rows on it. Then the table's seal (see `integrity`) tells whether what was read is what was written. If it is not,
and a single row differs, the seal says which; if a single bit of it does, the seal says what it was.
"""

from __future__ import annotations

import shutil
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from rigctl.campaign.journal.database import connect
from rigctl.campaign.journal.integrity import MAGIC, Sums, has_table, lay_out, located, log_of, sums_of
from rigctl.campaign.journal.rows import TABLES
from rigctl.campaign.journal.table import Column
from rigctl.errors import JournalCorrupt

_TROUBLE: Final = (sqlite3.Error, MemoryError, OverflowError, UnicodeDecodeError)
_LAST_KEY: Final = 2**40
_ROOTS: Final = 64
"""Every table begins within as many pages."""
_MOST_CUT: Final = 2**30
"""Bytes that are believed to be missing at a file's end at most."""
_MENDABLE: Final = 8192
"""Bytes of a row up to which each bit is tried."""

Cells = tuple[Any, ...]
Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class SalvagedTable:
    """What was read of one table."""

    columns: tuple[Column, ...]
    rows: Mapping[Key, Cells]
    vouched: bool
    """Whether its seal holds for these rows, and nothing is missing."""
    lost: int
    """Rows that are known to be missing, or are not as they were written."""
    mended: tuple[Key, ...] = ()
    """Rows of which one bit had flipped."""

    def dicts(self) -> list[dict[str, Any]]:
        """Return the rows by column, in the order of their keys."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, self.rows[key], strict=True)) for key in sorted(self.rows)]


@dataclass(frozen=True, slots=True)
class Salvaged:
    """What was read of a journal."""

    tables: Mapping[str, SalvagedTable]
    whole: bool
    """Whether it was closed in good order: nothing can be missing that would not show."""


def salvage(path: Path, folder: Path) -> Salvaged:
    """Read a damaged journal from a copy, which is made in `folder`.

    Raises:
        JournalCorrupt: not even its list of tables can be read, or none of them holds a row.
    """
    copy = folder / "damaged.sqlite"
    shutil.copyfile(path, copy)
    had_log = log_of(path).exists()
    if had_log:
        shutil.copyfile(log_of(path), log_of(copy))
    _mend_header(copy, had_log)
    errors = []
    for with_our_schema in (False, True):
        try:
            if with_our_schema:
                _put_in_schema(copy)
            with closing(connect(copy)) as connection:
                connection.text_factory = lambda data: data.decode(errors="replace")
                connection.execute("PRAGMA writable_schema = ON")  # a damaged statement must not hide the others
                return _read(connection, path, had_log)
        except (*_TROUBLE, OSError) as error:
            errors.append(str(error))
    raise _hopeless(path, errors[0])


def _hopeless(path: Path, why: str) -> JournalCorrupt:
    return JournalCorrupt(
        f"{path}: nothing can be recovered from it ({why}); restore a backup, or try `sqlite3 {path.name} .recover` "
        "on a copy. The file was not touched",
        "hopeless",
    )


def _mend_header(copy: Path, had_log: bool) -> None:
    """Put into the copy's first bytes what every journal has there."""
    data = copy.read_bytes()[:100]
    if len(data) < 100:
        return
    (size,) = struct.unpack(">H", data[16:18])
    size = size if size >= 512 and size & (size - 1) == 0 else 4096
    form = 2 if had_log else 1
    head = bytearray(MAGIC + struct.pack(">H", size) + bytes([form, form, 0, 64, 32, 32]) + data[24:])
    head[44:48], head[56:60] = (4).to_bytes(4, "big"), (1).to_bytes(4, "big")
    # As many pages as it had, so that SQLite does not take those that are there for none of it.
    there, had = -(-copy.stat().st_size // size), int.from_bytes(data[28:32], "big")
    pages = max(there, _ROOTS, had if had <= there + _MOST_CUT // size else 0)
    head[28:32], head[92:96] = pages.to_bytes(4, "big"), head[24:28]
    with copy.open("r+b") as file:
        file.write(head)
        file.truncate(pages * size)


def _put_in_schema(copy: Path) -> None:
    """Put the list of tables of a new journal into the copy's pages.

    A journal is made in one go, so its tables begin at the same pages as a new one's.
    """
    ideal = copy.with_name("ideal.sqlite")
    with closing(sqlite3.connect(ideal, isolation_level=None)) as new:
        new.execute("BEGIN")
        lay_out(new)
        new.execute("COMMIT")
    size, data = 4096, ideal.read_bytes()
    cells, last = struct.unpack(">H", data[103:105])[0], struct.unpack(">I", data[108:112])[0]
    starts = struct.unpack(f">{cells}H", data[112 : 112 + 2 * cells])
    children = [struct.unpack(">I", data[start : start + 4])[0] for start in starts]
    with copy.open("r+b") as file:
        for page in (1, last, *children):
            head = 100 if page == 1 else 0
            file.seek((page - 1) * size + head)
            file.write(data[(page - 1) * size + head : page * size])


def _read(connection: sqlite3.Connection, path: Path, had_log: bool) -> Salvaged:
    connection.execute("SELECT name FROM sqlite_master").fetchall()  # raises where it cannot be read
    seals = _seals(connection)
    tables = {name: _table(connection, name, seals.get(name)) for name in TABLES}
    if not any(table.rows for table in tables.values()):
        raise _hopeless(path, "no row of it can be read")
    last = max(((row["id"], row["closed"]) for row in tables["starts"].dicts()), default=(0, 0))
    return Salvaged(tables, had_log or bool(last[1]))


def _seals(connection: sqlite3.Connection) -> dict[str, Sums]:
    try:
        there = has_table(connection, "seals")
        rows = connection.execute("SELECT name, digest, place FROM seals").fetchall() if there else ()
    except _TROUBLE:
        return {}
    return {name: (sums[0], sums[1]) for name, *sums in rows if all(isinstance(number, int) for number in sums)}


# One table ------------------------------------------------------------------------------------------------------------


def _table(connection: sqlite3.Connection, table: str, seal: Sums | None) -> SalvagedTable:
    columns, keys = tuple(TABLES[table].columns.values()), len(TABLES[table].key)
    rows: dict[Key, Cells] = {}
    skipped: list[int] = []
    odd = 0
    for cells in _cells(connection, table, columns, skipped):
        if all(column.fits(cell) for column, cell in zip(columns, cells, strict=True)):
            rows[cells[:keys]] = cells
        else:
            odd += 1
    odd = max(odd, len(skipped))
    # rows are numbered without gaps, and never go
    gaps = max(key[0] for key in rows) - len(rows) if rows and columns[0].name == "id" and table != "campaign" else 0
    if seal is None:
        return SalvagedTable(columns, rows, vouched=False, lost=max(odd, gaps))
    found = sums_of(rows.values())
    if found == seal:
        return SalvagedTable(columns, rows, vouched=True, lost=0)
    key, off = located(seal, found), seal[0] - found[0]
    wrong = [k for k in rows if k[0] == key]
    for k in wrong:  # of a table with several rows of one trial, any of them may be the one
        good = _one_bit_off(rows[k], crc32(repr(rows[k]).encode()) + off)
        if good is not None:
            return SalvagedTable(columns, {**rows, k: good}, vouched=True, lost=0, mended=(k,))
    # without its campaign a journal is none: rather one that nothing vouches for
    dropped = wrong if len(wrong) == 1 and table != "campaign" else []
    kept = {k: cells for k, cells in rows.items() if k not in dropped}
    return SalvagedTable(columns, kept, vouched=False, lost=max(odd, gaps, len(rows) - len(kept), 1))


def _cells(
    connection: sqlite3.Connection, table: str, columns: tuple[Column, ...], skipped: list[int]
) -> Iterator[Cells]:
    """Yield the rows from the first key on; where one cannot be read, note that, and go on with the next that can."""
    key, names = columns[0].name, ", ".join(column.name for column in columns)
    sql = f"SELECT {names} FROM {table} NOT INDEXED WHERE {key} >= ? ORDER BY {key}"  # noqa: S608 - our own names
    start: int | None = -1
    if not has_table(connection, table):  # it is gone, or a view is in its place, which may be endless
        skipped.append(0)
        return
    while start is not None:
        last: int = start
        try:
            for cells in connection.execute(sql, (start,)):
                last = int(cells[0]) if isinstance(cells[0], int) else last
                yield cells
            start = None
        except _TROUBLE:
            skipped.append(last + 1)
            start = _next_readable(connection, f"{sql} LIMIT 1", last + 1)


def _next_readable(connection: sqlite3.Connection, sql: str, start: int) -> int | None:
    """Return the least key from which on something can be read; None: nothing more."""

    def readable(key: int) -> bool:
        try:
            connection.execute(sql, (key,)).fetchone()
        except _TROUBLE:
            return False
        return True

    step = 1
    while not readable(start + step - 1):
        step *= 2
        if start + step > _LAST_KEY:
            return None
    low, high = start + step // 2 - 1, start + step - 1  # not readable (or just before the start), readable
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if readable(middle) else (middle, high)
    return high


# A bit that flipped ---------------------------------------------------------------------------------------------------


def _one_bit_off(cells: Cells, checksum: int) -> Cells | None:
    """Return the row with one bit of it flipped back, so that it has this checksum; None: no bit does."""
    for number, cell in enumerate(cells):
        for candidate in _flipped(cell):
            row = (*cells[:number], candidate, *cells[number + 1 :])
            if crc32(repr(row).encode()) == checksum:
                return row
    return None


def _flipped(cell: Any) -> Iterator[Any]:
    if isinstance(cell, str) and len(cell) <= _MENDABLE:
        data = bytearray(cell.encode(errors="replace"))
        for bit in range(8 * len(data)):
            data[bit // 8] ^= 1 << bit % 8
            yield data.decode(errors="replace")
            data[bit // 8] ^= 1 << bit % 8
    elif isinstance(cell, int):
        yield from ((cell ^ (1 << bit)) for bit in range(63))
    elif isinstance(cell, float):
        (bits,) = struct.unpack("<Q", struct.pack("<d", cell))
        yield from (struct.unpack("<d", struct.pack("<Q", bits ^ (1 << bit)))[0] for bit in range(64))
