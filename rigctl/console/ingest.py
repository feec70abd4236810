"""`rigctl ingest`: a trial done by hand goes into the journal, like one the rig did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

from rigctl.campaign.clock import RealClock, boot_id
from rigctl.campaign.decision import Decision
from rigctl.campaign.journal import Journal
from rigctl.campaign.journal.writer import ManualTrial
from rigctl.campaign.lock import state_lock
from rigctl.config.findings import unknown
from rigctl.config.load import LoadedConfig
from rigctl.console.assemble import campaign_spec
from rigctl.console.by_hand import ManualRow, RowReader, memories, observation, read_rows
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState
from rigctl.core.money import to_units
from rigctl.errors import UsageError


@dataclass(frozen=True, slots=True)
class Ingested:
    """Says what the journal holds now."""

    trials: tuple[int, ...]
    """Numbers of the new trials."""
    spent: float
    """Currency units, all trials."""
    budget: float


def row_from_options(
    loaded: LoadedConfig, control_set: str, values: str, outcome: float | None, cost: str
) -> ManualRow:
    """Read a trial from `--control-set a+b --values a=1.2,... --outcome 3.4 --cost 0.5`.

    Further outcomes are among the values, by name.

    Raises:
        UsageError, ConfigError: something does not hold.
    """
    measured: dict[str, str] = {}
    for part in filter(None, (p.strip() for p in values.split(","))):
        name, equals, text = (p.strip() for p in part.partition("="))
        if not equals:
            raise UsageError(f'--values: got "{part}", must be name=value, separated by commas')
        if name in measured:
            raise UsageError(f"--values: {name} stands more than once; give one value")
        measured[name] = text
    reader = RowReader(loaded.problem.space, loaded.rig.outcome_names)
    cells = _cells(loaded, "--values", measured, outcome, cost.removesuffix(loaded.currency))
    return reader.checked([reader.row("ingest", control_set.split("+"), cells)])[0]


def rows_from_json(loaded: LoadedConfig, text: str) -> tuple[ManualRow, ...]:
    """Read trials from JSON: an object or a list of them, with control_set, values, outcome (null: failed), cost.

    Further outcomes are among the values, by name.

    Raises:
        UsageError, ConfigError: something does not hold.
    """
    try:
        given = json.loads(text, parse_float=Decimal)
    except ValueError as error:
        raise UsageError(f"standard input: not JSON: {error}") from error
    reader = RowReader(loaded.problem.space, loaded.rig.outcome_names)
    keys, rows = ("control_set", "values", "outcome", "cost"), []
    for i, entry in enumerate(given if isinstance(given, list) else [given]):
        where = f"trial [{i}]"
        if not isinstance(entry, dict) or set(entry) - set(keys) or not {"control_set", "cost"} <= set(entry):
            raise UsageError(f"{where}: must be an object with {', '.join(keys)}")
        members, values = entry["control_set"], entry.get("values", {})
        if (
            not isinstance(members, list)
            or not all(isinstance(m, str) for m in members)
            or not isinstance(values, dict)
        ):
            raise UsageError(f"{where}: control_set must be a list of names, values an object")
        cells = _cells(loaded, f"{where}: values", values, entry.get("outcome"), entry["cost"])
        rows.append(reader.row(where, members, cells))
    return reader.checked(rows)


def _cells(
    loaded: LoadedConfig, where: str, values: Mapping[str, object], outcome: object, cost: object
) -> Mapping[str, object]:
    """Return a trial's values by the names they have in a table; all must be known there."""
    first, *further = loaded.rig.outcome_names
    names = (*loaded.problem.space.names, *further)
    for name in values:
        if name not in names:
            what = "a variable or further outcome: " if further else "a variable: "
            raise UsageError(f"{where}: {unknown(name, names, what)}")
    return {**values, first: outcome, "cost": cost}


def rows_from_csv(loaded: LoadedConfig, path: Path) -> tuple[ManualRow, ...]:
    """Read trials from a CSV file, as `suggest --history` takes it. Raises ConfigError."""
    return read_rows(path, loaded.problem.space, loaded.rig.outcome_names)


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
