"""`rigctl verify`, `backup`, `recover`: looking after the journal."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rigctl.console.options import AsJson, MaybeConfig, State
from rigctl.console.output import print_json, print_sentences
from rigctl.console.verbs import CONFIG_SUFFIXES

ConfigOrFile = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG|FILE]", help="The rig's YAML file, or a journal, e.g. a backup."),
]


def add_journals(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (backup, verify, recover):
        app.command()(verb)


def backup(
    config: MaybeConfig = None,
    state: State = None,
    to: Annotated[
        Path | None,
        typer.Option(metavar="FILE|DIR", help="A new file, or a directory; default: `backups` in the state directory."),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="In a directory, remove all but the newest N backups.")
    ] = None,
    *,
    json: AsJson = False,
) -> None:
    """Copy the journal to a new file and verify the copy, also while a campaign runs; nothing is ever overwritten."""
    from datetime import UTC, datetime

    from rigctl.console import journals
    from rigctl.console.assemble import find_state

    made = journals.backup(find_state(config, state), to, keep, datetime.now(UTC))
    print_json(journals.backup_json(made)) if json else print_sentences(journals.backup_lines(made))


def verify(which: ConfigOrFile = None, state: State = None, *, json: AsJson = False) -> None:
    """Check everything a journal holds: steps of trials, money, doses against caps, checksums; changes nothing.

    Each violation names the table, the row, what is wrong and what to do. Exit code 1 if there is one.
    """
    from rigctl.console import journals

    found = journals.verify(_journal(which, state))
    print_json(journals.verification_json(found)) if json else print_sentences(journals.verification_lines(found))
    raise typer.Exit(0 if found.ok else 1)


def recover(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="The damaged journal, with its log beside it; or its state directory."),
    ],
    to: Annotated[Path, typer.Option(metavar="DIR", help="A new state directory for what is recovered.")],
    *,
    json: AsJson = False,
) -> None:
    """Make a new journal of what can be read of a damaged one, and list what is lost; the damaged one stays as it is.

    Exit code 1 if nothing can be recovered, or if what was does not hold.
    """
    from datetime import UTC, datetime

    from rigctl.campaign.people import this_person
    from rigctl.console import journals

    loss = journals.recover(file, to, this_person(), datetime.now(UTC))
    print_json(journals.loss_json(loss)) if json else print_sentences(journals.loss_lines(loss, to))
    raise typer.Exit(1 if loss.left else 0)


def _journal(which: Path | None, state: Path | None) -> Path:
    """Return the journal's file or directory; a configuration names it by its rig."""
    from rigctl.console.assemble import find_state

    named = which is not None and which.suffix.lower() not in CONFIG_SUFFIXES
    return which if named and which is not None else find_state(which, state)
