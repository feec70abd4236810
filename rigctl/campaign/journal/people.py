"""What people did: acts, acknowledged alarms, trials they carried out, corrections. None of it is erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal

from rigctl.campaign.alarms import shelved_words
from rigctl.campaign.decision import Decision
from rigctl.campaign.journal.alarms import AlarmRows
from rigctl.campaign.journal.database import Questions, ask, fetch, transaction
from rigctl.campaign.journal.inserts import Book
from rigctl.campaign.journal.rows import (
    ActRow,
    Amendment,
    AwaitedRow,
    ByHand,
    CorrectionRow,
    ImportRow,
    Kind,
    Source,
    SuggestionRow,
    TrialRow,
)
from rigctl.campaign.trial import State
from rigctl.codec import fields_of, row
from rigctl.core.money import Micros
from rigctl.errors import JournalError, UsageError

_ALL: Final = 2**62
Shelving = Literal["shelve", "unshelve"]


class PeopleBook(Book):
    """Writes it. Each call returns only after the record is on disk."""

    def act(
        self, verb: str, who: str, argument: str = "", why: str = "", outcome: str = "", **about: float | None
    ) -> int:
        """Record what a person did, or tried to do, and what came of it; return its number."""
        with transaction(self._connection):
            return self._do.add_act(verb, who, argument, why, outcome, **about)

    def acknowledge(self, alarm: int, who: str, note: str = "") -> None:
        """Record that a person has seen an alarm, and that they said so.

        Raises:
            UsageError: there is no such alarm, or somebody has acknowledged it already.
        """
        AlarmRows(self._connection).key(alarm)
        with transaction(self._connection):
            for first in ask(self._connection, "SELECT who, utc FROM acknowledgements WHERE alarm = ?", alarm):
                raise UsageError(f"alarm {alarm}: {first['who']} has acknowledged it already, {first['utc']}")
            self._do.insert("acknowledgements", {"alarm": alarm, "who": who, "note": note, **self._time.stamp()})
            self._do.add_act("ack", who, f"alarm {alarm}", note, "acknowledged", alarm=alarm)

    def mind_alarm(
        self, verb: Literal["shelve", "unshelve"], alarm: int, who: str, why: str, seconds: float = 0.0
    ) -> str:
        """Record that nobody is to be told of an alarm for a while, or is again; return what is kept, in words.

        Raises:
            UsageError: there is no such alarm, or nobody may shelve for so long.
        """
        AlarmRows(self._connection).key(alarm)
        shelving = verb == "shelve"
        argument = shelved_words(alarm, seconds) if shelving else f"alarm {alarm}"
        outcome = "nobody is told of it until then" if shelving else "people are told of it again"
        self.act(verb, who, argument, why, outcome, alarm=alarm, seconds=seconds if shelving else None)
        return f"{argument}: {outcome}"

    def suggest(self, decision: Decision) -> int:
        """Keep a decision that is handed to a person, once; return its number."""
        values = fields_of(decision)
        del values["traceback"]
        cells = row(values)
        with transaction(self._connection):
            sql = "SELECT * FROM suggestions WHERE trial = ? ORDER BY id DESC LIMIT 1"
            for last in ask(self._connection, sql, decision.trial):
                if all(last[column] == cell for column, cell in cells.items()):
                    return int(last["id"])
            return self._do.insert("suggestions", {**values, **self._time.stamp(), "start": self._do.last_start()})

    def correct(self, trial: int, kind: Kind, was: Amendment, becomes: Amendment, *, who: str, why: str) -> int:
        """Put a correction beside a trial's record, and the act into the audit; return the correction's number.

        Raises:
            JournalError: there is no such trial, or it is under way.
        """
        with transaction(self._connection):
            if not ask(self._connection, "SELECT 1 FROM events WHERE trial = ?", trial):
                raise JournalError(f"trial {trial}: not in this journal")
            values = {"trial": trial, "kind": kind, "was": was, "becomes": becomes, "who": who, "why": why}
            number = self._do.insert("corrections", {**values, **self._time.stamp()})
            self._do.add_act(kind, who, f"trial {trial}", why, f"correction {number}")
            return number

    def add_import(self, source: Source, trials: int) -> int:
        """Note a file inside the transaction that records its trials; return its number."""
        values = fields_of(source)
        return self._do.insert(
            "imports", {"source": values.pop("name"), **values, "trials": trials, **self._time.stamp()}
        )

    def add_by_hand(self, trial: int, known: ByHand) -> None:
        """Note what is known besides of a trial inside the transaction that records it."""
        values = fields_of(known)
        self._do.insert("by_hand", {"trial": trial, "import": values.pop("imported"), **values})


class PeopleRows(Questions):
    """Answers what is asked about it."""

    def acts(self) -> tuple[ActRow, ...]:
        """Return the audit, in order."""
        return self._rows(ActRow, "SELECT *, id AS act FROM acts ORDER BY id")

    def paused_since(self, trial: int) -> ActRow | None:
        """Return the last pause that somebody asked for after this trial was decided."""
        sql = (
            "SELECT *, id AS act FROM acts WHERE verb = 'pause' AND at_s >= (SELECT min(at_s) FROM events "
            "WHERE trial = ?) ORDER BY id DESC LIMIT 1"
        )
        return next(iter(self._rows(ActRow, sql, trial)), None)

    def suggestions(self) -> Mapping[int, SuggestionRow]:
        """Return every decision that was handed to a person, by its number."""
        sql = "SELECT *, id AS suggestion FROM suggestions ORDER BY id"
        return {found.suggestion: found for found in self._rows(SuggestionRow, sql)}

    def suggestion_for(self, trial: int) -> SuggestionRow | None:
        """Return the last one that was made for this trial."""
        rows = [found for found in self.suggestions().values() if found.trial == trial]
        return rows[-1] if rows else None

    def imports(self) -> Mapping[int, ImportRow]:
        """Return the files of trials from before the campaign, by their number."""
        rows = self._rows(ImportRow, "SELECT *, id AS imported FROM imports ORDER BY id")
        return {found.imported: found for found in rows}

    def by_hand(self, trial: int | None = None) -> Mapping[int, ByHand]:
        """Return what is known besides of trials that a person did (of one, or of all), by trial."""
        which, of = ("", ()) if trial is None else ("WHERE trial = ?", (trial,))
        sql = f"SELECT *, import AS imported FROM by_hand {which} ORDER BY trial"  # noqa: S608 - our own words
        numbers = [cells["trial"] for cells in ask(self._connection, sql, *of)]
        return dict(zip(numbers, fetch(self._connection, ByHand, sql, *of), strict=True))

    def corrections(self, last: int | None = None, trial: int | None = None) -> tuple[CorrectionRow, ...]:
        """Return what was corrected (of one trial, or of all), in order, up to the correction of this number."""
        which, of = ("", ()) if trial is None else ("AND trial = ?", (trial,))
        sql = f"SELECT *, id AS correction FROM corrections WHERE id <= ? {which} ORDER BY id"  # noqa: S608 - as above
        return self._rows(CorrectionRow, sql, _ALL if last is None else last, *of)

    def last_correction(self) -> int:
        """Return the number of the last correction; 0: none was made."""
        return int(ask(self._connection, "SELECT coalesce(max(id), 0) AS last FROM corrections")[0]["last"])

    def adjustment(self) -> Micros:
        """Return by how much amended costs exceed what the ledger says."""
        return sum(self.adjustments().values())

    def adjustments(self) -> Mapping[int, Micros]:
        """Return the same by trial; imported ones are left out: nobody pays them."""
        corrections = self.corrections()
        if not corrections:
            return {}
        imported = {trial for trial, known in self.by_hand().items() if known.imported is not None}
        found: dict[int, Micros] = {}
        for c in corrections:
            if c.trial not in imported:
                found[c.trial] = found.get(c.trial, 0) + (c.becomes.amount or 0) - (c.was.amount or 0)
        return found


def by_trial(corrections: Sequence[CorrectionRow]) -> Mapping[int, tuple[CorrectionRow, ...]]:
    """Return corrections in order, by the trial they are of."""
    found: dict[int, list[CorrectionRow]] = {}
    for correction in corrections:
        found.setdefault(correction.trial, []).append(correction)
    return {trial: tuple(rows) for trial, rows in found.items()}


def corrected(
    trial: TrialRow,
    known: ByHand | None,
    corrections: tuple[CorrectionRow, ...],
    outcome: str,
    awaited: AwaitedRow | None = None,
) -> TrialRow:
    """Return a trial as corrected, with what is known of it besides; `outcome` is the name of the first outcome.

    One whose outcome was `awaited` awaits it still, as far as these corrections go, until one of them says what came.
    """
    amendments = [c.becomes for c in corrections if c.kind == "amend"]
    values: dict[str, float | None] = {**trial.measured}
    outcomes: dict[str, float | None] = {outcome: trial.outcome, **trial.further}
    amounts = [a.amount for a in amendments if a.amount is not None]
    notes = [a.note for a in amendments if a.note is not None]
    for amendment in amendments:
        values |= amendment.values
        outcomes |= amendment.outcomes
    if known is not None and known.imported is not None and amounts:
        known = replace(known, amount=amounts[-1])
    first = outcomes.pop(outcome)
    state, came = trial.state, None
    if awaited is not None:
        state = State.AWAITING
        came = next((c for c in corrections if c.kind == "amend" and c.becomes.outcomes), None)
    if any(a.outcomes for a in amendments):
        state = State.RECORDED if first is not None else State.FAILED
    charged = amounts[-1:] if known is None or known.imported is None else []
    return replace(
        trial,
        measured={name: value for name, value in values.items() if value is not None},
        outcome=first,
        further={name: value for name, value in outcomes.items() if value is not None},
        state=state,
        whole=trial.whole or any(a.values or a.outcomes for a in amendments),
        cost=charged[0] if charged else trial.cost,
        estimated=trial.estimated and not charged,
        by_hand=known,
        remark=notes[-1] if notes else "" if known is None else known.note,
        corrected=tuple(c for c in corrections if c is not came),
        awaited=awaited,
        came=came,
    )
