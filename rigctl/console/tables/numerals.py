"""Numbers as people write them: decimal commas or points, thousands separators, units behind them.

What cannot be told apart is never guessed: `1,234` alone may be a thousand or one and a bit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rigctl.console.options import Decimals
from rigctl.flaws import got
from rigctl.wording import number_meant

EMPTY: Final = frozenset({"", "-", "–", "—", "?", "na", "n/a", "#n/a", "#nv", "nan", "null", "none", "nil"})
"""How people write that there is nothing; in small letters."""
_SPACES: Final = re.compile(r"[\s\u00a0\u202f\u2009'’]")
_PLAIN: Final = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d{1,3})?")
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(([.,])\d{3})(\2\d{3})*(?!\2)([.,]\d+)?")
_SUFFIXED: Final = re.compile(r"(?P<number>[^A-Za-z%€$£°µμ]*?)\s*(?P<unit>[A-Za-z%€$£°µμ].*)")
_REMEDIES: Final = {
    r"[=#]": "mend the formula, or write its value into the cell",
    r"\d{4}-\d\d-\d\d": "the spreadsheet made a date of it: format the cell as a number, and write it again",
}


class Exact(str):
    """A number as a program has written it: a point is before its fraction, whatever else the table does."""

    __slots__ = ()


def is_number(cell: str) -> bool:
    """Tell whether a cell begins as a number."""
    return bool(re.match(r"[+-]?[.,]?\d", cell))


def is_empty(cell: str) -> bool:
    """Tell whether a cell says that there is nothing."""
    return cell.strip().casefold() in EMPTY


def decimals_of(cells: Sequence[str]) -> Decimals | None:
    """Return which mark these numbers have before their fraction; None where none of them says.

    Raises:
        ValueError: some say one, some the other.
    """
    found: dict[Decimals, str] = {}
    for cell in (cell for cell in cells if not isinstance(cell, Exact)):
        mark = _mark(_SPACES.sub("", cell))
        if mark is not None:
            found.setdefault("comma" if mark == "," else "point", cell)
    if len(found) > 1:
        raise ValueError(f'"{found["comma"]}" has a decimal comma, "{found["point"]}" a decimal point')
    return next(iter(found), None)


def _mark(number: str) -> str | None:
    """Return the decimal mark of one number, if it can be told from a thousands separator."""
    marks = [c for c in number if c in ",."]
    if not marks:
        return None
    if len(set(marks)) == 2:
        return marks[-1] if marks.count(marks[-1]) == 1 else None
    if len(marks) > 1 or (_GROUPED.fullmatch(number) and not number.lstrip("+-").startswith("0")):
        return None  # 1.234.567, or 1.234
    return marks[0] if _PLAIN.fullmatch(number) else None


def parsed(cell: str, decimals: Decimals | None) -> float:
    """Return a number as it is written, with thousands separators or without.

    Raises:
        ValueError: it is none, or may be read in two ways where `decimals` does not say which.
    """
    if isinstance(cell, Exact):
        try:
            return float(cell)
        except ValueError:
            raise ValueError(got(cell, "must be a number", number_meant(cell))) from None
    number = _SPACES.sub("", cell)
    mark, other = (",", ".") if decimals == "comma" else (".", ",")
    if decimals is None and _GROUPED.fullmatch(number) and _mark(number) is None and not number.count(".") > 1:
        raise ValueError(f'got "{cell}", which may be a thousand or a fraction; say --decimal comma or --decimal point')
    if other in number:
        whole, _, fraction = number.partition(mark)
        if not re.fullmatch(rf"[+-]?\d{{1,3}}(\{other}\d{{3}})+", whole) or other in fraction:
            remedy = number_meant(cell) if mark == "." else ""
            raise ValueError(got(cell, f"must be a number with a decimal {decimals or 'point'}", remedy))
        number = number.replace(other, "")
    if not _PLAIN.fullmatch(number):
        remedy = next((remedy for begin, remedy in _REMEDIES.items() if re.match(begin, cell)), "")
        raise ValueError(got(cell, "must be a number", remedy))
    return float(number.replace(mark, "."))


def parted(cell: str) -> tuple[str, str]:
    """Return the number of a cell, and the unit that stands behind it."""
    found = _SUFFIXED.fullmatch(cell.strip())
    if found is None or re.fullmatch(r"\D+", found["number"]) or re.fullmatch(r"[eE][+-]?\d+", found["unit"]):
        return cell, ""
    return type(cell)(found["number"]), found["unit"]  # what is exact remains so
