"""`rigctl outcome`: what came of trials whose outcome a person says."""

# ruff: noqa: PLC0415  # imports stand in the verb, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.hand_cli import decimals_said, made_sure
from rigctl.console.options import AsJson, State
from rigctl.console.output import print_json


def add_to(app: typer.Typer) -> None:
    """Add the verb to a command line."""
    app.command(context_settings={"ignore_unknown_options": True})(outcome)  # a value may be negative


def outcome(
    which: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CONFIG] [TRIAL VALUE [UNIT]]", help="The trial's number, and what came of it."),
    ] = None,
    *,
    source: Annotated[
        Path | None, typer.Option("--from", metavar="FILE", help="CSV with the columns trial, the outcomes, and unit.")
    ] = None,
    decimal: Annotated[
        str | None, typer.Option(metavar="comma|point", help="Of the file; default: as its numbers say.")
    ] = None,
    values: Annotated[str, typer.Option(metavar="NAME=X,...", help="Further outcomes, in their own units.")] = "",
    lost: Annotated[bool, typer.Option("--lost", help="None comes: the trial ends without one; needs --why.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="For whoever reads it later.")] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Record what looks mistyped, or comes after it was given up.")
    ] = False,
    state: State = None,
    json: AsJson = False,
) -> None:
    """Record the outcome of a trial that awaits it; without arguments list the trials that do."""
    from rigctl.console import outcomes

    asked = outcomes.asked_of(which or [], source, values, decimals_said(decimal), lost=lost)
    directory = outcomes.directory_of(asked.config, state)
    if asked.nothing:
        waiting = outcomes.waiting(directory)
        print_json(waiting) if json else typer.echo("\n".join(outcomes.lines(waiting)))
        return
    sure = made_sure(force=force, ask=not json)
    done = outcomes.record(directory, asked, sure, force=force, why=why)
    print_json(done) if json else typer.echo("\n".join(said["outcome"] for said in done))
