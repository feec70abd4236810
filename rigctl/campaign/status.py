"""What `rigctl status` is told by a running campaign."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigctl.campaign.events import (
    AlarmRaised,
    Batches,
    CampaignEvent,
    CampaignStarted,
    Dosed,
    PhaseChanged,
    RigSeen,
    TrialEnded,
    TrialLooked,
    TrialProposed,
    TrialStep,
)
from rigctl.campaign.trial import State
from rigctl.campaign.under_way import UnderWay
from rigctl.core.money import to_units
from rigctl.rig.protocols import Clock
from rigctl.rig.values import Seen


@dataclass(slots=True)
class Status:
    """Follows a campaign's events; mutable, used in the event loop only."""

    rig: str
    currency: str
    clock: Clock
    _facts: dict[str, Any] = field(default_factory=lambda: {"phase": "starting", "trials": 0})
    _trial: UnderWay | None = None
    _alarms: int = 0
    _readings: Mapping[str, Seen] = field(default_factory=dict)
    _look: Mapping[str, float] = field(default_factory=dict)
    _exchanges: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def follow(self, event: CampaignEvent) -> None:
        """Take in one event."""
        match event:
            case CampaignStarted():
                self._facts.update(phase="running", trials=event.trials)
                self._money(event.spent, event.budget, event.batches)
            case TrialProposed() | TrialStep(state=State.LOOKING):
                self._trial = UnderWay.of(event, self._trial)
                self._facts |= {"decision_s": event.decision_s} if isinstance(event, TrialProposed) else {}
            case TrialStep() | TrialLooked() | Dosed() if self._trial is not None:
                self._trial.follow(event)
            case RigSeen():
                self._readings = event.readings
                self._look = {
                    "at_s": event.now_s,
                    "late_s": event.late_s,
                    "worst_late_s": max(event.late_s, self._look.get("worst_late_s", 0.0)),
                }
                self._exchanges = {url: {"failed": n, "repeated": m} for url, (n, m) in event.exchanges.items()}
            case TrialEnded():
                self._trial = None
                self._facts.update(trials=event.row.trial)
                self._money(event.spent, event.budget, event.batches)
            case PhaseChanged():
                self._facts.update(phase=event.phase.lower(), why=event.why)
            case AlarmRaised():
                self._alarms += 1
                self._facts["last_alarm"] = f"{event.alarm.source}: {event.alarm.message}"
            case _:
                pass

    def answer(self) -> Mapping[str, Any]:
        """Return the state of affairs as JSON; money in currency units, times in rig seconds."""
        trial = None if self._trial is None else self._trial.to_json(self.clock.now_s())
        readings = {
            name: {"value": seen.value, "unit": seen.unit, "age_s": seen.age_s, "detail": seen.detail}
            for name, seen in self._readings.items()
        }
        who = {"pid": os.getpid(), "rig": self.rig, "currency": self.currency, "alarms": self._alarms}
        who["speedup"] = self.clock.speedup
        look = {name: value for name, value in self._look.items() if name != "at_s"}
        if self._look:
            look["age_s"] = max(0.0, self.clock.now_s() - self._look["at_s"]) / self.clock.speedup
        seen = {"readings": readings, "watch": look, "buses": self._exchanges}
        return {**who, **self._facts, "trial": trial, **seen}

    def _money(self, spent: int, budget: int, batches: Batches | None) -> None:
        self._facts.update(spent=to_units(spent), budget=to_units(budget))
        if batches is not None:
            self._facts["operating"] = {"batches": batches.count, "spent": to_units(batches.spent)}
