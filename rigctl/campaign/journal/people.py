"""What people did: acts, alarms they minded, trials they carried out, corrections. None of it is erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeVar

from rigctl.campaign.journal.alarms import AlarmEvent, AlarmKey, AlarmMinded, Alarms, Begun, Mark, shelved_words
from rigctl.campaign.journal.database import transaction
from rigctl.campaign.journal.rows import (
    AcknowledgementRow,
    ActRow,
    AlarmRow,
    Amendment,
    AwaitedRow,
    ByHand,
    CorrectionRow,
    ImportRow,
    Kind,
    SuggestionRow,
    TrialRow,
)
from rigctl.campaign.journal.store import Book
from rigctl.campaign.journal.table import table_of
from rigctl.campaign.trial import UNDER_WAY, Decision, State
from rigctl.codec import fields_of
from rigctl.core.experiment.money import Micros
from rigctl.errors import JournalError, UsageError
from rigctl.rig.values import Alarm

T = TypeVar("T")

MANUAL: Final = "manual"
"""Verb of the acts by which a person moves single instruments; to read one is another."""
Shelving = Literal["shelve", "unshelve"]
_UNDER_WAY: Final = f"SELECT max(trial) FROM trials WHERE state IN {tuple(map(str, UNDER_WAY))}"  # noqa: S608 - our states
_ALARMS: Final = """
    SELECT alarms.*, coalesce(a.who, '') AS acknowledged, coalesce(a.utc, '') AS acknowledged_utc,
        coalesce(a.note, '') AS acknowledgement
    FROM alarms LEFT JOIN (SELECT alarm, who, utc, note FROM acknowledgements) a ON a.alarm = id"""
_MINDED: Final = """
    SELECT a.verb, coalesce(a.seconds, 0.0) AS seconds, a.who, a.why, a.utc, a.at_s, r.kind, r.source, r.id AS alarm
    FROM acts a JOIN alarms r ON r.id = a.alarm WHERE a.id > ? ORDER BY a.id"""


class PeopleBook(Book):
    """What people do."""

    def act(
        self, verb: str, who: str, argument: str = "", why: str = "", outcome: str = "", **about: float | None
    ) -> int:
        """Record what a person did, or tried to do, and what came of it; return its number."""
        with transaction(self._connection):
            return self._act(verb, who, argument, why, outcome, **about)

    def keep(self, kind: type, values: Mapping[str, Any], outcome: str = "", *, verb: str = "") -> None:
        """Record what a person did: a row of this kind, and the act that such a row comes with, in the audit.

        `verb` is the act's where the kind of row leaves it open.
        """
        declared, argument = table_of(kind).audited_as(values) or ("", "")
        with transaction(self._connection):
            self._insert(kind, values)
            self._act(declared or verb, values["who"], argument, values["why"], outcome)

    def kept(self, kind: type[T]) -> tuple[T, ...]:
        """Return all rows of a kind, in order."""
        return self._rows(kind)

    def suggest(self, decision: Decision) -> int:
        """Keep a decision that is handed to a person, once; return its number."""
        cells = table_of(SuggestionRow).cells(fields_of(decision))
        with transaction(self._connection):
            sql = "SELECT * FROM suggestions WHERE trial = ? ORDER BY id DESC LIMIT 1"
            for last in self._ask(sql, decision.trial):
                if all(last[column] == cell for column, cell in cells.items()):
                    return int(last["id"])
            return self._insert(SuggestionRow, fields_of(decision))

    def correct(self, trial: int, kind: Kind, was: Amendment, becomes: Amendment, *, who: str, why: str) -> int:
        """Put a correction beside a trial's record, and the act into the audit; return the correction's number.

        Raises:
            JournalError: the trial does not exist or is under way.
        """
        with transaction(self._connection):
            if not self._ask("SELECT 1 FROM events WHERE trial = ?", trial):
                raise JournalError(f"trial {trial}: not in this journal")
            values = {"trial": trial, "kind": kind, "was": was, "becomes": becomes, "who": who, "why": why}
            number = self._insert(CorrectionRow, values)
            self._act(kind, who, f"trial {trial}", why, f"correction {number}")
            return number

    def acts(self) -> tuple[ActRow, ...]:
        """Return the audit, in order."""
        return self._rows(ActRow)

    def pause(self) -> str:
        """Say who has paused the campaign, and why; empty: nobody has."""
        rows = self._rows(ActRow, "WHERE verb IN ('pause', 'resume') ORDER BY id DESC LIMIT 1")
        return next((paused_words(act.who, act.why) for act in rows if act.verb == "pause"), "")

    def moved_since(self, at_s: float) -> ActRow | None:
        """Return the first act by which a person moved single instruments from this campaign time on."""
        return self._row(ActRow, "WHERE verb = ? AND at_s >= ? ORDER BY id LIMIT 1", MANUAL, at_s)

    def paused_since(self, trial: int) -> str:
        """Say who has paused the campaign last since this trial was decided, and why; empty: nobody has."""
        decided = "(SELECT min(at_s) FROM events WHERE trial = ?)"
        which = f"WHERE verb = 'pause' AND at_s >= {decided} ORDER BY id DESC LIMIT 1"
        act = self._row(ActRow, which, trial)
        return "" if act is None else paused_words(act.who, act.why)

    def suggestions(self) -> Mapping[int, SuggestionRow]:
        """Return every decision that was handed to a person, by its number."""
        return {found.suggestion: found for found in self._rows(SuggestionRow)}

    def suggestion_for(self, trial: int) -> SuggestionRow | None:
        rows = [found for found in self.suggestions().values() if found.trial == trial]
        return rows[-1] if rows else None

    def imports(self) -> Mapping[int, ImportRow]:
        """Return the files of trials from before the campaign, by their number."""
        return {found.imported: found for found in self._rows(ImportRow)}

    def by_hand(self, which: str = "TRUE", *of: int) -> Mapping[int, ByHand]:
        """Return what is known besides of trials that a person did, by trial; `which` of them, in SQL, of `trial`."""
        numbers = [row["trial"] for row in self._ask(f"SELECT trial FROM by_hand WHERE {which} ORDER BY trial", *of)]  # noqa: S608 - ours
        return dict(zip(numbers, self._rows(ByHand, f"WHERE {which}", *of), strict=True))

    def corrections(self) -> tuple[CorrectionRow, ...]:
        return self._rows(CorrectionRow)

    def last_correction(self) -> int:
        """Return the number of the last correction; 0: none was made."""
        return self._number("SELECT max(id) FROM corrections")

    def adjustments(self) -> Mapping[int, Micros]:
        """Return by how much amended costs exceed what the ledger says, by trial; nobody pays imported ones."""
        corrections = self.corrections()
        if not corrections:
            return {}
        imported = {trial for trial, known in self.by_hand().items() if known.imported is not None}
        found: dict[int, Micros] = {}
        for c in corrections:
            if c.trial not in imported:
                found[c.trial] = found.get(c.trial, 0) + (c.becomes.amount or 0) - (c.was.amount or 0)
        return found


class AlarmBook(Book):
    """Alarms, each time that one was raised; what they are made of is `rigctl.campaign.journal.alarms`."""

    def add(self, alarm: Alarm) -> None:
        """Record that it was raised, in the trial under way if there is one."""
        (trial,) = self._connection.execute(_UNDER_WAY).fetchone()
        with transaction(self._connection):
            self._insert(AlarmRow, {"trial": trial, **fields_of(alarm)})

    def rows(self) -> tuple[AlarmRow, ...]:
        return self.last(None)[::-1]

    def last(self, most: int | None, trial: int | None = None) -> tuple[AlarmRow, ...]:
        """Return the last so many (None: all), of one trial or of all, the newest first; who has seen them besides."""
        which = "WHERE ?1 IS NULL OR trial = ?1 ORDER BY id DESC LIMIT coalesce(?2, -1)"
        return self._fetch(AlarmRow, f"{_ALARMS} {which}", trial, most)

    def acknowledge(self, alarm: int, who: str, note: str = "") -> None:
        """Record that a person has seen an alarm, and that they said so.

        Raises:
            UsageError: there is no such alarm, or somebody has acknowledged it already.
        """
        self.key(alarm)
        with transaction(self._connection):
            for first in self._rows(AcknowledgementRow, "WHERE alarm = ?", alarm):
                raise UsageError(f"alarm {alarm}: {first.who} has acknowledged it already, {first.utc}")
            self._insert(AcknowledgementRow, {"alarm": alarm, "who": who, "note": note})
            self._act("ack", who, f"alarm {alarm}", note, "acknowledged", alarm=alarm)

    def mind(self, verb: Shelving, alarm: int, who: str, why: str, seconds: float = 0.0) -> str:
        """Record that nobody is to be told of an alarm for a while, or is again; return what is kept, in words.

        Raises:
            UsageError: there is no such alarm, or nobody may shelve for so long.
        """
        self.key(alarm)
        shelving = verb == "shelve"
        argument = shelved_words(alarm, seconds) if shelving else f"alarm {alarm}"
        outcome = "not reported until then" if shelving else "reported again"
        with transaction(self._connection):
            self._act(verb, who, argument, why, outcome, alarm=alarm, seconds=seconds if shelving else None)
        return f"{argument}: {outcome}"

    def mark(self) -> Mark:
        """Return the last rows that there are."""
        sql = "SELECT {} AS alarm, {} AS act, {} AS start"
        tables = (f"(SELECT coalesce(max(id), 0) FROM {table})" for table in ("alarms", "acts", "starts"))  # noqa: S608 - ours
        return self._fetch(Mark, sql.format(*tables))[0]

    def events(self, after: Mark | None = None) -> tuple[AlarmEvent, ...]:
        """Return all that came after; None: everything."""
        after = after or Mark()
        begun = self._fetch(Begun, "SELECT utc, at_s FROM starts WHERE id > ? ORDER BY id", after.start)
        raised = self._rows(AlarmRow, "WHERE id > ?", after.alarm)
        return (*begun, *raised, *self._fetch(AlarmMinded, _MINDED, after.act))

    def folded(self, known: Alarms | None = None) -> Alarms:
        """Return all alarms, going on from those that are known: only what came after them is read."""
        known, last = known or Alarms(), self.mark()
        return known if known.read == last else replace(known.taken(self.events(known.read)), read=last)

    def key(self, alarm: int) -> AlarmKey:
        """Return kind and source of the alarm with this number; raises UsageError if there is none."""
        for found in self._ask("SELECT kind, source FROM alarms WHERE id = ?", alarm):
            return found["kind"], found["source"]
        raise UsageError(f"alarm {alarm}: not in this journal; `rigctl alarm list --all` lists them")

    def now_s(self) -> float:
        """Return the campaign time that the journal was last alive at."""
        return float(self._ask("SELECT coalesce(max(seen_s), 0.0) AS now FROM starts")[0]["now"])


def by_trial(corrections: Sequence[CorrectionRow]) -> Mapping[int, tuple[CorrectionRow, ...]]:
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
    amends = [c for c in corrections if c.kind == "amend"]
    values: dict[str, float | None] = {**trial.measured}
    outcomes: dict[str, float | None] = {outcome: trial.outcome, **trial.further}
    amount, remark = None, "" if known is None else known.note
    for amendment in (c.becomes for c in amends):
        values |= amendment.values
        outcomes |= amendment.outcomes
        amount = amount if amendment.amount is None else amendment.amount
        remark = remark if amendment.note is None else amendment.note
    first = outcomes.pop(outcome)
    said = [c for c in amends if c.becomes.outcomes]
    came = said[0] if awaited is not None and said else None
    state = trial.state if awaited is None else State.AWAITING
    if said:
        state = State.RECORDED if first is not None else State.FAILED
    charged, by_hand = _charged(trial, known, amount)
    return replace(
        charged,
        measured=_known(values),
        outcome=first,
        further=_known(outcomes),
        state=state,
        whole=trial.whole or bool(said) or any(c.becomes.values for c in amends),
        by_hand=by_hand,
        remark=remark,
        corrected=tuple(c for c in corrections if c is not came),
        awaited=awaited,
        came=came,
    )


def _charged(trial: TrialRow, known: ByHand | None, amount: Micros | None) -> tuple[TrialRow, ByHand | None]:
    """Return a trial with the amount that a correction says, if one does, and what is known of it besides."""
    if amount is None:
        return trial, known
    if known is not None and known.imported is not None:  # what it cost then: nobody pays that
        return trial, replace(known, amount=amount)
    return replace(trial, cost=amount, estimated=False), known


def _known(values: Mapping[str, float | None]) -> Mapping[str, float]:
    return {name: value for name, value in values.items() if value is not None}


def paused_words(who: str, why: str) -> str:
    return f"paused by {who}: {why}" if why else f"paused by {who}"
