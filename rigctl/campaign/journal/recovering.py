"""A new journal from a damaged one, and what is lost. The damaged file is never touched."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rigctl.campaign.journal.database import close_in_good_order, guarded, open_for_writing, transaction
from rigctl.campaign.journal.integrity import lay_out, log_of, lost_its_file
from rigctl.campaign.journal.invariants import violations
from rigctl.campaign.journal.log import damaged_log
from rigctl.campaign.journal.mending import Mending, mended
from rigctl.campaign.journal.reader import FILE_NAME, Reader
from rigctl.campaign.journal.salvage import Salvaged, salvage
from rigctl.campaign.journal.stored import Violation
from rigctl.campaign.journal.verifying import held
from rigctl.campaign.lock import make_directory
from rigctl.campaign.safe_file import FILE_NAME as SAFE_FILE
from rigctl.core.experiment.money import Micros
from rigctl.errors import JournalCorrupt, UsageError
from rigctl.files import whole
from rigctl.text import in_full

_ROUNDS: Final = 20
"""Times that rows which cannot be as they stand are left out, before what is left is told as it is."""

_CHIEF: Final = ("starts", "trials", "ledger")
_FEW: Final = 3
_NOT_READ: Final = "a trip that could not be read; look at the rig, then `rigctl alarm reset-trip`"


@dataclass(frozen=True, slots=True)
class TableLoss:
    """What became of one table."""

    kept: int
    lost: int
    """Rows that are known to be missing or spoilt, at least so many."""
    mended: int
    """Rows in which one flipped bit was put back."""
    vouched: bool
    """Whether its checksum holds for all that is kept."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What was recovered, and what was not."""

    file: Path
    tables: Mapping[str, TableLoss]
    trials: int
    closed: tuple[int, ...]
    """Trials whose end was lost: they are LOST now, or FAILED if they had been measured."""
    undecided: tuple[int, ...]
    """Trials of which what was decided and done is lost."""
    estimated: Micros
    """Sum of the lines of cost that were lost and are estimated."""
    booked_ml: float
    """Sum of the doses that were booked in full because their end, or all but their number, is lost."""
    tail: str
    """Why what was written last may be missing without a trace; empty: it cannot be."""
    left: tuple[Violation, ...]
    """What does not hold all the same."""

    @property
    def nothing(self) -> bool:
        whole = all(t.vouched and not t.lost for t in self.tables.values())
        return whole and not (self.closed or self.undecided or self.tail or self.left)


def recover_journal(path: Path, directory: Path, who: str, at: str) -> Loss:
    """Make a new journal, in a new directory, of what can still be read of the damaged one at `path`.

    The log is taken from beside the damaged file. The directory is made. The new journal's acts say `who` did it, and
    when by the wall clock (`at`).

    Raises:
        UsageError: there is no such file, or the directory holds something.
        JournalCorrupt: nothing of it can be read; nothing is made.
        JournalUnwritable: the new one cannot be written.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give the damaged {FILE_NAME}, with its -wal beside it if there is one")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"--to {directory}: holds something already; give a new directory")
    if lost_its_file(path):
        raise JournalCorrupt(f"{path}: is empty; its log alone is no journal. Restore a backup", "hopeless")
    with tempfile.TemporaryDirectory(prefix="rigctl-recover-") as folder:
        found = salvage(path, Path(folder))
        mending, left = _held_together(found)
    make_directory(directory)
    new = directory / FILE_NAME
    try:
        with guarded(new):
            _write(new, mending)
            loss = _loss(path, new, found, mending, left)
            _seal(new, loss, who, at)
    except BaseException:
        for file in directory.iterdir():
            file.unlink()
        raise
    # how the rig is made safe without a journal
    with suppress(OSError), whole(directory / SAFE_FILE, private=True) as safe:
        shutil.copyfile(path.with_name(SAFE_FILE), safe)
    return loss


def _held_together(found: Salvaged) -> tuple[Mending, tuple[Violation, ...]]:
    """Mend the rows until every invariant holds, leaving out those that break one."""
    without: set[tuple[str, tuple[Any, ...]]] = set()
    for _ in range(_ROUNDS):
        mending = mended(found, without)
        with closing(sqlite3.connect(":memory:")) as trial_run:
            _fill(trial_run, mending)
            left = violations(Reader(trial_run))
        more = {(v.table, v.key) for v in left if v.key and v.table != "campaign"} - without
        # where most of a table is at odds with the rest, it is the rest that is wrong
        odd = Counter(table for table, _ in more)
        more = {one for one in more if one[0] not in _CHIEF or 2 * odd[one[0]] <= len(mending.tables[one[0]]) + _FEW}
        if not more:
            break
        without |= more
    return mending, left


def _fill(connection: sqlite3.Connection, mending: Mending) -> None:
    lay_out(connection)
    connection.execute("PRAGMA ignore_check_constraints = ON")  # what breaks one is found by the invariants
    for table, rows in mending.tables.items():
        for row in rows:
            names, marks = ", ".join(f'"{name}"' for name in row), ", ".join("?" * len(row))
            sql = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
            connection.execute(sql, tuple(row.values()))


def _write(new: Path, mending: Mending) -> None:
    new.touch(mode=0o600, exist_ok=False)
    with closing(sqlite3.connect(new, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        _fill(connection, mending)
        connection.execute("COMMIT")


def _seal(new: Path, loss: Loss, who: str, at: str) -> None:
    connection = open_for_writing(new)
    try:
        (now_s,) = connection.execute("SELECT coalesce(max(at_s), 0.0) FROM events").fetchone()
        trips = loss.tables.get("trips")
        with transaction(connection):
            values = ("recover", loss.file.name, who, "", "; ".join(told(loss)), at, now_s)
            sql = "INSERT INTO acts (verb, argument, who, why, outcome, utc, at_s) VALUES (?, ?, ?, ?, ?, ?, ?)"
            connection.execute(sql, values)
            if trips is not None and trips.lost:  # it may be latched
                sql = "INSERT OR IGNORE INTO trips (reason, utc, at_s) VALUES (?, ?, ?)"
                connection.execute(sql, (_NOT_READ, at, now_s))
    finally:
        close_in_good_order(connection, new)


def _loss(path: Path, new: Path, found: Salvaged, mending: Mending, left: tuple[Violation, ...]) -> Loss:
    with closing(sqlite3.connect(new)) as connection:
        kept = held(connection).rows
    tables = {name: TableLoss(kept[name], t.lost, len(t.mended), t.vouched) for name, t in found.tables.items()}
    broken = damaged_log(log_of(path))
    tail = f"{broken} is damaged" if broken else ""
    if not found.whole:
        tail = "it was not closed, and its log is missing"
    return Loss(
        path,
        tables,
        kept["trials"],
        tuple(mending.closed),
        tuple(mending.undecided),
        mending.estimated,
        mending.booked_ml,
        tail,
        left,
    )


def told(loss: Loss) -> list[str]:
    """Say what is lost, a phrase each; one phrase if nothing is."""
    rows = [f"at least {t.lost} of {name}" for name, t in loss.tables.items() if t.lost]
    mended_rows = [f"{t.mended} of {name}" for name, t in loss.tables.items() if t.mended]
    doubtful = [name for name, t in loss.tables.items() if not t.vouched and not t.lost and t.kept]
    phrases = (
        (rows, f"rows lost: {', '.join(rows)}"),
        (mended_rows, f"rows in which one flipped bit was put back: {', '.join(mended_rows)}"),
        (doubtful, f"no checksum vouches for: {', '.join(doubtful)}"),
        (loss.closed, f"trials whose end was lost, closed: {', '.join(map(str, loss.closed))}"),
        (loss.undecided, f"trials whose record was lost: {', '.join(map(str, loss.undecided))}"),
        (loss.estimated, f"cost estimated in place of lost lines: {in_full(loss.estimated / 1e6, 6)}"),
        (loss.booked_ml, f"doses booked in full: {in_full(loss.booked_ml)} mL"),
        (loss.tail, f"what was written last may be missing: {loss.tail}; look at the pumps' own totals"),
    )
    said = [phrase for what, phrase in phrases if what]
    return said or ["nothing is lost"]
