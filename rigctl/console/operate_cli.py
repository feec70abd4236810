"""`rigctl operate`: production by what a campaign has found."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.options import AsJson, Bus, Config, Serve, State, buses
from rigctl.console.output import console, print_json, tell
from rigctl.signals import INTERRUPTED_EXIT


def add_operate(app: typer.Typer) -> None:
    """Add it to the command line."""
    app.command()(operate)


@contextmanager
def safe_before(ctx: typer.Context, config: Path, state: Path | None, *, json: bool) -> Iterator[None]:
    """Make safe what a dead process has left driven, before anything that takes time or may be refused.

    Raises:
        typer.Exit: a signal has come by then.
    """
    from rigctl.console.safe import left_safe, make_left_safe, safe_json

    with left_safe(config, state, ctx.obj) as before:
        if before is not None and ctx.obj is not None and ctx.obj.heard:
            left = before if before.ok else make_left_safe(config, state, {}, ctx.obj).report
            tell({"ending": "abandoned", "reason": ctx.obj.heard[0], "safe": safe_json(left)}, json)
            raise typer.Exit(1 if not left.ok else INTERRUPTED_EXIT if ctx.obj.heard[0] == "SIGINT" else 0)
        yield


def operate(
    ctx: typer.Context,
    config: Config,
    *,
    learn: Annotated[
        str | None,
        typer.Option(
            metavar="SHARE",
            help='Go on learning; exploring may lose this share, "5 %", of the gain over controlling nothing.',
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--set", metavar="NAME=X,...", help="Run these setpoints, not what a campaign has found."),
    ] = None,
    batches: Annotated[int | None, typer.Option(min=1, help="Stop after this many batches.")] = None,
    anew: Annotated[bool, typer.Option("--anew", help="Make the rule anew, of all trials and batches so far.")] = False,
    full: Annotated[
        bool,
        typer.Option("--full", help="Run what is best at just the day's readings, not the rule's line."),
    ] = False,
    state: State = None,
    bus: Bus = None,
    serve: Serve = False,
    json: AsJson = False,
) -> None:
    """Run for production, batch after batch until stopped, what a campaign has found to be best."""
    with safe_before(ctx, config, state, json=json):
        from rigctl.console import checking
        from rigctl.console import operate as operating
        from rigctl.console import run as running
        from rigctl.console.serving import page_beside

        wish = operating.Wish(learn, at, batches, anew, full)
        loaded, decides, directory = operating.prepared(config, state, buses(bus), wish)
        for warning in checking.checked(loaded).warnings:
            typer.echo(f"rigctl: warning: {warning}", err=True)
        shown = console(stderr=json)
        with page_beside(serve, directory, shown):
            done = operating.operate(loaded, (decides, batches), directory, shown, ctx.obj)
        print_json(operating.to_json(done)) if json else operating.show(done, loaded, console())
        raise typer.Exit(running.exit_code(done.result))
