"""How answers are printed: JSON for programs, text and tables for people."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console


PIPE_WIDTH = 10_000


def plain(value: Any) -> Any:
    """Make any answer JSON: dataclasses by field; what is not finite becomes null, for JSON has no word for it."""
    match value:
        case None | str() | bool():
            answer: Any = str(value) if isinstance(value, Enum) else value
        case Enum():
            answer = value.name
        case int():
            answer = int(value)
        case Mapping():
            answer = {str(k): plain(v) for k, v in value.items()}
        case Sequence():
            answer = [plain(v) for v in value]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            answer = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        case Path():
            answer = str(value)
        case _:
            answer = float(value) if math.isfinite(value) else None
    return answer


def print_json(answer: Any) -> None:
    sys.stdout.write(json.dumps(plain(answer), indent=2, allow_nan=False) + "\n")


def print_fields(answer: Any) -> None:
    """Print one `name: value` per line on standard output."""
    for name, value in plain(answer).items():
        sys.stdout.write(f"{name.replace('_', ' ')}: {_shown(value)}\n")


def print_rows(answers: Sequence[Any]) -> None:
    """Print one line per answer on standard output, `name value, ...`."""
    for answer in plain(answers):
        sys.stdout.write(f"{_shown(answer)}\n")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(v)}" for name, v in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(_shown, value)) or "-"
    return "-" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def console(*, stderr: bool = False) -> Console:
    """Return the console that people read; lines for a pipe are not broken."""
    from rich.console import Console  # noqa: PLC0415  # only when something is shown

    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr, highlight=False, markup=False, emoji=False, width=None if stream.isatty() else PIPE_WIDTH
    )


def number(value: float | None, digits: int = 4) -> str:
    """Write a number in short, `-` where there is none."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def settings(setpoints: Mapping[str, float | None], units: Mapping[str, str] | None = None) -> str:
    """Write setpoints as `ca = 2.1 mM, b = 30 uM`."""
    of = units or {}
    return ", ".join(f"{name} = {number(value)} {of.get(name, '')}".rstrip() for name, value in setpoints.items())
