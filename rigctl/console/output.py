"""How answers are printed: JSON for programs, text and tables for people."""

from __future__ import annotations

import json
import math
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.codec import plain
from rigctl.console.tables import wrapped
from rigctl.printable import flat, in_full, printable

if TYPE_CHECKING:
    from rich.console import Console


PIPE_WIDTH = 10_000


def told(value: Any) -> Any:
    """Return any answer as JSON: dataclasses by field; what is not finite is null, for JSON has no word for it."""
    return plain(value, _leaf)


def _leaf(value: Any) -> Any:
    if value is None or isinstance(value, str | Path):
        return None if value is None else str(value)
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, int):
        return value
    return float(value) if math.isfinite(value) else None


def print_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(told(answer), indent=2, allow_nan=False) + "\n")


def print_json_line(answer: Any) -> None:
    """Print an answer on one line, at once: whoever reads it follows."""
    sys.stdout.write(json.dumps(told(answer), allow_nan=False) + "\n")
    sys.stdout.flush()


def print_fields(answer: Any) -> None:
    """One `name: value` per line on standard output."""
    for name, value in told(answer).items():
        sys.stdout.write(printable(f"{name.replace('_', ' ')}: {_shown(value)}\n"))


def print_rows(answers: Sequence[Any]) -> None:
    """Print one line per answer on standard output, `name value, ...`."""
    for answer in told(answers):
        sys.stdout.write(printable(f"{_shown(answer)}\n"))


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else in_full(value, 6) if isinstance(value, float) else flat(str(value))


def console(*, stderr: bool = False) -> Console:
    """Return the console that people read; lines for a pipe or a dumb terminal are not broken."""
    from rigctl.console.screen import Screen  # noqa: PLC0415  # rich only when something is shown

    made = Screen(stderr=stderr, highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = PIPE_WIDTH
    elif made.is_dumb_terminal:  # rich takes 80 columns, whatever the terminal says
        made.width = shutil.get_terminal_size().columns
    return made


def tell(answer: Any, json: bool) -> None:
    """Print an answer for a program, or its fields for a person."""
    (print_json if json else print_fields)(answer)


def say(answer: Any, sentences: Iterable[str], json: bool) -> None:
    """Print an answer for a program, or as sentences for a person."""
    print_json(answer) if json else print_sentences(sentences)


def print_sentences(sentences: Iterable[str]) -> None:
    """Print each on a line of its own, broken at spaces where a terminal is too narrow for it."""
    screen = console()
    lines(screen, (part for sentence in sentences for part in wrapped(sentence, screen.width)))


def redraws(console: Console) -> bool:
    """Tell whether this is a terminal on which a display can be drawn again in its place."""
    return console.is_terminal and not console.is_dumb_terminal


def lines(console: Console, text: Iterable[str], style: str = "") -> None:
    """Print lines that are as long as they should be."""
    for line in text:
        console.print(line, style=style or None, soft_wrap=True, markup=False, emoji=False, highlight=False)


def number(value: float | None, digits: int = 4) -> str:
    """Write a number in short, `-` where there is none."""
    return "-" if value is None or not math.isfinite(value) else in_full(value, digits)


def duration(seconds: float) -> str:
    """Write a length of time as a person says it, in two units at most: `45 s`, `12 min 5 s`, `3 h 10 min`."""
    left = max(0, round(seconds))
    if left < 60:
        return f"{left} s"
    units = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    first = next(i for i, (_, size) in enumerate(units) if left >= size)
    (big, size), (small, part) = units[first], units[first + 1]
    whole, rest = divmod(left, size)
    return f"{whole} {big} {rest // part} {small}" if rest // part else f"{whole} {big}"


def settings(setpoints: Mapping[str, float | None], units: Mapping[str, str] | None = None) -> str:
    """Write setpoints as `ca = 2.1 mM, b = 30 uM`."""
    of = units or {}
    return ", ".join(f"{name} = {number(value)} {of.get(name, '')}".rstrip() for name, value in setpoints.items())
