"""Numbers as instruments write them."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?|nan|inf(?:inity)?)\s*", re.IGNORECASE | re.ASCII
)


def as_number(text: str) -> float | None:
    """Return a field as a number, which may not be finite; None if it is none.

    `float` alone takes what Python's own source code may look like: it reads a garbled 6_021 as 6021.
    """
    return float(text) if _NUMBER.fullmatch(text) else None
