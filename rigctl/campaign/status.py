"""How a running campaign stands: folded from its events, answered to `rigctl status`, read by all who look on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal

from rigctl.campaign import control
from rigctl.campaign.events import (
    CampaignEvent,
    CampaignResult,
    CampaignStarted,
    Dosed,
    PhaseChanged,
    RigSeen,
    TrialEnded,
    TrialLooked,
    TrialProposed,
    TrialStep,
    batched,
)
from rigctl.campaign.trial import State
from rigctl.codec import plain, typed
from rigctl.core.experiment.money import to_units
from rigctl.errors import RigctlError
from rigctl.rig.values import Alarm

ENDINGS: Mapping[str, str] = MappingProxyType(
    {
        "budget": "no further trial fits the budget's limits",
        "finished": "no further trial is worth its cost",
        "trials": "the requested number of trials is done",
        "stopped": "stopped by a person",
        "abandoned": "stopped by a person in mid-trial",
        "interlock": "stopped by the watch",
    }
)
AGAIN = "`rigctl run`, or `rigctl operate` if that was in production,"
"""What goes on: a campaign that does where production died explores, at the budget's cost."""
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


def ending(why: str) -> str:
    """Say why a campaign has ended; an error says so itself, and what else there is on lines of their own."""
    return ENDINGS.get(why) or "; ".join(why.splitlines())


@dataclass(frozen=True, slots=True)
class Doses:
    """Counts one pump's doses in this trial."""

    count: int = 0
    volume_ml: float = 0.0
    day_ml: float = 0.0
    """In the 24 h up to the last of them."""


@dataclass(frozen=True, slots=True)
class TrialUnderWay:
    """The trial under way. Times are rig seconds from the moment it was told."""

    trial: int
    state: State
    phase: str
    """Of the policy."""
    control_set: tuple[str, ...] = ()
    setpoints: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    step: str = ""
    step_left_s: float | None = None
    """None where its end is not known."""
    elapsed_s: float | None = None
    """Since the rig was first moved; None: it was not yet."""
    left_s: Mapping[str, float] = field(default_factory=dict)
    """Until each step that has a known end is over; see `events.TrialStep`."""
    doses: Mapping[str, Doses] = field(default_factory=dict)
    """By pump."""
    looks: Mapping[str, float] = field(default_factory=dict)
    """What the variables read before the decision, engineering units; nothing where nobody looked."""

    def takes_yet_s(self, usual_s: float) -> float:
        """Return how many rig seconds it takes yet, if those of its kind take `usual_s` from the first move."""
        if self.state is State.RUNNING and self.left_s:
            return max(0.0, *self.left_s.values())
        return usual_s if self.elapsed_s is None else max(0.0, usual_s - self.elapsed_s)


@dataclass(frozen=True, slots=True)
class StatusReading:
    """What the watch has read last of one sensor."""

    value: float | None
    unit: str = ""
    age_s: float | None = None
    """Wall seconds."""
    detail: str = ""
    """Why the last attempt gave no valid reading."""
    stale_after_s: float | None = None
    """Wall seconds; None: the watch does not go by this reading."""


@dataclass(frozen=True, slots=True)
class ActiveFinding:
    """What the watch finds wrong now."""

    severity: Literal["MINOR", "MAJOR", "INVALID"]
    source: str
    message: str
    since: str = ""
    """UTC, where it is known."""


@dataclass(frozen=True, slots=True)
class OperatedSoFar:
    """What production has come to; money in currency units."""

    batches: int
    spent: float


@dataclass(frozen=True, slots=True)
class Status:
    """How a campaign that runs stands. Its fields are the answer to `status`; money is in currency units."""

    pid: int = 0
    rig: str = ""
    currency: str = ""
    speedup: float = 1.0
    """Rig seconds per wall second."""
    phase: str = "starting"
    why: str = ""
    trials: int = 0
    """Charged so far."""
    spent: float | None = None
    """None while the campaign starts."""
    budget: float | None = None
    operating: OperatedSoFar | None = None
    """None: trials of the campaign are run."""
    alarms: int = 0
    """Raised since the process began."""
    last_alarm: str | None = None
    decision_s: float | None = None
    """What the last decision took, wall seconds."""
    trial: TrialUnderWay | None = None
    readings: Mapping[str, StatusReading] = field(default_factory=dict)
    watch: Mapping[str, float] = field(default_factory=dict)
    """How many looks there were, how late they came, and how long ago the last was; wall seconds."""
    buses: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Exchanges that failed, and reads that were repeated."""
    paused: str = ""
    """By whom, and why."""
    active: tuple[ActiveFinding, ...] = ()
    by_hand: Mapping[str, Any] | None = None
    """What a person does and drives; None: nothing."""
    upkeep: tuple[Mapping[str, Any], ...] | None = None
    """As `instruments.to_json`; None: nothing is known."""
    version: str = ""
    """Of the rigctl that answers."""

    @property
    def in_short(self) -> str:
        """Say it in a line, for the service manager."""
        why = " ".join(self.why.split())
        parts = [f"{self.phase}: {why}" if why and self.phase != "running" else self.phase]
        parts += [f"trial {self.trial.trial}"] if self.trial is not None else []
        if self.operating is not None:
            parts += [f"{batched(self.operating.batches)} done"]
        elif self.spent is not None and self.budget is not None:
            parts += [f"{self.spent:.2f} of {self.budget:.2f} {self.currency} spent"]
        return "; ".join(parts)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs; what is not known is left out."""
        return {name: value for name, value in plain(self).items() if value is not None or name == "trial"}

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Status:
        """Read what `to_json` has made, and pass over keys that are unknown; raises RigctlError if it is no status."""
        known = {each.name for each in fields(cls)}
        try:
            return typed(cls, {name: value for name, value in answer.items() if name in known})
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise RigctlError(f"status: cannot be understood ({error}); is it another version of rigctl?") from error


def asked(directory: Path, within_s: float = 5.0) -> Status:
    """Ask the campaign that runs here how it stands.

    Raises:
        UsageError: none runs here.
        RigctlError: it does not answer.
    """
    return Status.of(control.ask(directory, "status", within_s))


def answered(directory: Path, within_s: float) -> Status | None:
    """Ask the campaign that runs here how it stands; None: none does, or it does not answer."""
    try:
        return asked(directory, within_s)
    except RigctlError:
        return None


# The fold -------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Timed:
    """When a trial's steps are over, rig time."""

    begun_s: float | None = None
    """When the rig was first moved."""
    until_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class StatusFold:
    """Follows a campaign's events; mutable, used in one thread."""

    status: Status
    _timed: _Timed = field(default_factory=_Timed)
    _looked_s: float | None = None

    @classmethod
    def of(cls, rig: str, currency: str, speedup: float) -> StatusFold:
        return cls(Status(os.getpid(), rig, currency, speedup, version=version("rigctl")))

    def follow(self, event: CampaignEvent) -> None:
        status, trial = self.status, self.status.trial
        match event:
            case CampaignStarted():
                self._change(phase="running", trials=event.trials, **_money(event))
            case TrialProposed() | TrialStep(state=State.LOOKING):
                self._begin(event, trial)
            case TrialStep() | TrialLooked() | Dosed() if trial is not None:
                self._change(trial=self._went_on(event, trial))
            case RigSeen():
                self._seen(event)
            case TrialEnded():
                self._change(trial=None, trials=event.row.trial, **_money(event))
            case PhaseChanged():
                self._change(phase=event.phase.lower(), why=event.why)
            case Alarm():
                self._change(alarms=status.alarms + 1, last_alarm=f"{event.source}: {event.message}")
            case CampaignResult():  # one that ends while it starts has told nothing before
                self._change(spent=to_units(event.spent), budget=to_units(event.budget))
            case _:
                pass

    def told(self, now_s: float) -> Status:
        """Return how it stands at this rig time."""
        status, timed = self.status, self._timed
        if self._looked_s is not None:
            age_s = max(0.0, now_s - self._looked_s) / status.speedup
            status = replace(status, watch={**status.watch, "age_s": age_s})
        if status.trial is None:
            return status
        trial, left_s = status.trial, {step: until_s - now_s for step, until_s in timed.until_s.items()}
        step, step_left_s = next(
            ((name, left) for name, left in left_s.items() if left > 0),
            (STEPS.get(trial.state, trial.state.value.lower()), None),
        )
        elapsed_s = None if timed.begun_s is None else now_s - timed.begun_s
        under_way = replace(trial, step=step, step_left_s=step_left_s, elapsed_s=elapsed_s, left_s=left_s)
        return replace(status, trial=under_way)

    def _change(self, **changes: Any) -> None:
        self.status = replace(self.status, **changes)

    def _begin(self, event: TrialProposed | TrialStep, before: TrialUnderWay | None) -> None:
        """Take in a trial as it begins to look, or is decided."""
        if isinstance(event, TrialStep):
            self._timed = _Timed(event.at_s, event.until_s)
            self._change(trial=TrialUnderWay(event.trial, event.state, LOOKING))
            return
        proposal = event.proposal
        decided = TrialUnderWay(
            event.trial, State.PROPOSED, proposal.phase, event.control_set, event.setpoints, proposal.reason
        )
        if before is not None and before.trial == event.trial:
            decided = replace(decided, looks=before.looks, doses=before.doses)
            self._timed.until_s = {}
        else:
            self._timed = _Timed()
        self._change(trial=decided, decision_s=event.decision_s)

    def _went_on(self, event: TrialStep | TrialLooked | Dosed, trial: TrialUnderWay) -> TrialUnderWay:
        if isinstance(event, TrialLooked):
            return replace(trial, looks={name: found.value for name, found in event.found.items() if found.count})
        if isinstance(event, Dosed):
            was = trial.doses.get(event.actuator, Doses())
            doses = Doses(was.count + 1, was.volume_ml + event.volume_ml, event.day_ml)
            return replace(trial, doses={**trial.doses, event.actuator: doses})
        self._timed.until_s = event.until_s
        if event.state is State.ARMED and self._timed.begun_s is None:
            self._timed.begun_s = event.at_s
        return replace(trial, state=event.state)

    def _seen(self, event: RigSeen) -> None:
        self._looked_s = event.now_s
        worst_s = max(event.late_s, self.status.watch.get("worst_late_s", 0.0))
        self._change(
            readings={
                name: StatusReading(seen.value, seen.unit, seen.age_s, seen.detail, seen.stale_after_s)
                for name, seen in event.readings.items()
            },
            watch={"late_s": event.late_s, "worst_late_s": worst_s},
            buses={url: {"failed": n, "repeated": m} for url, (n, m) in event.exchanges.items()},
        )


def _money(event: CampaignStarted | TrialEnded) -> Mapping[str, Any]:
    known: dict[str, Any] = {"spent": to_units(event.spent), "budget": to_units(event.budget)}
    if event.batches is not None:
        known["operating"] = OperatedSoFar(event.batches.count, to_units(event.batches.spent))
    return known
