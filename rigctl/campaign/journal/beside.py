"""What is kept beside the trials: what none of them used, outcomes that come later, batches for production."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.past import CampaignTime
from rigctl.campaign.journal.rows import Amendment, AwaitedRow, CorrectionRow, IdleRow
from rigctl.campaign.journal.store import Book
from rigctl.campaign.ledger.lines import IdleLine
from rigctl.campaign.trial import UNDER_WAY, Event, State
from rigctl.codec import fields_of
from rigctl.core.experiment.money import Micros
from rigctl.rig.spec import OutcomeSpec

CAMPAIGN: Final = "rigctl"
"""Who gives up an outcome that nobody has said in time."""
OPERATE: Final = "operate"
"""Verb of the act by which a process was told to run batches for production, no trials of the campaign."""
OPERATED: Final = """EXISTS (
    SELECT 1 FROM events WHERE events.trial = {trial} AND event IN ('LOOK', 'PROPOSE')
    AND start IN (SELECT start FROM acts WHERE verb = 'operate'))"""
"""Whether a trial began as such a batch."""
IN_TRIAL: Final = f"""EXISTS (
    SELECT 1 FROM events WHERE events.trial = idle.before_trial AND events.at_s <= idle.at_s
    AND state NOT IN {tuple(map(str, UNDER_WAY))})"""  # noqa: S608 - only this package's own states
"""Whether an idle line was booked as its trial was closed: what no trial has used comes before it begins."""


class IdleBook(Book):
    """What was used while no trial was under way: lines beside the ledger, counted in what was spent."""

    def rows(self) -> tuple[IdleRow, ...]:
        return self._rows(IdleRow)

    def spent(self) -> Micros:
        return self.spent_and_operated()[0]

    def spent_and_operated(self) -> tuple[Micros, Micros]:
        """Return what was used beside the campaign's trials, and beside batches for production.

        What was used between a batch and a trial is production's, whichever was first: it is in no campaign's budget.
        What was used in a trial while nobody was in charge of it is that trial's side of the book.
        """
        this, last = (OPERATED.format(trial=f"(idle.before_trial - {back})") for back in (0, 1))
        which = f"{this} OR ({last} AND NOT {IN_TRIAL})"
        sql = (
            f"SELECT coalesce(sum(amount_micros) FILTER (WHERE NOT ({which})), 0) AS trials, "  # noqa: S608 - ours
            f"coalesce(sum(amount_micros) FILTER (WHERE {which}), 0) AS batches FROM idle"
        )
        (found,) = self._ask(sql)
        return int(found["trials"]), int(found["batches"])

    def since_last_trial(self) -> tuple[IdleRow, ...]:
        """Return what has been booked since the last trial that was metered."""
        last = self._number("SELECT max(trial) FROM meter_readings WHERE phase = 'before'")
        return self._rows(IdleRow, "WHERE before_trial > ?", last)

    def add(self, before_trial: int, lines: Sequence[IdleLine]) -> None:
        """Book lines inside the transaction that commits the readings they were made from."""
        for line in lines:
            self._insert(IdleRow, {**fields_of(line), "before_trial": before_trial})

    def book(self, lines: Sequence[IdleLine]) -> None:
        """Book what was used up to now, before it is known what comes next."""
        with transaction(self._connection):
            # a proposal that a process left behind is the next trial: nothing of it has moved yet
            left, following = "SELECT trial FROM trials WHERE state = 'PROPOSED'", "SELECT max(trial) + 1 FROM trials"
            self.add(self._number(f"SELECT coalesce(({left}), ({following}), 1)"), lines)


class AwaitedBook(Book):
    """Outcomes that come later, and are written beside the trial's record as a correction is (decision 0014)."""

    def rows(self, trial: int | None = None) -> Mapping[int, AwaitedRow]:
        """Return them by trial; of one, or of all."""
        return {row.trial: row for row in self._of_trial(AwaitedRow, trial, "trial")}

    def add(self, trial: int, late: OutcomeSpec) -> None:
        """Note what a trial waits for inside the transaction that charges it."""
        due = self._time.wall() + timedelta(seconds=late.due_s / self._time.clock.speedup)
        when = {"due_s": self._time.now_s() + late.due_s, "due_utc": due.isoformat(timespec="milliseconds")}
        self._insert(AwaitedRow, {"trial": trial, "how": late.by, **when})

    def waiting(self, *, by_wall: bool = True) -> Mapping[int, float]:
        """Return the rig seconds until each outcome that has not come is due, by trial; negative: it was due then.

        With `by_wall` the wall clock is asked as well, where a boot lies between.
        """
        still = {row["trial"] for row in self._ask("SELECT trial FROM trials WHERE state = 'AWAITING'")}
        rows = self._rows(AwaitedRow)
        return {row.trial: self._left_s(row, by_wall=by_wall) for row in rows if row.trial in still}

    def _left_s(self, row: AwaitedRow, *, by_wall: bool) -> float:
        """Return the rig seconds until it is due; by the wall clock, if that says less, where a boot lies between.

        That may have been set right since the trial. So it is asked how long it is since the last sign of life of that
        boot; since the trial only where there is none.
        """
        if row.epoch == self._time.epoch or not by_wall:
            return row.due_s - self._time.now_s()
        sql = "SELECT seen_s, seen_utc FROM starts WHERE epoch = ? ORDER BY id DESC LIMIT 1"
        at_s, utc = next(iter(self._ask(sql, row.epoch)), (row.due_s, row.due_utc))
        return row.due_s - at_s - self._time.since(at_s, utc, row.epoch).longest_s

    def come(self, trial: int, outcomes: Mapping[str, float | None], who: str, why: str, act: str = "") -> None:
        """Record the outcome of a trial that awaits it, or (all None) that none comes; in one transaction.

        Outcomes are by name, own units. `who` says so: a person, a sensor, or the campaign, which waits no longer.
        `act` is what a person did, and goes into the audit; empty: nobody did anything.

        Raises:
            JournalError: the trial does not await its outcome.
        """
        event = Event.FAIL if all(value is None for value in outcomes.values()) else Event.RECORD
        was, becomes = Amendment(outcomes=dict.fromkeys(outcomes)), Amendment(outcomes=outcomes)
        with transaction(self._connection):
            self._step(trial, State.AWAITING, event, why)
            values = {"trial": trial, "kind": "amend", "was": was, "becomes": becomes, "who": who, "why": why}
            self._insert(CorrectionRow, values)
            if act:
                self._act(act, who, f"trial {trial}", why, str(event))


class BatchBook(Book):
    """Batches for production, and what was charged for them and for trials: no event and no line is ever changed."""

    def __init__(self, connection: sqlite3.Connection, time: CampaignTime | None = None) -> None:
        super().__init__(connection, time)
        self._line, self._event = 0, 0
        """The last line that was summed up, and the last event that was looked at."""
        self._sums: tuple[Micros, Micros] = 0, 0
        self._told: dict[int, str] = {}

    def charged(self) -> tuple[Micros, Micros]:
        """Return what the campaign's trials were charged, and what batches for production were."""
        which = OPERATED.format(trial="ledger.trial") if self.operations() else "FALSE"
        sql = f"""SELECT coalesce(max(id), ?1) AS last, coalesce(sum(amount_micros), 0) AS more,
            coalesce(sum(amount_micros) FILTER (WHERE {which}), 0) AS batches
            FROM ledger WHERE id > ?1"""  # noqa: S608 - our own words
        (found,) = self._ask(sql, self._line)
        trials, batches = self._sums
        more, of_batches = int(found["more"]), int(found["batches"])
        sums = trials + more - of_batches, batches + of_batches
        if not self._connection.in_transaction:  # else it may never have been
            self._line, self._sums = int(found["last"]), sums
        return sums

    def operations(self) -> dict[int, str]:
        """Return what the processes that began batches for production were told, by trial."""
        told = self._ask("SELECT start, argument FROM acts WHERE verb = ?", OPERATE)
        if not told:
            return {}
        by_start = {row["start"]: row["argument"] for row in told}
        sql = "SELECT id, trial, start FROM events WHERE id > ? AND event IN ('LOOK', 'PROPOSE') ORDER BY id"
        rows = self._ask(sql, self._event)
        found = self._told | {row["trial"]: by_start[row["start"]] for row in rows if row["start"] in by_start}
        if rows and not self._connection.in_transaction:  # else it may never have been
            self._event, self._told = rows[-1]["id"], found
        return dict(found)

    def cancelled(self) -> int:
        """Return how many trials of the campaign, batches apart, were closed before anything moved."""
        sql = (
            "SELECT count(*) FROM trials t WHERE state = 'ABANDONED' AND NOT EXISTS "  # noqa: S608 - ours
            "(SELECT 1 FROM events e WHERE e.trial = t.trial AND e.event IN ('LOOK', 'ARM')) "
            f"AND NOT {OPERATED.format(trial='t.trial')}"
        )
        return self._number(sql)
