"""What people do to instruments: by the campaign that runs here, else to the rig itself."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final

import typer

from rigctl.campaign import control
from rigctl.campaign.acts import Said
from rigctl.campaign.lock import campaign_here
from rigctl.campaign.people import this_person
from rigctl.codec import fields_of
from rigctl.config.units import DURATION, VOLUME, Kind, Units
from rigctl.errors import UsageError

ANSWER_S = 1800.0
"""Wall seconds that an act by hand may take: a dose takes what it takes."""
KINDS: Final[Mapping[str, Kind]] = {"duration": DURATION, "volume": VOLUME}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rig's campaign is, and by which configuration."""

    directory: Path
    config: Path | None
    buses: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand:
    """Something done to one instrument; its fields are the arguments of the command and of the campaign's request."""

    operation: ClassVar[str]
    about: ClassVar[str] = "device"
    device: str
    """Its name in the configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(ByHand):
    """Take one reading of a sensor or meter."""

    operation = "read"


@dataclass(frozen=True, slots=True, kw_only=True)
class Driven(ByHand):
    """Something that is done with an instrument that drives."""

    why: str = ""
    """For whoever reads it later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Set(Driven):
    """Let an actuator hold a value, until it is released or nothing was done by hand for 10 minutes."""

    operation = "set"
    value: float
    """What it holds, in its own unit; on and off of a switch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release(Driven):
    """Let an actuator go."""

    operation = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dose(Driven):
    """Dispense a volume once; it counts towards caps and bottle."""

    operation = "dose"
    volume_ml: Annotated[float, Said("volume")]
    """A volume such as "2 mL"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jog(Driven):
    """Run a pump for a time, e.g. to fill its tubing: a dose of that time at its full rate."""

    operation = "jog"
    for_s: Annotated[float, Said("duration", "--for")]
    """How long, e.g. "10 s"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate(Driven):
    """Dispense a volume, ask what was measured of it, and tell the pump."""

    operation = "calibrate"
    volume_ml: Annotated[float, Said("volume", "--volume")] = 10.0
    """What is dispensed to be measured; default: "10 mL"."""
    measured_ml: Annotated[float | None, Said("volume", "--measured")] = None
    """What you have measured; default: you are asked for it."""


BY_HAND: Final[Mapping[str, type[ByHand]]] = {k.operation: k for k in (Read, Set, Release, Dose, Jog, Calibrate)}


def by_hand(place: Place, asked: ByHand) -> Iterator[Mapping[str, Any]]:
    """Do something to one instrument; yield what came of it, step by step.

    Raises:
        UsageError: it cannot be done now, or not to this instrument.
        RigctlError: it was refused, or went wrong.
    """
    said = {"why": "", **fields_of(asked)}
    if not isinstance(asked, Calibrate):
        yield _done(place, asked.operation, said)
        return
    pump, measured_ml = asked.device, said.pop("measured_ml")
    if measured_ml is None and not sys.stdin.isatty():  # before the dose, which would be for nothing
        raise UsageError(f"manual calibrate {pump}: --measured is missing, must be what was measured, e.g. 9.6 mL")
    yield _done(place, "dose", said)
    yield _done(place, "calibrate", {**said, "volume_ml": _asked(pump) if measured_ml is None else measured_ml})


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
            return quantity("measured", input("What was measured, e.g. 9.6 mL? "), "volume")
        except UsageError as error:
            typer.echo(f"  {error}", err=True)
        except (EOFError, KeyboardInterrupt) as error:
            what = "ended before the answer; what was dispensed is booked, the pump is calibrated as before"
            raise UsageError(f"manual calibrate {pump}: {what}") from error


def quantity(where: str, text: str, kind: str) -> float:
    """Return a quantity of one of the `KINDS` in the unit used inside.

    Raises:
        UsageError: it is none of this kind.
    """
    try:
        return Units(None).quantity(text, KINDS[kind])
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from error


def since(date: str) -> float:
    """Return how long ago a date was, wall seconds."""
    try:
        then = datetime.fromisoformat(date)
        aware = then if then.tzinfo is not None else then.astimezone()
    except (ValueError, OverflowError):  # the second and some of the first: so long ago that no clock knows it
        raise UsageError(f'--on: got "{date}", must be a date such as 2026-03-01') from None
    return (datetime.now(UTC) - aware).total_seconds()
