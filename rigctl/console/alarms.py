"""What people are told: the list of alarms in a terminal, and who hears of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.alarms import Alarms, AlarmState, pressing
from rigctl.campaign.journal.reader import at_one_instant
from rigctl.config.load import LoadedConfig
from rigctl.console.output import ShownColumn, lines, print_json_line, table
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.flaws import Flaw
from rigctl.notify.services import NotSent, Parsed, parsed, ping
from rigctl.notify.texts import Words
from rigctl.page.words import SEVERITIES, alarm_words, clock
from rigctl.rig.protocols import Severity

if TYPE_CHECKING:
    from rich.console import Console


EVERY_S = 1.0
"""Wall seconds between two looks of `--follow`."""


def alarms(directory: Path) -> tuple[AlarmState, ...]:
    """Return all alarms of a campaign, running or not, active ones first.

    Raises:
        UsageError: there is no campaign here.
        JournalError: the journal cannot be read.
    """
    with open_reader(directory) as reader:
        reader.campaign()
        return reader.alarms.folded().shown(reader.alarms.now_s(), _now())


def unheeded(found: Sequence[AlarmState]) -> bool:
    """Tell whether a warning, or worse, is active and neither acknowledged nor shelved."""
    return any(a.condition == "active" and a.severity >= Severity.MAJOR and a.shelf is None for a in found)


def follow(directory: Path, console: Console, *, every: bool, json: bool) -> None:
    """Show the alarms, and again after every change, until Ctrl-C. Raises as `alarms`."""
    before: object = None
    for found in _anew(directory):
        listed = found if every else pressing(found)
        if listed == before:
            continue
        before = listed
        if json:
            print_json_line(to_json(found, every=every))
            continue
        if console.is_terminal and not console.is_dumb_terminal:
            console.clear()
        show(found, console, every=every)


def _anew(directory: Path) -> Iterator[tuple[AlarmState, ...]]:
    book = Alarms()
    alarms(directory)  # checked as a whole once
    while True:
        with at_one_instant(directory) as reader:
            now_s, book = reader.alarms.now_s(), reader.alarms.folded(book)
        yield book.shown(now_s, _now())
        time.sleep(EVERY_S)


def show(found: Sequence[AlarmState], console: Console, *, every: bool = False) -> None:
    """Print what there is to be looked at, or `every` alarm."""
    listed, now = found if every else pressing(found), datetime.now(UTC).astimezone()
    if not listed:
        left = f"; {counted(len(found), 'alarm')} settled, `rigctl alarm list --all` lists them" if found else ""
        lines(console, [f"No active alarms{left}."])
        return
    columns = (
        ShownColumn("alarm", [str(a.alarm) for a in listed]),
        ShownColumn(
            "", [" ".join(SEVERITIES.get(a.severity.name, ("", a.severity.name.lower()))) for a in listed], left=True
        ),
        ShownColumn("source", [a.source for a in listed], left=True),
        ShownColumn("since", [clock(a.since, now) for a in listed], left=True, spare=1),
        ShownColumn("times", [str(a.count) for a in listed], spare=2),
        ShownColumn("state", [alarm_words(a, now) for a in listed], left=True),
        ShownColumn("message", [a.message for a in listed], left=True),
    )
    lines(console, table(columns, console.width))


def to_json(found: Sequence[AlarmState], *, every: bool = False) -> Mapping[str, Any]:
    """Return the list for programs; times are UTC."""
    listed = found if every else pressing(found)
    return {"unheeded": unheeded(found), "alarms": [alarm_json(alarm) for alarm in listed]}


def alarm_json(alarm: AlarmState) -> Mapping[str, Any]:
    names = ("alarm", "kind", "source", "message", "trial", "since", "last", "count", "condition")
    shelf = alarm.shelf
    return {
        **{name: getattr(alarm, name) for name in names},
        "severity": alarm.severity.name,
        "until": alarm.until or None,
        "acknowledged": {"who": alarm.acknowledged, "utc": alarm.acknowledged_utc, "why": alarm.why}
        if alarm.acknowledged
        else None,
        "shelved": None if shelf is None else {"who": shelf.who, "until": shelf.until_utc, "why": shelf.why},
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def test(loaded: LoadedConfig) -> Mapping[str, Any]:
    """Send everybody a message that says that it is a test, and give the sign of life once; return what came of it.

    Raises:
        UsageError: nobody is to be told, or where they are kept cannot be read.
    """
    spec = loaded.telling.notify
    if spec is None:
        where, remedy = f"{loaded.path}: notify", "`rigctl help be-told` shows how"
        raise UsageError(Flaw("is missing", "must say who gets messages", remedy, where=where))
    sent: dict[str, str] = {}
    if spec.urls is not None:
        found: Parsed = parsed(spec.urls.lines())
        message = Words(loaded.name).of_test()
        for number, service in enumerate(found.services, start=1):
            try:
                service.send(message)
                sent[f"{number} {service.name}"] = "sent"
            except NotSent as error:
                sent[f"{number} {service.name}"] = f"NOT sent: {error}"
        sent |= {f"URL {number}": "NOT sent: apprise does not understand it" for number in found.refused}
    if spec.alive is not None:
        try:
            ping(spec.alive.url.lines()[0])
            sent["sign of life"] = "sent"
        except RigctlError as error:
            sent["sign of life"] = f"NOT sent: {error}"
    return sent
