"""A journal that is looked at again and again while others write it: each look opens it, in a short snapshot.

It is not checked as a whole, which takes seconds after 20,000 trials; whoever runs the campaign has done that. Between
two looks nothing is open, so that the campaign's own end still merges the log into the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rigctl.campaign.journal.database import guarded, open_for_reading, snapshot
from rigctl.campaign.journal.integrity import log_of
from rigctl.campaign.journal.reader import FILE_NAME, Reader

Stamp = tuple[tuple[int, int, int], ...]
"""Of the journal's file and its log: inode, size, time of the last change; no entry for one that has nothing in it."""


@contextmanager
def looking(directory: Path) -> Iterator[Reader]:
    """Give the journal as it is at one instant, whoever writes meanwhile.

    Raises:
        UsageError: there is none.
        JournalError: it cannot be read.
    """
    path = directory / FILE_NAME
    with closing(open_for_reading(path, whole=False)) as connection, guarded(path), snapshot(connection):
        yield Reader(connection)


def stamp(directory: Path) -> Stamp:
    """Return what is another value once somebody has written into the journal, or put another in its place."""
    path = directory / FILE_NAME
    return tuple(found for file in (path, log_of(path)) for found in _stamp(file))


def file_number(seen: Stamp) -> int:
    """Return which file the journal is, 0 where there is none: another one is another campaign's."""
    return seen[0][0] if seen else 0


def _stamp(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError:
        return ()
    # an empty log says nothing; whoever reads makes one
    return ((found.st_ino, found.st_size, found.st_mtime_ns),) if found.st_size else ()
