"""What holds in every journal, whatever has happened to the process that wrote it: checks over rows. Pure.

Each check looks at rows as they stand in their tables, not at what is made of them, and names what it finds by table
and row. None of them may find anything in a journal that only rigctl has written, at whatever instant it was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from math import inf, isfinite
from types import MappingProxyType
from typing import Any, Final

from rigctl.campaign.journal.beside import CAMPAIGN
from rigctl.campaign.journal.reader import Reader
from rigctl.campaign.journal.rows import BEGUN, INGESTED, TABLES
from rigctl.campaign.journal.stored import (
    AMEND,
    SEEK,
    Caps,
    GivenSum,
    Row,
    Rows,
    Violation,
    amendment,
    document,
    is_usable,
    known_state,
    violation,
)
from rigctl.campaign.journal.table import Table
from rigctl.campaign.trial import TRANSITIONS, Event, IllegalTransition, State, advance
from rigctl.codec import parsed, typed
from rigctl.core.experiment.money import Micros, to_micros
from rigctl.errors import RigctlError
from rigctl.rig.protocols import Severity
from rigctl.text import in_full, set_label

Check = Callable[[Rows], Iterator[Violation]]
_NEAR: Final = 1e-9
OPEN_DOSE: Final = ("INTENT", "SENT")
"""States of a dose that has no end yet."""
SAID: Final = "outcome"
"""Verb of the act by which a person says an outcome that was awaited."""


def violations(
    reader: Reader, caps: Caps = MappingProxyType({}), checks: Iterable[Check] | None = None
) -> tuple[Violation, ...]:
    """Return every row that cannot be as it stands; of a journal that is being written, in a transaction.

    Where `caps` say nothing of a pump, its doses are not held against any; `checks` are all of `CHECKS`.
    """
    return broken(Rows.of(reader.connection, caps), checks)


def broken(rows: Rows, checks: Iterable[Check] | None = None) -> tuple[Violation, ...]:
    """Return the same of rows, wherever they are from."""
    return tuple(found for check in (CHECKS if checks is None else checks) for found in _all_of(check, rows))


def _all_of(check: Check, rows: Rows) -> Iterator[Violation]:
    try:
        yield from check(rows)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        name = getattr(check, "__name__", "check")
        yield Violation(name, "", f"a value is not of the kind it must be ({type(error).__name__}: {error})")


# What every row needs -------------------------------------------------------------------------------------------------


def dangling(rows: Rows) -> Iterator[tuple[Table, Row, str]]:
    """Yield rows that name another one that is not there, and the column in which they do."""
    for table in TABLES.values():
        for column, named in table.references.items():
            there = {None, *rows.keys(named.name)}
            yield from ((table, row, column) for row in rows[table.name] if row[column] not in there)


def references(rows: Rows) -> Iterator[Violation]:
    """Find rows that name another one that is not there."""
    for table, row, column in dangling(rows):
        named = table.references[column].name
        yield violation(row, table.name, f"names {named} {row[column]}, which is not there")


def documents(rows: Rows) -> Iterator[Violation]:
    """Find JSON that does not read as what it is."""
    for table in TABLES.values():
        for column in (one for one in table.columns.values() if one.json):
            for row in (one for one in rows[table.name] if one[column.name] is not None):
                try:
                    typed(column.hint, parsed(row[column.name]))
                except (ValueError, TypeError, KeyError, AttributeError, RigctlError) as error:
                    yield violation(row, table.name, f"{column.name} does not read: {type(error).__name__}: {error}")


def unaudited(rows: Rows) -> Iterator[tuple[Table, Row, str, str]]:
    """Yield rows whose act is not in the audit, with its verb (empty: any) and argument."""
    by = {(row["argument"], row["who"]) for row in rows["acts"]}
    how = {row["trial"]: row["how"] for row in rows["awaited"]}
    for table in TABLES.values():
        for row in rows[table.name] if table.act else ():
            verb, argument = table.audited_as(dict(row)) or ("", "")
            if table.name == "corrections" and rows.came.get(row["trial"], (0, {}))[0] == row["id"]:
                if how.get(row["trial"]) != "hand" or row["who"] == CAMPAIGN:
                    continue  # a sensor, or nobody, said what came
                verb = SAID
            if (verb, argument) not in rows.acts and (verb or (argument, row["who"]) not in by):
                yield table, row, verb, argument


def audit(rows: Rows) -> Iterator[Violation]:
    """Find what people did that stands in no audit."""
    for table, row, _, argument in unaudited(rows):
        yield violation(row, table.name, f"the audit has no act of {row['who']} on {argument}")


# Trials and their steps -----------------------------------------------------------------------------------------------


def steps(rows: Rows) -> Iterator[Violation]:
    """Find trials whose steps are not those of the table of transitions, or that have no end, or more than one."""
    for trial, events in rows.events.items():
        state: State | None = None
        for row in events:
            try:
                state = advance(state, Event(row["event"]))
            except (ValueError, IllegalTransition) as error:
                yield violation(row, "events", f"trial {trial}: {error}")
                state = known_state(row["state"])
            if state is not None and row["state"] != state:
                yield violation(row, "events", f"trial {trial}: {row['event']} leads to {state}, not {row['state']}")
    for row in rows["trials"]:
        events = rows.events.get(row["trial"], ())
        if not events:
            yield violation(row, "trials", "has no event: nothing says how it came about")
        elif events[-1]["state"] != row["state"]:
            yield violation(row, "trials", f"is {row['state']}, but its last event says {events[-1]['state']}")
        states = [(e["event"], known_state(e["state"])) for e in events]
        ends = [event for event, state in states if state is not None and state.final]
        if len(ends) > 1:
            yield violation(row, "trials", f"has {len(ends)} ends: {', '.join(ends)}")


def order(rows: Rows) -> Iterator[Violation]:
    """Find trials that are missing, begun before the one before was over, and steps that go back in time."""
    numbers = [row["trial"] for row in rows["trials"]]
    for number, expected in zip(numbers, range(1, len(numbers) + 1), strict=True):
        if number != expected:
            yield Violation("trials", f"trial {expected}", f"is missing: the next one is {number}")
            break
    for before, after in pairwise(numbers):
        ended, begun = rows.events.get(before, ()), rows.events.get(after, ())
        if ended and begun and begun[0]["id"] < over(ended)["id"]:
            yield Violation("events", f"trial {after}", f"began before trial {before} was over")
    for row in rows["trials"][:-1]:
        state = known_state(row["state"])
        if state is None or not state.charged:
            yield violation(row, "trials", f"is {row['state']}, though later ones have begun")
    for table in ("events", "starts"):
        for earlier, later in pairwise(rows[table]):
            if later["at_s"] < earlier["at_s"] - _NEAR:
                yield violation(later, table, f"goes back in time, by {earlier['at_s'] - later['at_s']:g} s")


def unwritten(rows: Rows) -> Iterator[tuple[Table, int, Sequence[Row]]]:
    """Yield rows of a trial that never came to a step that could have written them."""
    for table in (one for one in TABLES.values() if one.written_by):
        for trial, found in rows.by_trial(table.name).items():
            if not any(event in rows.said(trial) for event in table.written_by):
                yield table, trial, found


def evidence(rows: Rows) -> Iterator[Violation]:
    """Find what only a later step of its trial could have written, and steps without what they write."""
    for table, trial, found in unwritten(rows):
        yield violation(found[0], table.name, f"trial {trial} never came to {' or '.join(table.written_by)}")
    needed = rows.needed
    measured = rows.by_trial("measurements")
    for trial in (t for t in rows.events if Event.RECORD in rows.said(t)):
        usable = {row["name"] for row in measured.get(trial, ()) if is_usable(row)} | rows.came_of(trial)
        if not needed <= usable:
            missing = ", ".join(sorted(needed - usable))
            yield Violation("measurements", f"trial {trial}", f"is RECORDED without a value of {missing}")
    for name in ("measurements", "looks"):
        for row in rows[name]:
            lacking, valid = row["value"] is None, row["severity"] < Severity.INVALID
            kept = name == "measurements" or lacking  # of a look, nothing is kept that is not valid
            if not 0 <= row["severity"] <= Severity.INVALID or (lacking if valid else not kept):
                yield violation(row, name, f"has the value {row['value']} at severity {row['severity']}")


def unread(rows: Rows) -> Iterator[int]:
    """Yield trials that were decided after a look of which nothing is kept."""
    read = rows.by_trial("looks")
    yield from (n for n in rows.events if n not in read and {Event.LOOK, Event.PROPOSE} <= rows.said(n).keys())


def looks(rows: Rows) -> Iterator[Violation]:
    """Find trials decided by a look of which nothing is kept, and such as have a decision before they were decided."""
    for row in rows["trials"]:
        if not is_decided(rows, row["trial"]) and (row["proposal"] is not None or row["policy_state"] is not None):
            yield violation(row, "trials", "has a decision, but no step says that it was decided")
    for trial in unread(rows):
        yield Violation("looks", f"trial {trial}", "was decided after a look, but nothing says what was read")


def chosen(rows: Rows) -> Iterator[Violation]:
    """Find setpoints outside what was decided, and what was driven though it was not chosen."""
    imposed = rows.by_trial("states")
    for row in rows["trials"]:
        members, setpoints = document(row, "control_set"), document(row, "setpoints")
        if members is None or setpoints is None or not is_decided(rows, row["trial"]):
            continue  # told as a document, or by `looks`
        yield from _allowed(rows, row, members, setpoints)
        for state in imposed.get(row["trial"], ()):
            wanted = setpoints.get(state["variable"])
            if bool(state["controlled"]) != (wanted is not None) or state["setpoint"] != wanted:
                said = "let go" if wanted is None else f"set to {in_full(wanted)}"
                yield violation(
                    state, "states", f"{state['variable']} reads {state['setpoint']}, was to be {said}", SEEK
                )


def _allowed(rows: Rows, trial: Row, members: Sequence[str], setpoints: Mapping[str, float]) -> Iterator[Violation]:
    """Find a control set or a setpoint that the campaign does not have; what a person ran by hand is free in both."""
    by_hand, sets = trial["origin"] == "manual", rows.identity.get("control_sets")
    if not by_hand and sets is not None and set_label(members) not in sets:
        yield violation(trial, "trials", f"its control set {set_label(members)} is none of the campaign's")
    if not set(setpoints) <= set(members) or (not by_hand and set(setpoints) != set(members)):
        yield violation(trial, "trials", f"has setpoints of {', '.join(setpoints)}, but controls {', '.join(members)}")
    for name, value in () if by_hand else setpoints.items():
        low, high = (rows.identity.get(f"variables.{name}.{end}") for end in ("low", "high"))
        if low is None or high is None:
            continue
        slack = _NEAR * (abs(low) + abs(high))
        if not low - slack <= value <= high + slack:
            yield violation(trial, "trials", f"its setpoint {name} = {value:g} is outside {low:g} to {high:g}")


def decisions(rows: Rows) -> Iterator[Violation]:
    """Find decisions made with another seed than the campaign's, or on another history than all trials before."""
    campaign = next(iter(rows["campaign"]), None)
    if campaign is None:
        if rows["trials"]:
            yield Violation("campaign", "", "is missing, though there are trials")
        return
    for row in (row for row in rows["trials"] if row["origin"] != "manual"):
        if row["seed"] != campaign["seed"]:
            yield violation(row, "trials", f"was decided with seed {row['seed']}, not {campaign['seed']}")
        if row["history_length"] != row["trial"] - 1:
            yield violation(row, "trials", f"was decided on {row['history_length']} trials, not all before it")


# Money ----------------------------------------------------------------------------------------------------------------


def budget(rows: Rows) -> Iterator[Violation]:
    """Find processes and decisions that knew a larger budget than there is, or decided with nothing left to spend."""
    most = max((row["budget_micros"] for row in rows["campaign"]), default=0)
    trials = [row for row in rows["trials"] if row["trial"] not in rows.operated]  # no budget bounds production
    for table, known in (("starts", rows["starts"]), ("trials", [row for row in trials if row["origin"] != "manual"])):
        for row in (row for row in known if row["budget_micros"] > most):
            yield violation(row, table, f"knew a budget of {row['budget_micros']}, more than the campaign's {most}")
    if any(amendment(row, "becomes").get("amount") is not None for row in rows["corrections"]):
        return  # what was spent then is not what is charged now
    lines, spent = rows.by_trial("ledger"), 0
    for row in trials:
        if row["origin"] != "manual" and most >= row["budget_micros"] and spent >= row["budget_micros"]:
            yield violation(row, "trials", f"was decided though {spent} of {row['budget_micros']} was spent", AMEND)
        spent += sum(line["amount_micros"] for line in lines.get(row["trial"], ()))


def owed(rows: Rows, trial: int, charged: set[str]) -> set[str]:
    """Return the meters that a trial which is over is charged by; if nothing says which there are, those it has."""
    said = rows.said(trial)
    if any(event in said for event in INGESTED):
        return set() if trial in rows.imported else {"manual"}
    return set(rows.identity.get("meters.names") or charged) if any(event in said for event in BEGUN) else set()


def ledger(rows: Rows) -> Iterator[Violation]:
    """Find trials charged too early, by other meters than there are, or wrongly for what they used."""
    yield from _charged_trials(rows)
    lines = rows.by_trial("ledger")
    for row in rows["trials"]:
        state = known_state(row["state"])
        charged = {line["meter"] for line in lines.get(row["trial"], ())}
        due = owed(rows, row["trial"], charged)
        if state is not None and state.charged and charged != due:
            odd = ", ".join(sorted(charged ^ due))
            yield Violation("ledger", f"trial {row['trial']}", f"its lines and the meters differ in {odd}", AMEND)
    for table in ("ledger", "idle"):
        for line in rows[table]:
            yield from _line(rows, table, line)


def _charged_trials(rows: Rows) -> Iterator[Violation]:
    """Find trials that are charged though they must not be, or twice by one meter."""
    for trial, found in rows.by_trial("ledger").items():
        state = known_state(rows.events[trial][-1]["state"]) if trial in rows.events else None
        if state is not None and not state.charged:
            yield violation(found[0], "ledger", f"trial {trial} is charged, but it is {state}", AMEND)
        elif trial in rows.imported:
            yield violation(found[0], "ledger", f"trial {trial} is from before the campaign, yet it is charged", AMEND)
        meters = [line["meter"] for line in found]
        if len(set(meters)) < len(meters):
            yield violation(found[0], "ledger", f"trial {trial} is charged twice by one meter", AMEND)


def _line(rows: Rows, table: str, line: Row) -> Iterator[Violation]:
    quantity, amount = line["quantity"], line["amount_micros"]
    if not isinstance(amount, int) or amount < 0 or (quantity is not None and not 0 <= quantity < inf):
        yield violation(line, table, f"{line['meter']}: {quantity} {line['unit']} for {amount} cannot be", AMEND)
        return
    price = rows.prices.get(line["meter"])
    if table != "ledger" or quantity is None or line["estimated"] or price is None:
        return
    due = to_micros(Decimal(repr(float(quantity))) * price)
    if abs(due - amount) > 1:
        yield violation(
            line, table, f"{line['meter']}: {in_full(quantity)} {line['unit']} cost {due}, charged is {amount}", AMEND
        )


def misquoted(rows: Rows) -> Iterator[tuple[Row, Mapping[str, Any], Micros | None]]:
    """Yield amended costs that do not go on from what was charged, what they say it was, and what it was."""
    costs: dict[int, Micros | None] = {row["trial"]: row["amount_micros"] for row in rows["by_hand"] if row["imported"]}
    for line in rows["ledger"]:
        costs[line["trial"]] = (costs.get(line["trial"]) or 0) + line["amount_micros"]
    for row in rows["corrections"]:
        was, becomes = (amendment(row, column) for column in ("was", "becomes"))
        if row["kind"] != "amend" or becomes.get("amount") is None:
            continue
        before = costs.get(row["trial"], None if row["trial"] in rows.imported else 0)
        if was.get("amount") != before:
            yield row, was, before
        costs[row["trial"]] = becomes["amount"]


def sums(rows: Rows) -> Iterator[Violation]:
    """Find corrections that do not go on from what was charged, and files that brought other trials than they say."""
    for row, was, before in misquoted(rows):
        yield violation(row, "corrections", f"says the cost was {was.get('amount')}, but it was {before}", AMEND)
    brought = Counter(known["imported"] for known in rows["by_hand"])
    for row in rows["imports"]:
        if brought[row["id"]] != row["trials"]:
            yield violation(row, "imports", f"brought {row['trials']} trials, but {brought[row['id']]} are there")
    last = rows["trials"][-1]["trial"] if rows["trials"] else 0
    for row in rows["idle"]:
        if not 1 <= row["before_trial"] <= last + 1:
            yield violation(row, "idle", f"comes before trial {row['before_trial']}, which cannot be the next", AMEND)


# Doses ----------------------------------------------------------------------------------------------------------------


def doses(rows: Rows) -> Iterator[Violation]:
    """Find doses without an end that later steps needed, or booked as less than is certain, or outside their trial."""
    armed = [(row["trial"], row["id"], row["at_s"]) for row in rows["events"] if row["event"] == Event.ARM]
    for row in rows["doses"]:
        yield from misbooked(row)
        if row["state"] in OPEN_DOSE and any(at_s > row["at_s"] and trial != row["trial"] for trial, _, at_s in armed):
            yield violation(row, "doses", f"{row['actuator']}: has no end, though a later trial has begun", SEEK)
        if outside(rows, row):
            yield violation(row, "doses", f"{row['actuator']}: trial {row['trial']} was not under way then", SEEK)
    settled = {row["id"] for row in rows["doses"] if row["state"] in ("DONE", "UNKNOWN")}
    for row in rows["answers"]:
        if row["dose"] not in settled:
            yield violation(row, "answers", f"judges dose {row['dose']}, which has not ended", SEEK)


def misbooked(dose: Row) -> Iterator[Violation]:
    """Find a dose that was to be, or is booked as, what cannot be."""
    is_open, volume, given = dose["state"] in OPEN_DOSE, dose["volume_ml"], dose["dispensed_ml"]
    pump, settled_s = dose["actuator"], dose["settled_s"]
    if not (isfinite(volume) and volume >= 0):
        yield violation(dose, "doses", f"{pump}: was to be {in_full(volume)} mL", SEEK)
    if is_open != (given is None) or is_open != (settled_s is None):
        yield violation(dose, "doses", f"{pump}: is {dose['state']} and booked as {given} mL", SEEK)
    elif not is_open and not (isfinite(given) and given >= 0 and settled_s >= dose["at_s"] - _NEAR):
        yield violation(dose, "doses", f"{pump}: {given} mL, settled at {settled_s} s, cannot be", SEEK)
    elif dose["state"] in ("UNKNOWN", "FOUND") and given < volume - _NEAR:
        yield violation(dose, "doses", f"{pump}: is {dose['state']}, but of {volume:g} mL only {given:g} booked", SEEK)


def outside(rows: Rows, dose: Row) -> bool:
    """Tell whether the trial that a dose is of was not under way when it was given."""
    if dose["trial"] is None:
        return False
    events = rows.events.get(dose["trial"], ())
    armed_s = next((e["at_s"] for e in events if e["event"] in BEGUN), None)
    ended_s = next((e["at_s"] for e in events if e["state"] not in TRANSITIONS), None)
    if armed_s is None:
        return True
    return bool(dose["at_s"] < armed_s - _NEAR or (ended_s is not None and dose["at_s"] > ended_s + _NEAR))


def caps(rows: Rows) -> Iterator[Violation]:
    """Find doses beyond what the configuration of their process allowed a pump, or the pumps of a tank together."""
    starts = [(row["at_s"], row["id"]) for row in rows["starts"]]
    given = {(cap.name, cap.pumps): GivenSum() for rig in rows.caps.values() for cap in rig.caps}
    for row in rows["doses"]:
        start = max((number for at_s, number in starts if at_s <= row["at_s"] + _NEAR), default=0)
        rig, volume, pump = rows.caps.get(start), row["volume_ml"], row["actuator"]
        if rig is not None and row["state"] != "FOUND":  # no guard has let it pass
            limits = rig.limits.get(pump)
            per_dose = None if limits is None else limits.per_dose_ml
            if per_dose is not None and volume > per_dose + _NEAR:
                yield violation(row, "doses", f"{pump}: {volume:g} mL, allowed {per_dose:g} mL per dose", SEEK)
            for cap in (cap for cap in rig.caps if pump in cap.pumps):
                objection = given[cap.name, cap.pumps].before(row, cap).beyond(volume - _NEAR)
                if objection is not None:
                    yield violation(row, "doses", f"{pump}: {objection}", SEEK)
        for (_, pumps), sums in given.items():
            if pump in pumps:
                sums.add(row)


# The campaign itself, what comes later, and people --------------------------------------------------------------------


def phases(rows: Rows) -> Iterator[Violation]:
    """Find phases that cannot follow each other: ENDED is the last that a process says.

    Its first one need not be RUNNING: that was not kept if the disk was full.
    """
    for before, row in pairwise([None, *rows["phases"]]):
        if row is None:
            continue
        if before is not None and before["start"] == row["start"] and before["phase"] == "ENDED":
            yield violation(row, "phases", f"{row['phase']} follows ENDED in the same process")
        if before is not None and (before["start"] or 0) > (row["start"] or 0):
            yield violation(row, "phases", f"process {row['start']} speaks after {before['start']}")
        if (row["until_s"] is not None) != (row["phase"] == "WAITING"):
            yield violation(row, "phases", f"{row['phase']} until {row['until_s']} s cannot be")


def corrections(rows: Rows) -> Iterator[Violation]:
    """Find corrections of trials that are not over."""
    for row in rows["corrections"]:
        events = rows.events.get(row["trial"], ())
        state = known_state(events[-1]["state"]) if events else None
        if state is not None and not state.final:
            yield violation(row, "corrections", f"trial {row['trial']} is corrected, but it is {state}")


def awaited(rows: Rows) -> Iterator[Violation]:
    """Find trials that await what has come, have an outcome that nobody gave, or wait without a note of it."""
    noted = {row["trial"] for row in rows["awaited"]}
    for trial in rows.events:
        if Event.AWAIT in rows.said(trial) and trial not in noted:
            yield Violation("awaited", f"trial {trial}", "awaits its outcome, but nothing says until when")
    for row in rows["awaited"]:
        trial, events = row["trial"], rows.events.get(row["trial"], ())
        said, state = rows.said(trial), events[-1]["state"] if events else ""
        if Event.AWAIT not in said:
            yield violation(row, "awaited", f"trial {trial} never came to {Event.AWAIT}")
        if state == State.AWAITING and trial in rows.came:
            yield violation(row, "awaited", f"trial {trial} awaits its outcome, but it has come")
        if state in (State.RECORDED, State.FAILED) and trial not in rows.came:
            yield violation(row, "awaited", f"trial {trial} is {state}, but nothing says what came")


def over(events: Sequence[Row]) -> Row:
    """Return the event of a trial from which on another one may begin."""
    return next((e for e in events if e["state"] == State.AWAITING), events[-1])


def is_decided(rows: Rows, trial: int) -> bool:
    """Tell whether a trial was decided, by a policy or a person: one that looked may have ended before."""
    said = rows.said(trial)
    return Event.LOOK not in said or Event.PROPOSE in said


CHECKS: Final[tuple[Check, ...]] = (
    *(references, documents, steps, order, evidence, looks, chosen, decisions),
    *(budget, ledger, sums, doses, caps, phases, audit, corrections, awaited),
)
