"""The trial under way as people follow it: what is done now, for how long yet, and what was dosed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from rigctl.campaign.events import Dosed, TrialLooked, TrialProposed, TrialStep
from rigctl.campaign.trial import State

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
