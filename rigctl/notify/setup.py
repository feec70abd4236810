"""What the notifier's process is told first, and what it is told of a campaign; lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rigctl.campaign.events import CampaignEvent, CampaignResult, CampaignStarted, PhaseChanged
from rigctl.campaign.journal.alarms import AlarmMinded, Shelf
from rigctl.codec import plain
from rigctl.core.experiment.money import to_units
from rigctl.errors import counted
from rigctl.rig.values import Alarm
from rigctl.telling import Telling


@dataclass(frozen=True, slots=True)
class Shelved(Shelf):
    """An alarm that was shelved before this process began; until when is rig time."""

    kind: str
    source: str


@dataclass(frozen=True, slots=True)
class Setup:
    """Holds what the process must know; no secret, only where they are kept."""

    rig: str
    currency: str
    state: str
    """State directory."""
    telling: Telling
    shelved: tuple[Shelved, ...] = ()


def line(value: Mapping[str, Any] | Setup) -> bytes:
    return json.dumps(plain(value)).encode() + b"\n"


def told(event: CampaignEvent, at_s: float, utc: str, currency: str) -> Mapping[str, Any] | None:
    """Return what the process is told of an event at a rig time and a time of the wall clock; None: nothing."""
    when = {"at_s": at_s, "utc": utc}
    match event:
        case Alarm():
            return {"event": "alarm", **when, **plain(event)}
        case AlarmMinded():
            return {"event": "minded", **plain(event), **when}
        case PhaseChanged():
            return {"event": "phase", "phase": event.phase, "why": event.why}
        case CampaignStarted():
            return {"event": "started", "trials": event.trials, "lost": event.lost}
        case CampaignResult():
            spent = f"{to_units(event.spent):.2f} of {to_units(event.budget):.2f} {currency} spent"
            facts = f"{counted(event.trials, 'trial')}, {event.recorded} of them with an outcome; {spent}."
            return {
                "event": "ended",
                "ending": event.ending,
                "reason": event.reason,
                "facts": facts,
                "safe": event.safe.ok,
            }
        case _:
            return None
