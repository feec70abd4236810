"""What a person may correct of a trial that is over, and the outcomes that people enter of trials that await them.

A trial is left out, taken in again, or amended where it was recorded wrongly. Nothing is erased. The record of the
trial stays as it was written; the correction stands beside it, says who made it and why, and holds from the next
decision on.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from rigctl.campaign.instruments import astray
from rigctl.campaign.journal.beside import CAMPAIGN
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import Amendment, CampaignRow, TrialRow
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.trial import State
from rigctl.core.experiment.money import to_units
from rigctl.errors import UsageError, counted
from rigctl.rig.spec import RigSpec
from rigctl.text import in_full

MOST = 1e300
"""No quantity is larger; what is not finite is not below it either."""
_MEASURABLE = (State.RECORDED, State.FAILED)


def void(journal: Journal, trial: int, who: str, why: str) -> str:
    """Leave a trial out of what the policy learns from; what it cost stays spent. Return what came of it, in words.

    Raises:
        UsageError: there is no such trial, it is under way or void already, or no reason is given.
    """
    row = _over(journal, trial, why)
    if row.voided:
        last = [c for c in row.corrected if c.kind == "void"][-1]
        raise UsageError(f"void: trial {trial}: {last.who} has voided it already, {last.utc}: {last.why}")
    journal.people.correct(trial, "void", Amendment(), Amendment(), who=who, why=why)
    cost = f"{in_full(to_units(row.cost), 6)} {journal.read.campaign().currency}"
    spent = "" if row.imported else f"; its cost of {cost} stays spent"
    return f"trial {trial} is left out from the next decision on{spent}"


def restore(journal: Journal, trial: int, who: str, why: str) -> str:
    """Take a void trial in again. Return what came of it, in words.

    Raises:
        UsageError: there is no such trial, it is not void, or no reason is given.
    """
    if not _over(journal, trial, why).voided:
        raise UsageError(f"void --undo: trial {trial}: is not void; `rigctl export` lists trials and what they are")
    journal.people.correct(trial, "restore", Amendment(), Amendment(), who=who, why=why)
    return f"trial {trial} counts again from the next decision on"


def amend(journal: Journal, trial: int, becomes: Amendment, who: str, why: str) -> str:
    """Correct what was recorded of a trial. Return what came of it, in words.

    Args:
        journal: open for writing.
        trial: its number.
        becomes: what is amended; all outcomes None: it failed.
        who: amends it.
        why: for whoever reads it later.

    Raises:
        UsageError: there is no such trial, it is under way, nothing changes, or what came out could not have been.
    """
    names = names_of(journal.read.campaign())
    row = _over(journal, trial, why)
    if (becomes.values or becomes.outcomes) and row.state not in _MEASURABLE:
        raise UsageError(f"amend: trial {trial}: is {row.state}, not measured; only cost and note can change")
    was = _as_it_is(row, becomes, names[1])
    if was == becomes:
        raise UsageError(f"amend: trial {trial}: is so already; nothing to amend")
    _check(row, becomes, names)
    journal.people.correct(trial, "amend", was, becomes, who=who, why=why)
    return f"trial {trial}: {'; '.join(changes(was, becomes, journal.read.campaign().currency))}"


def names_of(campaign: CampaignRow) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a campaign's variables, and of its outcomes in order."""
    further = json.loads(campaign.identity.get("further_outcomes", "[]"))
    return tuple(json.loads(campaign.identity["variables.names"])), (campaign.outcome, *(f["name"] for f in further))


def changes(was: Amendment, becomes: Amendment, currency: str) -> tuple[str, ...]:
    """Say what is amended, one phrase each."""

    def said(value: float | None) -> str:
        return "nothing" if value is None else f"{value:g}"

    before = {**was.values, **was.outcomes}
    parts = [f"{n} {said(before.get(n))} -> {said(v)}" for n, v in {**becomes.values, **becomes.outcomes}.items()]
    if becomes.amount is not None:
        old = None if was.amount is None else to_units(was.amount)
        parts.append(f"cost {said(old)} -> {in_full(to_units(becomes.amount), 6)} {currency}")
    if becomes.note is not None:
        parts.append(f'note "{was.note or ""}" -> "{becomes.note}"')
    return tuple(parts)


def _over(journal: Journal, trial: int, why: str) -> TrialRow:
    row = journal.read.trial(trial)
    if row.state is State.AWAITING:
        raise UsageError(
            f"trial {trial}: awaits its outcome; `rigctl outcome {trial} VALUE` records it, "
            "with --lost that none comes; then it can be corrected"
        )
    if not row.state.final:
        raise UsageError(f"trial {trial}: is under way ({row.state}); it can be corrected when it is over")
    if not why.strip():
        raise UsageError(f"trial {trial}: say why, with --why: a correction is read by others later")
    return row


def _as_it_is(row: TrialRow, becomes: Amendment, outcomes: Sequence[str]) -> Amendment:
    """Return what stands now where something is amended."""
    measured = {outcomes[0]: row.outcome, **row.further}
    amount = row.by_hand.amount if row.imported and row.by_hand is not None else row.cost
    return Amendment(
        values={name: row.measured.get(name) for name in becomes.values},
        outcomes={name: measured.get(name) for name in becomes.outcomes},
        amount=None if becomes.amount is None else amount,
        note=None if becomes.note is None else row.remark,
    )


def _check(row: TrialRow, becomes: Amendment, names: tuple[Sequence[str], Sequence[str]]) -> None:
    variables, outcomes = names
    for kind, known, given in (("variable", variables, becomes.values), ("outcome", outcomes, becomes.outcomes)):
        for name in given:
            if name not in known:
                raise UsageError(f"amend: {name}: is no {kind} of this campaign; known: {', '.join(known)}")
    for name, value in {**becomes.values, **becomes.outcomes}.items():
        if value is not None and not (isinstance(value, int | float) and abs(value) <= MOST):
            raise UsageError(f"amend: {name}: got {value!r:.40}, must be a finite number")
    if becomes.amount is not None and not isinstance(becomes.amount, int):
        raise UsageError(f"amend: cost: got {becomes.amount!r}, must be whole micro-units of money")
    if becomes.amount is not None and becomes.amount < 0:
        raise UsageError(f"amend: cost: got {in_full(to_units(becomes.amount), 6)}, must not be negative")
    _check_whole(row, becomes, names)


def _check_whole(row: TrialRow, becomes: Amendment, names: tuple[Sequence[str], Sequence[str]]) -> None:
    """Refuse an amendment that leaves a trial with an outcome, but without something that it needs."""
    variables, outcomes = names
    first = {outcomes[0]: row.outcome, **row.further, **becomes.outcomes}
    measured = {**row.measured, **becomes.values}
    if all(first.get(name) is None for name in outcomes):
        return
    missing = [n for n in variables if measured.get(n) is None] + [n for n in outcomes if first.get(n) is None]
    if missing and (becomes.values or becomes.outcomes):
        raise UsageError(
            f"amend: trial {row.trial}: {', '.join(missing)}: is missing, but the trial has an outcome; give it with "
            "--values, or take the outcome away with --failed"
        )


# Outcomes that people enter ------------------------------------------------------------------------------------------


def give(journal: Journal, trial: int, outcomes: Mapping[str, float], who: str, why: str = "") -> str:
    """Record what a person says came of a trial that awaits it. Return that in words.

    Raises:
        UsageError: it does not await this, or a value cannot have been.
    """
    awaits(journal.read, journal.read.trial(trial), outcomes)
    for name, value in outcomes.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= MOST:
            raise UsageError(f"outcome: trial {trial}: {name}: got {value!r:.40}, must be a finite number")
    journal.awaited.come(trial, {n: float(v) for n, v in outcomes.items()}, who, why, act="outcome")
    said = ", ".join(f"{name} {value:g}" for name, value in outcomes.items())
    left = len(journal.awaited.waiting())
    return f"trial {trial}: {said}; {counted(left, 'outcome') if left else 'no outcome'} still awaited"


def give_up(journal: Journal, trial: int, who: str, why: str) -> str:
    """Record that no outcome comes of a trial, as a person says. Return that in words.

    Raises:
        UsageError: it awaits none, or no reason is given.
    """
    missing = _awaited_names(journal.read, journal.read.trial(trial))
    if not why.strip():
        raise UsageError(f"outcome: trial {trial}: say why none comes, with --why: it is read by others later")
    journal.awaited.come(trial, dict.fromkeys(missing), who, why, act="outcome")
    return f"trial {trial}: ends without an outcome; its cost stays spent"


def give_all_the_same(journal: Journal, trial: int, outcomes: Mapping[str, float], who: str, why: str) -> str:
    """Amend a trial that was given up by the outcome that came after all. Return that in words.

    Raises:
        UsageError: it was not given up, or the outcome could not have been.
    """
    row = journal.read.trial(trial)
    if not given_up(row):
        return give(journal, trial, outcomes, who, why)
    because = why or "its outcome came after it was given up"
    return amend(journal, trial, Amendment(outcomes=dict(outcomes)), who, because)


def given_up(row: TrialRow) -> bool:
    """Tell whether a trial ended without the outcome it awaited."""
    return row.awaited is not None and row.state is State.FAILED


def awaits(reader: Reader, row: TrialRow, outcomes: Iterable[str]) -> None:
    """Raise `UsageError` unless these are the outcomes that a trial awaits, all of them."""
    said, missing = tuple(outcomes), _awaited_names(reader, row)
    if set(said) != set(missing):
        got = ", ".join(said) or "nothing"
        raise UsageError(f"outcome: trial {row.trial}: got {got}, must be all that it awaits: {', '.join(missing)}")


def _awaited_names(reader: Reader, row: TrialRow) -> tuple[str, ...]:
    """Return the outcomes that a trial awaits.

    Raises:
        UsageError: it awaits none.
    """
    number = row.trial
    if row.state is State.AWAITING:
        first, *further = names_of(reader.campaign())[1]
        known = {first: row.outcome, **{name: row.further.get(name) for name in further}}
        return tuple(name for name, value in known.items() if value is None)
    if row.awaited is not None and row.came is not None and row.state is State.FAILED:
        raise UsageError(
            f"outcome: trial {number}: was given up on {row.came.utc}: {row.came.why}; "
            "--force records its outcome all the same, as an amendment"
        )
    if row.state.final and row.outcome is not None:
        amended = [c for c in row.corrected if c.becomes.outcomes]
        said = amended[-1] if amended else row.came
        by = "" if said is None else f" by {said.who} on {said.utc}"
        raise UsageError(
            f"outcome: trial {number}: has its outcome already, {row.outcome:g}{by}; "
            f"`rigctl amend {number} --outcome VALUE --why TEXT` corrects it"
        )
    raise UsageError(f"outcome: trial {number}: is {row.state} and awaits none; `rigctl outcome` lists those that do")


def void_misses(journal: Journal, rig: RigSpec) -> bool:
    """Void the trials that show a variable astray, each once; return whether there were any.

    A trial that awaits its outcome is voided when that has come; one that a person has taken in again stays.
    """
    found = [(trial, one.missed(trial)) for one in astray(journal.read, rig).values() for trial in one.misses]
    rows = {trial: journal.read.trial(trial) for trial, _ in found}
    fresh = [n for n, row in rows.items() if row.state.final and not any(c.kind != "amend" for c in row.corrected)]
    for trial in fresh:
        void(journal, trial, CAMPAIGN, "; ".join(why for number, why in found if number == trial))
    return bool(fresh)
