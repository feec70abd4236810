"""Spreadsheets as they are saved: .xlsx by openpyxl, .ods by its XML.

A cell becomes text as people see it, but of no country: 40.6 % is `40.6 %`, not .406; a date is in ISO 8601.
"""

from __future__ import annotations

import io
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree as ET

from rigctl.console.tables.numerals import Exact
from rigctl.errors import UsageError, reason
from rigctl.flaws import Flaw, got

MOST_UNPACKED: Final = 100_000_000
"""Bytes of XML: a million cells or so."""
MOST_COLUMNS: Final = 1000
MOST_CELLS: Final = 3_000_000
SAVE: Final = "save it as .xlsx, .ods or CSV in your spreadsheet"
_NS: Final = "{urn:oasis:names:tc:opendocument:xmlns:%s:1.0}"
_TABLE, _OFFICE, _TEXT = (_NS % name for name in ("table", "office", "text"))
_QUOTED: Final = re.compile(r'"[^"]*"|\\.|\[[^]]*\]')
"""What stands in Excel's number formats for itself."""
_ODS: Final = b"application/vnd.oasis.opendocument.spreadsheet"


@dataclass(frozen=True, slots=True)
class Cells:
    """Holds the cells of one sheet, or of a file without sheets, as text."""

    rows: list[tuple[int, list[str]]]
    """Number of the row, and its cells; without blank rows."""
    kind: str
    """Of spreadsheet; else the encoding of text."""
    separator: str = ""
    """Of columns of text."""
    name: str = ""
    others: tuple[str, ...] = ()
    """Names of the sheets that are not read."""
    hidden: frozenset[int] = frozenset()
    """Numbers of the rows that the spreadsheet does not show."""


def read_workbook(path: Path, data: bytes, wanted: str | None) -> Cells:
    """Read one sheet; by default the first that is shown.

    Raises:
        UsageError: it is no spreadsheet, is damaged or too large, or has no such sheet.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        _fits(path, archive)
        names = archive.namelist()
        if "xl/workbook.xml" in names:
            return _xlsx(path, archive, data, wanted)
        if "mimetype" in names and archive.read("mimetype").startswith(_ODS):
            return _ods(path, archive, wanted)
    except UsageError:
        raise
    except Exception as error:  # a damaged file makes openpyxl raise KeyError, TypeError, ParseError, ...
        lead = f"cannot be read as a spreadsheet ({reason(error)})"
        remedy = f"it is damaged or protected by a password: {SAVE}, without a password"
        raise UsageError(Flaw(lead, remedy=remedy, where=str(path))) from error
    raise UsageError(Flaw("is a ZIP archive without a sheet that can be read", remedy=SAVE, where=str(path)))


def _fits(path: Path, archive: zipfile.ZipFile) -> None:
    unpacked = sum(part.file_size for part in archive.infolist() if part.filename.endswith(".xml"))
    if unpacked > MOST_UNPACKED:
        lead, most = f"unpacks to {unpacked // 1_000_000} MB", f"must be at most {MOST_UNPACKED // 1_000_000} MB"
        raise UsageError(Flaw(lead, most, "keep the rows and columns with trials", where=str(path)))


def _chosen(path: Path, sheets: Sequence[str], hidden: Sequence[str], wanted: str | None) -> str:
    shown = [name for name in sheets if name not in hidden]
    if wanted is None and sheets:
        return (shown or sheets)[0]
    found = [name for name in sheets if wanted is not None and name.casefold() == wanted.strip().casefold()]
    if not found:
        raise UsageError(
            got(wanted, f"must be a sheet of {path}: {', '.join(sheets) or 'it has none'}", where="--sheet")
        )
    return found[0]


def _grid(cells: Mapping[tuple[int, int], str], kind: str, name: str, sheets: Sequence[str], hidden: Any) -> Cells:
    rows: dict[int, list[str]] = {}
    for (row, column), text in sorted(cells.items()):
        here = rows.setdefault(row, [])
        here += [""] * (column - 1 - len(here))
        here.append(text)
    others = tuple(other for other in sheets if other != name)
    return Cells(list(rows.items()), kind, "", name, others, frozenset(hidden))


def _fill_down(cells: dict[tuple[int, int], str], merged: Iterable[tuple[int, int, int]]) -> None:
    """Let rows that a merged cell reaches over have its text, too, as far as there is anything else in them.

    `cells` are by row and column; `merged` has of each merged cell its first row, last row and column.
    """
    rows = {row for row, _ in cells}
    for first, last, column in merged:
        for row in rows.intersection(range(first + 1, last + 1)) if (first, column) in cells else ():
            cells[row, column] = cells[first, column]


def _within(path: Path, column: int, cells: int) -> None:
    if column > MOST_COLUMNS or cells > MOST_CELLS:
        what = f"{MOST_COLUMNS} columns" if column > MOST_COLUMNS else f"{MOST_CELLS} cells"
        raise UsageError(f"{path}: has more than {what}; keep the rows and columns with trials")


# .xlsx ----------------------------------------------------------------------------------------------------------------


def _xlsx(path: Path, archive: zipfile.ZipFile, data: bytes, wanted: str | None) -> Cells:
    from openpyxl import load_workbook  # noqa: PLC0415  # only where there is such a file

    with warnings.catch_warnings(action="ignore"):  # pictures and rules for input, which it leaves out
        book = load_workbook(io.BytesIO(data), data_only=True)
        sheets = [sheet.title for sheet in book.worksheets]
        veiled = [sheet.title for sheet in book.worksheets if sheet.sheet_state != "visible"]
        name = _chosen(path, sheets, veiled, wanted)
        parts = [part for part in archive.namelist() if part.startswith("xl/worksheets/")]
        formulas = any(b"<f" in archive.read(part) for part in parts)
        sheet = book[name]
        told = _filled(load_workbook(io.BytesIO(data))[name]) if formulas else {}
    cells: dict[tuple[int, int], str] = {}
    for place, cell in _filled(sheet).items():
        text = _written(cell.value, cell.number_format)
        if not text and place in told and told[place].data_type == "f":
            text = str(told[place].value)  # nobody has computed it; as a number it is refused
        if text:
            _within(path, place[1], len(cells))
            cells[place] = text
    _fill_down(cells, ((area.min_row, area.max_row, area.min_col) for area in sheet.merged_cells.ranges))
    hidden = [row for row, shape in sheet.row_dimensions.items() if shape.hidden]
    return _grid(cells, "Excel", name, sheets, hidden)


def _filled(sheet: Any) -> Mapping[tuple[int, int], Any]:
    """Return the cells that the file has: of a column formatted to its end openpyxl's rows would be a million."""
    return sheet._cells  # type: ignore[no-any-return]  # noqa: SLF001


def _written(value: object, shape: str) -> str:
    """Return a value as text; `shape` is how Excel shows it."""
    if isinstance(value, bool) or value is None:
        return "" if value is None else str(value).upper()
    if isinstance(value, int | float):
        percent = "%" in _QUOTED.sub("", shape)  # in quotes it is no more than text behind the number
        return Exact(f"{100 * value:.15g} %") if percent else Exact(f"{value:.15g}")
    if isinstance(value, datetime):
        return str(value.date() if value.time() == time() else value)
    if isinstance(value, timedelta):
        return Exact(f"{value.total_seconds():.15g} s")
    return str(value).strip()


# .ods -----------------------------------------------------------------------------------------------------------------


def _ods(path: Path, archive: zipfile.ZipFile, wanted: str | None) -> Cells:
    book = ET.fromstring(archive.read("content.xml"))  # noqa: S314 - expat refuses entities that multiply
    found = book.iterfind(f".//{_OFFICE}spreadsheet/{_TABLE}table")
    tables = {table.get(f"{_TABLE}name", ""): table for table in found}
    name = _chosen(path, list(tables), (), wanted)
    cells: dict[tuple[int, int], str] = {}
    merged, hidden, row = [], [], 0
    for line in tables[name].iter(f"{_TABLE}table-row"):
        repeated = int(line.get(f"{_TABLE}number-rows-repeated", "1"))
        here = list(_ods_row(line))
        for number in range(row + 1, row + 1 + (repeated if here else 0)):
            for column, text, rows in here:
                _within(path, column, len(cells))
                cells[number, column] = text
                merged += [(number, number + rows - 1, column)] if rows > 1 else []
            if line.get(f"{_TABLE}visibility", "visible") != "visible":
                hidden.append(number)
        row += repeated
    _fill_down(cells, merged)
    return _grid(cells, "OpenDocument", name, list(tables), hidden)


def _ods_row(line: Any) -> Iterator[tuple[int, str, int]]:
    """Yield column, text and number of rows of each cell that has something in it."""
    column = 0
    for cell in line:
        if cell.tag not in (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell"):
            continue
        text, repeated = _ods_text(cell), int(cell.get(f"{_TABLE}number-columns-repeated", "1"))
        for number in range(column + 1, column + 1 + (repeated if text else 0)):
            yield number, text, int(cell.get(f"{_TABLE}number-rows-spanned", "1"))
        column += repeated


def _ods_text(cell: Any) -> str:
    kind, value = cell.get(f"{_OFFICE}value-type"), cell.get(f"{_OFFICE}value", "")
    shown = "\n".join("".join(part.itertext()) for part in cell.iterfind(f"{_TEXT}p")).strip()
    if kind in ("percentage", "float", "currency"):
        percent = kind == "percentage" or _shows_hundredfold(shown, float(value))
        unit = "%" if percent else cell.get(f"{_OFFICE}currency", "")
        return Exact(f"{float(value) * (100 if percent else 1):.15g} {unit}".strip())
    if kind == "boolean":
        return str(cell.get(f"{_OFFICE}boolean-value")).upper()
    if kind == "date":
        return str(cell.get(f"{_OFFICE}date-value")).replace("T00:00:00", "").replace("T", " ")
    return shown


def _shows_hundredfold(shown: str, value: float) -> bool:
    """Tell whether a plain number is shown as a percentage, as Gnumeric saves it; the sign alone may be mere text."""
    digits = re.sub(r"[^\d.-]", "", shown.replace(",", "."))
    if not shown.endswith("%") or not re.fullmatch(r"-?\d+(\.\d*)?", digits):
        return False
    return abs(float(digits) - 100 * value) < abs(float(digits) - value)
