"""How answers are printed: JSON for programs, text and tables for people."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.codec import plain

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
    """Print one JSON document on standard output."""
    sys.stdout.write(json.dumps(told(answer), indent=2, allow_nan=False) + "\n")


def print_fields(answer: Any) -> None:
    """One `name: value` per line on standard output."""
    for name, value in told(answer).items():
        sys.stdout.write(f"{name.replace('_', ' ')}: {_shown(value)}\n")


def print_rows(answers: Sequence[Any]) -> None:
    """Print one line per answer on standard output, `name value, ...`."""
    for answer in told(answers):
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
