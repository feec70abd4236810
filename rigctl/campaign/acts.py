"""What people say they have done to instruments: taken out of service, put back, refilled, replaced, calibrated.

Said to the campaign that runs, or written into its journal while none does; either way the act is in the audit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from rigctl.campaign.eligibility import days
from rigctl.campaign.following import astray
from rigctl.campaign.journal.rows import UpkeepKind
from rigctl.campaign.journal.writer import Journal
from rigctl.campaign.upkeep import out_of_service
from rigctl.errors import UsageError
from rigctl.rig.spec import CareSpec, RigSpec

KINDS: Final[Mapping[str, UpkeepKind]] = MappingProxyType(
    {
        "out-of-service": "out",
        "in-service": "in",
        "refilled": "refilled",
        "replaced": "replaced",
        "calibrated": "calibrated",
    }
)
"""By verb."""
TUBING: Final = "tubing"


@dataclass(frozen=True, slots=True)
class Tending:
    """What a person says they have done."""

    verb: str
    device: str
    why: str = ""
    part: str = ""
    volume_ml: float | None = None
    """In the bottle now; None: it is full."""
    age_s: float = 0.0
    """How long ago that was: days of the calendar, which are days of the rig beside a simulation, too."""


def tend(journal: Journal, rig: RigSpec, asked: Tending, who: str) -> str:
    """Record it; return what comes of it, in words.

    Raises:
        UsageError: there is no such device, or it is none of which this can be said.
    """
    check(rig, asked)
    out = out_of_service(journal.read).get(asked.device, "")
    if asked.verb == "out-of-service" and out:
        raise UsageError(f"{asked.device}: is out of service already, {out}")
    if asked.verb == "in-service" and not out and asked.device not in astray(journal.read, rig):
        raise UsageError(f"{asked.device}: is in service; `rigctl status` lists what is not")
    outcome = _OUTCOMES[asked.verb](rig, asked)
    journal.upkeep.keep(
        KINDS[asked.verb],
        asked.device,
        verb=asked.verb,
        who=who,
        why=asked.why,
        part=asked.part,
        volume_ml=asked.volume_ml,
        age_s=asked.age_s,
        outcome=outcome,
    )
    return outcome


def check(rig: RigSpec, asked: Tending) -> None:
    """Raise UsageError where this cannot be said of this device."""
    where, known = f"{asked.verb}: {asked.device}", ", ".join(rig.devices)
    if asked.verb not in KINDS:
        raise UsageError(f"got {asked.verb!r}, must be one of {', '.join(KINDS)}")
    if asked.device not in rig.devices:
        raise UsageError(f"{asked.verb}: got {asked.device!r}, must be a device of this rig: {known}")
    if asked.verb == "refilled":
        if rig.care.get(asked.device, CareSpec()).bottle_ml is None:
            bottled = ", ".join(n for n, care in rig.care.items() if care.bottle_ml is not None)
            which = f", such as {bottled}" if bottled else "; write `inventory: {volume: 500 mL}` under the pump"
            raise UsageError(f"{where}: got a device without `inventory`, must be one with it{which}")
        if asked.volume_ml is not None and not 0 < asked.volume_ml < float("inf"):
            raise UsageError(f"{where}: got a volume of {asked.volume_ml:g} mL, must be more than nothing")
    if asked.verb == "replaced" and not asked.part:
        raise UsageError(f"{where}: got no part, must say what was replaced, e.g. {TUBING}")
    if asked.age_s < 0:
        raise UsageError(f"{where}: got a date to come, must be in the past")


def _out(_: RigSpec, asked: Tending) -> str:
    return f"{asked.device} is out of service from the next trial on; control sets that need it are not played"


def _in(_: RigSpec, asked: Tending) -> str:
    return f"{asked.device} is in service again from the next trial on"


def _refilled(rig: RigSpec, asked: Tending) -> str:
    volume_ml = rig.care[asked.device].bottle_ml if asked.volume_ml is None else asked.volume_ml
    return f"{asked.device} has {volume_ml:g} mL in its bottle; doses are counted from now on"


def _replaced(_: RigSpec, asked: Tending) -> str:
    return f"{asked.device}: {asked.part} is new" + ("; its mL are counted from now on" if asked.part == TUBING else "")


def _calibrated(rig: RigSpec, asked: Tending) -> str:
    every_s = rig.care.get(asked.device, CareSpec()).calibrate_every_s
    when = "just now" if asked.age_s == 0 else f"{days(asked.age_s)} ago"
    due = "" if every_s is None else f"; the next is due in {days(max(0.0, every_s - asked.age_s))}"
    return f"{asked.device} was calibrated {when}{due}"


_OUTCOMES: Final[Mapping[str, Callable[[RigSpec, Tending], str]]] = MappingProxyType(
    {
        "out-of-service": _out,
        "in-service": _in,
        "refilled": _refilled,
        "replaced": _replaced,
        "calibrated": _calibrated,
    }
)
