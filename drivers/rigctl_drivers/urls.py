"""Where a line is, written as a URL: `scheme://place?option=value&...`.

A place is a path (`serial://sim/ph` is relative to the current directory, `serial:///dev/serial/by-id/usb-...` is
absolute) or `host:port`. Every mistake is a `ValueError` saying what was given, what is allowed and what was near.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote

from rigctl.flaws import Flaw, got
from rigctl.rig.places import host_and_port

Convert = Callable[[str], Any]
"""Text to value; raises `ValueError` saying what is allowed."""


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise ValueError("must be a number > 0")
    return value


def whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise ValueError("must be a whole number > 0")
    return int(text)


def one_of(allowed: Mapping[str, Any]) -> Convert:

    def convert(text: str) -> Any:
        if text.upper() not in allowed:
            raise ValueError(f"must be one of {', '.join(allowed)}")
        return allowed[text.upper()]

    return convert


SERIAL_FRAME: Mapping[str, Convert] = MappingProxyType(
    {
        "baud": whole,
        "parity": one_of({"N": "N", "E": "E", "O": "O"}),
        "stopbits": one_of({"1": 1, "2": 2}),
        "bits": one_of({"8": 8, "7": 7}),
    }
)
"""Options of every serial port."""


@dataclass(frozen=True, slots=True)
class LineUrl:
    """A line's URL, taken apart."""

    text: str
    scheme: str
    place: str
    """What stands between `://` and `?`."""
    options: Mapping[str, Any]

    @classmethod
    def parse(cls, text: str, allowed: Mapping[str, Convert]) -> LineUrl:
        """Take a URL apart.

        Raises:
            ValueError: the form is wrong, or an option is unknown, given twice or out of range.
        """
        scheme, separator, rest = text.partition("://")
        place, _, query = rest.partition("?")
        if not (scheme and separator and place):
            raise ValueError(got(place or None, "must look like scheme://place?option=value", where=f"{text}: place"))
        options: dict[str, Any] = {}
        for item in filter(None, query.split("&")):
            key, _, value = item.partition("=")
            if key in options:
                raise ValueError(Flaw("is given twice", remedy="keep one", where=f"{text}: {key}"))
            if key not in allowed:
                near = difflib.get_close_matches(key, allowed, n=1)
                hint = f'did you mean "{near[0]}"?' if near else ""
                known = f"must be one of {', '.join(sorted(allowed))}" if allowed else "there are none here"
                raise ValueError(Flaw("unknown option", known, hint, where=f"{text}: {key}"))
            try:
                options[key] = allowed[key](unquote(value))
            except ValueError as problem:
                raise ValueError(got(value, str(problem), where=f"{text}: {key}")) from None
        return cls(text, scheme, unquote(place), options)

    @property
    def path(self) -> Path:
        return Path(self.place)

    def host_port(self, default_port: int) -> tuple[str, int]:
        """Return the place as `host:port`, IPv6 in brackets; `ValueError` without host, or if the port is none."""
        host, port = host_and_port(self.place, str(default_port))
        if not (host and port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise ValueError(got(self.place, "must be host:port with port 1 to 65535", where=f"{self.text}: place"))
        return host, int(port)
