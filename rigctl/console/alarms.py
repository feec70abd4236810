"""What people are told: the list of alarms in a terminal, and who hears of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rigctl.campaign.journal import open_reader
from rigctl.campaign.journal.alarms import Alarms, AlarmState, pressing
from rigctl.campaign.journal.reader import at_one_instant
from rigctl.config.load import LoadedConfig
from rigctl.console.output import ShownColumn, lines, print_json_line, table
from rigctl.errors import RigctlError, UsageError, counted
from rigctl.flaws import Flaw
from rigctl.notify.services import NotSent, Parsed, parsed, ping, require_apprise
from rigctl.notify.texts import Words
from rigctl.page.words import SEVERITIES, alarm_words, clock
from rigctl.rig.protocols import Severity
from rigctl.telling import NotifySpec, Secret

if TYPE_CHECKING:
    from rich.console import Console


EVERY_S = 1.0
"""Wall seconds between two looks of `--follow`."""


def alarms(directory: Path) -> tuple[AlarmState, ...]:
    """Return all alarms of a campaign, running or not, those that stand first.

    Raises:
        UsageError: there is no campaign here.
        JournalError: the journal cannot be read.
    """
    with open_reader(directory) as reader:
        reader.campaign()
        return reader.alarms.folded().shown(reader.alarms.now_s(), _now())


def unheeded(found: Sequence[AlarmState]) -> bool:
    """Tell whether a warning, or worse, stands that nobody has acknowledged or shelved."""
    return any(a.condition == "stands" and a.severity >= Severity.MAJOR and a.shelf is None for a in found)


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
        lines(console, [f"No alarm stands{left}."])
        return
    columns = (
        ShownColumn("alarm", [str(a.alarm) for a in listed]),
        ShownColumn(
            "", [" ".join(SEVERITIES.get(a.severity.name, ("", a.severity.name.lower()))) for a in listed], left=True
        ),
        ShownColumn("from", [a.source for a in listed], left=True),
        ShownColumn("since", [clock(a.since, now) for a in listed], left=True, spare=1),
        ShownColumn("times", [str(a.count) for a in listed], spare=2),
        ShownColumn("is", [alarm_words(a, now) for a in listed], left=True),
        ShownColumn("says", [a.message for a in listed], left=True),
    )
    lines(console, table(columns, console.width))


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


def test(loaded: LoadedConfig) -> Mapping[str, Any]:
    """Send everybody a message that says that it is a test, and give the sign of life once; return what came of it.

    Raises:
        UsageError: nobody is to be told, or where they are kept cannot be read.
    """
    spec = loaded.telling.notify
    if spec is None:
        where, remedy = f"{loaded.path}: notify", "`rigctl help be-told` shows how"
        raise UsageError(Flaw("is missing", "must say who is told", remedy, where=where))
    sent: dict[str, str] = {}
    if spec.urls is not None:
        require_apprise()
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


# who hears of a campaign ----------------------------------------------------------------------------------------------


def told(loaded: LoadedConfig) -> Mapping[str, Any] | None:
    """Return who is told what, for programs; None where nobody is to be told."""
    telling = loaded.telling
    if not telling:
        return None
    found: dict[str, Any] = {}
    if telling.notify is not None:
        found["notify"] = _notify(telling.notify)
    if telling.metrics is not None:
        found["metrics"] = {
            "textfile": telling.metrics.textfile,
            "port": telling.metrics.port,
            "installed": find_spec("prometheus_client") is not None,
        }
    return found


def _notify(spec: NotifySpec) -> Mapping[str, Any]:
    answer: dict[str, Any] = {"installed": find_spec("apprise") is not None}
    answer |= {"at_least": spec.at_least, "daily": spec.daily, "zone": spec.zone}
    if spec.urls is not None:
        try:
            found = parsed(spec.urls.lines())
            names = [service.name for service in found.services]
            answer["urls"] = {"in": str(spec.urls), "services": names, "not_understood": list(found.refused)}
        except RigctlError as error:
            answer["urls"] = {"in": str(spec.urls), "services": [], "trouble": str(error)}
    if spec.alive is not None:
        answer["alive"] = {
            "in": str(spec.alive.url),
            "every_s": spec.alive.every_s,
            "trouble": _trouble(spec.alive.url),
        }
    return answer


def _trouble(secret: Secret) -> str | None:
    try:
        secret.lines()
    except RigctlError as error:
        return str(error)
    return None


def _receivers(notify: Mapping[str, Any], *, troubles: bool) -> str:
    """Return who gets messages, from which severity on, and what is wrong with their URLs."""
    urls = notify["urls"]
    names = ", ".join(urls["services"]) or "nobody"
    refused = ", ".join(map(str, urls.get("not_understood", ())))
    wrong = f"; URL {refused} of it not understood" if refused else ""
    why = f": {urls['trouble']}" if troubles and "trouble" in urls else ""
    daily = f", and every day at {notify['daily']}" if notify["daily"] else ""
    return f"tells {names} ({urls['in']}) from {notify['at_least']} on{daily}{wrong}{why}"


def who_is_told(found: Mapping[str, Any] | None, *, troubles: bool = True) -> Iterator[str]:
    """Yield for people who is told what, and what is wrong with that unless it is told elsewhere."""
    notify, metrics = (found or {}).get("notify"), (found or {}).get("metrics")
    if notify is not None and not notify["installed"]:
        yield "tells nobody: apprise is not installed; pip install 'rigctl[notify]'"
    elif notify is not None and "urls" in notify:
        yield _receivers(notify, troubles=troubles)
    if notify is not None and "alive" in notify:
        alive = notify["alive"]
        why = f": {alive['trouble']}" if troubles and alive["trouble"] else ""
        yield f"gives a sign of life every {alive['every_s'] / 60:g} min ({alive['in']}){why}"
    if metrics is not None:
        places = [metrics["textfile"], metrics["port"] and f"http://127.0.0.1:{metrics['port']}/metrics"]
        missing = "" if metrics["installed"] else ": prometheus-client is not installed; pip install 'rigctl[notify]'"
        yield f"metrics: {' and '.join(filter(None, places))}{missing}"
