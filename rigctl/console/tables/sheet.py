"""Files of tables: spreadsheets, and text whatever its encoding and separator, cut into a header and rows of cells."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Final

from rigctl.console.options import TableFlags
from rigctl.console.tables.numerals import is_number
from rigctl.console.tables.workbook import SAVE, Cells, read_workbook
from rigctl.errors import UsageError, reason
from rigctl.flaws import Flaw, got
from rigctl.plugins import did_you_mean

TABLES: Final = (".csv", ".xlsx", ".ods")
ZIPPED: Final = b"PK\x03\x04"
SEPARATORS: Final = (";", "\t", ",", "|")
MOST_ROWS = 100_000
MOST_LISTED: Final = 5
"""Places with the same mistake; more are counted."""
HEADER_WITHIN = 20
"""Lines in which the header stands, below a title."""
NOT_CSV: Final = (
    (b"\xd0\xcf\x11\xe0", "an .xls spreadsheet of old, or protected by a password"),
    (b"%PDF", "a PDF"),
    (b"<", "XML or HTML, whatever its name"),
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

    path: Path
    header: tuple[str, ...]
    header_line: int
    rows: tuple[tuple[int, tuple[str, ...]], ...]
    """Line of the file, and its cells, as many as the header has; without blank lines."""
    grid: Cells
    """What it is made of."""

    def cells(self, *places: tuple[int, int | None]) -> str:
        """Return where in it rows (column None) or cells stand, as people see it: `rows 7, 8`, `B7, B8`, or `line 7`.

        Of many the first few are named, and the others are counted.
        """
        whole = not self.grid.name or places[0][1] is None
        named = [f"{'' if whole or n is None else letters(n)}{line}" for line, n in places[:MOST_LISTED]]
        noun = "" if not whole else f"{'row' if self.grid.name else 'line'}{'s' if len(places) > 1 else ''} "
        more = len(places) - MOST_LISTED
        return f"{noun}{', '.join(named)}{f' and {more} more' if more > 0 else ''}"

    def place(self, line: int, column: int | None = None) -> str:
        """Return the same of one with the file, and the sheet where there are some: `old.xlsx: Trials: B7`."""
        if self.grid.name:
            return f"{self.path}: {self.grid.name}: {self.cells((line, column))}"
        return f"{self.path}:{line}" if line else str(self.path)


def letters(column: int) -> str:
    """Return the letters that a spreadsheet has above a column; the first, A, is 0."""
    before, last = divmod(column, 26)
    return (letters(before - 1) if before else "") + chr(ord("A") + last)


def read_sheet(path: Path, known: Callable[[str], bool], said: TableFlags) -> Sheet:
    """Read a table; its header is the line with most texts that `known` takes for the name of a column.

    Raises:
        UsageError: it is not there, no table, or has no header; says what to do.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {unread(path, error)}") from error
    for magic, what in NOT_CSV:
        if data.startswith(magic):
            raise UsageError(Flaw(f"is {what}", "must be a table", SAVE, where=str(path)))
    if data.startswith(ZIPPED):
        return _sheet(path, read_workbook(path, data, said.sheet), known, said)
    if said.sheet is not None:
        raise UsageError(got(said.sheet, f"must not be given: {path} is text, without sheets", where="--sheet"))
    text, encoding = _decoded(data)
    lines = text.split("\n", 1)
    told = re.fullmatch(r'"?sep=(.)"?\s*', lines[0], re.IGNORECASE)  # as Excel writes it
    found = _one(said.separator) or (told[1] if told else _separator(text))
    try:
        table = _table(text, found)
    except csv.Error as error:
        raise UsageError(f"{path}: {unread(path, error)}") from error
    if told:
        table = [(line, cells) for line, cells in table if line > 1]
    return _sheet(path, Cells(table, encoding, found), known, said)


def _one(separator: str | None) -> str | None:
    one = {"tab": "\t", "\\t": "\t"}.get(separator or "", separator)
    if one is not None and len(one) != 1:
        raise UsageError(got(separator, "must be one character, or tab", where="--separator"))
    return one


def unread(path: Path, error: Exception) -> str:
    """Say why a table cannot be read, and where it was looked for."""
    if isinstance(error, IsADirectoryError):
        return "is a folder, must be a table"
    if isinstance(error, UnicodeDecodeError):
        return 'is not in UTF-8, must be text; save it as "CSV UTF-8" in your spreadsheet'
    if not isinstance(error, FileNotFoundError):
        return f"cannot be read{'' if isinstance(error, OSError) else ' as CSV'}: {reason(error)}"
    folder = path.absolute().parent
    if not folder.is_dir():
        return f"cannot be read: there is no folder {folder}"
    tables = sorted(str(path.with_name(file.name)) for file in folder.iterdir() if file.suffix.lower() in TABLES)
    near = did_you_mean(str(path), tables) or (f"there are {', '.join(tables[:5])}" if tables else "")
    return f"cannot be read: there is no such file in {folder}; {near or 'save the table there'}"


def _sheet(path: Path, grid: Cells, known: Callable[[str], bool], said: TableFlags) -> Sheet:
    table = grid.rows
    if not table:
        raise UsageError(Flaw("is empty", "must have a header and one row per trial", where=str(path)))
    lines = [line for line, _ in table]
    if said.header is not None and said.header not in lines:
        raise UsageError(got(said.header, f"must be a line of {path} that is not blank", where="--header"))
    at = _header(table[:HEADER_WITHIN], known) if said.header is None else lines.index(said.header)
    line, cells = table[at]
    header = tuple(cells)
    while header and not header[-1]:
        header = header[:-1]
    rows = []
    for number, row in table[at + 1 :]:
        if grid.separator and any(row[len(header) :]):
            raise UsageError(
                f"{path}:{number}: got {len(row)} columns, the header in line {line} has {len(header)}; "
                "a comma in a number may have been taken for a separator: quote it, or save with semicolons"
            )
        rows.append((number, tuple((row + [""] * len(header))[: len(header)])))
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{path}: has {len(rows)} rows, at most {MOST_ROWS} are taken")
    return Sheet(path, header, line, tuple(rows), grid)


def _header(table: Sequence[tuple[int, Sequence[str]]], known: Callable[[str], bool]) -> int:
    """Return which row is the header: the one with most known names; if none has any, the one with most texts."""
    texts = [len({cell for cell in cells if cell and not is_number(cell)}) for _, cells in table]
    counts = [
        (sum(map(known, cells)) if 2 * text > len(list(filter(None, cells))) else 0, text)
        for text, (_, cells) in zip(texts, table, strict=True)
    ]
    return counts.index(max(counts, key=itemgetter(0) if any(count for count, _ in counts) else itemgetter(1)))


def _table(text: str, separator: str) -> list[tuple[int, list[str]]]:
    """Return the lines that are not blank, with their numbers."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    table, line = [], 1
    for row in reader:
        cells = [cell.strip() for cell in row]
        if any(cells):
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
