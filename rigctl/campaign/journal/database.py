"""Opening and checking the journal's file; turning SQLite's errors into ours."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from rigctl.campaign.journal.integrity import (
    APPLICATION_ID,
    Damage,
    SealingConnection,
    damage,
    damaged_header,
    lay_out,
    log_of,
    lost_its_file,
    lost_its_log,
    never_begun,
    pragma,
    redefined,
    seal,
    sealing,
    unsealed,
    watch,
)
from rigctl.campaign.journal.log import damaged_log
from rigctl.campaign.journal.rows import VERSION
from rigctl.codec import row_decoder
from rigctl.errors import JournalBusy, JournalCorrupt, JournalError, JournalUnwritable, JournalVersion, UsageError
from rigctl.logs import logger

T = TypeVar("T")

LONGEST_S = 60.0
BYTES_PER_S = 1e6
"""So long may be read in a file that somebody has sent, of processor, and so much longer the larger it is."""
MOST_STEPS = 5e9
STEPS_PER_BYTE = 100.0
"""Steps that SQLite may take in a journal of our own tables, and so many more the larger it is: about a minute."""
STEPS = 100_000
"""Steps of SQLite's machine between two looks at the clock: a few milliseconds."""
BUSY_MS = 3000
"""How long a statement waits for another program's lock; longer, and the campaign goes safe meanwhile (fault 73)."""

_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_INTERRUPT})
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
            endless = code == sqlite3.SQLITE_INTERRUPT
            raise corrupt(path, "there is no end to what is read in it" if endless else str(error)) from error
        if code in _BUSY:
            raise JournalBusy(
                f"{path}: another program holds its lock ({error}), so nothing may move until the lock is released; "
                f"`fuser {path}` shows which"
            ) from error
        if code in _UNWRITABLE:
            raise JournalUnwritable(
                f"{path}: cannot be written ({error}), so nothing may move; free space or make the directory writable"
            ) from error
        raise JournalError(f"{path}: {error}") from error


def corrupt(path: Path, found: Damage | str) -> JournalCorrupt:
    """Return the error that says what is damaged, and how the journal's contents can be saved."""
    accept = "DELETE FROM seals; UPDATE starts SET closed = 1"
    where = (found.table, found.key) if isinstance(found, Damage) else ()
    return JournalCorrupt(
        f"{path}: the journal is damaged ({found}). Nothing was changed, and nothing will move. To recover: "
        f"`rigctl journal recover {path} --to NEWDIR` makes a new one and lists what is lost. Or copy {path.name} "
        f"and {path.name}-wal (if there) aside, then run "
        f"`sqlite3 {path.name} .recover | sqlite3 recovered.sqlite`, check what it holds, say so by "
        f"`sqlite3 recovered.sqlite '{accept}'`, and put it in place of {path.name} without the -wal and -shm files",
        "damaged",
        *where,
    )


def _without_file(path: Path) -> JournalCorrupt:
    return JournalCorrupt(
        f"{path}: the journal is missing or empty, but its log {log_of(path).name} is there: to begin anew beside it "
        "would lose what it holds, and start budget and caps anew. Nothing was changed, and nothing will move. To "
        "recover: put the journal back; or choose another --state directory",
        "no-file",
    )


def _without_log(path: Path) -> str:
    accept = "UPDATE starts SET closed = 1"
    return (
        f"{path}: the journal was not closed, and its log {log_of(path).name} is missing: what was written last is not "
        "there, doses and costs among it. Nothing was changed, and nothing will move. To recover: put the log back. "
        "Where it is lost for good, or another program has looked into the file since and merged the log into it, "
        f"`sqlite3 {path.name} '{accept}'` accepts what is there"
    )


def open_for_writing(path: Path, check: Callable[[sqlite3.Connection], None] = lambda _: None) -> SealingConnection:
    """Open the journal's file, created and checked as needed.

    A file that does not check out is only ever opened read-only, so it stays as it was found. `check` has a look at
    what was not sealed, before it is; if it raises, the file stays as it was found, too.

    Raises:
        JournalCorrupt: it is damaged, or no journal.
        JournalVersion: another version of rigctl wrote it.
        JournalUnwritable: it cannot be created or written.
    """
    if lost_its_file(path):
        raise _without_file(path)
    if path.exists() and not never_begun(path):
        _check_before_writing(path)
    with guarded(path):
        # Used from the journal thread alone; it is opened and closed by its owner, which may be another thread.
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=SealingConnection)
        connection.path = path
        try:
            _configure(connection)
            _vouch(connection, check)
            watch(connection)
        except BaseException:
            close_in_good_order(connection, path)
            raise
    return connection


def _configure(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_mode = WAL")
    # With WAL, only FULL syncs the log on every commit: what was committed survives a power loss.
    connection.execute("PRAGMA synchronous = FULL")


def _vouch(connection: sqlite3.Connection, check: Callable[[sqlite3.Connection], None]) -> None:
    """Lay out a new file, and seal what is not sealed."""
    new = pragma(connection, "user_version") == 0
    if not new and not unsealed(connection):
        return
    with transaction(connection):
        if new:
            lay_out(connection)
        check(connection)
        seal(connection)


def close_in_good_order(connection: sqlite3.Connection, path: Path) -> None:
    """Note in the file that nothing of it is left in its log, then close it, by which SQLite removes the log.

    Where that cannot be noted the log stays: a file that is not closed and has no log has lost something (fault 79).
    """
    try:
        with transaction(connection):
            connection.execute("UPDATE starts SET closed = 1 WHERE NOT closed AND id = (SELECT max(id) FROM starts)")
    except (sqlite3.Error, JournalError):
        # Who closes last removes the log, unless it may only read.
        with closing(connect(path, "?mode=ro")) as last:
            last.execute("SELECT 1 FROM sqlite_master").fetchone()
            connection.close()
        return
    connection.close()


def open_for_reading(path: Path, *, whole: bool = True) -> sqlite3.Connection:
    """Open the journal's file read-only, also while a daemon writes it; it is checked as a whole, unless told not to.

    Raises:
        UsageError: there is no journal.
        JournalCorrupt: it is damaged, or no journal.
        JournalVersion: another version of rigctl wrote it.
    """
    if lost_its_file(path):
        raise _without_file(path)
    if not path.exists() or never_begun(path):
        raise _no_journal(path)
    _check_header(path)
    with guarded(path):
        try:
            connection = _connect_without_log(path) or _connect_read_only(path)
        except UnicodeDecodeError as error:  # in the name of a table
            raise corrupt(path, str(error)) from error
        try:
            with snapshot(connection):
                version = _check(connection, path, damage if whole else redefined)
        except BaseException:
            connection.close()
            raise
    if version == 0:
        connection.close()
        raise _no_journal(path)
    # it holds our own tables only, so the time is the reader's own; in what was not checked, pages may form a circle
    connection.set_progress_handler(None if whole else _too_many_steps(path), 0 if whole else STEPS)
    return connection


def _too_many_steps(path: Path) -> Callable[[], bool]:
    """Return what is asked once in `STEPS` steps: whether there were more than a file of this size can take."""
    left = iter(range(int((MOST_STEPS + STEPS_PER_BYTE * path.stat().st_size) / STEPS)))
    return lambda: next(left, None) is None


def _no_journal(path: Path) -> UsageError:
    begins = "`rigctl run` makes one, on a bench by hand `rigctl suggest`"
    return UsageError(f"{path}: no journal here; {begins}; --state DIR names another place")


def _check_before_writing(path: Path) -> None:
    """Check everything, without leaving a trace; the caller holds the state directory's lock."""
    _check_header(path)
    with guarded(path):
        # Without a log nobody else has it open, and SQLite need not make the files that it shares with others.
        trace = "" if log_of(path).exists() else "&immutable=1"
        with closing(connect(path, "?mode=ro" + trace)) as connection:
            _check(connection, path, damage)
            if lost_its_log(connection, path):
                raise JournalCorrupt(_without_log(path), "no-log")


def _check(connection: sqlite3.Connection, path: Path, examined: Callable[[sqlite3.Connection], Damage | None]) -> int:
    """Return its version, if it is ours and no damage is found."""
    found = examined(connection)
    if found:
        raise corrupt(path, found)
    return _check_version(connection, path)


def _check_header(path: Path) -> None:
    found = damaged_header(path) or damaged_log(log_of(path))
    if found:
        raise corrupt(path, found)


@contextmanager
def snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    """Let the file stand still, whoever writes."""
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def connect(path: Path, options: str = "") -> sqlite3.Connection:
    """Open a file that somebody may have sent: its schema may call nothing, and reading it ends (see `LONGEST_S`)."""
    uri = path.resolve().as_uri() + options
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA trusted_schema = OFF")  # see sqlite.org/security.html
    until_s = time.thread_time() + LONGEST_S + path.stat().st_size / BYTES_PER_S
    connection.set_progress_handler(lambda: time.thread_time() > until_s, STEPS)
    return connection


def _connect_without_log(path: Path) -> sqlite3.Connection | None:
    """Open a file that has lost its log: what is left may be read, but no new log made, which would hide the loss."""
    if log_of(path).exists():
        return None
    connection = connect(path, "?mode=ro&immutable=1")
    try:
        if lost_its_log(connection, path):
            logger("rigctl.campaign").warning(_without_log(path))
            return connection
    except (sqlite3.Error, UnicodeDecodeError):
        pass  # damaged, which is told where it is read as a whole; or a daemon is just making it
    connection.close()
    return None


def _connect_read_only(path: Path) -> sqlite3.Connection:
    connection = connect(path, "?mode=ro")
    try:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        # Only the very first transaction has a rollback journal; a process was killed while it made the file.
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_READONLY and path.with_name(path.name + "-journal").exists():
            raise _no_journal(path) from error
        # A cleanly closed journal on read-only media: SQLite cannot make its shared-memory file, and needs none.
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CANTOPEN or log_of(path).exists():
            raise
        return connect(path, "?mode=ro&immutable=1")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_version(connection: sqlite3.Connection, path: Path) -> int:
    version, application = pragma(connection, "user_version"), pragma(connection, "application_id")
    # A file without tables is one whose very first transaction never ended.
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if application != APPLICATION_ID and not empty:
        raise JournalCorrupt(
            f"{path}: a SQLite file of another program (application id {application:#x}), not a journal; "
            "move it away or choose another --state directory",
            "foreign",
        )
    if version not in (0, VERSION):
        raise JournalVersion(path, version, VERSION)
    return version


def ask(connection: sqlite3.Connection, sql: str, *parameters: object) -> list[sqlite3.Row]:
    """Return all rows, with columns by name."""
    cursor = connection.cursor()
    cursor.row_factory = sqlite3.Row
    return list(cursor.execute(sql, parameters))


def fetch(connection: sqlite3.Connection, kind: type[T], sql: str, *parameters: object) -> tuple[T, ...]:
    """Return all rows as values of this type; see `row_decoder`."""
    cursor = connection.execute(sql, parameters)
    return tuple(map(decoder(kind, cursor), cursor))


def decoder(kind: type[T], cursor: sqlite3.Cursor) -> Callable[..., T]:
    """Return what makes values of this type of a query's rows."""
    return row_decoder(kind, tuple(column[0] for column in cursor.description))


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Have all that the block writes on disk when it ends, or none of it.

    Raises:
        JournalUnwritable, JournalCorrupt, JournalError: SQLite cannot, see `guarded`; nothing is written.
    """
    with guarded(connection.path if isinstance(connection, SealingConnection) else Path()):
        connection.execute("BEGIN IMMEDIATE")
        try:
            with sealing(connection):
                yield
            connection.execute("COMMIT")
        except BaseException:
            # A full disk may already have rolled it back.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
