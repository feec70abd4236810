"""What people do to single instruments: take them out of service, refill, replace, calibrate, drive them by hand."""

# ruff: noqa: PLC0415  # imports stand in the verbs, so that `--help` needs none of them

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rigctl.console.options import AsJson, Bus, State, buses
from rigctl.console.output import tell
from rigctl.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DEFAULT_CONFIG = "; default CONFIG: as last started."
Device = Annotated[
    list[str], typer.Argument(metavar="[CONFIG] DEVICE", help=f"Its name in the configuration{DEFAULT_CONFIG}")
]
Pump = Annotated[list[str], typer.Argument(metavar="[CONFIG] PUMP", help=f"Its name{DEFAULT_CONFIG}")]
Why = Annotated[str, typer.Option(metavar="TEXT", help="For whoever reads it later.")]


def add_hands(app: typer.Typer) -> None:
    """Add them to the command line."""
    for name, verb in _tending().items():
        app.command(name)(verb)
    manual = typer.Typer(
        no_args_is_help=True, help="Drive single instruments of a paused or stopped rig, by the guard."
    )
    for verb in (read, set_, release, dose, jog, calibrate):
        manual.command(verb.__name__.rstrip("_"))(verb)
    app.add_typer(manual, name="manual")


def _tending() -> dict[str, Callable[..., None]]:
    return {
        "out-of-service": out_of_service,
        "in-service": in_service,
        "refilled": refilled,
        "replaced": replaced,
        "calibrated": calibrated,
    }


def out_of_service(which: Device, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Take an instrument out of service: control sets that need it are not played, the campaign goes on."""
    _tell("out-of-service", which, state, json, why=why)


def in_service(which: Device, state: State = None, why: Why = "", *, json: AsJson = False) -> None:
    """Put an instrument back in service, once it is recognised."""
    _tell("in-service", which, state, json, why=why)


def refilled(
    which: Pump,
    state: State = None,
    volume: Annotated[
        str | None,
        typer.Option(metavar="VOLUME", help='What is in the bottle now, e.g. "350 mL"; default: it is full.'),
    ] = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Say that a pump's bottle was refilled: its doses are counted anew."""
    from rigctl.config.units import VOLUME
    from rigctl.console.hands import quantity

    volume_ml = None if volume is None else quantity("--volume", volume, VOLUME)
    _tell("refilled", which, state, json, why=why, volume_ml=volume_ml)


def replaced(
    which: Annotated[
        list[str],
        typer.Argument(metavar="[CONFIG] DEVICE PART", help=f"A device, and what of it, e.g. tubing{DEFAULT_CONFIG}"),
    ],
    state: State = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Say that a part of an instrument was replaced, such as a pump's tubing."""
    if len(which) not in (2, 3):
        raise UsageError(f"replaced: got {' '.join(which)}, must be [CONFIG] DEVICE PART")
    _tell("replaced", which[:-1], state, json, why=why, part=which[-1])


def calibrated(
    which: Device,
    state: State = None,
    on: Annotated[
        str | None, typer.Option(metavar="DATE", help="When that was, e.g. 2026-03-01; default: just now.")
    ] = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Say that an instrument was calibrated: the next time is counted from then."""
    from rigctl.console.hands import since

    _tell("calibrated", which, state, json, why=why, age_s=0.0 if on is None else since(on))


# by hand -----------------------------------------------------------------------------------------------------------


def read(which: Device, state: State = None, bus: Bus = None, *, json: AsJson = False) -> None:
    """Take one reading of a sensor or meter."""
    _by_hand("read", which, state, bus, json)


def set_(
    which: Annotated[
        list[str],
        typer.Argument(
            metavar="[CONFIG] ACTUATOR VALUE", help="What it holds, in its own unit; on and off of a switch."
        ),
    ],
    state: State = None,
    bus: Bus = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Let an actuator hold a value, until it is released or nothing was done by hand for 10 minutes."""
    if len(which) not in (2, 3):
        raise UsageError(f"manual set: got {' '.join(which)}, must be [CONFIG] ACTUATOR VALUE")
    _by_hand("set", which[:-1], state, bus, json, value=which[-1], why=why)


def release(which: Device, state: State = None, bus: Bus = None, why: Why = "", *, json: AsJson = False) -> None:
    """Let an actuator go."""
    _by_hand("release", which, state, bus, json, why=why)


def dose(
    which: Annotated[
        list[str], typer.Argument(metavar="[CONFIG] PUMP VOLUME", help='A pump, and a volume such as "2 mL".')
    ],
    state: State = None,
    bus: Bus = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Dispense a volume once; it counts towards caps and bottle."""
    if len(which) not in (2, 3):
        raise UsageError(f'manual dose: got {" ".join(which)}, must be [CONFIG] PUMP VOLUME, such as acid_pump "2 mL"')
    _by_hand("dose", which[:-1], state, bus, json, volume=which[-1], why=why)


def jog(
    which: Pump,
    for_: Annotated[str, typer.Option("--for", metavar="TIME", help='How long, e.g. "10 s".')],
    state: State = None,
    bus: Bus = None,
    why: Why = "",
    *,
    json: AsJson = False,
) -> None:
    """Run a pump for a time, e.g. to fill its tubing: a dose of that time at its full rate."""
    _by_hand("jog", which, state, bus, json, for_=for_, why=why)


def calibrate(
    which: Pump,
    volume: Annotated[str, typer.Option(metavar="VOLUME", help="What is dispensed to be measured.")] = "10 mL",
    measured: Annotated[
        str | None, typer.Option(metavar="VOLUME", help="What you have measured; default: you are asked for it.")
    ] = None,
    state: State = None,
    bus: Bus = None,
    *,
    why: Why = "",
    json: AsJson = False,
) -> None:
    """Dispense a volume, ask what was measured of it, and tell the pump."""
    _by_hand("calibrate", which, state, bus, json, volume=volume, measured=measured, why=why)


def _split(verb: str, which: Sequence[str]) -> tuple[Path | None, str]:
    if not 1 <= len(which) <= 2:
        raise UsageError(f"{verb}: got {' '.join(which)}, must be [CONFIG] DEVICE")
    return Path(which[0]) if len(which) == 2 else None, which[-1]


def _tell(verb: str, which: Sequence[str], state: Path | None, json: bool, **said: Any) -> None:
    from rigctl.campaign.acts import CARE
    from rigctl.console.assemble import find_own_state, perform

    config, device = _split(verb, which)
    tell(perform(CARE[verb](device=device, **said), find_own_state(config, state), config), json)


def _by_hand(
    verb: str, which: Sequence[str], state: Path | None, bus: list[str] | None, json: bool, **said: Any
) -> None:
    from rigctl.console import hands
    from rigctl.console.assemble import find_own_state

    config, device = _split(f"manual {verb}", which)
    place = hands.Place(find_own_state(config, state), config, buses(bus))
    for answer in hands.by_hand(place, verb, device, **said):
        tell(answer, json)
