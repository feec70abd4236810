"""What readings and setpoints of a SCPI instrument use of their line: one instrument may have several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rigctl.rig.abilities import Claim


def occupies(options: Any) -> Sequence[Claim]:
    """The line, shared with others of the same instrument, and each command to itself."""
    return (Claim("the line", "shares", "SCPI"), *_asked(options))


def misfits(options: Any, setpoints: Sequence[float]) -> Sequence[str]:
    """An on/off device takes 0 or 1; of others the instrument knows best."""
    if options.set is not None or options.enable is None:
        return []
    return [f"setpoint {v:g} cannot be held: an on/off device takes 0 or 1" for v in setpoints if v not in (0.0, 1.0)]


def _asked(options: Any) -> Iterator[Claim]:
    if options.query is not None:
        yield Claim(f"query {options.query}", "reads", options.query)
    if options.set is not None:
        yield Claim(f"command {options.set}", "writes")
    if options.enable is not None:
        yield Claim(f"command {options.enable.on}", "writes")
