"""Kinds of spreadsheets, and what becomes of each; the table of them all is `golden/spreadsheets.txt`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from rigctl.config.load import LoadedConfig, load
from rigctl.console import importing
from rigctl.console.options import TableFlags
from rigctl.console.sheet import Reading
from rigctl.errors import ConfigError, UsageError
from tests.console.conftest import assert_golden
from tests.console.dough import DOUGH, TABLE, text
from tests.console.spreadsheets import Percent, ods, xlsx

HEADER = TABLE[0]
ROWS = [[63.5, 30, 49.5, 0.5, "hydration"], [70, 25.25, 61, "", "proof"], [66, 31, 55, 0.25, "nothing"]]
FIRST = (63.5, 30.0, 49.5)
"""Hydration, proof and rise of the first of them."""
SHEET = [HEADER, *ROWS]
SHARES = [HEADER, [Percent(0.635), *ROWS[0][1:]], *ROWS[1:]]
APART = [[], [], *([["", *row] for row in SHEET[:2]]), [], *[["", *row] for row in SHEET[2:]]]
MERGED = [HEADER, [63.5, 30, 49.5, 0.5, "proof"], [70, 25, 61, 1, ""]]


def first_row(*cells: object) -> bytes:
    """Return a workbook whose first trial is this."""
    return xlsx({"T": [HEADER, cells, *ROWS[1:]]})


def with_column(header: object, *cells: object) -> list[list[object]]:
    return [[*row, cell] for row, cell in zip(SHEET, (header, *cells), strict=True)]


@dataclass(frozen=True)
class Kind:
    """A kind of spreadsheet, and what must become of it."""

    what: str
    data: bytes
    trials: int | None = 3
    """None: it is refused."""
    first: tuple[float, ...] = FIRST
    name: str = "old.xlsx"
    flags: TableFlags = field(default_factory=TableFlags)
    controlled: str | None = None


KINDS = (
    Kind("xlsx", xlsx({"Trials": SHEET})),
    Kind("ods", ods({"Trials": SHEET}), name="old.ods"),
    Kind("two sheets, the first is read", xlsx({"Trials": SHEET, "Notes": [["flour"]]})),
    Kind("two sheets, the second is named", xlsx({"N": [["flour"]], "T": SHEET}), flags=TableFlags(sheet="t")),
    Kind("no such sheet", xlsx({"Trials": SHEET}), None, flags=TableFlags(sheet="Trails")),
    Kind("cells shown as percent", xlsx({"T": SHARES})),
    Kind("the same in ods", ods({"T": SHARES}), name="old.ods"),
    Kind("dates as names of trials", xlsx({"T": with_column("Versuch", *[date(2024, 5, d) for d in (1, 2, 3)])})),
    Kind("blank rows and columns", xlsx({"T": APART})),
    Kind("a formula nobody has computed", first_row(63.5, 30, "=40+9.5", 0.5, "proof"), None),
    Kind("a formula's error", first_row(63.5, 30, "#DIV/0!", 0.5, "proof"), None),
    Kind("one column wrong in every row", xlsx({"T": [HEADER, *[[63, 30, "tall", 1, "proof"]] * 40]}), None),
    Kind("the same in a CSV", text([HEADER, *[["63", "30", "tall", "1", "salt"]] * 40]).encode(), None, name="old.csv"),
    Kind("text beside numbers, decimal comma", first_row("63,5", 30, 49.5, 0.5, "proof")),
    Kind("merged over rows", xlsx({"T": MERGED}, merged=["E2:E3"]), 2),
    Kind("a CSV that is called .xlsx", text().encode(), 5),
    Kind("a spreadsheet that is called .csv", xlsx({"T": SHEET}), name="old.csv"),
    Kind("an .xls of old", b"\xd0\xcf\x11\xe0" + bytes(100), None, name="old.xls"),
    Kind("a web page that is called .xls", b"<html><table><tr><td>63", None, name="old.xls"),
    Kind("damaged", xlsx({"T": SHEET})[:-200], None),
    Kind("a ZIP archive of something else", xlsx({"T": SHEET}).replace(b"xl/workbook.xml", b"xl/workbook.bin"), None),
)


@cache
def dough(folder: Path) -> LoadedConfig:
    (folder / "dough.yaml").write_text(DOUGH, encoding="utf-8")
    return load(folder / "dough.yaml")


def became(kind: Kind) -> tuple[importing.ImportPlan | None, str]:
    """Return what would be imported, and that in words."""
    Path(kind.name).write_bytes(kind.data)
    try:
        plan = importing.planned(dough(Path.cwd()), Path(kind.name), Reading.of(kind.flags), kind.controlled)
    except (ConfigError, UsageError) as error:
        return None, str(error)
    form, *rest = importing.preview(dough(Path.cwd()), plan)
    return plan, "\n".join([form, *(line for line in rest if " left out" in f" {line}" or " trials; " in line)])


def test_what_becomes_of_every_kind(tmp_path, monkeypatch):
    """It is taken in as it is meant, or refused with what to do; nothing is guessed, and nothing is a traceback."""
    monkeypatch.chdir(tmp_path)
    table = []
    for kind in KINDS:
        plan, said = became(kind)
        trials = None if plan is None else len(plan.rows)
        assert (kind.what, trials) == (kind.what, kind.trials), said
        if plan is not None:
            row = plan.rows[0]
            assert (*row.values.values(), row.outcome) == pytest.approx(kind.first), kind.what
        table.append(f"{kind.what}\n" + "".join(f"    {line}\n" for line in said.splitlines()))
    assert_golden("spreadsheets", "".join(table))
