"""Work left over from one decision that can save time in the next."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

MOST_ENTRIES = 4
"""Older ones are forgotten: a factor of 1000 trials takes 8 MB."""


class Memo:
    """Hand a few intermediate results on from a history to the longer ones made from it.

    Not part of what is known: an entry is a value that would come out the same, bit for bit, if it were computed anew,
    and whoever reads one checks that it belongs to the data at hand. So decisions stay pure functions, and `replay`
    in another process agrees. Never compared, never written down: a copy or a pickle is empty.
    """

    def __init__(self) -> None:
        self._entries: dict[Hashable, Any] = {}

    def get(self, key: Hashable) -> Any | None:
        return self._entries.get(key)

    def keep(self, key: Hashable, value: Any) -> None:
        """Remember this, in place of what had the same key; the oldest entries make room.

        One dictionary operation at a time, so a late decision in a thread left behind does no harm.
        """
        self._entries.pop(key, None)
        self._entries[key] = value
        for oldest in list(self._entries)[:-MOST_ENTRIES]:
            self._entries.pop(oldest, None)

    def __reduce__(self) -> tuple[type[Memo], tuple[()]]:
        return Memo, ()
