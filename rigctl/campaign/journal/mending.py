"""Rows that were salvaged, made into a journal that holds: what is missing is closed, estimated or booked.

A trial whose end is lost is LOST, or FAILED where it had been measured; a line of cost that is lost is estimated by the
mean of its meter's other lines; a dose whose end is lost, or of which only the number is known, is booked in full.
Whatever was put in says so in its note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import isfinite
from operator import itemgetter
from typing import Any, Final

from rigctl.campaign.journal.beside import CAMPAIGN
from rigctl.campaign.journal.rows import BEGUN, TABLES
from rigctl.campaign.journal.salvage import Salvaged
from rigctl.campaign.journal.stored import identity_of
from rigctl.campaign.ledger import UNITS
from rigctl.campaign.trial import Event, State, advance
from rigctl.codec import parsed, to_json
from rigctl.core.experiment.money import Micros
from rigctl.errors import RigctlError
from rigctl.rig.protocols import Severity
from rigctl.text import set_members

Row = dict[str, Any]
Rows = list[Row]
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

    tables: dict[str, Rows]
    sure: bool
    """Whether the last trial can be left as it stands: nothing is missing of what came last."""
    closed: list[int] = field(default_factory=list)
    """Trials whose end was lost."""
    undecided: list[int] = field(default_factory=list)
    """Trials of which nothing but the number, or what was measured, is known."""
    estimated: Micros = 0
    booked_ml: float = 0.0
    identity: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Salvaged) -> Mending:
        tables = {name: table.dicts() for name, table in found.tables.items()}
        certain = all(found.tables[name].vouched for name in ("starts", "trials", "events"))
        return cls(tables, certain and found.whole)

    def by_trial(self, table: str) -> dict[int, Rows]:
        rows: dict[int, Rows] = {}
        for row in self.tables[table]:
            if row["trial"] is not None:
                rows.setdefault(row["trial"], []).append(row)
        return rows

    def there(self, table: str) -> set[int]:
        """Return the keys of its rows."""
        return {row[TABLES[table].key[0]] for row in self.tables[table]}

    def keep(self, table: str, rows: Iterable[Row]) -> None:
        self.tables[table] = list(rows)


def mended(found: Salvaged, without: Iterable[tuple[str, tuple[Any, ...]]] = ()) -> Mending:
    """Return the rows of a journal that holds, made of those that were read; `without` those that cannot be so."""
    mending = Mending.of(found)
    for table, key in without:
        mending.keep(table, (r for r in mending.tables[table] if tuple(r.values())[: len(key)] != key))
    mending.identity = identity_of(mending.tables["campaign"])
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
    _references(mending, ["starts"])


def _references(mending: Mending, named: Iterable[str]) -> None:
    """Let no row name one of these tables' rows that is not there: it goes, unless it may name none."""
    for table in TABLES.values():
        for column in (c for c, there in table.references.items() if there.name in named):
            there, rows = mending.there(table.references[column].name), mending.tables[table.name]
            if not table.columns[column].nullable:
                mending.keep(table.name, (row for row in rows if row[column] in there))
                continue
            for row in rows:
                row[column] = row[column] if row[column] in there else None


# Trials ---------------------------------------------------------------------------------------------------------------


def _trials(mending: Mending) -> None:
    known = {row["trial"]: row for row in mending.tables["trials"]}
    naming = ("events", "ledger", "measurements", "by_hand", "looks")
    named = [r["trial"] for t in naming for r in mending.tables[t]]
    last = max([*known, *named], default=0)
    events, measured, looks = (mending.by_trial(table) for table in ("events", "measurements", "looks"))
    came, late = _came_of(mending.tables["corrections"]), mending.there("awaited")
    rows, steps = Rows(), Rows()
    for number in range(1, last + 1):
        said = {row["event"]: row for row in events.get(number, ())}
        row = known.get(number)
        if row is None:
            row, path = _placeholder(mending, number), [Event.INGEST_FAILED]
            mending.undecided.append(number)
        elif row["origin"] == "manual":
            path = [Event.INGEST if row["state"] == State.RECORDED else Event.INGEST_FAILED]
        else:
            looked = number in looks or Event.LOOK in said or row["state"] == State.LOOKING
            waits = number in late or Event.AWAIT in said
            path = _gone(
                mending, row, said, measured.get(number, ()), came.get(number), looked=looked, waits=waits, last=last
            )
            if _after(path) in _ENDS and _after(path) != row["state"]:
                mending.closed.append(number)
        rows.append({**row, "state": str(_after(path))})
        steps += [_step(number, event, path, said, steps) for event in path]
    mending.tables["trials"], mending.tables["events"] = rows, _in_time(steps)
    latest_s = 0.0
    for number, step in enumerate(mending.tables["events"], start=1):
        latest_s = step["at_s"] = max(step["at_s"], latest_s)
        step["id"] = number


def _gone(
    mending: Mending,
    row: Row,
    said: Mapping[str, Row],
    measured: Iterable[Row],
    came: set[str] | None,
    *,
    looked: bool,
    waits: bool,
    last: int,
) -> list[Event]:
    """Return the steps of a trial: its look, if it had one, what came after, and what it awaits."""
    awaited = {str(mending.identity.get("outcome.name"))} if waits else set()
    enough = _enough(mending, measured, awaited if came is None else came)
    if waits and (enough or came is not None):  # else no outcome can be taken for it any more
        return [Event.LOOK] * looked + [*_CHAIN, Event.AWAIT, *_ends(came, enough=enough)]
    may_be_open = mending.sure and row["trial"] == last
    if not looked or row["proposal"] is not None:
        return [Event.LOOK] * looked + _path(row, said, enough=enough, may_be_open=may_be_open)
    if may_be_open and row["state"] == State.LOOKING:
        return [Event.LOOK]
    # it ended before it was decided
    return [Event.LOOK, next((event for event in (Event.FAIL, Event.ABANDON) if event in said), Event.LOSE)]


def _placeholder(mending: Mending, number: int) -> Row:
    """Return a trial of which nothing is known: done somehow, without an outcome."""
    campaign = mending.tables["campaign"][0] if mending.tables["campaign"] else {}
    labels = mending.identity.get("control_sets") or [""]
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


def _enough(mending: Mending, measured: Iterable[Row], came: set[str]) -> bool:
    """Tell whether all is there that a trial is RECORDED from."""
    needed = {*mending.identity.get("variables.names", ()), mending.identity.get("outcome.name")} - {None} - came
    return needed <= {row["name"] for row in measured if row["value"] is not None and row["severity"] < 3}


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


def _step(number: int, event: Event, path: list[Event], said: Mapping[str, Row], before: Rows) -> Row:
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
    said = {n: {row["event"] for row in rows} for n, rows in mending.by_trial("events").items()}
    for table in (one for one in TABLES.values() if one.written_by):
        rows = mending.tables[table.name]
        mending.keep(table.name, (r for r in rows if not said.get(r["trial"], set()).isdisjoint(table.written_by)))
    mending.keep("looks", _looks(mending.tables, mending.identity.get("variables.names", ())))


# Outcomes that come later ---------------------------------------------------------------------------------------------


def _came_of(corrections: Iterable[Mapping[str, Any]]) -> dict[int, set[str]]:
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


def _ends(came: set[str] | None, *, enough: bool) -> list[Event]:
    """Return how a trial ended that awaited its outcome; if nothing says what came (None), it awaits it still."""
    return [] if came is None else [Event.RECORD if came and enough else Event.FAIL]


def _in_time(steps: Iterable[Row]) -> Rows:
    """Return the steps of trials, one after the other, with what came later where it came."""
    waited: set[int] = set()
    rest: Rows = []
    ends: Rows = []
    for step in steps:
        (ends if step["trial"] in waited else rest).append(step)
        if step["event"] == Event.AWAIT:
            waited.add(step["trial"])
    return list(merge(rest, sorted(ends, key=itemgetter("at_s")), key=itemgetter("at_s")))


def _noted(rows: Iterable[Row], events: Iterable[Mapping[str, Any]]) -> Rows:
    """Return who waits until when; one of which that is lost was due so long ago that no sensor is read for it."""
    known = {row["trial"]: row for row in rows}
    waits = {row["trial"]: row for row in events if row["event"] == Event.AWAIT}
    return [
        known.get(n, {"trial": n, "how": "hand", "due_s": _LONG_AGO_S, "due_utc": row["utc"], "epoch": ""})
        for n, row in sorted(waits.items())
    ]


def _looks(tables: Mapping[str, Rows], variables: Sequence[str]) -> Rows:
    """Return the rows of looks, with such as say that nothing was read where a decision's are lost."""
    kept, steps = list(tables["looks"]), tables["events"]
    decided, there = {s["trial"] for s in steps if s["event"] == Event.PROPOSE}, {row["trial"] for row in kept}
    nothing = {"value": None, "spread": None, "count": 0, "invalid": 0, "severity": int(Severity.INVALID)}
    for step in (s for s in steps if s["event"] == Event.LOOK and s["trial"] in decided - there):
        about = {**nothing, "detail": f"{NOTE}: its record is lost", "utc": step["utc"], "at_s": step["at_s"]}
        kept += [{"trial": step["trial"], "name": name, **about} for name in variables]
    return kept


# Money ----------------------------------------------------------------------------------------------------------------


def _ledger(mending: Mending) -> None:
    lines, kept = mending.by_trial("ledger"), []
    means = _means(mending.tables["ledger"])
    totals = [sum(line["amount_micros"] for line in found) for found in lines.values()]
    means["manual"] = means.get("manual") or (-(-sum(totals) // len(totals)) if totals else 0)
    said = {n: {row["event"] for row in rows} for n, rows in mending.by_trial("events").items()}
    imported = {row["trial"] for row in mending.tables["by_hand"] if row["imported"] is not None}
    for row in mending.tables["trials"]:
        number, here = row["trial"], {line["meter"]: line for line in lines.get(row["trial"], ())}
        if not State(row["state"]).charged or number in imported:
            continue
        if row["origin"] == "manual":
            kept.append(here.get("manual") or _line(mending, number, "manual", means, _sum(here)))
        elif said[number].intersection(BEGUN):
            owed = sorted(mending.identity.get("meters.names") or here)
            kept += [here.get(meter) or _line(mending, number, meter, means) for meter in owed]
    mending.tables["ledger"] = _numbered(kept)
    _idle(mending)


def _idle(mending: Mending) -> None:
    following = len(mending.tables["trials"]) + 1
    for row in mending.tables["idle"]:
        row["before_trial"] = min(max(row["before_trial"], 1), following)


def _sum(lines: Mapping[str, Row]) -> Micros | None:
    return sum(line["amount_micros"] for line in lines.values()) if lines else None


def _numbered(lines: Rows) -> Rows:
    """Return lines in order, those without a number after all that have one."""
    kept = sorted(lines, key=lambda line: (line["id"] is None, line["id"] or 0))
    last = max((line["id"] for line in kept if line["id"] is not None), default=0)
    for line in kept:
        if line["id"] is None:
            last = line["id"] = last + 1
    return kept


def _means(lines: Rows) -> dict[str, Micros]:
    """Return what a line of each meter costs on average, rounded up."""
    amounts: dict[str, list[Micros]] = {}
    for line in lines:
        amounts.setdefault(line["meter"], []).append(line["amount_micros"])
    return {meter: -(-sum(found) // len(found)) for meter, found in amounts.items()}


def _line(mending: Mending, trial: int, meter: str, means: Mapping[str, Micros], known: Micros | None = None) -> Row:
    amount = means.get(meter, 0) if known is None else known
    mending.estimated += amount if known is None else 0
    kind = str(mending.identity.get(f"meters.{meter}.kind", "manual"))
    note = f"{NOTE}: its line is lost, the mean of all others" if known is None else f"{NOTE}: the sum of its lines"
    what = {"kind": kind, "quantity": None, "unit": UNITS.get(kind, "trial")}
    return {"id": None, "trial": trial, "meter": meter, **what, "amount_micros": amount, "estimated": 1, "note": note}


# Doses ----------------------------------------------------------------------------------------------------------------


def _doses(mending: Mending) -> None:
    """Book in full what has no end; and, where a number is missing, as much as that pump has ever given at once."""
    rows, kept = mending.tables["doses"], Rows()
    most = {row["actuator"]: 0.0 for row in rows}
    for row in rows:
        most[row["actuator"]] = max(most[row["actuator"]], row["volume_ml"] if isfinite(row["volume_ml"]) else 0.0)
    following = 1
    for row in rows:
        unread = {**row, "trial": None, "volume_ml": most[row["actuator"]]}
        missing = range(max(following, row["id"] - _MOST_DOSES), row["id"])
        kept += [_in_full(mending, {**unread, "id": number}) for number in missing]
        following = row["id"] + 1
        volume = row["volume_ml"] if isfinite(row["volume_ml"]) and row["volume_ml"] >= 0 else most[row["actuator"]]
        kept.append(row if _settled(row, volume) else _in_full(mending, {**row, "volume_ml": volume}))
    _outside_trials(mending, kept)
    mending.tables["doses"] = kept
    _references(mending, ["doses"])


def _settled(row: Row, volume_ml: float) -> bool:
    """Tell whether a dose has an end that can be believed; one whose end is unknown counts in full."""
    given, settled_s = row["dispensed_ml"], row["settled_s"]
    if row["state"] not in ("DONE", "UNKNOWN", "FOUND") or given is None or settled_s is None:
        return False
    if not isfinite(given) or given < 0 or settled_s < row["at_s"]:
        return False
    return row["state"] == "DONE" or bool(given >= volume_ml)


def _outside_trials(mending: Mending, doses: Rows) -> None:
    """Let no dose be of a trial that was not under way when it was given."""
    spans = {n: (rows, {row["event"]: row["at_s"] for row in rows}) for n, rows in mending.by_trial("events").items()}
    for row in doses:
        steps, at = spans.get(row["trial"], ([], {}))
        ended_s = steps[-1]["at_s"] if steps and steps[-1]["state"] in _ENDS else float("inf")
        begun_s = min([at_s for event, at_s in at.items() if event in BEGUN], default=float("inf"))
        if row["trial"] is not None and not begun_s <= row["at_s"] <= ended_s:
            row |= {"note": f"{row['note']}; {NOTE}: of trial {row['trial']}".lstrip("; "), "trial": None}


def _in_full(mending: Mending, row: Row) -> Row:
    mending.booked_ml += row["volume_ml"]
    note = f"{row['note']}; {NOTE}: booked in full".lstrip("; ")
    state = "FOUND" if row["state"] == "FOUND" else "UNKNOWN"
    return {**row, "state": state, "dispensed_ml": row["volume_ml"], "settled_s": row["at_s"], "note": note}


# The campaign itself, and people --------------------------------------------------------------------------------------


def _people(mending: Mending) -> None:
    tables = mending.tables
    _references(mending, ["alarms", "suggestions"])
    ended = {row["trial"] for row in tables["trials"] if row["state"] in _ENDS}
    mending.keep("corrections", [row for row in tables["corrections"] if row["trial"] in ended])
    mending.keep("awaited", _noted(tables["awaited"], tables["events"]))
    _audit(mending)
    _imports(mending)
    _corrections(mending)


def _audit(mending: Mending) -> None:
    """Put into the audit the acts that rows come with and that are lost."""
    acts = mending.tables["acts"]
    known, by = {(row["verb"], row["argument"]) for row in acts}, {(row["argument"], row["who"]) for row in acts}
    how = {row["trial"]: row["how"] for row in mending.tables["awaited"]}
    last = max(mending.there("acts"), default=0)
    for table in TABLES.values():
        for row in mending.tables[table.name] if table.act else ():
            verb, argument = table.audited_as(row) or ("", "")
            late = how.pop(row["trial"], None) if table.name == "corrections" and _came_of([row]) else None
            if late is not None and (late != "hand" or row["who"] == CAMPAIGN):
                continue  # a sensor, or nobody, said what came
            verb = verb if late is None else "outcome"
            if (verb, argument) in known or (not verb and (argument, row["who"]) in by):
                continue
            last += 1
            said = {
                "id": last,
                "verb": verb or row.get("kind", table.name),
                "argument": argument,
                "who": row["who"],
                "why": "",
            }
            when = {"alarm": row.get("alarm"), "seconds": None, "utc": row["utc"], "at_s": row["at_s"], "start": None}
            acts.append({**said, "outcome": NOTE, **when})


def _imports(mending: Mending) -> None:
    brought: dict[int, list[Row]] = {}
    for row in mending.tables["by_hand"]:
        if row["imported"] is not None:
            brought.setdefault(row["imported"], []).append(row)
    known = {row["id"]: row for row in mending.tables["imports"]}
    lost = {"source": NOTE, "digest": "", "noise_sd": None, "noise_factor": 1.0, "who": "", "utc": "", "at_s": 0.0}
    numbers = sorted({*known, *brought})
    mending.keep("imports", [{**lost, **known.get(n, {}), "id": n, "trials": len(brought.get(n, ()))} for n in numbers])


def _corrections(mending: Mending) -> None:
    """Let each amended cost go on from what is charged, or was amended, before it."""
    costs: dict[int, Micros | None] = {row["trial"]: row["amount_micros"] for row in mending.tables["by_hand"]}
    for line in mending.tables["ledger"]:
        costs[line["trial"]] = (costs.get(line["trial"]) or 0) + line["amount_micros"]
    for row in mending.tables["corrections"]:
        try:
            was, becomes = (dict(parsed(row[column])) for column in ("was", "becomes"))
        except (ValueError, TypeError, RigctlError):
            continue  # such a row is left out in the next round
        if row["kind"] == "amend" and becomes.get("amount") is not None:
            row["was"] = to_json({**was, "amount": costs.get(row["trial"])})
            costs[row["trial"]] = becomes["amount"]
