"""Names that a person typed, and the nearest ones there are."""

from __future__ import annotations

from collections.abc import Iterable

from rigctl.errors import UsageError
from rigctl.plugins import did_you_mean


def must_be_one_of(name: object, allowed: Iterable[str], what: str) -> None:
    """Refuse a name that is not allowed.

    Raises:
        UsageError: it is not; names the nearest that is, and all others.
    """
    known = list(allowed)
    if name in known:
        return
    hint = did_you_mean(str(name), known)
    raise UsageError(f"{what}: got {str(name)!r}, must be one of {', '.join(known) or '(there are none)'}{hint}")
