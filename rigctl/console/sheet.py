"""Files of tables: text whatever its encoding and separator, cut into a header and rows of cells."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rigctl.errors import UsageError, reason
from rigctl.flaws import Flaw
from rigctl.plugins import did_you_mean

SEPARATORS: Final = (";", "\t", ",", "|")
MOST_ROWS = 100_000
HEADER_WITHIN = 20
"""Lines in which the header stands, below a title."""
NOT_CSV: Final = (
    (b"PK\x03\x04", "an .xlsx or .ods spreadsheet"),
    (b"\xd0\xcf\x11\xe0", "an .xls spreadsheet"),
    (b"%PDF", "a PDF"),
    (b"SQLite format 3", "a database; `rigctl suggest --history` reads a journal"),
)
_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


@dataclass(frozen=True, slots=True)
class Sheet:
    """Holds a table as text."""

    header: tuple[str, ...]
    header_line: int
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Line of the file, and its cells, as many as the header has; without blank lines."""
    encoding: str
    separator: str


def read_sheet(path: Path, known: Callable[[str], bool], separator: str | None = None) -> Sheet:
    """Read a table.

    Args:
        path: the file.
        known: tells whether a header's text names something that is looked for; the header is the line with most.
        separator: of columns; None: as it is found.

    Raises:
        UsageError: it is not there, no table of text, or has no header; says what to do.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {unread(path, error)}") from error
    for magic, what in NOT_CSV:
        if data.startswith(magic):
            raise UsageError(
                Flaw(f"is {what}", "must be text", "save it as CSV in your spreadsheet, and give that", where=str(path))
            )
    text, encoding = _decoded(data)
    lines = text.split("\n", 1)
    told = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)  # as Excel writes it
    found = separator or (told[1] if told else _separator(text))
    try:
        table = _table(text, found)
    except csv.Error as error:
        raise UsageError(f"{path}: {unread(path, error)}") from error
    if told:
        table = [(line, cells) for line, cells in table if line > 1]
    return _sheet(path, table, known, encoding, found)


def unread(path: Path, error: Exception) -> str:
    """Say why a table cannot be read, and where it was looked for."""
    if isinstance(error, IsADirectoryError):
        return "is a folder, must be a table saved as CSV"
    if isinstance(error, UnicodeDecodeError):
        return 'is not in UTF-8, must be text; save it as "CSV UTF-8" in your spreadsheet'
    if not isinstance(error, FileNotFoundError):
        return f"cannot be read{'' if isinstance(error, OSError) else ' as CSV'}: {reason(error)}"
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"cannot be read: there is no folder {folder}"
    tables = sorted(str(path.with_name(file.name)) for file in folder.glob("*.csv"))
    near = did_you_mean(str(path), tables) or (f"there are {', '.join(tables[:5])}" if tables else "")
    return f"cannot be read: there is no such file in {folder}; {near or 'save the table there as CSV'}"


def _sheet(
    path: Path, table: list[tuple[int, list[str]]], known: Callable[[str], bool], encoding: str, separator: str
) -> Sheet:
    if not table:
        raise UsageError(Flaw("is empty", "must have a header and one row per trial", where=str(path)))
    counts = [sum(map(known, cells)) for _, cells in table[:HEADER_WITHIN]]
    at = counts.index(max(counts))
    line, cells = table[at]
    header = tuple(cell.strip() for cell in cells)
    while header and not header[-1]:
        header = header[:-1]
    rows = []
    for number, row in table[at + 1 :]:
        if any(cell.strip() for cell in row[len(header) :]):
            raise UsageError(
                f"{path}:{number}: got {len(row)} columns, the header in line {line} has {len(header)}; "
                "a comma in a number may have been taken for a separator: quote it, or save with semicolons"
            )
        rows.append((number, tuple(cell.strip() for cell in (row + [""] * len(header))[: len(header)])))
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{path}: has {len(rows)} rows, at most {MOST_ROWS} are taken")
    return Sheet(header, line, tuple(rows), encoding, separator)


def _table(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank, with their numbers."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    table, line = [], 1
    for cells in reader:
        if any(cell.strip() for cell in cells):
            table.append((line, cells))
        line = reader.line_num + 1  # a cell may have several lines
    return table


def _decoded(data: bytes) -> tuple[str, str]:
    for bom, name in _BOMS:
        if data.startswith(bom):
            return data.decode(name, errors="replace"), "UTF-16" if name == "utf-16" else "UTF-8"
    if data[1:2] == b"\0" or data[:1] == b"\0":  # text in Latin letters, without a mark at its head
        return data.decode("utf-16-le" if data[1:2] == b"\0" else "utf-16-be", errors="replace"), "UTF-16"
    try:
        return data.decode("utf-8"), "UTF-8"
    except UnicodeDecodeError:
        pass
    try:
        return data.decode("cp1252"), "Windows-1252 (Latin-1)"
    except UnicodeDecodeError:
        return data.decode("latin-1"), "Latin-1"


def _separator(text: str) -> str:
    """Return what cuts most lines into the same number of columns, and into most."""
    head = "\n".join(line for line in text.splitlines() if line.strip())[:20_000]

    def worth(separator: str) -> tuple[float, int]:
        try:
            widths = [len(cells) for _, cells in _table(head, separator)][:50]
        except csv.Error:
            return 0.0, 0
        usual = max(set(widths), key=lambda w: (widths.count(w), w), default=1)
        return (widths.count(usual) / len(widths) if usual > 1 else 0.0), usual

    return max(SEPARATORS, key=worth)
