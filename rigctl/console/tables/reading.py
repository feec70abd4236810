"""From a file to a table: a row of units, constants, and what is unclear, which is asked once for all its cells."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from rigctl.config.findings import unknown
from rigctl.console.options import Decimals, TableFlags, pairs
from rigctl.console.tables.numerals import Exact, decimals_of, is_empty, is_number, parsed, parted
from rigctl.console.tables.sheet import Sheet, read_sheet
from rigctl.console.tables.table import Headers, PeopleTable, SheetColumn, columns_of, key, same_unit
from rigctl.errors import Ambiguous, Mistake, UsageError
from rigctl.flaws import Flaw, flaw_of

Place = tuple[int, int | None]
"""Line, and column (0 is the first) where it is about one cell."""
TOTALS: Final = (
    *("total", "totals", "sum", "average", "averages", "avg", "mean", "median", "sd", "std", "stdev", "ø", "∅"),
    *("summe", "gesamt", "mittel", "mittelwert", "durchschnitt", "stabw", "stdabw", "standardabweichung"),
    *("somme", "moyenne"),
)
"""With what the first cell of a row begins that is no trial."""
QUESTIONS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "hidden": ("is hidden in the spreadsheet", {"keep": "takes it in", "skip": "leaves it out"}),
    "totals": ("looks like a total or average", {"skip": "leaves it out", "keep": "takes it in as a trial"}),
    "inexact": (
        "is no single number",
        {
            "number": "takes its limit, or the middle of its range, as the value",
            "skip": "leaves the row out",
        },
    ),
    "no-outcome": (
        "stands in place of an outcome",
        {"failed": "takes it in as a failed trial", "skip": "leaves the row out"},
    ),
}
"""What can be meant in two ways, by name: what is seen, and what each answer does."""
FEWEST_ABOVE = 3
"""So many rows have a total, as far as only its numbers show that it is one."""
_NUMBER: Final = r"[+-]?\d[\d.,'\u00a0\u202f ]*(?:[eE][+-]?\d+)?"
_INEXACT: Final = re.compile(
    rf"(?:(?:[<>≤≥~≈∼]=?|ca\.?|circa|about|approx\.?|etwa|env\.?|environ)\s*(?P<about>{_NUMBER})"
    rf"|(?P<low>{_NUMBER})\s*(?:-|–|—|\.\.\.?|to|bis|à)\s*(?P<high>{_NUMBER})"
    rf"|(?P<centre>{_NUMBER})\s*(?:±|\+/?-)\s*{_NUMBER})\s*(?P<unit>[^\W\d_].*|[%°€$£].*)?",
    re.IGNORECASE,
)


def read_table(path: Path, names: Headers, said: TableFlags, *, commas_part: bool = True) -> PeopleTable:
    """Read a table that a person keeps.

    With `commas_part`, where commas are between columns, a point is before a fraction, as programs write tables.

    Raises:
        UsageError: it is no table, its columns are not clear, or its numbers contradict each other.
    """
    names = replace(names, maps=pairs("--map", said.maps, 'HEADER=NAME, e.g. "hydration [%]=hydration"', last=True))
    constants = pairs("--constant", said.constants, 'NAME=VALUE, e.g. "proof=30 degC"')
    sheet = _with_units(names, read_sheet(path, names.known, said))
    sheet = _with_constants(names, sheet, constants)
    columns = columns_of(names, sheet)
    cells = [c for _, row in sheet.rows for column, c in zip(columns, row, strict=True) if column.numeric]
    try:
        decimals = said.decimal or decimals_of([part for cell in cells if not is_empty(cell) for part in _parts(cell)])
    except ValueError as error:
        remedy = "write all numbers in one way, or say which with --decimal comma or --decimal point"
        raise UsageError(f"{path}: {error}; {remedy}") from error
    if decimals is None and commas_part and sheet.grid.separator == "," and not any("," in cell for cell in cells):
        decimals = "point"
    table = PeopleTable(sheet, columns, decimals, names.loaded)
    own = len(columns) - len(constants)
    for column, (name, text) in zip(columns[own:], constants.items(), strict=True):
        try:
            table.number(column, Exact(text)) if column.numeric else None
        except ValueError as error:
            raise UsageError(flaw_of(error).within(f"--constant: {name}")) from None
    return table


def _with_units(names: Headers, sheet: Sheet) -> Sheet:
    """Take a row of units below the header into the header."""
    _, cells = sheet.rows[0] if sheet.rows else (0, ())
    header = list(sheet.header)
    found = False
    for n, cell in enumerate(cells):
        unit, (target, own) = cell.strip("[]() "), names.target(header[n], n)
        if is_number(cell):
            return sheet
        if is_empty(unit) or not SheetColumn("", target).numeric:
            continue
        if not names.is_unit(unit) or (own and not same_unit(own, unit)):
            return sheet
        found, header[n] = True, header[n] if own else f"{header[n]} [{unit}]"
    return replace(sheet, header=tuple(header), rows=sheet.rows[1:]) if found else sheet


def _with_constants(names: Headers, sheet: Sheet, constants: Mapping[str, str]) -> Sheet:
    """Add a column for what was the same in all rows."""
    there = {names.target(h, n)[0] for n, h in enumerate(sheet.header)}
    for name in constants:
        target = names.meant(name, "--constant")
        if target in there:
            raise UsageError(
                Flaw(f"{name} stands in a column of {sheet.path}", remedy="leave it out", where="--constant")
            )
    more = tuple(map(Exact, constants.values()))
    rows = tuple((line, (*cells, *more)) for line, cells in sheet.rows)
    return replace(sheet, header=(*sheet.header, *constants), rows=rows)


def _parts(cell: str) -> tuple[str, ...]:
    """Return the numbers that are written in a cell."""
    found = _INEXACT.fullmatch(cell)
    if isinstance(cell, Exact) or found is None:
        return (parted(cell)[0],)
    return tuple(part for part in (found["about"], found["low"], found["high"], found["centre"]) if part)


# what is unclear ------------------------------------------------------------------------------------------------------


def _answers(given: Sequence[str] | None) -> Mapping[str, str]:
    answers = pairs("--answer", given, "QUESTION=ANSWER, e.g. totals=skip")
    known = [f"{question}={answer}" for question, (_, does) in QUESTIONS.items() for answer in does]
    for answer in map("=".join, answers.items()):
        if answer not in known:
            raise UsageError(unknown(answer, known, "an answer", where="--answer"))
    return answers


def settled(table: PeopleTable, said: TableFlags, asks: Sequence[str] = tuple(QUESTIONS)) -> PeopleTable:
    """Return a table as a person says that it is meant.

    Raises:
        UsageError: an answer is none.
        Ambiguous: nobody says; carries every question of those in `asks`.
    """
    answers = _answers(said.answers)
    asked: dict[str, Mistake] = {}
    for question in asks:
        places = list(_FINDERS[question](table))
        answer = answers.get(question)
        if not places:
            continue
        if answer is None:
            asked[question] = _mistake(table.sheet, question, places)
        elif answer == "skip":
            table = _without(table, places, question)
        elif answer == "number":
            table = _with_numbers(table, places)
    if asked:
        raise Ambiguous(asked)
    return table


def _mistake(sheet: Sheet, question: str, places: Sequence[Place]) -> Mistake:
    (line, column), *more = places
    cells, (seen, answers) = dict(sheet.rows)[line], QUESTIONS[question]
    shown = next(filter(None, cells)) if column is None else cells[column]
    also = f" (the same in {sheet.cells(*more)})" if more else ""
    remedy = "; ".join(f"--answer {question}={answer} {does}" for answer, does in answers.items())
    flaw = Flaw(f'"{shown}" {seen}{also}', remedy=remedy)
    return Mistake(sheet.place(line, column), flaw, (question,), line, file=str(sheet.path))


def _without(table: PeopleTable, places: Sequence[Place], question: str) -> PeopleTable:
    lines = {line for line, _ in places}
    table.out[f"by --answer {question}=skip"] = sorted(lines)
    rows = tuple(row for row in table.sheet.rows if row[0] not in lines)
    return replace(table, sheet=replace(table.sheet, rows=rows))


def _with_numbers(table: PeopleTable, places: Sequence[Place]) -> PeopleTable:
    """Put the limit, or the middle, in the place of what is no single number."""
    rows = {line: list(cells) for line, cells in table.sheet.rows}
    for line, column in places:
        if column is not None:
            rows[line][column] = _number(rows[line][column], table.decimals)
    return replace(table, sheet=replace(table.sheet, rows=tuple((n, tuple(cells)) for n, cells in rows.items())))


def _number(cell: str, decimals: Decimals | None) -> str:
    found = _INEXACT.fullmatch(cell)
    try:
        values = [parsed(part.strip(), decimals) for part in _parts(cell)]
    except ValueError:  # 1-2-3; it is told as what it is, no number
        return cell
    return Exact(f"{sum(values) / len(values):.12g} {(found and found['unit']) or ''}".strip())


def _hidden(table: PeopleTable) -> Iterator[Place]:
    yield from ((line, None) for line, _ in table.sheet.rows if line in table.sheet.grid.hidden)


def _inexact(table: PeopleTable) -> Iterator[Place]:
    for line, cells in table.sheet.rows:
        for n, (column, cell) in enumerate(zip(table.columns, cells, strict=True)):
            if column.numeric and not isinstance(cell, Exact) and _INEXACT.fullmatch(cell):
                yield line, n


def _no_outcome(table: PeopleTable) -> Iterator[Place]:
    outcome = f"value:{table.loaded.rig.outcome_name}"
    n = next((n for n, column in enumerate(table.columns) if column.target == outcome), None)
    yield from ((line, n) for line, cells in table.sheet.rows if n is not None and cells[n] and is_empty(cells[n]))


def _totals(table: PeopleTable) -> Iterator[Place]:
    """Yield rows that say that they are no trial; if none does, the last if its numbers are those of one."""
    rows = table.sheet.rows
    named = [any(w in TOTALS for w in key(next(filter(None, cells))).strip(":.()").split()[:1]) for _, cells in rows]
    yield from ((line, None) for (line, _), total in zip(rows, named, strict=True) if total)
    last = len(rows) - 1
    if last >= FEWEST_ABOVE and not any(named) and _is_total(table, last):
        yield rows[last][0], None


def _is_total(table: PeopleTable, at: int) -> bool:
    """Tell whether all numbers of a row are the sums, or all the means, of columns above it that vary."""
    found = []
    for n, column in enumerate(table.columns):
        column_cells = [cells[n] for _, cells in table.sheet.rows[: at + 1]]
        if not column.numeric or is_empty(column_cells[-1]):
            continue
        try:
            *above, mine = (table.number(column, cell) if not is_empty(cell) else math.nan for cell in column_cells)
        except ValueError:
            return False
        numbers = np.array([v for v in above if not math.isnan(v)])
        if len(numbers) >= FEWEST_ABOVE and np.ptp(numbers) > 0:
            near = 0.005 * float(np.ptp(numbers))
            found.append([abs(mine - total) <= near for total in (numbers.sum(), numbers.mean())])
    return len(found) > 1 and bool(np.any(np.all(found, axis=0)))


_FINDERS: Final[Mapping[str, Callable[[PeopleTable], Iterator[Place]]]] = {
    "hidden": _hidden,
    "totals": _totals,
    "inexact": _inexact,
    "no-outcome": _no_outcome,
}
