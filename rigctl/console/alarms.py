"""The list of alarms in a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign.alarms import Alarms, AlarmState, pressing
from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.alarms import Mark
from rigctl.campaign.journal.look import looking
from rigctl.console.output import lines, print_json_line
from rigctl.console.tables import INDENT, Column, table, wrapped
from rigctl.errors import counted
from rigctl.page.words import SEVERITIES, alarm_words, clock
from rigctl.rig.protocols import Severity

if TYPE_CHECKING:
    from rich.console import Console

LOOK_S = 1.0
"""Wall seconds between two looks of `--follow`."""


def alarms(directory: Path) -> tuple[AlarmState, ...]:
    """Return all alarms of a campaign, running or not, those that stand first.

    Raises:
        UsageError: there is no campaign here.
        JournalError: the journal cannot be read.
    """
    with open_reader(directory) as reader:
        reader.campaign()
        rows = reader.alarm_rows
        return Alarms().taken(rows.events()).shown(rows.now_s(), _now())


def unheeded(found: Sequence[AlarmState]) -> bool:
    """Tell whether a warning, or worse, stands that nobody has acknowledged or shelved."""
    return any(a.condition == "stands" and a.severity >= Severity.MAJOR and a.shelf is None for a in found)


def follow(directory: Path, console: Console, *, every: bool, json: bool) -> None:
    """Show the alarms, and again after every change, until Ctrl-C. Raises as `alarms`."""
    before: object = None
    for found in _looks(directory):
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


def _looks(directory: Path) -> Iterator[tuple[AlarmState, ...]]:
    book, mark = Alarms(), Mark()
    alarms(directory)  # checked as a whole once
    while True:
        with looking(directory) as reader:
            rows = reader.alarm_rows
            now_s, last = rows.now_s(), rows.last()
            if last != mark:
                book, mark = book.taken(rows.events(mark)), last
        yield book.shown(now_s, _now())
        time.sleep(LOOK_S)


def show(found: Sequence[AlarmState], console: Console, *, every: bool = False) -> None:
    """Print what there is to be looked at, or `every` alarm."""
    listed, now = found if every else pressing(found), datetime.now(UTC).astimezone()
    if not listed:
        left = f"; {counted(len(found), 'alarm')} settled, `rigctl alarms --all` lists them" if found else ""
        lines(console, [f"No alarm stands{left}."])
        return
    columns = (
        Column("alarm", [str(a.alarm) for a in listed]),
        Column(
            "", [" ".join(SEVERITIES.get(a.severity.name, ("", a.severity.name.lower()))) for a in listed], left=True
        ),
        Column("from", [a.source for a in listed], left=True),
        Column("since", [clock(a.since, now) for a in listed], left=True, spare=1),
        Column("times", [str(a.count) for a in listed], spare=2),
        Column("is", [alarm_words(a, now) for a in listed], left=True),
        Column("says", [a.message for a in listed], left=True),
    )
    *short, says = columns
    if sum(c.width + 2 for c in columns) <= console.width:
        lines(console, table(columns, console.width))
        return
    for i, _ in enumerate(listed):  # what it says gets lines of its own, for it is what one came for
        head = "  ".join(c.cells[i] for c in short if c.cells[i] and c.header != "times")
        times = f"  {listed[i].count} times" if listed[i].count > 1 else ""
        lines(console, wrapped(f"{head}{times}", console.width, INDENT * 2))
        lines(console, wrapped(f"{INDENT * 2}{says.cells[i]}", console.width, INDENT * 2))


def to_json(found: Sequence[AlarmState], *, every: bool = False) -> Mapping[str, Any]:
    """Return the list for programs; times are UTC."""
    listed = found if every else pressing(found)
    return {"unheeded": unheeded(found), "alarms": [alarm_json(alarm) for alarm in listed]}


def alarm_json(alarm: AlarmState) -> Mapping[str, Any]:
    """Return an alarm for programs."""
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
