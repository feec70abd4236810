"""Spreadsheets as people's programs save them, made of lists of cells."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from datetime import date
from xml.sax.saxutils import escape

Cells = Sequence[Sequence[object]]
SPACES = " ".join(f'xmlns:{n}="urn:oasis:names:tc:opendocument:xmlns:{n}:1.0"' for n in ("office", "table", "text"))


class Percent(float):
    """A number that the spreadsheet shows as a percentage: .635 is 63.5 %."""


class Signed(float):
    """A number behind which the spreadsheet shows a percent sign as mere text: 63.5 is 63.5%."""


class Xml(str):
    """Text that stands in the file as it is."""

    __slots__ = ()


def xlsx(sheets: Mapping[str, Cells], *, hidden: Sequence[int] = (), merged: Sequence[str] = ()) -> bytes:
    """Return a workbook; rows that are hidden and cells that are merged are those of its first sheet."""
    from openpyxl import Workbook

    book, out = Workbook(), io.BytesIO()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for r, row in enumerate(rows, start=1):
            for c, value in enumerate(row, start=1):
                cell = sheet.cell(r, c, float(value) if isinstance(value, float) else None if value == "" else value)
                formats = {Percent: "0.0%", Signed: '0.0"%"'}
                cell.number_format = formats.get(type(value), cell.number_format)
    for row in hidden:
        book.worksheets[0].row_dimensions[row].hidden = True
    for area in merged:
        book.worksheets[0].merge_cells(area)
    book.save(out)
    return out.getvalue()


def ods(sheets: Mapping[str, Cells], *, hidden: Sequence[int] = (), percent: str = "", head: str = "") -> bytes:
    """Return the same as OpenDocument, with a million blank rows at the end, as LibreOffice writes them.

    Args:
        sheets: cells by the sheet's name.
        hidden: rows of each sheet.
        percent: what a percentage is called; Gnumeric says `float`.
        head: what stands before everything else.
    """
    tables = "".join(_table(name, rows, hidden) for name, rows in sheets.items()).replace(
        '"percentage"', f'"{percent}"'
    )
    content = f"{head}<office:document-content {SPACES}><office:body><office:spreadsheet>{tables}"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", f"{content}</office:spreadsheet></office:body></office:document-content>")
    return out.getvalue()


def _table(name: str, rows: Cells, hidden: Sequence[int]) -> str:
    shown = dict.fromkeys(hidden, ' table:visibility="collapse"')
    lines = (
        f"<table:table-row{shown.get(number, '')}>{''.join(map(_cell, row))}</table:table-row>"
        for number, row in enumerate(rows, start=1)
    )
    blank = '<table:table-row table:number-rows-repeated="1048000"><table:table-cell/></table:table-row>'
    return f'<table:table table:name="{escape(name)}">{"".join(lines)}{blank}</table:table>'


def _cell(value: object) -> str:
    if value == "":
        return "<table:table-cell/>"
    if isinstance(value, bool):
        kind, text = f'"boolean" office:boolean-value="{str(value).lower()}"', "WAHR" if value else "FALSCH"
    elif isinstance(value, Percent):
        kind, text = f'"percentage" office:value="{float(value)!r}"', f"{100 * value:.1f} %".replace(".", ",")
    elif isinstance(value, int | float):
        sign = "%" if isinstance(value, Signed) else ""
        kind, text = f'"float" office:value="{value!r}"', f"{value}{sign}".replace(".", ",")
    elif isinstance(value, date):
        kind, text = f'"date" office:date-value="{value.isoformat()}"', value.strftime("%d.%m.%y")
    else:
        kind, text = '"string"', str(value)
    text = text if isinstance(value, Xml) else escape(text)
    return f"<table:table-cell office:value-type={kind}><text:p>{text}</text:p></table:table-cell>"
