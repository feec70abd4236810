"""How mistakes are worded: values as the file has them, and each sentence's parts.

A sentence is `got <value>, must be <allowed>; <remedy>`, as far as each applies. Programs are given the parts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_SHOWN: Final = 60
"""Characters of a value that are repeated."""
_OPENING, _CLOSING = "([{", ")]}"
_AFTER_GOT: Final = re.compile(r", |; |: | at column | a second time|$")


@dataclass(frozen=True, slots=True)
class Parts:
    """Holds what a sentence says, as far as it says it."""

    got: str | None
    allowed: str | None
    remedy: str | None


def parts_of(what: str) -> Parts:
    """Take a mistake's sentence apart; what is in quotes or brackets is of one piece."""
    said, _, remedy = _cut(what, "; ")
    before, _, allowed = _cut(said, "must ")
    got = None
    if before.startswith("got "):
        plain = _masked(before)
        end = _AFTER_GOT.search(plain, 4)
        got = before[4 : end.start() if end else None].strip()
    return Parts(got, f"must {allowed}" if allowed else None, remedy or None)


def _cut(text: str, at: str) -> tuple[str, str, str]:
    place = _masked(text).find(at)
    return (text, "", "") if place < 0 else (text[:place], at, text[place + len(at) :])


def _masked(text: str) -> str:
    """Return as many characters, with those in quotes or brackets made x."""
    out, depth, quoted = [], 0, False
    for sign in text:
        quoted = not quoted if sign == '"' else quoted
        depth += (not quoted) * ((sign in _OPENING) - (sign in _CLOSING))
        out.append("x" if quoted or depth > 0 else sign)
    return "".join(out) if not quoted and depth == 0 else text


def shown(value: Any) -> str:
    """Show a value as the user wrote it, cut short."""
    if value is None:
        return "nothing"
    text = f'"{value}"' if isinstance(value, str) else _flow(value)
    return text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 3]}..."


def _flow(value: Any) -> str:
    """Write a value in one line, as YAML."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_flow(v)}" for key, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else "" if value is None else str(value)
