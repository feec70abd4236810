"""What readings of a SCPI instrument use of their line: one instrument may have several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rigctl.rig.abilities import Claim


def occupies(options: Any) -> Sequence[Claim]:
    """The line, shared with other readings of the same instrument, and each command to itself."""
    claims = [Claim("the line", "shares", "SCPI")]
    claims += [Claim(f"query {options.query}", "reads", options.query)] if options.query else []
    written = getattr(options, "set", None)
    return (*claims, Claim(f"command {written}", "writes")) if written else tuple(claims)
