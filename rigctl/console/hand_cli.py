"""The verbs of people who do trials themselves, or correct what was recorded: ingest, void, amend."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rigctl.console.options import AsJson, Config, State
from rigctl.console.output import print_fields, print_json
from rigctl.errors import UsageError

Force = Annotated[bool, typer.Option("--force", help="Record what looks mistyped all the same.")]
Which = Annotated[
    list[str], typer.Argument(metavar="[CONFIG] TRIAL", help="The trial's number; default CONFIG: as last started.")
]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="What was wrong, for whoever reads it later.")]


def add_to(app: typer.Typer) -> None:
    """Add these verbs to a command line."""
    for verb in (ingest, void, amend):
        app.command()(verb)


def ingest(
    config: Config,
    source: Annotated[str | None, typer.Argument(metavar="[FILE]", help="CSV file, or - for JSON on stdin.")] = None,
    *,
    control_set: Annotated[str | None, typer.Option(help="What was controlled, joined by +.")] = None,
    values: Annotated[str, typer.Option(metavar="NAME=X,...", help="What was measured, all variables.")] = "",
    setpoints: Annotated[
        str, typer.Option("--set", metavar="NAME=X,...", help="What was set; default: as suggested, if it was.")
    ] = "",
    outcome: Annotated[float | None, typer.Option(help="Leave out if the trial failed.")] = None,
    cost: Annotated[str | None, typer.Option(metavar="AMOUNT", help="In the rig's currency.")] = None,
    date: Annotated[str, typer.Option(help="When it was done, e.g. 2026-03-01.")] = "",
    operator: Annotated[str, typer.Option(help="Who did it.")] = "",
    batch: Annotated[str, typer.Option(help="Of what material.")] = "",
    note: Annotated[str, typer.Option(help="Whatever else should be known of it.")] = "",
    state: State = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Record trials done by hand; asks before it takes what looks mistyped."""
    from rigctl.config.load import load
    from rigctl.console import ingest as ingesting
    from rigctl.console.assemble import state_directory
    from rigctl.console.by_hand import read_rows

    loaded = load(config)
    known = {"date": date, "operator": operator, "batch": batch, "note": note}
    if source == "-":
        rows = ingesting.rows_from_json(loaded, sys.stdin.read())
    elif source is not None:
        rows = read_rows(loaded, Path(source))
    elif control_set is not None and cost is not None:
        said = ingesting.Said(control_set, cost, values, setpoints, outcome, known)
        rows = (ingesting.row_from_options(loaded, said),)
    else:
        raise UsageError("ingest: give --control-set and --cost, or a CSV file, or - for JSON on standard input")
    if source is not None and any((control_set, values, setpoints, outcome is not None, cost, *known.values())):
        raise UsageError(f"ingest: {source} has trials of its own; give either a file or the options of one trial")
    sure = _sure(force=force, ask=source != "-" and not json)
    done = ingesting.ingest(loaded, state_directory(state, loaded.name), rows, sure)
    if done.departed:
        typer.echo(
            f"rigctl: trial {done.trials[0]} is recorded as not following the suggestion: {done.departed}", err=True
        )
    _tell(done.to_json(), json)


def void(
    which: Which,
    *,
    why: Why = "",
    undo: Annotated[bool, typer.Option("--undo", help="Take a void trial in again.")] = False,
    state: State = None,
    json: AsJson = False,
) -> None:
    """Leave a trial out of what the policy learns from; its record and its cost stay."""
    from rigctl.console import correcting

    directory, trial = _trial("void", which, state)
    _tell(correcting.void(directory, trial, why, undo=undo), json)


def amend(
    which: Which,
    *,
    outcome: Annotated[float | None, typer.Option(help="What it was, the first outcome.")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="It gave no outcome.")] = False,
    values: Annotated[
        str, typer.Option(metavar="NAME=X,...", help="What was measured: variables and further outcomes.")
    ] = "",
    cost: Annotated[str | None, typer.Option(metavar="AMOUNT", help="In the rig's currency.")] = None,
    note: Annotated[str | None, typer.Option(help="Whatever else should be known of it.")] = None,
    why: Why = "",
    state: State = None,
    json: AsJson = False,
) -> None:
    """Correct what was recorded of a trial; what it was before stays visible."""
    from rigctl.console import correcting

    directory, trial = _trial("amend", which, state)
    change = correcting.Change(outcome, failed, values, cost, note)
    _tell(correcting.amend(directory, trial, change, why), json)


def _trial(verb: str, which: Sequence[str], state: Path | None) -> tuple[Path, int]:
    from rigctl.console.assemble import find_state

    if len(which) > 2 or not which[-1].isdecimal():
        raise UsageError(f"{verb}: got {' '.join(which)}, must be [CONFIG] TRIAL, the trial's number last")
    return find_state(Path(which[0]) if len(which) > 1 else None, state), int(which[-1])


def _sure(*, force: bool, ask: bool) -> Callable[[Sequence[str]], None]:
    """Return what is told of doubts: it asks a person at a terminal, and refuses where there is none."""

    def sure(doubts: Sequence[str]) -> None:
        told = "\n".join(f"  {doubt}" for doubt in doubts)
        if force:
            typer.echo(f"rigctl: recorded all the same:\n{told}", err=True)
        elif ask and sys.stdin.isatty():
            typer.echo(f"This looks mistyped:\n{told}", err=True)
            if not typer.confirm("Record it all the same?", err=True):
                raise UsageError("nothing was recorded")
        else:
            raise UsageError(f"this looks mistyped, so nothing was recorded; with --force it is:\n{told}")

    return sure


def _tell(answer: Any, json: bool) -> None:
    (print_json if json else print_fields)(answer)
