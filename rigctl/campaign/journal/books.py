"""What is written beside the trials: what none used, outcomes that come later, what doses did, pins, the trip's latch.

Each call returns only after the record is on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from rigctl.campaign.journal.beside import AwaitedRows
from rigctl.campaign.journal.database import Questions, ask, fetch, transaction
from rigctl.campaign.journal.inserts import Book
from rigctl.campaign.journal.rows import Amendment, AwaitedRow, Pin, TripRow
from rigctl.campaign.ledger import IdleLine
from rigctl.campaign.trial import Event, State
from rigctl.codec import fields_of
from rigctl.errors import JournalError
from rigctl.rig.protocols import Unanswered


class IdleBook(Book):
    """What was used while no trial was under way."""

    def add(self, before_trial: int, lines: Sequence[IdleLine]) -> None:
        """Book lines inside the transaction that commits the readings they were made from."""
        self._do.add_idle(before_trial, lines)

    def book(self, lines: Sequence[IdleLine]) -> None:
        """Book what was used up to now, before it is known what comes next."""
        with transaction(self._connection):
            (following,) = self._connection.execute(
                # a proposal that a process left behind is the next trial: nothing of it has moved yet
                "SELECT coalesce((SELECT trial FROM trials WHERE state = 'PROPOSED'), "
                "(SELECT max(trial) + 1 FROM trials), 1)"
            ).fetchone()
            self.add(following, lines)


@dataclass(frozen=True, slots=True)
class Awaiting:
    """Says how the outcome of a trial comes whose rig part is over."""

    how: Literal["hand", "sensor"]
    in_s: float
    """Rig seconds until it is read, or given up."""


class AwaitedBook(Book):
    """Outcomes that come later, and are written beside the trial's record as a correction is (decision 0014)."""

    def add(self, trial: int, awaiting: Awaiting) -> None:
        """Note what a trial waits for inside the transaction that charges it."""
        due = self._time.wall() + timedelta(seconds=awaiting.in_s / self._time.clock.speedup)
        when = {"due_s": self._time.now_s() + awaiting.in_s, "due_utc": due.isoformat(timespec="milliseconds")}
        self._do.insert("awaited", {"trial": trial, "how": awaiting.how, **when, "epoch": self._time.epoch})

    def waiting(self, *, by_wall: bool = True) -> Mapping[int, float]:
        """Return the rig seconds until each outcome that has not come is due, by trial; negative: it was due then.

        Args:
            by_wall: whether the wall clock is asked as well, where a boot lies between.
        """
        still = {row["trial"] for row in ask(self._connection, "SELECT trial FROM trials WHERE state = 'AWAITING'")}
        rows = AwaitedRows(self._connection).rows()
        return {trial: self._left_s(row, by_wall=by_wall) for trial, row in rows.items() if trial in still}

    def _left_s(self, row: AwaitedRow, *, by_wall: bool) -> float:
        """Return the rig seconds until it is due; by the wall clock, if that says less, where a boot lies between.

        That may have been set right since the trial. So it is asked how long it is since the last sign of life of that
        boot; since the trial only where there is none.
        """
        left_s = row.due_s - self._time.now_s()
        if row.epoch == self._time.epoch or not by_wall:
            return left_s
        speedup, due_utc = self._time.clock.speedup, datetime.fromisoformat(row.due_utc)
        sql = "SELECT seen_s, seen_utc FROM starts WHERE epoch = ? ORDER BY id DESC LIMIT 1"
        for seen in ask(self._connection, sql, row.epoch):
            due_utc = datetime.fromisoformat(seen["seen_utc"]) + timedelta(
                seconds=(row.due_s - seen["seen_s"]) / speedup
            )
        return min(left_s, (due_utc - self._time.wall()).total_seconds() * speedup)

    def come(self, trial: int, outcomes: Mapping[str, float | None], who: str, why: str, act: str = "") -> None:
        """Record the outcome of a trial that awaits it, or (all None) that none comes; in one transaction.

        Args:
            trial: its number.
            outcomes: by name, own units.
            who: says so: a person, a sensor, or the campaign that waits no longer.
            why: for whoever reads it later.
            act: what a person did; goes into the audit. Empty: nobody did anything.

        Raises:
            JournalError: the trial does not await its outcome.
        """
        event = Event.FAIL if all(value is None for value in outcomes.values()) else Event.RECORD
        was, becomes = Amendment(outcomes=dict.fromkeys(outcomes)), Amendment(outcomes=outcomes)
        with transaction(self._connection):
            self._do.step(trial, State.AWAITING, event, why)
            values = {"trial": trial, "kind": "amend", "was": was, "becomes": becomes, "who": who, "why": why}
            self._do.insert("corrections", {**values, **self._time.stamp()})
            if act:
                self._do.add_act(act, who, f"trial {trial}", why, str(event))


class AnswerBook(Questions):
    """Whether doses did anything: evidence over the whole campaign, until a person has looked (fault 63)."""

    def keep(self, actuator: str, probe: str, moved: float, expected: float, *, answered: bool) -> None:
        """Record what this pump's last dose did.

        Raises:
            JournalError: it has no settled dose, or the last one has its answer already.
        """
        with transaction(self._connection):
            changed = self._connection.execute(
                "INSERT INTO answers (dose, probe, moved, expected, answered) "
                "SELECT id, ?, ?, ?, ? FROM doses WHERE id = "
                "(SELECT id FROM doses WHERE +actuator = ? ORDER BY id DESC LIMIT 1) "  # from the end, not all of them
                "AND state IN ('DONE', 'UNKNOWN') AND id NOT IN (SELECT dose FROM answers)",
                (probe, moved, expected, answered, actuator),
            ).rowcount
            if changed != 1:
                raise JournalError(f"{actuator}: no settled dose waits for an answer of {probe}")

    def unanswered(self, actuator: str, probe: str) -> Unanswered:
        """Return the doses since the last one that was answered; those forgiven do not count."""
        (row,) = ask(
            self._connection,
            "SELECT count(*) AS doses, count(DISTINCT trial) AS trials FROM answers "
            "CROSS JOIN doses ON doses.id = dose "  # from the last answer on, not by pump
            "WHERE +actuator = ?1 AND probe = ?2 AND NOT forgiven AND dose > coalesce((SELECT dose FROM answers "
            "CROSS JOIN doses ON doses.id = dose WHERE +actuator = ?1 AND probe = ?2 AND answered "
            "ORDER BY dose DESC LIMIT 1), 0)",
            actuator,
            probe,
        )
        return Unanswered(row["doses"], row["trials"])


class PinBook(Book):
    """Which instrument stands where: a row is never changed, the last one of a device counts."""

    def keep(self, pins: Iterable[Pin], accepted_by: str = "") -> None:
        """Pin instruments; `accepted_by` names the person who said so."""
        said = {"utc": self._time.utc(), "accepted": bool(accepted_by), "who": accepted_by}
        with transaction(self._connection):
            for pin in pins:
                self._do.insert("pins", {**fields_of(pin), **said})
                if accepted_by:
                    self._do.add_act("accept-device", accepted_by, pin.device, outcome=f"{pin} is expected there")


class TripBook(Book):
    """The trip's latch: what tripped stays tripped, also for the next process, until a person resets it."""

    def latch(self, reason: str) -> None:
        """Record a trip; while one is latched, the first reason stays."""
        with transaction(self._connection):
            self._connection.execute(
                "INSERT INTO trips (reason, utc, at_s) SELECT ?, ?, ? "
                "WHERE NOT EXISTS (SELECT 1 FROM trips WHERE reset_utc IS NULL)",
                (reason, self._time.utc(), self._time.now_s()),
            )

    def latched(self) -> TripRow | None:
        rows = fetch(self._connection, TripRow, "SELECT reason, utc FROM trips WHERE reset_utc IS NULL")
        return rows[0] if rows else None

    def reset(self, who: str = "") -> TripRow | None:
        """Let go of the latch, and record when and by whom; returns what it was, None if nothing was latched.

        Doses without an answer are forgiven: whoever has found the cause has looked at pumps and probes too.
        """
        was = self.latched()
        with transaction(self._connection):
            self._connection.execute("UPDATE trips SET reset_utc = ? WHERE reset_utc IS NULL", (self._time.utc(),))
            if was is not None:
                self._do.add_act("reset-trip", who, outcome=f"what had tripped: {was.reason}")
                self._connection.execute("UPDATE answers SET forgiven = 1 WHERE NOT answered AND NOT forgiven")
        return was
