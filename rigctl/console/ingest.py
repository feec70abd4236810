"""`rigctl ingest`: a trial done by hand goes into the journal, like one the rig did."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rigctl.campaign.clock import RealClock, boot_id
from rigctl.campaign.decision import Decision
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.lock import state_lock
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import campaign_spec
from rigctl.console.history_csv import ManualRow, observation, read_rows
from rigctl.console.memory import memories
from rigctl.core.history import History
from rigctl.core.money import Micros, to_micros, to_units
from rigctl.core.policy import JsonState
from rigctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ingested:
    """What the journal holds now."""

    trials: tuple[int, ...]
    """Numbers of the new trials."""
    spent: float
    """Currency units, all trials."""
    budget: float


def row_from_options(
    loaded: LoadedConfig, control_set: str, values: str, outcome: float | None, cost: str
) -> ManualRow:
    """A trial from `--control-set a+b --values a=1.2,... --outcome 3.4 --cost 0.5`.

    Further outcomes are among the values, by name.

    Raises:
        UsageError: something does not hold.
    """
    measured = {}
    for part in filter(None, (p.strip() for p in values.split(","))):
        name, equals, text = part.partition("=")
        if not equals:
            raise UsageError(f'--values: got "{part}", must be name=value, separated by commas')
        if name.strip() in measured:
            raise UsageError(f"--values: {name.strip()} stands more than once; give one value")
        measured[name.strip()] = _number(text, f"--values {name.strip()}")
    amount = _money(cost.removesuffix(loaded.currency).strip(), "--cost")
    return checked(loaded, tuple(m.strip() for m in control_set.split("+")), measured, outcome, amount)


def rows_from_json(loaded: LoadedConfig, text: str) -> tuple[ManualRow, ...]:
    """Trials from JSON: one object or a list of them, with control_set, values, outcome (null: failed) and cost.

    Further outcomes are among the values, by name.

    Raises:
        UsageError: something does not hold.
    """
    try:
        given = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise UsageError(f"standard input: not JSON: {error}") from error
    entries = given if isinstance(given, list) else [given]
    return tuple(_row_from_entry(loaded, entry, i) for i, entry in enumerate(entries))


def _row_from_entry(loaded: LoadedConfig, entry: Any, index: int) -> ManualRow:
    where = f"trial [{index}]"
    keys = ("control_set", "values", "outcome", "cost")
    if not isinstance(entry, dict) or set(entry) - set(keys) or not {"control_set", "cost"} <= set(entry):
        raise UsageError(f"{where}: must be an object with {', '.join(keys)}")
    members, values = entry["control_set"], entry.get("values", {})
    if not isinstance(members, list) or not all(isinstance(m, str) for m in members) or not isinstance(values, dict):
        raise UsageError(f"{where}: control_set must be a list of names, values an object")
    outcome = entry.get("outcome")
    return checked(
        loaded,
        tuple(members),
        {str(name): _number(value, f"{where}: values.{name}") for name, value in values.items()},
        None if outcome is None else _number(outcome, f"{where}: outcome"),
        _money(entry["cost"], f"{where}: cost"),
    )


def rows_from_csv(loaded: LoadedConfig, path: Path) -> tuple[ManualRow, ...]:
    """Trials from a CSV file, as `suggest --history` takes it. Raises ConfigError."""
    return read_rows(path, loaded.problem.space, loaded.rig.outcome_names)


def checked(
    loaded: LoadedConfig, members: Sequence[str], values: Mapping[str, float], outcome: float | None, cost: Micros
) -> ManualRow:
    """A trial that fits the configuration.

    Args:
        loaded: the configuration.
        members: names of the controlled variables.
        values: what was measured, by name: variables and further outcomes.
        outcome: the first outcome; None: the trial failed.
        cost: of the trial.

    Raises:
        UsageError: it does not.
    """
    space, further = loaded.problem.space, tuple(f.name for f in loaded.problem.further)
    try:
        space.index_of(members)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for name in values:
        if name not in (*space.names, *further):
            what = "a variable or further outcome: " if further else "a variable: "
            raise UsageError(f"values: {unknown(name, (*space.names, *further), what)}")
    missing = [n for n in (*space.names, *further) if n not in values]
    if outcome is not None and missing:
        every = "every variable and further outcome" if further else "every variable"
        raise UsageError(f"values: {', '.join(missing)} is missing; a trial with an outcome needs {every}")
    if outcome is None and any(n in values for n in further):
        raise UsageError("values: has a further outcome, but there is no outcome; leave out both if the trial failed")
    if outcome is not None and not math.isfinite(outcome):
        raise UsageError(f"outcome: got {outcome}, must be finite")
    if cost < 0:
        raise UsageError(f"cost: got {to_units(cost):g}, must not be negative")
    measured = {n: v for n, v in values.items() if n in space.names}
    return ManualRow(tuple(members), measured, outcome, cost, tuple(values[n] for n in further if n in values))


def ingest(loaded: LoadedConfig, directory: Path, rows: Sequence[ManualRow]) -> Ingested:
    """Record trials in the journal, made if missing: all of them, or none if anything goes wrong.

    Raises:
        UsageError: a trial is under way, or the journal belongs to another configuration.
        Locked: a campaign is running here.
        JournalError: the journal cannot be used.
    """
    problem = loaded.problem
    with state_lock(directory):
        journal = Journal(directory, RealClock(loaded.rig.speedup), boot_id())
        try:
            journal.begin(campaign_spec(loaded), version("rigctl"))
            under_way = journal.read.open_trial()
            if under_way is not None:
                raise UsageError(f"trial {under_way.trial} is under way; `rigctl run` settles it")
            known = journal.read.history(problem.space)
            first = len(known) + 1
            manuals = tuple(_manuals(loaded, known, journal.read.policy_state(), rows))
            journal.ingest(manuals, loaded.rig.outcome_names)
            journal.beat(ended="ingest")
            spent = journal.read.campaign().spent
        finally:
            journal.close()
    return Ingested(tuple(range(first, first + len(rows))), to_units(spent), to_units(problem.budget))


def _manuals(
    loaded: LoadedConfig, known: History, state: JsonState | None, rows: Sequence[ManualRow]
) -> Iterator[ManualTrial]:
    """The rows as trials, each with what the policy remembers after it."""
    seen = [observation(n, row, loaded.problem.space) for n, row in enumerate(rows, start=len(known) + 1)]
    for row, o, after in zip(rows, seen, memories(loaded, known, state, seen), strict=True):
        yield _manual(loaded, o.trial, row, after)


def _manual(loaded: LoadedConfig, trial: int, row: ManualRow, policy_state: JsonState | None) -> ManualTrial:
    space = loaded.problem.space
    names = space.control_sets[space.index_of(row.control_set)].names
    decision = Decision(
        trial=trial,
        control_set=names,
        # what a person set is known through what was measured
        setpoints={n: row.values[n] for n in names if n in row.values},
        origin="manual",
        proposal=None,
        policy_state=policy_state,
        seed=loaded.seed,
        history_length=trial - 1,
        budget=loaded.problem.budget,
    )
    further = dict(zip((f.name for f in loaded.problem.further), row.further, strict=False))  # none if it failed
    return ManualTrial(decision, row.values, row.outcome, row.cost, further)


def _number(value: Any, where: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f'{where}: got "{value}", must be a finite number')
    return number


def _money(value: Any, where: str) -> Micros:
    try:
        return to_micros(value if isinstance(value, Decimal) else Decimal(str(value)))
    except (InvalidOperation, ValueError) as error:
        raise UsageError(f'{where}: got "{value}", must be an amount in the rig\'s currency') from error
