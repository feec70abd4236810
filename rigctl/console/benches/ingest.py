"""Trials that people did: `rigctl ingest` records them like the rig's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.rows import SuggestionRow
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.trial import Decision
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import begin_by_hand, has_journal, own_journal
from rigctl.console.benches.by_hand import (
    ManualRow,
    by_name,
    checked,
    doubts,
    manual_row,
    manual_trial,
    memories,
    observation,
)
from rigctl.console.options import TrialFlags
from rigctl.console.tables.table import SAID, record_of
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import JsonState
from rigctl.core.experiment.space import Space
from rigctl.errors import Mistake, UsageError
from rigctl.people import this_person
from rigctl.text import set_label, set_members, shown_value

ROUNDED = 0.01
"""Of a variable's range: a setpoint that is as near as this to the suggested one was rounded, not changed."""
STRAYED = 0.1
"""The same of what was measured of it: what a hand sets is not held as closely."""


@dataclass(frozen=True, slots=True)
class Ingested:
    """Says what the journal holds now."""

    trials: tuple[int, ...]
    spent: float
    """Currency units, all trials."""
    budget: float
    departed: str = ""
    """In what the first was not as had been suggested, in words."""

    def to_json(self) -> Mapping[str, Any]:
        return {"trials": self.trials, "spent": self.spent, "budget": self.budget}


def row_from_options(loaded: LoadedConfig, said: TrialFlags) -> ManualRow:
    """Read a trial from `--control-set a+b --values a=1.2,... --outcome 3.4 --cost 0.5`.

    Raises:
        UsageError, ConfigError: something does not hold.
    """
    cells = _cells(loaded, "--values", by_name("--values", said.values), said.outcome, said.cost)
    more = _more(loaded, "--set", by_name("--set", said.setpoints), said.known)
    (row,) = _trials(loaded, [("ingest", set_members(said.control_set or ""), {**cells, **more})])
    return replace(row, where="")


def rows_from_json(loaded: LoadedConfig, text: str) -> tuple[ManualRow, ...]:
    """Read trials from JSON: an object or a list of them, with control_set, values, outcome (null: failed), cost.

    Further outcomes are among the values, by name. What was set may be there as `setpoints`; and date, operator, batch,
    note. The cost may be left out where the configuration has `known_costs`.

    Raises:
        UsageError, ConfigError: something does not hold.
    """
    try:
        given = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise UsageError(f"standard input: not JSON: {error}") from error
    keys, said = ("control_set", "values", "outcome", "cost", "setpoints", *SAID), []
    for i, entry in enumerate(given if isinstance(given, list) else [given]):
        where = f"trial [{i}]"
        if not isinstance(entry, dict) or set(entry) - set(keys) or "control_set" not in entry:
            raise UsageError(f"{where}: must be an object with control_set; it may have {', '.join(keys[1:])}")
        members, values, setpoints = entry["control_set"], entry.get("values", {}), entry.get("setpoints", {})
        named = isinstance(members, list) and all(isinstance(m, str) for m in members)
        if not named or not isinstance(values, dict) or not isinstance(setpoints, dict):
            raise UsageError(f"{where}: control_set must be a list of names; values and setpoints must be objects")
        cells = _cells(loaded, f"{where}: values", values, entry.get("outcome"), entry.get("cost"))
        known = {name: str(entry.get(name) or "") for name in SAID}
        said.append((where, members, {**cells, **_more(loaded, f"{where}: setpoints", setpoints, known)}))
    return _trials(loaded, said)


def _trials(
    loaded: LoadedConfig, said: Sequence[tuple[str, Sequence[str], Mapping[str, object]]]
) -> tuple[ManualRow, ...]:
    """Return trials of which it is given where each is said, what was controlled, and the rest by what it is."""
    mistakes: list[Mistake] = []
    found = [(*record_of(loaded, where, cells, mistakes), members) for where, members, cells in said]
    return checked([manual_row(table, row, members) for table, row, members in found if row.sound], mistakes)


def _cells(
    loaded: LoadedConfig, where: str, values: Mapping[str, object], outcome: object, cost: object
) -> Mapping[str, object]:
    """Return a trial's values by what they are in a table; all must be known there."""
    first, *further = loaded.rig.outcome_names
    names = (*loaded.problem.space.names, *further)
    for name in values:
        if name not in names:
            what = "a variable or further outcome" if further else "a variable"
            raise UsageError(unknown(name, names, what, where=where))
    return {f"value:{name}": value for name, value in (*values.items(), (first, outcome))} | {"cost": cost}


def _more(
    loaded: LoadedConfig, where: str, setpoints: Mapping[str, object], known: Mapping[str, str]
) -> Mapping[str, object]:
    """Return what was set, and what is known besides, by what it is in a table."""
    for name in setpoints:
        if name not in loaded.problem.space.names:
            raise UsageError(unknown(name, loaded.problem.space.names, "a variable", where=where))
    return {**{f"setpoint:{name}": value for name, value in setpoints.items()}, **known}


def ingest(
    loaded: LoadedConfig, directory: Path, rows: Sequence[ManualRow], sure: Callable[[Sequence[str]], None]
) -> Ingested:
    """Record trials in the journal, made if missing: all of them, or none if anything goes wrong.

    `sure` is told what looks mistyped, and raises if it shall not be recorded.

    Raises:
        UsageError: a trial is under way, or the journal belongs to another configuration.
        Locked: a campaign is running here.
        JournalError: the journal cannot be used.
    """
    problem = loaded.problem
    for row in rows:
        if row.origin:
            raise UsageError(f"{row.where}: is {row.origin} in the export it is from; leave it out of this list")
        if not row.control_set:
            raise UsageError(f"{row.where}: ended before it was decided what to control; leave it out of this list")
    sure(doubts(loaded, recorded_so_far(loaded, directory), rows, datetime.now().astimezone()))
    with own_journal(directory, loaded.rig.speedup) as journal:
        begin_by_hand(loaded, journal)
        known = journal.read.history(problem.space)
        first = len(known) + 1
        kept = journal.read.people.suggestion_for(first)
        manuals = tuple(_manuals(loaded, known, journal.read.policy_state(), rows, kept))
        journal.ingest(manuals, loaded.rig.outcome_names)
        journal.beat(ended="ingest")
        spent = journal.read.campaign().spent
    departed = manuals[0].known.departed if manuals and manuals[0].known is not None else ""
    return Ingested(tuple(range(first, first + len(rows))), to_units(spent), to_units(problem.budget), departed)


def recorded_so_far(loaded: LoadedConfig, directory: Path) -> History:
    """Return what is in the journal; nothing if there is none yet."""
    if not has_journal(directory):
        return History()
    with open_reader(directory) as reader:
        try:
            return reader.history(loaded.problem.space)
        except ValueError:  # another configuration's, which is refused with its reasons later
            return History()


def _manuals(
    loaded: LoadedConfig,
    known: History,
    state: JsonState | None,
    rows: Sequence[ManualRow],
    suggested: SuggestionRow | None,
) -> Iterator[ManualTrial]:
    problem, who = loaded.problem, this_person()
    seen = [observation(n, row, problem.space) for n, row in enumerate(rows, start=len(known) + 1)]
    for row, o, after in zip(rows, seen, memories(loaded, known, state, seen, suggested), strict=True):
        names = problem.space.control_sets[o.control_set].names
        beside, setpoints, looks = replace(row.known, who=who), row.setpoints, row.looks
        if suggested is not None:
            departed = departure(problem.space, suggested, names, row.setpoints, row.values)
            beside = replace(beside, suggestion=suggested.suggestion, departed=departed)
            looks = looks or suggested.looks  # what was read is the same, whatever was done then
            # who followed it has set what it said; else only the person knows
            if names == suggested.control_set:
                setpoints = {**suggested.setpoints, **row.setpoints}
            suggested = None
        done = replace(row, control_set=names, setpoints=setpoints, known=beside, looks=looks)
        yield manual_trial(loaded, o.trial, done, known.corrections, after)


def departure(
    space: Space,
    suggested: Decision,
    control_set: Sequence[str],
    setpoints: Mapping[str, float],
    values: Mapping[str, float],
) -> str:
    """Say in what a trial was not as suggested; empty if it was, or may have been.

    Where nobody says what was set, what was measured of it tells whether it can have been that.
    """
    if tuple(control_set) != suggested.control_set:
        return f"controlled {set_label(control_set)} instead of {set_label(suggested.control_set)}"
    wide, told = {v.name: v.high - v.low for v in space.variables}, []
    for name, wanted in suggested.setpoints.items():
        if name in setpoints and abs(setpoints[name] - wanted) > ROUNDED * wide[name]:
            done = "set to", setpoints[name]
        elif name not in setpoints and abs(values.get(name, wanted) - wanted) > STRAYED * wide[name]:
            done = "was at", values[name]
        else:
            continue
        did, wish = (shown_value(name, value, space.units, 6) for value in (done[1], wanted))
        told.append(f"{name} {done[0]} {did} instead of {wish}")
    return ", ".join(told)
