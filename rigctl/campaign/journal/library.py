"""Which SQLite this is, and what is known of it."""

from __future__ import annotations

import sqlite3
from typing import Final

WAL_RESET_FIXED: Final = ((3, 44, 6), (3, 50, 7), (3, 51, 3))
"""Releases from which on their series are rid of https://sqlite.org/wal.html#walresetbug."""


def version() -> tuple[int, ...]:
    """Return the version that this Python uses."""
    return sqlite3.sqlite_version_info


def for_threads() -> bool:
    """Tell whether it may be used from more than one thread."""
    return sqlite3.threadsafety > 0


def reset_bug(version: tuple[int, ...]) -> bool:
    """Tell whether a write may be lost when two connections write and one resets the log."""
    if version < (3, 7, 0) or version >= max(WAL_RESET_FIXED):
        return False
    return not any(version[:2] == fixed[:2] and version >= fixed for fixed in WAL_RESET_FIXED)
