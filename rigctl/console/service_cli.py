"""`rigctl service` and `rigctl doctor`: what a rig that is left alone needs."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.options import AsJson, Bus, Config, MaybeConfig, State, buses
from rigctl.console.output import console, print_json

Account = Annotated[
    str, typer.Option("--as", metavar="ACCOUNT", help="Who it runs as; default: you, or rigctl for root.")
]
Lives = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="Default: where the campaign has begun, else /var/lib/rigctl/<rig>."),
]
Own = Annotated[bool, typer.Option("--user", help="For your own service manager, not the system's.")]
Install = Annotated[bool, typer.Option("--install", help="Write it where systemd finds it; default: print it.")]
Backup = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Also a timer that copies the journal there once a day.")
]
Operate = Annotated[bool, typer.Option("--operate", help="Run it for production, not as a campaign.")]
Learn = Annotated[
    str | None, typer.Option(metavar="SHARE", help="With --operate: what exploring may lose, as `operate` has it.")
]
Full = Annotated[bool, typer.Option("--full", help="With --operate: what is best at just the day's readings.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite a unit that somebody else wrote or edited.")]


def add_service(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (service, doctor):
        app.command()(verb)


def service(
    config: Config,
    *,
    state: Lives = None,
    bus: Bus = None,
    account: Account = "",
    own: Own = False,
    install: Install = False,
    force: Force = False,
    backup: Backup = None,
    operate: Operate = False,
    learn: Learn = None,
    full: Full = False,
    json: AsJson = False,
) -> None:
    """Print or install a systemd unit that runs a configuration: watched, started again, hardened."""
    from rigctl.console import service as units

    made = units.made(
        config,
        state,
        buses(bus),
        account=account,
        own=own,
        backup=backup,
        operate=operate,
        learn=learn,
        full=full,
    )
    if install:
        made.install(force=force)
    if json:
        print_json(made.to_json(installed=install))
        return
    typer.echo("\n".join(f"written: {path}" for path in made.units) if install else made.printed(), nl=install)
    for line in made.next_steps(installed=install):
        typer.echo(line, err=not install)


def doctor(config: MaybeConfig = None, state: State = None, bus: Bus = None, *, json: AsJson = False) -> None:
    """Look at this machine: ports, accounts, clocks, power, disk, watchdog; say what to mend. Asks no instrument."""
    from rigctl.console import doctor as examining

    found = examining.examined(config, state, buses(bus), examining.Machine())
    if json:
        print_json(examining.to_json(found))
    else:
        examining.show(found, console())
    raise typer.Exit(0 if examining.well(found) else 1)
