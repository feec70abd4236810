"""Rows that were salvaged, made into a journal that holds: what is missing is closed, estimated or booked.

A trial whose end is lost is LOST, or FAILED where it had been measured; a line of cost that is lost is estimated by the
mean of its meter's other lines; a dose whose end is lost, or of which only the number is known, is booked in full.
Whatever was put in says so in its note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from heapq import merge
from math import isfinite
from operator import itemgetter
from typing import Any, Final

from rigctl.campaign.journal.invariants import (
    OPEN_DOSE,
    dangling,
    misbooked,
    misquoted,
    outside,
    owed,
    unaudited,
    unread,
    unwritten,
)
from rigctl.campaign.journal.salvage import Salvaged
from rigctl.campaign.journal.stored import Row, Rows, is_usable
from rigctl.campaign.ledger.lines import UNITS
from rigctl.campaign.trial import Event, State, advance
from rigctl.codec import to_json
from rigctl.core.experiment.money import Micros
from rigctl.rig.protocols import Severity
from rigctl.text import set_members

NOTE: Final = "recovered"
"""Begins what is said of everything that was not read but put in."""
_CHAIN: Final = (Event.PROPOSE, Event.ARM, Event.RUN, Event.MEASURE)
_ENDS: Final = {
    State.RECORDED: Event.RECORD,
    State.FAILED: Event.FAIL,
    State.ABANDONED: Event.ABANDON,
    State.LOST: Event.LOSE,
}
_MOST_DOSES: Final = 10_000
_LONG_AGO_S: Final = -1e9


@dataclass(slots=True)
class Mending:
    """A journal's rows by table while they are mended, and what that took; mutable."""

    tables: dict[str, list[Row]]
    sure: bool
    """Whether the last trial can be left as it stands: nothing is missing of what came last."""
    closed: list[int] = field(default_factory=list)
    """Trials whose end was lost."""
    undecided: list[int] = field(default_factory=list)
    """Trials of which nothing but the number, or what was measured, is known."""
    estimated: Micros = 0
    booked_ml: float = 0.0

    @classmethod
    def of(cls, found: Salvaged) -> Mending:
        tables = {name: table.dicts() for name, table in found.tables.items()}
        certain = all(found.tables[name].vouched for name in ("starts", "trials", "events"))
        return cls(tables, certain and found.whole)

    @property
    def rows(self) -> Rows:
        """All of them as they are by now, to ask what they say."""
        return Rows(self.tables)

    def drop(self, gone: Iterable[Row]) -> None:
        """Let go of these very rows."""
        these = {id(row) for row in gone}
        for name, rows in self.tables.items():
            self.tables[name] = [row for row in rows if id(row) not in these]

    def keep(self, table: str, rows: Iterable[Row]) -> None:
        self.tables[table] = list(rows)


def mended(found: Salvaged, without: Iterable[tuple[str, tuple[Any, ...]]] = ()) -> Mending:
    """Return the rows of a journal that holds, made of those that were read; `without` those that cannot be so."""
    mending = Mending.of(found)
    for table, key in without:
        mending.keep(table, (r for r in mending.tables[table] if tuple(r.values())[: len(key)] != key))
    _campaign(mending)
    _starts(mending)
    _trials(mending)
    _evidence(mending)
    _ledger(mending)
    _doses(mending)
    _people(mending)
    return mending


def _campaign(mending: Mending) -> None:
    """Let processes and decisions say what budget and seed they knew, should the campaign's own row be spoilt."""
    for row in mending.tables["campaign"][:1]:
        row["budget_micros"] = max([row["budget_micros"], *(s["budget_micros"] for s in mending.tables["starts"])])
        seeds = Counter(t["seed"] for t in mending.tables["trials"] if t["origin"] != "manual")
        row["seed"] = seeds.most_common(1)[0][0] if seeds else row["seed"]


def _starts(mending: Mending) -> None:
    """Let nobody name a process that is not there; the last one left nothing that is known to be safe."""
    latest = float("-inf")
    kept = []
    for row in mending.tables["starts"]:
        if row["at_s"] >= latest:
            latest = row["at_s"]
            kept.append(row)
    mending.tables["starts"] = kept
    if kept:
        kept[-1] |= {"ended": kept[-1]["ended"] or NOTE, "safe": 0, "closed": 1}


# Trials ---------------------------------------------------------------------------------------------------------------


def _trials(mending: Mending) -> None:
    known = {row["trial"]: row for row in mending.tables["trials"]}
    naming = ("events", "ledger", "measurements", "by_hand", "looks")
    named = [r["trial"] for t in naming for r in mending.tables[t]]
    last = max([*known, *named], default=0)
    read = mending.rows
    measured, looks = read.by_trial("measurements"), read.keys("looks")
    rows: list[Row] = []
    steps: list[Row] = []
    for number in range(1, last + 1):
        said = read.said(number)
        row = known.get(number)
        if row is None:
            row, path = _placeholder(mending, number), [Event.INGEST_FAILED]
            mending.undecided.append(number)
        elif row["origin"] == "manual":
            path = [Event.INGEST if row["state"] == State.RECORDED else Event.INGEST_FAILED]
        else:
            looked = number in looks or Event.LOOK in said or row["state"] == State.LOOKING
            there = {line["name"] for line in measured.get(number, ()) if is_usable(line)}
            path = _gone(read, row, there, looked=looked, may_be_open=mending.sure and number == last)
            if _after(path) in _ENDS and _after(path) != row["state"]:
                mending.closed.append(number)
        rows.append({**row, "state": str(_after(path))})
        steps += [_step(number, event, path, said, steps) for event in path]
    mending.tables["trials"], mending.tables["events"] = rows, _in_time(steps)
    latest_s = 0.0
    for number, step in enumerate(mending.tables["events"], start=1):
        latest_s = step["at_s"] = max(step["at_s"], latest_s)
        step["id"] = number


def _gone(read: Rows, row: Row, measured: set[str], *, looked: bool, may_be_open: bool) -> list[Event]:
    """Return the steps of a trial: its look, if it had one, what came after, and what it awaits."""
    number, said, begun = row["trial"], read.said(row["trial"]), [Event.LOOK] * looked
    waits, has_come = number in read.late, number in read.came
    later = read.came_of(number) if has_come or not waits else {str(read.identity.get("outcome.name"))}
    enough = read.needed <= measured | later
    if waits and has_come:
        return [*begun, *_CHAIN, Event.AWAIT, Event.RECORD if later and enough else Event.FAIL]
    if waits and enough:  # else no outcome can be taken for it any more
        return [*begun, *_CHAIN, Event.AWAIT]
    if not looked or row["proposal"] is not None:
        return begun + _path(row, said, enough=enough, may_be_open=may_be_open)
    if may_be_open and row["state"] == State.LOOKING:
        return begun
    # it ended before it was decided
    return [*begun, next((event for event in (Event.FAIL, Event.ABANDON) if event in said), Event.LOSE)]


def _placeholder(mending: Mending, number: int) -> Row:
    """Return a trial of which nothing is known: done somehow, without an outcome."""
    campaign = mending.tables["campaign"][0] if mending.tables["campaign"] else {}
    labels = mending.rows.identity.get("control_sets") or [""]
    return {
        "trial": number,
        "state": "",
        "control_set": to_json(set_members(labels[0])),
        "setpoints": to_json({}),
        "origin": "manual",
        "proposal": None,
        "policy_state": None,
        "seed": campaign.get("seed", 0),
        "history_length": number - 1,
        "budget_micros": campaign.get("budget_micros", 0),
        "note": f"{NOTE}: what was decided and done is lost",
        "corrections": 0,
    }


def _path(row: Row, said: Mapping[str, Row], *, enough: bool, may_be_open: bool) -> list[Event]:
    """Return the steps of a trial: those that are told, those that must have been before them, and an end."""
    state = State(row["state"]) if row["state"] in State.__members__ else None
    told = [place for place, event in enumerate(_CHAIN) if event in said]
    by_state = {State.ARMED: 1, State.RUNNING: 2, State.MEASURED: 3, State.RECORDED: 3}
    reached = max([*told, by_state.get(state, 0) if state else 0], default=0)
    end = next((event for event in _ENDS.values() if event in said), _ENDS.get(state) if state else None)
    if end is Event.RECORD and not enough:
        end, reached = Event.LOSE, 2
    if end is None:
        if may_be_open:
            return list(_CHAIN[: reached + 1])
        end = Event.FAIL if reached == 3 else Event.LOSE
    least, most = {Event.RECORD: (3, 3), Event.LOSE: (1, 2), Event.ABANDON: (0, 2), Event.FAIL: (0, 3)}[end]
    return [*_CHAIN[: min(max(reached, least), most) + 1], end]


def _after(path: Iterable[Event]) -> State:
    state = None
    for event in path:
        state = advance(state, event)
    if state is None:
        raise AssertionError("unreachable: a trial has a first step")
    return state


def _step(number: int, event: Event, path: list[Event], said: Mapping[str, Row], before: list[Row]) -> Row:
    state = str(_after(path[: path.index(event) + 1]))
    if event in said:
        return {**said[event], "state": state}
    near = before[-1] if before else {"utc": "", "at_s": 0.0, "start": None}
    later = next((said[other] for other in path if other in said), near)
    when = near if before and before[-1]["trial"] == number else later
    about = {"utc": when["utc"], "at_s": when["at_s"], "detail": f"{NOTE}: its record is lost", "start": None}
    return {"id": 0, "trial": number, "event": str(event), "state": state, **about}


def _evidence(mending: Mending) -> None:
    """Keep of what was read and measured only what the steps that are left can have written."""
    mending.drop(row for _, _, found in unwritten(mending.rows) for row in found)
    # that nothing was read is said where a decision's look is lost
    read = mending.rows
    nothing = {"value": None, "spread": None, "count": 0, "invalid": 0, "severity": int(Severity.INVALID)}
    for trial in unread(read):
        step = read.said(trial)[Event.LOOK]
        about = {**nothing, "detail": f"{NOTE}: its record is lost", "utc": step["utc"], "at_s": step["at_s"]}
        names = read.identity.get("variables.names", ())
        mending.tables["looks"] += [{"trial": trial, "name": name, **about} for name in names]


def _in_time(steps: Iterable[Row]) -> list[Row]:
    """Return the steps of trials, one after the other, with what came later where it came."""
    waited: set[int] = set()
    rest: list[Row] = []
    ends: list[Row] = []
    for step in steps:
        (ends if step["trial"] in waited else rest).append(step)
        if step["event"] == Event.AWAIT:
            waited.add(step["trial"])
    return list(merge(rest, sorted(ends, key=itemgetter("at_s")), key=itemgetter("at_s")))


def _awaited(mending: Mending) -> None:
    """Keep who waits until when; one of which that is lost was due so long ago that no sensor is read for it."""
    known = {row["trial"]: row for row in mending.tables["awaited"]}
    lost = {"how": "hand", "due_s": _LONG_AGO_S, "epoch": ""}
    waits = {row["trial"]: row for row in mending.tables["events"] if row["event"] == Event.AWAIT}
    kept = [known.get(n, {"trial": n, **lost, "due_utc": row["utc"]}) for n, row in sorted(waits.items())]
    mending.keep("awaited", kept)


# Money ----------------------------------------------------------------------------------------------------------------


def _ledger(mending: Mending) -> None:
    read = mending.rows
    lines, kept = read.by_trial("ledger"), []
    means = _means(mending.tables["ledger"])
    totals = [sum(line["amount_micros"] for line in found) for found in lines.values()]
    means["manual"] = means.get("manual") or (-(-sum(totals) // len(totals)) if totals else 0)
    for trial in (row["trial"] for row in mending.tables["trials"] if State(row["state"]).charged):
        here = {line["meter"]: line for line in lines.get(trial, ())}
        known = sum(line["amount_micros"] for line in here.values()) if here else None
        kept += [
            here.get(meter) or _line(mending, trial, meter, means, known if meter == "manual" else None)
            for meter in sorted(owed(read, trial, set(here)))
        ]
    mending.tables["ledger"] = _numbered(kept)
    following = len(mending.tables["trials"]) + 1
    for row in mending.tables["idle"]:
        row["before_trial"] = min(max(row["before_trial"], 1), following)


def _numbered(lines: list[Row]) -> list[Row]:
    """Return lines in order, those without a number after all that have one."""
    kept = sorted(lines, key=lambda line: (line["id"] is None, line["id"] or 0))
    last = max((line["id"] for line in kept if line["id"] is not None), default=0)
    for line in kept:
        if line["id"] is None:
            last = line["id"] = last + 1
    return kept


def _means(lines: list[Row]) -> dict[str, Micros]:
    """Return what a line of each meter costs on average, rounded up."""
    amounts: dict[str, list[Micros]] = {}
    for line in lines:
        amounts.setdefault(line["meter"], []).append(line["amount_micros"])
    return {meter: -(-sum(found) // len(found)) for meter, found in amounts.items()}


def _line(mending: Mending, trial: int, meter: str, means: Mapping[str, Micros], known: Micros | None = None) -> Row:
    amount = means.get(meter, 0) if known is None else known
    mending.estimated += amount if known is None else 0
    kind = str(mending.rows.identity.get(f"meters.{meter}.kind", "manual"))
    note = f"{NOTE}: its line is lost, the mean of all others" if known is None else f"{NOTE}: the sum of its lines"
    what = {"kind": kind, "quantity": None, "unit": UNITS.get(kind, "trial")}
    return {"id": None, "trial": trial, "meter": meter, **what, "amount_micros": amount, "estimated": 1, "note": note}


# Doses ----------------------------------------------------------------------------------------------------------------


def _doses(mending: Mending) -> None:
    """Book in full what has no end; and, where a number is missing, as much as that pump has ever given at once."""
    rows, kept = mending.tables["doses"], []
    most = {row["actuator"]: 0.0 for row in rows}
    for row in rows:
        most[row["actuator"]] = max(most[row["actuator"]], row["volume_ml"] if isfinite(row["volume_ml"]) else 0.0)
    following = 1
    for row in rows:
        unread = {**row, "trial": None, "volume_ml": most[row["actuator"]]}
        missing = range(max(following, row["id"] - _MOST_DOSES), row["id"])
        kept += [_in_full(mending, {**unread, "id": number}) for number in missing]
        following = row["id"] + 1
        if not isfinite(row["volume_ml"]) or row["volume_ml"] < 0:
            row["volume_ml"] = most[row["actuator"]]
        settled = row["state"] not in OPEN_DOSE and not any(misbooked(row))
        kept.append(row if settled else _in_full(mending, row))
    read = mending.rows
    for row in kept:
        if outside(read, row):
            row |= {"note": f"{row['note']}; {NOTE}: of trial {row['trial']}".lstrip("; "), "trial": None}
    mending.tables["doses"] = kept


def _in_full(mending: Mending, row: Row) -> Row:
    mending.booked_ml += row["volume_ml"]
    note = f"{row['note']}; {NOTE}: booked in full".lstrip("; ")
    state = "FOUND" if row["state"] == "FOUND" else "UNKNOWN"
    return {**row, "state": state, "dispensed_ml": row["volume_ml"], "settled_s": row["at_s"], "note": note}


# The campaign itself, and people --------------------------------------------------------------------------------------


def _people(mending: Mending) -> None:
    tables = mending.tables
    ended = {row["trial"] for row in tables["trials"] if row["state"] in _ENDS}
    mending.keep("corrections", [row for row in tables["corrections"] if row["trial"] in ended])
    _awaited(mending)
    _imports(mending)
    _references(mending)
    _audit(mending)
    for row, was, before in misquoted(mending.rows):
        row["was"] = to_json({**was, "amount": before})


def _references(mending: Mending) -> None:
    """Let no row name one that is not there: it goes, unless it may name none."""
    gone = []
    for table, row, column in dangling(mending.rows):
        if table.columns[column].nullable:
            row[column] = None
        else:
            gone.append(row)
    mending.drop(gone)


def _audit(mending: Mending) -> None:
    """Put into the audit the acts that rows come with and that are lost."""
    acts, last = mending.tables["acts"], max(mending.rows.keys("acts"), default=0)
    put: set[tuple[str, str]] = set()
    for table, row, verb, argument in unaudited(mending.rows):
        act = verb or row["kind"], argument
        if act in put:
            continue
        put.add(act)
        last += 1
        said = {"id": last, "verb": act[0], "argument": argument, "who": row["who"], "why": "", "outcome": NOTE}
        about = {"alarm": row["alarm"] if "alarm" in table.columns else None, "seconds": None}
        acts.append({**said, **about, "utc": row["utc"], "at_s": row["at_s"], "start": None})


def _imports(mending: Mending) -> None:
    brought: dict[int, list[Row]] = {}
    for row in mending.tables["by_hand"]:
        if row["imported"] is not None:
            brought.setdefault(row["imported"], []).append(row)
    known = {row["id"]: row for row in mending.tables["imports"]}
    lost = {"source": NOTE, "digest": "", "noise_sd": None, "noise_factor": 1.0, "who": "", "utc": "", "at_s": 0.0}
    numbers = sorted({*known, *brought})
    mending.keep("imports", [{**lost, **known.get(n, {}), "id": n, "trials": len(brought.get(n, ()))} for n in numbers])
