"""Whether a journal holds as a whole: its file, its log, its checksums, and every invariant over its rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rigctl.campaign.journal.database import ask, fetch, guarded, open_for_reading, snapshot
from rigctl.campaign.journal.integrity import damage, damaged_header, log_of, lost_its_file, lost_its_log, void_seals
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.journal.log import damaged_log
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import TABLES
from rigctl.campaign.journal.stored import RESTORE, Caps, Violation
from rigctl.core.experiment.money import Micros
from rigctl.errors import JournalCorrupt, RigctlError

FILE: Final = "file"
"""Stands for the table where it is the file as a whole."""
PUT_BACK: Final = "put the log back, or run `rigctl journal recover`"
BY_OTHERS: Final = "find out who did it; the next `rigctl run` seals it as it is then"


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal holds."""

    rows: Mapping[str, int]
    """By table."""
    last_event: int
    spent: Micros
    """The sum of all lines, as they were written."""

    @property
    def trials(self) -> int:
        return self.rows.get("trials", 0)


@dataclass(frozen=True, slots=True)
class Config:
    """What a process was started with."""

    start: int
    config: str


CapsOf = Callable[[tuple[Config, ...]], Caps]
"""From what the processes were started with to what that allowed their pumps."""


@dataclass(frozen=True, slots=True)
class JournalVerdict:
    """What was found in a journal."""

    violations: tuple[Violation, ...]
    held: JournalContents | None
    """None where the file cannot be read at all."""


def verified(path: Path, caps_of: CapsOf = lambda _: {}) -> JournalVerdict:
    """Look at everything in a journal, also while a daemon writes it; nothing is changed.

    Raises:
        UsageError: there is none.
        JournalVersion: another version of rigctl wrote it.
    """
    log = log_of(path)
    if lost_its_file(path):
        return _unreadable(path, f"is missing or empty, but its log {log.name} is there")
    broken = (damaged_header(path) or damaged_log(log)) if path.exists() else None
    if broken:
        return _unreadable(path, f"is damaged: {broken}")
    try:
        with closing(open_for_reading(path, whole=False)) as connection, guarded(path), snapshot(connection):
            return _verdict(connection, path, caps_of)
    except JournalCorrupt as error:
        return _unreadable(path, f"cannot be read: {error}")


def _verdict(connection: sqlite3.Connection, path: Path, caps_of: CapsOf) -> JournalVerdict:
    found = []
    broken = damage(connection)
    if broken:
        found.append(Violation(FILE, path.name, f"is damaged: {broken}"))
    if lost_its_log(connection, path):
        lost = f"was not closed, and its log {log_of(path).name} is missing: what was written last is not there"
        found.append(Violation(FILE, path.name, lost, PUT_BACK))
    changed = () if broken else void_seals(connection)
    found += [
        Violation(table, "", "was changed by another program since it was sealed", BY_OTHERS) for table in changed
    ]
    try:
        starts = fetch(connection, Config, "SELECT id AS start, config FROM starts ORDER BY id")
        found += violations(Reader(connection), caps_of(starts))
        return JournalVerdict(tuple(found), held(connection))
    except (sqlite3.Error, RigctlError, ValueError, MemoryError) as error:
        if not broken:
            raise
        told = f"cannot be checked further ({type(error).__name__}: {error})"
        return JournalVerdict((*found, Violation(FILE, path.name, told)), None)


def held(connection: sqlite3.Connection) -> JournalContents:
    def one(sql: str) -> int:
        return int(ask(connection, sql)[0][0])

    rows = {table: one(f"SELECT count(*) FROM {table}") for table in TABLES}  # noqa: S608 - our own names
    spent = sum(one(f"SELECT coalesce(sum(amount_micros), 0) FROM {table}") for table in ("ledger", "idle"))  # noqa: S608 - ours
    return JournalContents(rows, one("SELECT coalesce(max(id), 0) FROM events"), spent)


def _unreadable(path: Path, what: str) -> JournalVerdict:
    return JournalVerdict((Violation(FILE, path.name, what, RESTORE),), None)
