"""`rigctl pause`, `resume`: what people do to a campaign that runs, kept with who did it."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rigctl.console.options import AsJson, MaybeConfig, State
from rigctl.console.output import tell

if TYPE_CHECKING:
    from collections.abc import Mapping

Why = Annotated[str, typer.Option(metavar="TEXT", help="For whoever reads it later.")]


def add_acts(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (pause, resume):
        app.command()(verb)


def pause(
    config: MaybeConfig = None,
    state: State = None,
    why: Why = "",
    now: Annotated[bool, typer.Option("--now", help="Break off the trial under way; it is charged.")] = False,
    *,
    json: AsJson = False,
) -> None:
    """Let a running campaign begin no trial, everything safe, until `resume`; also after a restart."""
    tell(_ask(config, state, "pause", why=why, now=now), json)


def resume(config: MaybeConfig = None, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let a paused campaign go on."""
    tell(_ask(config, state, "resume", why=why), json)


def _ask(config: Path | None, state: Path | None, verb: str, **arguments: Any) -> Mapping[str, Any]:
    from rigctl.campaign import control
    from rigctl.campaign.people import this_person
    from rigctl.console.assemble import find_state

    answer = control.ask(find_state(config, state), verb, who=this_person(), **arguments)
    return {name: value for name, value in answer.items() if name != "ok"}
