"""`rigctl pause`, `resume`, `ack`, `void`: what people do to a campaign, kept with who did it; nothing else is here."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rigctl.console.options import AsJson, MaybeConfig, State

if TYPE_CHECKING:
    from collections.abc import Mapping

Why = Annotated[str, typer.Option(metavar="TEXT", help="For whoever reads it later.")]


def add_acts(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (pause, resume, ack, void):
        app.command(verb.__name__)(verb)


def pause(config: MaybeConfig = None, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let a running campaign begin no trial, everything safe, until `resume`; also after a restart."""
    _tell(_ask(config, state, "pause", why=why), json)


def resume(config: MaybeConfig = None, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let a paused campaign go on."""
    _tell(_ask(config, state, "resume", why=why), json)


def ack(
    alarm: Annotated[int, typer.Argument(metavar="ALARM", min=1, help="Its number; `export --records alarms` has it.")],
    config: MaybeConfig = None,
    state: State = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Say that you have seen an alarm of a running campaign."""
    _tell(_ask(config, state, "ack", alarm=alarm, why=why), json)


def void(
    trial: Annotated[int, typer.Argument(metavar="TRIAL", min=1, help="Its number.")],
    config: MaybeConfig = None,
    state: State = None,
    why: Why = "",
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Take it in again.")] = False,
    json: AsJson = False,
) -> None:
    """Leave a trial out of what the policy learns from, running or not; what it cost stays spent."""
    from rigctl.campaign.lock import campaign_here
    from rigctl.console.assemble import find_state

    directory = find_state(config, state)
    if campaign_here(directory) is not None:
        _tell(_ask(None, directory, "void", trial=trial, why=why, undo=undo), json)
        return
    from rigctl.campaign.clock import RealClock, boot_id
    from rigctl.campaign.corrections import restore
    from rigctl.campaign.corrections import void as leave_out
    from rigctl.campaign.journal import Journal, open_reader
    from rigctl.campaign.lock import state_lock
    from rigctl.campaign.people import this_person

    with open_reader(directory) as reader:  # before the lock, which would make a missing directory
        reader.campaign()
    # rig time plays no part in it
    with state_lock(directory), closing(Journal(directory, RealClock(), boot_id())) as journal:
        outcome = (restore if undo else leave_out)(journal, trial, this_person(), why)
    _tell({"trial": trial, "outcome": outcome}, json)


def _ask(config: Path | None, state: Path | None, verb: str, **arguments: Any) -> Mapping[str, Any]:
    from rigctl.campaign import control
    from rigctl.campaign.people import this_person
    from rigctl.console.assemble import find_state

    answer = control.ask(find_state(config, state), verb, who=this_person(), **arguments)
    return {name: value for name, value in answer.items() if name != "ok"}


def _tell(answer: Mapping[str, Any], json: bool) -> None:
    from rigctl.console.output import print_fields, print_json

    (print_json if json else print_fields)(answer)
