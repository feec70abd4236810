"""Opening, checking and migrating the journal's file; turning SQLite's errors into ours."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rigctl.campaign.journal.schema import APPLICATION_ID, MIGRATIONS, VERSION
from rigctl.errors import JournalBusy, JournalCorrupt, JournalError, JournalNewer, JournalUnwritable, UsageError

MAGIC = b"SQLite format 3\x00"
BUSY_MS = 3000
"""How long a statement waits for another program's lock; longer, and the campaign goes safe meanwhile (fault 73)."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL})
_UNWRITABLE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM}
)


@contextmanager
def guarded(path: Path) -> Iterator[None]:
    """Raise what SQLite reports as a `JournalError` of the kind that fits, naming the file."""
    try:
        yield
    except sqlite3.Error as error:
        # The low byte is the primary code; the rest says where in SQLite it was noticed.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _DAMAGED:
            raise JournalCorrupt(_recovery_advice(path, str(error))) from error
        if code in _BUSY:
            raise JournalBusy(
                f"{path}: another program holds its lock ({error}), so nothing may move until it lets go; "
                f"`fuser {path}` shows which"
            ) from error
        if code in _UNWRITABLE:
            raise JournalUnwritable(
                f"{path}: cannot be written ({error}), so nothing may move; "
                "free space or make the directory writable, then run again"
            ) from error
        raise JournalError(f"{path}: {error}") from error


def _recovery_advice(path: Path, found: str) -> str:
    return (
        f"{path}: the journal is damaged ({found}). Nothing was changed, and nothing will move. To recover: copy "
        f"{path.name} and {path.name}-wal (if there) aside, then run "
        f"`sqlite3 {path.name} .recover | sqlite3 recovered.sqlite`, check what it holds, and put it in place of "
        f"{path.name} without the -wal and -shm files"
    )


def open_for_writing(path: Path) -> sqlite3.Connection:
    """The journal's file, created, checked and migrated as needed.

    A file that does not check out is only ever opened read-only, so it stays as it was found.

    Raises:
        JournalCorrupt: it is damaged, or no journal.
        JournalNewer: a newer rigctl wrote it.
        JournalUnwritable: it cannot be created or written.
    """
    if path.exists() and path.stat().st_size > 0:
        _check_before_writing(path)
    with guarded(path):
        # Used from the journal thread alone; it is opened and closed by its owner, which may be another thread.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _configure(connection)
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    # With WAL, only FULL syncs the log on every commit: what was committed survives a power loss.
    connection.execute("PRAGMA synchronous = FULL")


def _migrate(connection: sqlite3.Connection) -> None:
    version = _pragma(connection, "user_version")
    if version >= VERSION:
        return
    with transaction(connection):
        for number in range(version, VERSION):
            for statement in MIGRATIONS[number]:
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def open_for_reading(path: Path) -> sqlite3.Connection:
    """The journal's file read-only, also while a daemon writes it.

    Raises:
        UsageError: there is no journal.
        JournalCorrupt: it is damaged, or no journal.
        JournalNewer: a newer rigctl wrote it.
    """
    if not path.exists():
        raise _no_journal(path)
    _check_header(path)
    with guarded(path):
        connection = _connect_read_only(path)
        try:
            version = _check_version(connection, path)
        except BaseException:
            connection.close()
            raise
    if version == 0:
        connection.close()
        raise _no_journal(path)
    return connection


def _no_journal(path: Path) -> UsageError:
    return UsageError(f"{path}: no journal here; has `rigctl run` been started with this state directory?")


def _check_before_writing(path: Path) -> None:
    """Every page and the version, without leaving a trace; the caller holds the state directory's lock."""
    _check_header(path)
    with guarded(path):
        # Without a log nobody else has it open, and SQLite need not make the files that it shares with others.
        trace = "" if path.with_name(path.name + "-wal").exists() else "&immutable=1"
        connection = _connect(path, "?mode=ro" + trace)
        try:
            _check_version(connection, path)
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(3)")]
            if found != ["ok"]:
                raise JournalCorrupt(_recovery_advice(path, "; ".join(found)))
        finally:
            connection.close()


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        head = file.read(len(MAGIC))
    if head and head != MAGIC:
        raise JournalCorrupt(_recovery_advice(path, "its header is not SQLite's"))


def _connect(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(path.resolve().as_uri() + options, uri=True, isolation_level=None, check_same_thread=False)


def _connect_read_only(path: Path) -> sqlite3.Connection:
    connection = _connect(path, "?mode=ro")
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # A cleanly closed journal on read-only media: SQLite cannot make its shared-memory file, and needs none.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or path.with_name(path.name + "-wal").exists():
            raise
        return _connect(path, "?mode=ro&immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    version, application = _pragma(connection, "user_version"), _pragma(connection, "application_id")
    # A file without tables is one whose very first transaction never ended.
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION_ID and not empty:
        raise JournalCorrupt(
            f"{path}: a SQLite file of another program (application id {application:#x}), not a journal; "
            "move it away or choose another --state directory"
        )
    if version > VERSION:
        raise JournalNewer(
            f"{path}: written by a newer rigctl (journal version {version}, this one knows up to {VERSION}); "
            "update rigctl, or start a new campaign with another --state directory"
        )
    return version


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All of it on disk when the block ends, or none of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may already have rolled it back.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
