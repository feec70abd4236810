"""What `rigctl status` is told by a running campaign, and the trial under way as people follow it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

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
from rigctl.core.experiment.money import to_units
from rigctl.rig.protocols import Clock
from rigctl.rig.values import SeenReading

# The trial under way --------------------------------------------------------------------------------------------------

STEPS: Final[Mapping[State, str]] = MappingProxyType(
    {
        State.LOOKING: "decide",
        State.PROPOSED: "decided",
        State.ARMED: "set",
        State.RUNNING: "measure",
        State.MEASURED: "book",
    }
)
"""What is done in a state once what has a known end is over."""

LOOKING: Final = "looking"
"""What stands for the policy's phase while nothing is decided yet."""


@dataclass(slots=True)
class Doses:
    """Counts one pump's doses in this trial."""

    count: int = 0
    volume_ml: float = 0.0
    day_ml: float = 0.0
    """In the 24 h up to the last of them."""


@dataclass(slots=True)
class UnderWay:
    """Follows one trial; mutable. Times are rig time."""

    trial: int
    phase: str
    """Of the policy."""
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    reason: str
    state: State = State.PROPOSED
    begun_s: float | None = None
    """When the rig was first moved."""
    until_s: Mapping[str, float] = field(default_factory=dict)
    """See `events.TrialStep`."""
    doses: dict[str, Doses] = field(default_factory=dict)
    """By pump."""
    looks: Mapping[str, float] = field(default_factory=dict)
    """What the variables read before it was decided, engineering units; nothing where nobody looked."""

    @classmethod
    def of(cls, event: TrialProposed | TrialStep, before: UnderWay | None = None) -> UnderWay:
        """Return a trial as it begins, to look or decided; `before` is the one that was followed, maybe this one."""
        if isinstance(event, TrialStep):
            return cls(event.trial, LOOKING, (), {}, "", event.state, event.at_s, event.until_s)
        proposal = event.proposal
        decided = cls(event.trial, proposal.phase, event.control_set, event.setpoints, proposal.reason)
        if before is not None and before.trial == event.trial:
            decided.begun_s, decided.looks, decided.doses = before.begun_s, before.looks, before.doses
        return decided

    def follow(self, event: TrialStep | TrialLooked | Dosed) -> None:
        if isinstance(event, TrialLooked):
            self.looks = {name: found.value for name, found in event.found.items() if found.count}
            return
        if isinstance(event, Dosed):
            doses = self.doses.setdefault(event.actuator, Doses())
            doses.count, doses.volume_ml, doses.day_ml = (
                doses.count + 1,
                doses.volume_ml + event.volume_ml,
                event.day_ml,
            )
            return
        self.state, self.until_s = event.state, event.until_s
        if event.state is State.ARMED and self.begun_s is None:
            self.begun_s = event.at_s

    def step(self, now_s: float) -> tuple[str, float | None]:
        """Return what is done now, and how many rig seconds that takes yet; None where its end is not known."""
        for step, until_s in self.until_s.items():
            if now_s < until_s:
                return step, until_s - now_s
        return STEPS.get(self.state, self.state.value.lower()), None

    def left_s(self, now_s: float, usual_s: float) -> float:
        """Return how many rig seconds the trial takes yet, if those of its kind take `usual_s` from the first move."""
        if self.state is State.RUNNING and self.until_s:
            return max(0.0, max(self.until_s.values()) - now_s)
        return usual_s if self.begun_s is None else max(0.0, self.begun_s + usual_s - now_s)

    def to_json(self, now_s: float) -> dict[str, Any]:
        step, left_s = self.step(now_s)
        return {
            "trial": self.trial,
            "state": str(self.state),
            "phase": self.phase,
            "control_set": list(self.control_set),
            "setpoints": dict(self.setpoints),
            "reason": self.reason,
            "step": step,
            "step_left_s": left_s,
            "elapsed_s": None if self.begun_s is None else now_s - self.begun_s,
            "left_s": {name: until_s - now_s for name, until_s in self.until_s.items()},
            "doses": {
                name: {"count": d.count, "volume_ml": d.volume_ml, "day_ml": d.day_ml} for name, d in self.doses.items()
            },
            **({"looks": dict(self.looks)} if self.looks else {}),
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> UnderWay:
        """Read what `to_json` has written; its instant is 0."""
        elapsed_s = told["elapsed_s"]
        return cls(
            trial=told["trial"],
            phase=told["phase"],
            control_set=tuple(told["control_set"]),
            setpoints=told["setpoints"],
            reason=told["reason"],
            state=State(told["state"]),
            begun_s=None if elapsed_s is None else -elapsed_s,
            until_s=told["left_s"],
            doses={name: Doses(**doses) for name, doses in told["doses"].items()},
            looks=told.get("looks", {}),
        )


# The answer -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Status:
    """Follows a campaign's events; mutable, used in the event loop only."""

    rig: str
    currency: str
    clock: Clock
    _facts: dict[str, Any] = field(default_factory=lambda: {"phase": "starting", "trials": 0})
    _trial: UnderWay | None = None
    _alarms: int = 0
    _readings: Mapping[str, SeenReading] = field(default_factory=dict)
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
