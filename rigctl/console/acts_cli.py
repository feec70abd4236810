"""`rigctl pause`, `resume`, `ack`: what people do to a campaign that runs, kept with who did it."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rigctl.console.options import AsJson, MaybeConfig, State, numbered
from rigctl.console.output import tell

if TYPE_CHECKING:
    from collections.abc import Mapping

Why = Annotated[str, typer.Option(metavar="TEXT", help="For whoever reads it later.")]


def add_acts(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (pause, resume, ack):
        app.command()(verb)


def pause(config: MaybeConfig = None, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let a running campaign begin no trial, everything safe, until `resume`; also after a restart."""
    tell(_ask(config, state, "pause", why=why), json)


def resume(config: MaybeConfig = None, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let a paused campaign go on."""
    tell(_ask(config, state, "resume", why=why), json)


def ack(
    which: Annotated[
        list[str], typer.Argument(metavar="[CONFIG] ALARM", help="Its number, as `export --records alarms` has it.")
    ],
    state: State = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Say that you have seen an alarm of a running campaign."""
    config, alarm = numbered("ack", which, "ALARM")
    tell(_ask(config, state, "ack", alarm=alarm, why=why), json)


def _ask(config: Path | None, state: Path | None, verb: str, **arguments: Any) -> Mapping[str, Any]:
    from rigctl.campaign import control
    from rigctl.campaign.people import this_person
    from rigctl.console.assemble import find_state

    answer = control.ask(find_state(config, state), verb, who=this_person(), **arguments)
    return {name: value for name, value in answer.items() if name != "ok"}
