"""What `rigctl status` is told by a running campaign."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigctl.campaign.events import (
    AlarmRaised,
    CampaignEvent,
    CampaignStarted,
    PhaseChanged,
    TrialEnded,
    TrialProposed,
    TrialStep,
)
from rigctl.core.money import to_units


@dataclass(slots=True)
class Status:
    """Follows a campaign's events; mutable, used in the event loop only."""

    rig: str
    currency: str
    _facts: dict[str, Any] = field(default_factory=lambda: {"phase": "starting", "trials": 0, "trial": None})
    _alarms: int = 0

    def follow(self, event: CampaignEvent) -> None:
        """Take in one event."""
        match event:
            case CampaignStarted():
                self._facts.update(phase="running", trials=event.trials)
                self._money(event.spent, event.budget)
            case TrialProposed():
                trial = {"trial": event.trial, "state": "PROPOSED", "control_set": list(event.control_set)}
                self._facts["trial"] = {**trial, "setpoints": dict(event.setpoints), "reason": event.proposal.reason}
            case TrialStep() if self._facts["trial"] is not None:
                self._facts["trial"]["state"] = str(event.state)
            case TrialEnded():
                self._facts.update(trial=None, trials=event.row.trial)
                self._money(event.spent, event.budget)
            case PhaseChanged():
                self._facts.update(phase=event.phase.lower(), why=event.why)
            case AlarmRaised():
                self._alarms += 1
                self._facts["last_alarm"] = f"{event.alarm.source}: {event.alarm.message}"
            case _:
                pass

    def answer(self) -> Mapping[str, Any]:
        """Return the state of affairs as JSON; money in currency units."""
        return {"pid": os.getpid(), "rig": self.rig, "currency": self.currency, "alarms": self._alarms, **self._facts}

    def _money(self, spent: int, budget: int) -> None:
        self._facts.update(spent=to_units(spent), budget=to_units(budget))
