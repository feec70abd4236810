"""Which code made a result: tables of one grid mean something together only if the same code made them."""

from __future__ import annotations

import hashlib

from rigctl.provenance import digest, libraries

MAKES = ("core", "bench/problems", "bench/running")
"""Parts of rigctl that a result depends on."""


def code_version() -> str:
    """Return eight hexadecimal digits that change with the code that decides and measures, and with what computes.

    Installed plug-ins are not part of it.
    """
    return hashlib.sha256(f"{digest(MAKES)} {libraries()}".encode()).hexdigest()[:8]
