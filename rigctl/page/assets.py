"""The files beside the page: style, script and the one library, each as it was when it was checked."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType

from rigctl.errors import RigctlError

MEDIA: Mapping[str, str] = MappingProxyType(
    {
        "page.css": "text/css; charset=utf-8",
        "page.js": "text/javascript; charset=utf-8",
        "icon.svg": "image/svg+xml",
        "uPlot.min.css": "text/css; charset=utf-8",
        "uPlot.iife.min.js": "text/javascript; charset=utf-8",
        "uPlot.LICENSE": "text/plain; charset=utf-8",
    }
)
"""All that may be asked for, and what it is."""
VENDORED: Mapping[str, str] = MappingProxyType(
    {
        "uPlot.iife.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "uPlot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    }
)
"""SHA-256 of what others wrote: uPlot 1.6.32 (MIT), from https://github.com/leeoniya/uPlot."""


class UnknownAsset(RigctlError):
    """Something was asked for that is not part of the page."""


def tagged(name: str) -> str:
    """Return a file's name with its hash, by which a browser may keep it for good."""
    return f"{name}?v={sha256(read(name)[0]).hexdigest()[:16]}"


def read(name: str) -> tuple[bytes, str]:
    """Return a file's bytes and its media type.

    Raises:
        UnknownAsset: there is none of that name.
        RigctlError: what others wrote is not as it was checked.
    """
    if name not in MEDIA:
        raise UnknownAsset(f"{name[:80]!r}: no such file of the page; there are {', '.join(MEDIA)}")
    data = files("rigctl.page").joinpath("static", name).read_bytes()
    expected = VENDORED.get(name)
    if expected is not None and sha256(data).hexdigest() != expected:
        raise RigctlError(f"{name}: is not the file that was checked (SHA-256 {expected}); install rigctl again")
    return data, MEDIA[name]
