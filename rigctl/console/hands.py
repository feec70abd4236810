"""What people do to instruments: by the campaign that runs here, else to the rig itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import typer

from rigctl.campaign import control
from rigctl.campaign.lock import campaign_here
from rigctl.campaign.people import this_person
from rigctl.config.units import DURATION, VOLUME, Kind, Units
from rigctl.errors import UsageError

ANSWER_S = 1800.0
"""Wall seconds that an act by hand may take: a dose takes what it takes."""
SWITCHED: Mapping[str, float] = {"on": 1.0, "off": 0.0}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rig's campaign is, and by which configuration."""

    directory: Path
    config: Path | None
    buses: Mapping[str, str]


def by_hand(
    place: Place,
    operation: str,
    device: str,
    *,
    why: str = "",
    value: str | None = None,
    volume: str | None = None,
    for_: str | None = None,
    measured: str | None = None,
) -> Iterator[Mapping[str, Any]]:
    """Do something to one instrument; yield what came of it, step by step.

    Raises:
        UsageError: it cannot be done now, or not to this instrument.
        RigctlError: it was refused, or went wrong.
    """
    said: dict[str, Any] = {"device": device, "why": why}
    if value is not None:
        said["value"] = _number(value)
    if volume is not None:
        said["volume_ml"] = quantity("VOLUME", volume, VOLUME)
    if for_ is not None:
        said["for_s"] = quantity("--for", for_, DURATION)
    if operation != "calibrate":
        yield _done(place, operation, said)
        return
    told_ml = None if measured is None else quantity("--measured", measured, VOLUME)
    if told_ml is None and not sys.stdin.isatty():  # before the dose, which would be for nothing
        raise UsageError(f"manual calibrate {device}: --measured is missing, must be what was measured, e.g. 9.6 mL")
    yield _done(place, "dose", said)
    yield _done(place, "calibrate", {**said, "volume_ml": _asked(device) if told_ml is None else told_ml})


def _done(place: Place, operation: str, said: Mapping[str, Any]) -> Mapping[str, Any]:
    if campaign_here(place.directory) is None:
        from rigctl.console.alone import alone  # noqa: PLC0415  # brings the whole daemon

        return alone(place, operation, said)
    answer = control.ask(place.directory, "manual", ANSWER_S, who=this_person(), operation=operation, **said)
    return {name: told for name, told in answer.items() if name != "ok"}


def _asked(pump: str) -> float:
    """Return what was measured of a dose, asked for until it can be read: another dose would cost as much again."""
    while True:
        try:
            return quantity("measured", input("What was measured, e.g. 9.6 mL? "), VOLUME)
        except UsageError as error:
            typer.echo(f"  {error}", err=True)
        except (EOFError, KeyboardInterrupt) as error:
            what = "ended before the answer; what was dispensed is booked, the pump is calibrated as before"
            raise UsageError(f"manual calibrate {pump}: {what}") from error


def quantity(where: str, text: str, kind: Kind) -> float:
    """Return a quantity in the unit used inside.

    Raises:
        UsageError: it is none of this kind.
    """
    try:
        return Units(None).quantity(text, kind)
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def _number(text: str) -> float:
    if text.lower() in SWITCHED:
        return SWITCHED[text.lower()]
    try:
        return float(text)
    except ValueError:
        raise UsageError(f'VALUE: got "{text}", must be a number, on or off') from None


def since(date: str) -> float:
    """Return how long ago a date was, wall seconds."""
    try:
        then = datetime.fromisoformat(date)
        aware = then if then.tzinfo is not None else then.astimezone()
    except (ValueError, OverflowError):  # the second and some of the first: so long ago that no clock knows it
        raise UsageError(f'--on: got "{date}", must be a date such as 2026-03-01') from None
    return (datetime.now(UTC) - aware).total_seconds()
