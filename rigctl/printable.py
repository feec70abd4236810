"""Text that others wrote, made fit for a terminal, a log and a page.

An instrument, a configuration, a journal or a colleague may have put into it what a terminal obeys: an escape that
rewrites the screen, a title or the clipboard (ECMA-48), or what makes a line read in another order (Unicode UAX #9).
Such characters are taken out wherever text enters, and once more where it leaves.
"""

from __future__ import annotations

import unicodedata
from typing import Any, Final

LONGEST: Final = 2000
"""Characters of what is told of one event."""
FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""What a cell begins with that spreadsheets work out."""
_KEPT: Final = "\n\t"


def printable(text: str) -> str:
    """Return a text without control, format and unassigned characters; line ends, tabs and blanks stay.

    What stood behind an escape stays, and can be read: nobody can hide the rest of a line with it.
    """
    if text.isprintable():
        return text
    return "".join(c for c in text if c.isprintable() or c in _KEPT or unicodedata.category(c) == "Zs")


def cell(text: str) -> str:
    """Return words as a spreadsheet shows them: what begins like a formula is quoted, so that none is worked out."""
    shown = printable(text)  # first: what is taken out may stand before the sign
    return f"'{shown}" if shown.startswith(FORMULA) else shown


def flat(text: str) -> str:
    """Return a text as one line that can be printed: what it says cannot pass for a line of ours."""
    return text if text.isprintable() else printable(" ".join(text.splitlines()))


def one_line(text: str, longest: int = LONGEST) -> str:
    """Return a text as one line that can be printed, cut short."""
    if not text.isprintable():
        text = printable(" ".join(text.split()))
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable_values(_logger: Any, _method: str, event: Any) -> Any:
    """Return a log's event with every text made one line that can be printed; a processor of structlog."""
    return {key: flat(value) if isinstance(value, str) else value for key, value in event.items()}
