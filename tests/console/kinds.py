"""Kinds of spreadsheets that people have; making them all takes half a second, so a test imports them when it runs."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise

from rigctl.console.options import TableFlags
from tests.console.dough import TABLE, commas, text
from tests.console.spreadsheets import Percent, Signed, Xml, ods, xlsx

HEADER = TABLE[0]
ROWS = [[63.5, 30, 49.5, 0.5, "hydration"], [70, 25.25, 61, "", "proof"], [66, 31, 55, 0.25, "nothing"]]
FIRST = (63.5, 30.0, 49.5)
"""Hydration, proof and rise of the first of them."""
SHEET = [HEADER, *ROWS]
SHARES = [HEADER, [Percent(0.635), *ROWS[0][1:]], *ROWS[1:]]
APART = [[], [], *([["", *row] for row in SHEET[:2]]), [], *[["", *row] for row in SHEET[2:]]]
MERGED = [HEADER, [63.5, 30, 49.5, 0.5, "proof"], [70, 25, 61, 1, ""]]


LAUGHS = (
    f"<!DOCTYPE x [<!ENTITY a '{'ha' * 500}'>"
    + "".join(f"<!ENTITY {b} '{f'&{a};' * 30}'>" for a, b in pairwise("abcdefghij"))
    + "]>"
)


def first_row(*cells: object) -> bytes:
    """Return a workbook whose first trial is this."""
    return xlsx({"T": [HEADER, cells, *ROWS[1:]]})


def last_row(*cells: object) -> bytes:
    """Return a workbook that goes on below its trials."""
    return xlsx({"T": [*SHEET, *([cells] if cells else [])]})


def headed(*header: str, above: Sequence[Sequence[object]] = (), below: Sequence[Sequence[object]] = ()) -> bytes:
    """Return a workbook with another header."""
    return xlsx({"T": [*above, header, *below, *ROWS]})


def csv(*lines: str) -> bytes:
    return "\r\n".join(lines).encode()


def said(**answers: str) -> TableFlags:
    return TableFlags(answers=[f"{question.replace('_', '-')}={answer}" for question, answer in answers.items()])


def without(name: str, *more: Sequence[object]) -> bytes:
    """Return the workbook without one of its columns, and with more rows."""
    n = HEADER.index(name)
    return xlsx({"T": [*([*row[:n], *row[n + 1 :]] for row in SHEET), *more]})


def with_column(header: object, *cells: object) -> list[list[object]]:
    return [[*row, cell] for row, cell in zip(SHEET, (header, *cells), strict=True)]


def with_flags(*cells: object) -> list[list[object]]:
    """Return the same with a column of yes and no instead of names."""
    return [[*row[:4], cell] for row, cell in zip(SHEET, ("hydration controlled", *cells), strict=True)]


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
    Kind("the same of Gnumeric", ods({"T": SHARES}, percent="float"), name="old.ods"),
    Kind("a percent sign as mere text", first_row(Signed(63.5), *ROWS[0][1:])),
    Kind("the same in ods", ods({"T": [HEADER, [Signed(63.5), *ROWS[0][1:]], *ROWS[1:]]}), name="old.ods"),
    Kind("entities that multiply", ods({"T": [[Xml("&j;")]]}, head=LAUGHS), None, name="old.ods"),
    Kind(
        "units behind names", xlsx({"T": [("Hydration %", "proof degC", "rise mm", "cost EUR", HEADER[4]), *SHEET[1:]]})
    ),
    Kind("a unit that does not fit", xlsx({"T": [("hydration", "proof mm/rev", *HEADER[2:]), *SHEET[1:]]}), None),
    Kind("dates as names of trials", xlsx({"T": with_column("Versuch", *[date(2024, 5, d) for d in (1, 2, 3)])})),
    Kind("blank rows and columns", xlsx({"T": APART})),
    Kind("a formula nobody has computed", first_row(63.5, 30, "=40+9.5", 0.5, "proof"), None),
    Kind("a formula's error", first_row(63.5, 30, "#DIV/0!", 0.5, "proof"), None),
    Kind("text beside numbers, decimal comma", first_row("63,5", 30, 49.5, 0.5, "proof")),
    Kind("one column wrong in every row", xlsx({"T": [HEADER, *[[63, 30, "tall", 1, "proof"]] * 40]}), None),
    Kind("the same in a CSV", text([HEADER, *[["63", "30", "tall", "1", "salt"]] * 40]).encode(), None, name="old.csv"),
    # totals, hidden rows
    Kind("an average below the trials", last_row("Mittelwert", 28.75, 55.2, 0.4, ""), None),
    Kind("an average, and a column that is missing", without("proof", ["Mean", 55, 0.4, ""]), None),
    Kind("the average is left out", last_row("Mittelwert", 28.75, 55.2, 0.4, ""), flags=said(totals="skip")),
    Kind("total and deviation", xlsx({"T": [*SHEET, ["Total:", "", "", 0.75, ""], ["SD", 3, 6, 0.2, ""]]}), None),
    Kind("a sum without a word", last_row(199.5, 86.25, 165.5, 0.75, ""), None),
    Kind("means without a label, kept", last_row(66.5, 28.75, 55.17, 0.375, "proof"), 4, flags=said(totals="keep")),
    Kind("a trial in the middle of the others", last_row(66.5, 28.75, 61, 0.5, "proof"), 4),
    Kind("a hidden row", xlsx({"T": SHEET}, hidden=[3]), None),
    Kind("the hidden row is taken in", xlsx({"T": SHEET}, hidden=[3]), flags=said(hidden="keep")),
    Kind("ods: the hidden row is skipped", ods({"T": SHEET}, hidden=[3]), 2, name="old.ods", flags=said(hidden="skip")),
    # numbers that are none
    Kind(
        "below the limit, about, a range",
        xlsx({"T": [HEADER, ["60-67", "~30", "<49,5", 0.5, "proof"], *ROWS[1:]]}),
        None,
    ),
    Kind("their numbers are taken", first_row("60-67", "~30", "<49,5", 0.5, "proof"), flags=said(inexact="number")),
    Kind(
        "their rows are left out",
        first_row(60, "ca. 30", 49, 0.5, "proof"),
        2,
        (70, 25.25, 61),
        flags=said(inexact="skip"),
    ),
    Kind("with its error", first_row("63.5 ± 0.5", 30, "49.5 +/- 2 mm", 0.5, "proof"), flags=said(inexact="number")),
    Kind("an outcome of n/a", first_row(63.5, 30, "n/a", 0.5, "proof"), None),
    Kind("n/a was a failure", first_row(63.5, 30, "n/a", 0.5, "proof"), 3, (63.5, 30), flags=said(no_outcome="failed")),
    Kind(
        "n/a was not measured",
        first_row(63.5, 30, "–", 0.5, "proof"),
        2,
        (70, 25.25, 61),
        flags=said(no_outcome="skip"),
    ),
    Kind("rows without what is needed", xlsx({"T": [*SHEET, *[[70, "", 50, 1, "proof"]] * 3, *[["", 30, 50]] * 9]})),
    Kind("nothing is left", xlsx({"T": [HEADER, ["Sum", 1, 1, 1, ""]]}), None, flags=said(totals="skip")),
    Kind("no such answer", xlsx({"T": SHEET}), None, flags=said(totals="ask")),
    Kind("a blank outcome is a failure", first_row(63.5, 30, "", 0.5, "proof"), 3, (63.5, 30)),
    Kind("a date in a column of numbers", first_row(63.5, date(2024, 5, 30), 49.5, 0.5, "proof"), None),
    # headers and units
    Kind(
        "units in a row of their own",
        headed(*HEADER, below=[["%", "°F", "cm", "€", ""]]),
        first=(63.5, -1.1111111, 495),
    ),
    Kind("units that contradict the header", headed("hydration", "proof [°C]", *HEADER[2:], below=[["", "°F"]]), None),
    Kind("units in brackets below", headed(*HEADER, below=[["[%]", "(°C)", "mm", "", ""]])),
    Kind("mol%", headed("hydration [mol%]", "proof", "rise", "cost", "controlled")),
    Kind("wt.-% in cells", first_row("63,5 Gew.-%", 30, 49.5, 0.5, "proof")),
    Kind("a unit that does not convert", headed("hydration [g]", "proof", "rise", "cost", "controlled"), None),
    Kind("two columns of one name", headed("hydration", "proof", "rise", "rise", "controlled"), None),
    Kind(
        "one of the two is named",
        headed("hydration", "proof", "rise", "rise", "controlled"),
        flags=TableFlags(maps=["column D=-"]),
    ),
    Kind("a title above", headed(*HEADER, above=[["Dough, spring 2024: all trials"], []])),
    Kind(
        "a title above, in a language it does not know",
        headed("Wasser", "Gare", "Höhe", above=[["Teig 2024"], []]),
        None,
    ),
    Kind(
        "German headings, mapped",
        headed("Wasser [%]", "Gare (°C)", "Höhe", "Kosten", "geregelt", above=[["Teig 2024"], []]),
        flags=TableFlags(maps=["Wasser=hydration", "Gare=proof", "Höhe=rise"]),
    ),
    Kind(
        "French headings, a header of two lines",
        headed("Hydratation\n(%)", "pousse", "hauteur", "coût", "contrôlé"),
        flags=TableFlags(maps=["Hydratation=hydration", "pousse=proof", "hauteur=rise"]),
    ),
    Kind("the header is said", xlsx({"T": [HEADER, *ROWS[:1], HEADER, *ROWS]}), flags=TableFlags(header=3)),
    Kind("two columns of remarks", xlsx({"T": [[*HEADER, "note", "comments"], *[[*row, "a", "b"] for row in ROWS]]})),
    Kind("a column that is missing", without("proof"), None),
    Kind("a constant for it", without("proof"), flags=TableFlags(constants=["proof=86 degF"])),
    Kind("a constant that is none", without("cost"), None, flags=TableFlags(constants=["cost=x"])),
    Kind("a constant beside its column", xlsx({"T": SHEET}), None, flags=TableFlags(constants=["proof=30"])),
    # what was controlled
    Kind("crosses", xlsx({"T": with_flags("x", "", "")})),
    Kind("TRUE and FALSE", xlsx({"T": with_flags(True, False, False)})),
    Kind("the same in ods", ods({"T": with_flags(True, False, False)}), name="old.ods"),
    Kind("1 and 0", xlsx({"T": with_flags(1, 0, 0)})),
    Kind("ticks", xlsx({"T": with_flags("✓", "–", "☐")})),
    Kind("on and off", xlsx({"T": with_flags("on", "off", "perhaps")}), None),
    # text
    Kind("UTF-16, tabs, decimal commas", text(commas(TABLE), "\t").encode("utf-16"), 5, name="old.txt"),
    Kind(
        "sep=, semicolons, thousands",
        csv("sep=;", ";".join(HEADER), "63,5;30;49,5;1.234,50 €;proof"),
        1,
        name="old.csv",
    ),
    Kind(
        "notes of several lines", csv(",".join([*HEADER, "note"]), '63.5,30,49.5,.5,proof,"a\nb, c"'), 1, name="old.csv"
    ),
    Kind(
        "numbers in quotes with spaces",
        csv(";".join(HEADER), '" 63,5 ";" 30";"49,5";"1 234,5";proof'),
        1,
        name="old.csv",
    ),
    Kind("an average in a CSV", csv(",".join(HEADER), "63.5,30,49.5,1,proof", "mean,30,49.5,1,"), None, name="old.csv"),
    Kind("a comma for a separator", csv(",".join(HEADER), "63,5,30,49,0,proof"), None, name="old.csv"),
    Kind("nothing but a header", csv(",".join(HEADER)), None, name="old.csv"),
    Kind("blank", xlsx({"T": []}), None),
    Kind("merged over rows", xlsx({"T": MERGED}, merged=["E2:E3"]), 2),
    Kind("a CSV that is called .xlsx", text().encode(), 5),
    Kind("a spreadsheet that is called .csv", xlsx({"T": SHEET}), name="old.csv"),
    Kind("an .xls of old", b"\xd0\xcf\x11\xe0" + bytes(100), None, name="old.xls"),
    Kind("a web page that is called .xls", b"<html><table><tr><td>63", None, name="old.xls"),
    Kind("damaged", xlsx({"T": SHEET})[:-200], None),
    Kind("a ZIP archive of something else", xlsx({"T": SHEET}).replace(b"xl/workbook.xml", b"xl/workbook.bin"), None),
)
