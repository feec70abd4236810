"""Options and arguments that several verbs share, and what a shell offers for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from rigctl.errors import UsageError
from rigctl.flaws import got

CONFIG_SUFFIXES = (".yaml", ".yml")


def complete_config(incomplete: str) -> Iterator[str]:
    """Offer the configurations that may be meant, and the directories on the way to them."""
    given = Path(incomplete)
    folder = given if incomplete.endswith("/") or not incomplete else given.parent
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.name.startswith(".") or not str(path).startswith(incomplete.removeprefix("./")):
            continue
        if path.is_dir():
            yield f"{path}/"
        elif path.suffix in CONFIG_SUFFIXES:
            yield str(path)


STATES = Path("state")
"""Where state directories are unless `--state` says otherwise."""
STDOUT = Path("-")
"""Names standard output, as for other programs."""

Config = Annotated[Path, typer.Argument(metavar="CONFIG", help="The rig's YAML file.", autocompletion=complete_config)]
MaybeConfig = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG]", help="Default: as last started.", autocompletion=complete_config),
]
State = Annotated[Path | None, typer.Option(metavar="DIR", help="State directory; default ./state/<rig>.")]
Bus = Annotated[list[str] | None, typer.Option(metavar="NAME=URL", help="Use another URL for a bus; repeatable.")]
IfLeftDriven = Annotated[
    bool, typer.Option("--if-left-driven", help="Only what a campaign that died has left driven; else do nothing.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Instead of the configuration's.")]
Budget = Annotated[
    str | None, typer.Option(metavar="MONEY", help='Instead of the configuration\'s, e.g. "20 EUR" or 20.')
]
Serve = Annotated[bool, typer.Option("--serve", help="Show it as a live page in a browser meanwhile.")]
MaxTrials = Annotated[int | None, typer.Option(min=1, help="Stop after this many trials.")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Technical = Annotated[
    bool, typer.Option("--technical", help="Say it in the terms of the policy's paper, not in plain words.")
]
Watch = Annotated[bool, typer.Option("--watch", help="Follow a running campaign until it ends.")]
Now = Annotated[
    str | None, typer.Option(metavar="NAME=X,...", help="What variables read now, in their units; decided by that.")
]
HistoryFile = Annotated[
    Path | None, typer.Option("--history", metavar="FILE", help="Trials: a CSV file, or a journal; default: --state.")
]

Form = StrEnum("Form", "JSON CONFIGURATION COMMANDS")
Format = StrEnum("Format", "CSV JSONL")
Records = StrEnum("Records", "TRIALS LEDGER MEASUREMENTS EVENTS DOSES ALARMS ACTS")


def named(verb: str, which: Sequence[str], what: str, *, number: bool = False) -> tuple[Path | None, str]:
    """Return the configuration, if it is given, and the last word of `[CONFIG] NAME` and the like.

    Raises:
        UsageError: it is nothing of the kind.
    """
    if len(which) > 2 or (number and not which[-1].isdecimal()):
        last = f", the {what.lower()}'s number last" if number else ""
        raise UsageError(got(" ".join(which), f"must be [CONFIG] {what}{last}", where=verb))
    return Path(which[0]) if len(which) > 1 else None, which[-1]


def buses(given: Sequence[str] | None) -> dict[str, str]:
    """Return the URLs of `--bus NAME=URL`, by name.

    Raises:
        UsageError: one is nothing of the kind.
    """
    urls = {}
    for text in given or ():
        name, equals, url = text.partition("=")
        if not equals:
            raise UsageError(got(text, "must be NAME=URL", where="--bus"))
        urls[name] = url
    return urls
