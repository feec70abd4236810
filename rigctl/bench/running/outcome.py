"""What became of one cell, wherever it was run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rigctl.bench.cell import Cell


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one cell."""

    cell: Cell
    rows: tuple[dict[str, Any], ...] = ()
    error: str = ""
    """In a sentence; empty where it finished."""
    traceback: str = ""
