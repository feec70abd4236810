"""Tables and labelled lines that keep their sense at any width."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

LEAST_WIDTH = 20
"""Columns of a terminal; one that says less is not believed."""
GAP = 2
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """Holds one column of a table."""

    header: str
    """One line, or two."""
    cells: Sequence[str]
    left: bool = False
    spare: int = 0
    """Where room is short, the highest is left out first; 0: it stays."""

    @property
    def width(self) -> int:
        return max(map(len, (*self.header.split("\n"), *self.cells)))

    @property
    def name(self) -> str:
        return self.header.replace("\n", " ")


def table(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Yield the lines of a table that is at most `width` wide.

    Where it is too wide, columns are left out by `spare`, and a line says which. Where that is not enough, each row is
    written as some lines of its own. Nothing is cut short: names and numbers stay whole.
    """
    kept, out = list(columns), []
    while _width(kept) > width and any(c.spare for c in kept):
        out.append(kept.pop(max(range(len(kept)), key=lambda i: kept[i].spare)))
    if _width(kept) > width:
        yield from _stacked(columns, width)
        return
    for line in (*_headers(kept), *zip(*(c.cells for c in kept), strict=True)):
        yield _line(kept, line)
    if out:
        yield from wrapped(f"(not shown at this width: {', '.join(c.name for c in reversed(out))})", width)


def _width(columns: Sequence[Column]) -> int:
    return sum(c.width for c in columns) + GAP * len(columns)


def _headers(columns: Sequence[Column]) -> Sequence[tuple[str, ...]]:
    lines = max(c.header.count("\n") for c in columns) + 1
    padded = ([""] * (lines - 1 - c.header.count("\n")) + c.header.split("\n") for c in columns)
    return list(zip(*padded, strict=True))


def _line(columns: Sequence[Column], cells: Sequence[str]) -> str:
    parts = (f"{cell:{'<' if c.left else '>'}{c.width}}" for c, cell in zip(columns, cells, strict=True))
    return (INDENT + (" " * GAP).join(parts)).rstrip()


def _stacked(columns: Sequence[Column], width: int) -> Iterator[str]:
    first, *others = columns
    yield from wrapped(f"{INDENT}{first.name}:", width, INDENT * 2)  # it may say how the rows are to be read
    for row, name in enumerate(first.cells):
        yield from wrapped(f"{INDENT}{name}", width, INDENT * 2)
        told = "; ".join(f"{c.name} {c.cells[row]}" for c in others if c.cells[row])
        yield from wrapped(f"{INDENT * 2}{told}", width, INDENT * 2)


def wrapped(text: str, width: int, indent: str = "") -> Sequence[str]:
    """Break a text at its spaces, and a control set longer than a line at its `+`; further lines are indented.

    A text that is indented itself has its further lines one step deeper, unless told otherwise.
    """
    room, own = max(width, LEAST_WIDTH), text[: len(text) - len(text.lstrip())]
    indent = indent or (own + INDENT if own else "")
    lines: list[str] = []
    for line in textwrap.wrap(text, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False):
        lines += _at_plus(line, room, indent)
    return lines or [""]


def _at_plus(line: str, room: int, indent: str) -> Iterator[str]:
    while len(line) > room and (at := line.rfind("+", len(indent) + 1, room)) > 0:
        yield line[: at + 1]
        line = indent + line[at + 1 :]
    yield line


def labelled(rows: Mapping[str, str], width: int, indent: str = INDENT) -> Iterator[str]:
    """Yield `label  text` lines with the texts one under the other, broken at spaces."""
    column = max(map(len, rows)) + GAP
    for label, text in rows.items():
        head = f"{indent}{label:{column}}"
        yield from wrapped(head + text, width, " " * len(head))
