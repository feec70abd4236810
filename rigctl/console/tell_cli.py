"""`rigctl alarms`, `ack`, `shelve`, `unshelve`, `notify`: what a person is told, and what they say to it."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from typing import Annotated

import typer

from rigctl.console.options import AsJson, Config, MaybeConfig, State, numbered
from rigctl.console.output import console, print_json, print_sentences, tell

Why = Annotated[str, typer.Option(metavar="TEXT", help="For whoever reads it later.")]
Which = Annotated[list[str], typer.Argument(metavar="[CONFIG] ALARM", help="Its number, as `rigctl alarms` shows it.")]


def add_tell_verbs(app: typer.Typer) -> None:
    """Add them to the command line."""
    for verb in (alarms, ack, shelve, unshelve, notify):
        app.command()(verb)


def alarms(
    config: MaybeConfig = None,
    state: State = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Also those that are settled, and notes.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Show it anew whenever it changes, until Ctrl-C.")] = False,
    json: AsJson = False,
) -> None:
    """List alarms, the worst that stand first; exit 1 if a warning stands that nobody has acknowledged or shelved."""
    from rigctl.console import alarms as listing
    from rigctl.console.assemble import find_state

    directory = find_state(config, state)
    if follow:
        listing.follow(directory, console(), every=every, json=json)
        return
    found = listing.alarms(directory)
    if json:
        print_json(listing.to_json(found, every=every))
    else:
        listing.show(found, console(), every=every)
    raise typer.Exit(1 if listing.unheeded(found) else 0)


def ack(which: Which, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Say that you have seen an alarm, whether the campaign runs or not."""
    from rigctl.campaign.acts import Acknowledge
    from rigctl.console.assemble import find_state, perform

    config, alarm = numbered("ack", which, "ALARM")
    tell(perform(Acknowledge(why=why, alarm=alarm), find_state(config, state)), json)


def shelve(
    which: Which,
    state: State = None,
    for_: Annotated[
        str, typer.Option("--for", metavar="TIME", help='Rig time that it is shelved for, at most "24 h".')
    ] = "1 h",
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Have nobody told of an alarm for a while; it is still kept, shown and acted upon, and comes back by itself."""
    from rigctl.campaign.acts import Shelve
    from rigctl.config.units import DURATION
    from rigctl.console.assemble import find_state, perform
    from rigctl.console.hands import quantity

    if for_.isdecimal() and len(which) > 1 and not which[-1].isdecimal():  # `--for 2 h`, without quotes
        for_ = f"{for_} {which.pop()}"
    config, alarm = numbered("shelve", which, "ALARM")
    seconds = round(quantity("--for", for_, DURATION))
    tell(perform(Shelve(why=why, alarm=alarm, seconds=seconds), find_state(config, state)), json)


def unshelve(which: Which, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Have people told of a shelved alarm again, before its time."""
    from rigctl.campaign.acts import Unshelve
    from rigctl.console.assemble import find_state, perform

    config, alarm = numbered("unshelve", which, "ALARM")
    tell(perform(Unshelve(why=why, alarm=alarm), find_state(config, state)), json)


def notify(
    config: Config,
    *,
    test: Annotated[bool, typer.Option("--test", help="Send everybody a test message, and a sign of life.")] = False,
    json: AsJson = False,
) -> None:
    """Say who is told of alarms, or with --test tell them; exit 1 if one of them could not be told."""
    from rigctl.config.load import load
    from rigctl.console import telling

    loaded = load(config)
    if test:
        sent = telling.test(loaded)
        tell(sent, json)
        raise typer.Exit(0 if all(how == "sent" for how in sent.values()) else 1)
    found = telling.told(loaded)
    if json:
        print_json(found)
    else:
        print_sentences(list(telling.lines(found)) or ["Nobody is told of anything."])
