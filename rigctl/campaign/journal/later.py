"""What holds of outcomes that come later, for `invariants`; how they are told of a damaged journal, for `mending`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any, Final

from rigctl.campaign.journal.stored import Row, Rows, Violation, violation
from rigctl.campaign.trial import Event, State
from rigctl.codec import parsed
from rigctl.errors import RigctlError
from rigctl.rig.protocols import Severity

CAMPAIGN: Final = "rigctl"
"""Who gives up an outcome that nobody has said in time."""
_LONG_AGO_S: Final = -1e9


def awaited(rows: Rows) -> Iterator[Violation]:
    """Find trials that await what has come, have an outcome that nobody gave, or wait without a note of it."""
    noted = {row["trial"] for row in rows["awaited"]}
    acts = {(row["verb"], row["argument"]) for row in rows["acts"]}
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
        if Event.RECORD in said and row["how"] == "hand" and ("outcome", f"trial {trial}") not in acts:
            yield violation(row, "awaited", f"trial {trial} has its outcome from a person, but no act says so")


def over(events: Sequence[Row]) -> Row:
    """Return the event of a trial from which on another one may begin."""
    return next((e for e in events if e["state"] == State.AWAITING), events[-1])


# Rows of a damaged journal -------------------------------------------------------------------------------------------


def came_of(corrections: Iterable[Mapping[str, Any]]) -> dict[int, set[str]]:
    """Return the outcomes that came later and can be read, by trial; of one that was given up, none."""
    found: dict[int, set[str]] = {}
    for row in corrections:
        try:
            outcomes = dict(parsed(row["becomes"])).get("outcomes") or {}
        except (ValueError, TypeError, RigctlError):
            continue  # such a row is left out in the next round
        if row["kind"] == "amend" and outcomes:
            found.setdefault(row["trial"], {name for name, value in outcomes.items() if value is not None})
    return found


def ends(came: set[str] | None, *, enough: bool) -> list[Event]:
    """Return how a trial ended that awaited its outcome; if nothing says what came (None), it awaits it still."""
    return [] if came is None else [Event.RECORD if came and enough else Event.FAIL]


def in_time(steps: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the steps of trials, one after the other, with what came later where it came."""
    waited: set[int] = set()
    rest: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for step in steps:
        (ends if step["trial"] in waited else rest).append(step)
        if step["event"] == Event.AWAIT:
            waited.add(step["trial"])
    return list(merge(rest, sorted(ends, key=itemgetter("at_s")), key=itemgetter("at_s")))


def noted(rows: Iterable[dict[str, Any]], events: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return who waits until when; one of which that is lost was due so long ago that no sensor is read for it."""
    known = {row["trial"]: row for row in rows}
    waits = {row["trial"]: row for row in events if row["event"] == Event.AWAIT}
    return [
        known.get(n, {"trial": n, "how": "hand", "due_s": _LONG_AGO_S, "due_utc": row["utc"], "epoch": ""})
        for n, row in sorted(waits.items())
    ]


def read(tables: Mapping[str, Sequence[dict[str, Any]]], variables: Sequence[str], note: str) -> list[dict[str, Any]]:
    """Return the rows of looks, with such as say that nothing was read where a decision's are lost."""
    kept, steps = list(tables.get("looks", ())), tables["events"]
    decided, there = {s["trial"] for s in steps if s["event"] == Event.PROPOSE}, {row["trial"] for row in kept}
    nothing = {"value": None, "spread": None, "count": 0, "invalid": 0, "severity": int(Severity.INVALID)}
    for step in (s for s in steps if s["event"] == Event.LOOK and s["trial"] in decided - there):
        about = {**nothing, "detail": f"{note}: its record is lost", "utc": step["utc"], "at_s": step["at_s"]}
        kept += [{"trial": step["trial"], "name": name, **about} for name in variables]
    return kept


def owed(tables: Mapping[str, Iterable[dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Return the acts that people owe the audit for corrections: none where a sensor, or nobody, said what came."""
    how = {row["trial"]: row["how"] for row in tables.get("awaited", ())}
    found = []
    for row in tables["corrections"]:
        late = how.pop(row["trial"], None) if came_of([row]) else None
        by_person = late == "hand" and row["who"] != CAMPAIGN
        found += [] if late and not by_person else [("outcome" if late else row["kind"], row)]
    return found
