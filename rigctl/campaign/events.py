"""What a running campaign tells whoever watches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from rigctl.campaign.journal.alarms import AlarmMinded
from rigctl.campaign.journal.rows import CampaignPhase, TrialRow
from rigctl.campaign.trial import Origin, State
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.policy import Proposal
from rigctl.rig.values import Alarm, Measurement, SafeReport, SeenReading

Ending = Literal["budget", "finished", "trials", "stopped", "abandoned", "interlock"]
"""Nothing fits the budget any more; the policy's stopping rule fired; as many trials as asked for; stopped after a
trial; stopped in mid-trial; ended by the watch."""


@dataclass(frozen=True, slots=True)
class Batches:
    """Counts what has been run for production so far."""

    count: int
    spent: Micros
    """What they have cost: no part of what the campaign has spent."""


def batched(number: int) -> str:
    return "1 batch" if number == 1 else f"{number} batches"


@dataclass(frozen=True, slots=True)
class CampaignStarted:
    """Everything is safe, what was in flight is settled, trials begin."""

    rig: str
    trials: int
    """Charged so far."""
    spent: Micros
    budget: Micros
    lost: int | None
    """The trial that was in flight when the last process died, and is charged but not repeated."""
    batches: Batches | None = None
    """Run for production; None: it is trials of the campaign that are run."""


@dataclass(frozen=True, slots=True)
class TrialProposed:
    """A decision is on disk."""

    trial: int
    proposal: Proposal
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    """Engineering units."""
    origin: Origin
    decision_s: float
    """Wall seconds."""


@dataclass(frozen=True, slots=True)
class TrialStep:
    """A trial has entered this state."""

    trial: int
    state: State
    at_s: float = 0.0
    """Rig time."""
    until_s: Mapping[str, float] = field(default_factory=dict)
    """When what comes in this state is over, in order, rig time: `prepare` (and `look`), or `settle` and `measure`."""


@dataclass(frozen=True, slots=True)
class TrialLooked:
    """What the variables read before the trial is decided is on disk."""

    trial: int
    found: Mapping[str, Measurement]


@dataclass(frozen=True, slots=True)
class Dosed:
    """A dose is over, and booked."""

    actuator: str
    volume_ml: float
    day_ml: float
    """Of this pump in the 24 h up to it, itself included."""


@dataclass(frozen=True, slots=True)
class RigSeen:
    """The watch has looked: what the rig was last seen to be."""

    now_s: float
    """Rig time."""
    readings: Mapping[str, SeenReading]
    late_s: float = 0.0
    """Wall seconds by which the look came late."""
    exchanges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """As `Glance.exchanges`."""


@dataclass(frozen=True, slots=True)
class TrialEnded:
    """A trial is charged and closed."""

    row: TrialRow
    spent: Micros
    budget: Micros
    batches: Batches | None = None
    """With this one, if it was run for production."""


@dataclass(frozen=True, slots=True)
class OutcomeCame:
    """An outcome that was awaited has come, or was given up."""

    row: TrialRow
    awaited: int
    """How many still are."""


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The campaign as a whole goes on, holds, waits."""

    phase: CampaignPhase
    why: str
    until_s: float | None = None
    """Rig time, where it is known."""


@dataclass(frozen=True, slots=True)
class CampaignResult:
    """How a campaign (or this part of it) ended; the last event."""

    ending: Ending
    reason: str
    trials: int
    """Charged, over all parts."""
    spent: Micros
    budget: Micros
    safe: SafeReport
    worst_tick_delay_s: float
    """How late the watch looked at worst, wall seconds."""
    recorded: int
    """Trials that gave an outcome."""
    safe_after_s: float | None
    """When abandoned: wall seconds from the request until everything was confirmed safe."""
    operated: Micros = 0
    """What batches for production have cost: no part of `spent`."""


CampaignEvent = (
    CampaignStarted
    | TrialProposed
    | TrialStep
    | TrialLooked
    | Dosed
    | RigSeen
    | TrialEnded
    | OutcomeCame
    | PhaseChanged
    | Alarm
    | AlarmMinded
    | CampaignResult
)
Listener = Callable[[CampaignEvent], None]
"""Called in the event loop; must not block."""
