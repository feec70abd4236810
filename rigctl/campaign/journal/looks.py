"""What the variables read before a trial was decided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import sqrt

from rigctl.campaign.decision import Decision, Looked
from rigctl.campaign.journal.database import Questions, ask, transaction
from rigctl.campaign.journal.inserts import Book
from rigctl.campaign.journal.rows import LookRow
from rigctl.campaign.ledger import IdleLine
from rigctl.campaign.trial import Event, State, advance
from rigctl.errors import JournalError
from rigctl.rig.protocols import Reading, Severity
from rigctl.rig.values import Measurement


class LookBook(Book):
    """Writes it. Each call returns only after the record is on disk."""

    def begin(self, undecided: Decision, before: Mapping[str, Reading], idle: Sequence[IdleLine] = ()) -> None:
        """Commit that a trial begins with a look, and the meters' readings; the rig may be prepared from here on.

        Raises:
            JournalError: another trial is under way, or the number is not the next one.
        """
        trial = undecided.trial
        with transaction(self._connection):
            self._do.nobody_under_way()
            self._do.add_trial(undecided, advance(None, Event.LOOK))
            self._do.note(trial, Event.LOOK, State.LOOKING, "")
            self._do.add_readings(trial, "before", before)
            self._do.add_idle(trial, idle)

    def keep(self, trial: int, found: Mapping[str, Measurement]) -> None:
        """Commit what the variables read, all of them at once.

        Raises:
            JournalError: the trial is not looking.
        """
        with transaction(self._connection):
            rows = ask(self._connection, "SELECT state FROM trials WHERE trial = ?", trial)
            if not rows or rows[0]["state"] != State.LOOKING:
                raise JournalError(f"trial {trial}: is not looking, so nothing can be kept of it")
            self._do.add_looks(trial, found)


class LookRows(Questions):
    """Answers what is asked about it."""

    def rows(self, trial: int | None = None) -> tuple[LookRow, ...]:
        """Return what was read before one trial was decided, or before all, by trial and name."""
        which, of = ("", ()) if trial is None else ("WHERE trial = ?", (trial,))
        return self._rows(LookRow, f"SELECT * FROM looks {which} ORDER BY trial, name", *of)  # noqa: S608 - ours

    def by_trial(self, trial: int | None = None) -> Mapping[int, Mapping[str, Looked]]:
        """Return the same as decisions take it, by trial."""
        grouped = groupby(self.rows(trial), lambda row: row.trial)
        return {number: {row.name: looked(row) for row in rows} for number, rows in grouped}


def looked(row: LookRow | Measurement) -> Looked:
    """Return a window of samples as decisions take it: its value, and the standard deviation of the window's mean."""
    if row.severity >= Severity.INVALID or row.value is None:
        return Looked(None)
    return Looked(row.value, (row.spread or 0.0) / sqrt(max(row.count, 1)))


def by_hand(looks: Mapping[str, Looked]) -> Mapping[str, Measurement]:
    """Return what a person has read as measurements of one sample each."""
    return {name: Measurement(look.value, look.sd, 1) for name, look in looks.items() if look.value is not None}
