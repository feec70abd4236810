"""Names that a person typed, and the nearest ones there are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from rigctl.errors import UsageError


def must_be_one_of(name: object, allowed: Iterable[str], what: str) -> None:
    """Refuse a name that is not allowed.

    Raises:
        UsageError: it is not; names the nearest that is, and all others.
    """
    known = list(allowed)
    if name in known:
        return
    near = get_close_matches(str(name), known, n=1, cutoff=0.4)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise UsageError(f"{what}: got {str(name)!r}, must be one of {', '.join(known) or '(there are none)'}{hint}")
