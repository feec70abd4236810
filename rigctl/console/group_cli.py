"""Commands about instruments, alarms, the journal and the machine: what is done rarely, in a group each.

What a person says of alarms and instruments is made of the acts' fields (`acts`); it joins its group when that is used.
"""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from rigctl.console.bench_cli import bench
from rigctl.console.options import (
    CONFIG_SUFFIXES,
    STDOUT,
    AsJson,
    Bus,
    Config,
    Form,
    Format,
    MaybeConfig,
    Records,
    ServiceFlags,
    State,
    buses,
    named,
)
from rigctl.console.output import Answer, console, write
from rigctl.console.verbs import Commands, Group, Here
from rigctl.signals import INTERRUPTED_EXIT

if TYPE_CHECKING:
    from rich.console import Console

device = Commands(cls=Group, no_args_is_help=True, help="Say what was done to an instrument, or drive it by hand.")
alarm = Commands(cls=Group, no_args_is_help=True, help="List alarms, acknowledge and shelve them; reset a trip.")
journal = Commands(cls=Group, no_args_is_help=True, help="Verify, back up, recover, export and replay the journal.")
tools = Commands(cls=Group, no_args_is_help=True, help="Look after the machine, the page's tokens, and the bench.")
token = Commands(cls=Group, no_args_is_help=True, help="Say who may act on a campaign from its page.")
tools.add_typer(token, name="token")
tools.add_typer(bench, name="bench")

ConfigOrFile = Annotated[
    Path | None, Argument(metavar="[CONFIG|FILE]", help="The rig's YAML file, or a journal, e.g. a backup.")
]
Name = Annotated[str, Argument(metavar="NAME", help="Name of the person who gets the token.")]


@device.command("accept")
def accept_device(
    which: Annotated[list[str], Argument(metavar="[CONFIG] NAME", help="Default: as last started.")],
    state: State = None,
    bus: Bus = None,
) -> Answer:
    """Expect the instrument that answers as this device now, once a person has looked at it."""
    from rigctl.console import hands
    from rigctl.console.assemble import find_own_state, loaded_here

    config, (name,) = named("device accept", which, "NAME")
    directory = find_own_state(config, state)
    return Answer(hands.accept_device(loaded_here(config, directory, buses(bus)), directory, name))


# alarms ---------------------------------------------------------------------------------------------------------------


@alarm.command("list")
def alarms(
    here: Here,
    *,
    every: Annotated[bool, Option("--all", help="Also those that are settled, and notes.")] = False,
    follow: Annotated[bool, Option("--follow", help="Show it anew whenever it changes, until Ctrl-C.")] = False,
    json: AsJson = False,
) -> Answer | None:
    """List alarms, the worst active ones first; exit 1 if a warning is neither acknowledged nor shelved."""
    from rigctl.console import alarms as listing

    if follow:
        listing.follow(here.directory, console(), every=every, json=json)
        return None
    found = listing.alarms(here.directory)
    fields, code = listing.to_json(found, every=every), 1 if listing.unheeded(found) else 0
    return Answer(fields, lambda screen: listing.show(found, screen, every=every), exit_code=code)


@alarm.command()
def notify(
    config: Config,
    *,
    test: Annotated[bool, Option("--test", help="Send everybody a test message, and a sign of life.")] = False,
) -> Answer:
    """Say who is told of alarms, or with --test tell them; exit 1 if one of them could not be told."""
    from rigctl.config.load import load
    from rigctl.console import alarms, checking

    loaded = load(config)
    if test:
        sent = alarms.test(loaded)
        return Answer(sent, exit_code=0 if all(how == "sent" for how in sent.values()) else 1)
    found = checking.tells(loaded)
    return Answer(found, list(checking.who_is_told(found)) or ["Nobody is told of anything."])


@alarm.command("reset-trip")
def reset_trip(here: Here) -> Answer:
    """Let a tripped rig run again, once the cause is found."""
    from rigctl.console import hands
    from rigctl.console.assemble import find_own_state

    found = hands.reset(find_own_state(here.config, here.state))
    return Answer(found, None if found["reset"] else ["nothing had tripped"])


# the journal ----------------------------------------------------------------------------------------------------------


@journal.command()
def verify(which: ConfigOrFile = None, state: State = None) -> Answer:
    """Check everything a journal holds: steps of trials, money, doses against caps, checksums; changes nothing.

    Each violation names the table, the row, what is wrong and what to do. Exit code 1 if there is one.
    """
    from rigctl.console import journals

    file = which is not None and which.suffix.lower() not in CONFIG_SUFFIXES
    found = journals.verify(which if file and which is not None else Here(which, state).directory)
    fields, sentences = journals.verification_json(found), journals.verification_lines(found)
    return Answer(fields, sentences, exit_code=0 if found.ok else 1)


@journal.command()
def backup(
    here: Here,
    to: Annotated[
        Path | None,
        Option(metavar="FILE|DIR", help="A new file, or a directory; default: `backups` in the state directory."),
    ] = None,
    keep: Annotated[int | None, Option(min=1, help="Keep only the newest N backups of a directory.")] = None,
) -> Answer:
    """Copy the journal to a new file and verify the copy, also while a campaign runs; nothing is ever overwritten."""
    from datetime import UTC, datetime

    from rigctl.console import journals

    made = journals.backup(here.directory, to, keep, datetime.now(UTC))
    return Answer(journals.backup_json(made), journals.backup_lines(made))


@journal.command()
def recover(
    file: Annotated[
        Path, Argument(metavar="FILE", help="The damaged journal, with its log beside it; or its state directory.")
    ],
    to: Annotated[Path, Option(metavar="DIR", help="A new state directory for what is recovered.")],
) -> Answer:
    """Make a new journal of what can be read of a damaged one, and list what is lost; the damaged one stays as it is.

    Exit code 1 if nothing can be recovered, or if what was does not hold.
    """
    from datetime import UTC, datetime

    from rigctl.console import journals
    from rigctl.people import this_person

    loss = journals.recover(file, to, this_person(), datetime.now(UTC))
    return Answer(journals.loss_json(loss), journals.loss_lines(loss, to), exit_code=1 if loss.left else 0)


@journal.command(answers=False)
def export(
    here: Here,
    form: Annotated[Format, Option("--format", help="csv or jsonl.")] = Format.CSV,
    records: Annotated[
        Records, Option(metavar="RECORDS", help="trials, ledger, measurements, events, doses, alarms or acts.")
    ] = Records.TRIALS,
    out: Annotated[Path | None, Option(metavar="FILE", help="Default: standard output.")] = None,
) -> None:
    """Write what the journal holds for other programs."""
    from rigctl.console import journals

    with here.opened() as campaign:
        journals.export(campaign, records, form, None if out == STDOUT else out)


@journal.command()
def replay(here: Here) -> Answer:
    """Recompute every decision from the journal; each must come out the same."""
    from rigctl.console import query

    with here.opened() as campaign:
        trials = query.replayed(campaign)
    code = 0 if all(trial.agrees for trial in trials) else 1
    return Answer(query.replay_json(trials), query.replay_lines(trials), exit_code=code)


# the machine ----------------------------------------------------------------------------------------------------------


@tools.command()
def service(config: Config, *, bus: Bus = None, said: ServiceFlags) -> Answer:
    """Print or install a systemd unit that runs a configuration: watched, started again, hardened."""
    from rigctl.console.services import service as units

    install, made = said.install, units.made(config, buses(bus), said)
    if install:
        made.install(force=said.force)
    steps = made.next_steps(installed=install)
    following = "\n  ".join(["Next:", *steps]) if len(steps) > 1 else f"Next: {steps[0]}"

    def show(_: Console) -> None:  # who puts the unit into a file reads the rest all the same
        typer.echo(made.printed(), nl=False)
        typer.echo(following, err=True)

    fields = made.to_json(installed=install)
    written = [f"written: {path}" for path in made.units]
    return Answer(fields, written, following) if install else Answer(fields, show)


@tools.command()
def doctor(here: Here, bus: Bus = None) -> Answer:
    """Look at this machine: ports, accounts, clocks, power, disk, watchdog; say what to mend. Asks no instrument."""
    from rigctl.console import doctor as examining
    from rigctl.console.machine import Machine

    found = examining.examined(here.config, here.state, buses(bus), Machine())
    fields, code = examining.to_json(found), 0 if examining.well(found) else 1
    return Answer(fields, lambda screen: examining.show(found, screen), exit_code=code)


@tools.command()
def drill(
    config: Config,
    *,
    only: Annotated[list[str] | None, Option(metavar="FAULT", help="Only this one; repeatable.")] = None,
    to: Annotated[Path | None, Option(metavar="DIR", help="Keep it here; default: ./drills/<rig>.")] = None,
    bus: Bus = None,
    json: AsJson = False,
) -> Answer:
    """Strike the rig with twelve faults, motors without power, and time how long it takes until everything is safe."""
    from rigctl.config.load import Overrides, load
    from rigctl.console.drills import drill as drilling

    tell_person = partial(write, stream=sys.stderr if json else None)

    def ask(_: str, text: str) -> str:
        tell_person(text)
        answer: str = typer.prompt("  ", default="", show_default=False, prompt_suffix="> ", err=json)
        return answer

    loaded = load(config, Overrides(buses(bus)), to_run=True)
    place = to or drilling.PLACE / loaded.name
    try:
        done = drilling.drill(loaded, place, only or (), ask, tell_person)
    except (KeyboardInterrupt, typer.Abort):
        typer.echo("everything is safe; the drill has ended", err=True)
        raise typer.Exit(INTERRUPTED_EXIT) from None
    table = drilling.shown(done, place / drilling.REPORT, console().width)
    return Answer(done, table, exit_code=done.exit_code)


@tools.command()
def drivers(
    config: MaybeConfig = None,
    *,
    profiles: Annotated[bool, Option("--profiles", help="List instruments that are known by name.")] = False,
) -> Answer:
    """List the installed drivers, or with --profiles the instruments that they know, with one's own beside CONFIG."""
    from rigctl.config.profiles import listed
    from rigctl.console import query
    from rigctl.rig.registry import Registry

    registry = Registry.installed()
    if profiles:
        known = listed(registry, Path() if config is None else config.parent)
        return Answer(known, query.profile_lines(known))
    found = registry.describe()
    return Answer(found, [f"{d.name:10} {', '.join(d.schemes):28} {d.problem or d.summary}" for d in found])


@tools.command(answers=False)
def schema(
    ctx: typer.Context,
    form: Annotated[
        Form, Option("--as", metavar="FORM", help="json (default), configuration or commands.")
    ] = Form.JSON,
) -> None:
    """Print the JSON schema of the configuration, for editors; or the reference of all keys, or of all commands."""
    from rigctl.config import editor
    from rigctl.console.verbs import page
    from rigctl.rig.registry import Registry

    keys = editor.json_schema(Registry.installed())
    made = {Form.JSON: lambda: editor.schema_text(keys), Form.CONFIGURATION: lambda: editor.page(keys)}
    typer.echo(made.get(form, lambda: page(ctx.find_root().command))(), nl=False)


@token.command()
def create(name: Name, here: Here) -> Answer:
    """Make a token for a person and show it, this once."""
    from rigctl.page.access import TokenFile, keep
    from rigctl.people import this_person

    secret = TokenFile(here.directory).create(name, this_person())
    keep(here.directory, "token", this_person(), name, "created")
    note = "it is shown only this once; whoever has it can act on the campaign"
    return Answer({"name": name, "token": secret, "note": note})


@token.command("list")
def list_tokens(here: Here) -> Answer:
    """Show who has a token."""
    from rigctl.page.access import TokenFile, listed

    found = listed(TokenFile(here.directory).all())
    told = [f"{entry['name']}, since {entry['created']}, made by {entry['by']}" for entry in found]
    return Answer(found, told or ["nobody has a token: the page is read-only"])


@token.command()
def revoke(name: Name, here: Here) -> Answer:
    """Let a person's token hold no longer, at once."""
    from rigctl.page.access import TokenFile, keep
    from rigctl.people import this_person

    TokenFile(here.directory).revoke(name)
    keep(here.directory, "token", this_person(), name, "revoked")
    return Answer({"revoked": name})
