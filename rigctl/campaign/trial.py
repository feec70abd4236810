"""A trial: what was decided of it, its states, and the one table that says how it may move between them.

Rules:

1. A trial is born by PROPOSE (the decision is on disk, nothing has moved), by LOOK (the rig is to be prepared and the
   variables read before it is decided) or by INGEST (a person did it by hand; INGEST_FAILED if it gave no outcome).
2. ARM, RUN, MEASURE, RECORD are taken in this order, each committed *before* what it permits: LOOKING before the first
   step of preparation, ARMED before the first actuator moves, RUNNING before the wait, MEASURED before the cost is
   worked out.
3. PROPOSED survives a crash: nothing has moved, so the same proposal goes on, unchanged. It cannot be LOST. A pause, or
   an instrument that cannot be used by now, has it ABANDONED, and it is not taken up again (row 45). One that was
   looked for goes on while what was read still counts; else it is ABANDONED, and another one looks anew. So is one that
   was decided for the campaign if the next process operates, and a batch by another wish than that process's.
4. LOOKING, ARMED and RUNNING do not survive a crash: actuators may have moved, so the trial is LOST, charged and never
   repeated.
5. MEASURED survives a crash: everything its record needs is on disk. It can be recorded, or FAIL if a reading that
   the trial needed is INVALID; it can no longer be abandoned or lost. It may AWAIT an outcome that comes later: then it
   is charged, no longer under way, and others may run, until it is RECORDED, or FAILED because nothing came.
6. RECORDED, FAILED, ABANDONED and LOST are final, and all four are charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal

from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.policy import Proposal
from rigctl.core.experiment.space import Space
from rigctl.errors import RigctlError


class State(StrEnum):
    """Says where a trial stands."""

    LOOKING = "LOOKING"
    PROPOSED = "PROPOSED"
    ARMED = "ARMED"
    RUNNING = "RUNNING"
    MEASURED = "MEASURED"
    AWAITING = "AWAITING"
    RECORDED = "RECORDED"
    FAILED = "FAILED"
    ABANDONED = "ABANDONED"
    LOST = "LOST"

    @property
    def final(self) -> bool:
        """Tell whether the trial is over and charged."""
        return self not in TRANSITIONS

    @property
    def charged(self) -> bool:
        """Tell whether the rig has done its part, and the trial is charged; its outcome may still be awaited."""
        return self.final or self is State.AWAITING


class Event(StrEnum):
    """Says what happens to a trial."""

    LOOK = "LOOK"
    PROPOSE = "PROPOSE"
    INGEST = "INGEST"
    INGEST_FAILED = "INGEST_FAILED"
    ARM = "ARM"
    RUN = "RUN"
    MEASURE = "MEASURE"
    AWAIT = "AWAIT"
    """Its outcome comes later."""
    RECORD = "RECORD"
    FAIL = "FAIL"
    """An instrument could not do its part."""
    ABANDON = "ABANDON"
    """A person, the service manager or its cost ended it."""
    LOSE = "LOSE"
    """The process died in mid-trial."""


class IllegalTransition(RigctlError):
    """A trial was asked to make a step that the table does not have."""


TRANSITIONS: Mapping[State | None, Mapping[Event, State]] = MappingProxyType(
    {
        None: {
            Event.LOOK: State.LOOKING,
            Event.PROPOSE: State.PROPOSED,
            Event.INGEST: State.RECORDED,
            Event.INGEST_FAILED: State.FAILED,
        },
        State.LOOKING: {
            Event.PROPOSE: State.PROPOSED,
            Event.FAIL: State.FAILED,
            Event.ABANDON: State.ABANDONED,
            Event.LOSE: State.LOST,
        },
        State.PROPOSED: {Event.ARM: State.ARMED, Event.FAIL: State.FAILED, Event.ABANDON: State.ABANDONED},
        State.ARMED: {
            Event.RUN: State.RUNNING,
            Event.FAIL: State.FAILED,
            Event.ABANDON: State.ABANDONED,
            Event.LOSE: State.LOST,
        },
        State.RUNNING: {
            Event.MEASURE: State.MEASURED,
            Event.FAIL: State.FAILED,
            Event.ABANDON: State.ABANDONED,
            Event.LOSE: State.LOST,
        },
        State.MEASURED: {Event.RECORD: State.RECORDED, Event.AWAIT: State.AWAITING, Event.FAIL: State.FAILED},
        State.AWAITING: {Event.RECORD: State.RECORDED, Event.FAIL: State.FAILED},
    }
)
"""State (None: no trial yet) -> event -> next state. What is not here is not allowed."""

MOVING = (State.LOOKING, State.ARMED, State.RUNNING)
"""Actuators may have moved, and the trial is not measured yet."""
UNDER_WAY = (State.LOOKING, State.PROPOSED, State.ARMED, State.RUNNING, State.MEASURED)
"""The rig is its own: at most one trial is in one of these. In the order of the journal's index, which is used then."""


def advance(state: State | None, event: Event) -> State:
    """Return the state after `event`; raises IllegalTransition if the table has no such step."""
    steps = TRANSITIONS.get(state, {})
    if event not in steps:
        allowed = ", ".join(steps) or "nothing, it is over"
        raise IllegalTransition(f"a trial in state {state} cannot {event}; allowed: {allowed}")
    return steps[event]


# What was decided -----------------------------------------------------------------------------------------------------

Origin = Literal["policy", "rejected", "timed-out", "manual"]
"""Who decided: the policy; something else because its proposal was unusable, or because there was none (it was late, or
its process ended); a person."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What one variable read before the decision."""

    value: float | None
    """Engineering units; None: it could not be read."""
    sd: float = 0.0
    """Of the reading's error, engineering units; 0: not known."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision, ready to be committed."""

    trial: int
    control_set: tuple[str, ...]
    setpoints: Mapping[str, float]
    """Engineering units."""
    origin: Origin
    proposal: Proposal | None
    policy_state: Mapping[str, Any] | None
    """After the decision; None if the policy took no part, so that its memory stays as it was."""
    seed: int
    history_length: int
    """Charged trials the decision knew."""
    budget: Micros
    corrections: int = 0
    """The last correction of earlier trials that the decision knew; 0: none had been made."""
    unavailable: Mapping[str, str] = field(default_factory=dict)
    """Control sets that could not be played then, by label, and why."""
    looks: Mapping[str, Looked] = field(default_factory=dict)
    """What the variables read before it; nothing where nobody looked."""
    note: str = ""
    traceback: str = ""
    """Of a policy that failed; goes into the alarm, not into the trial."""


def undecided(trial: int, seed: int, budget: Micros, history: History) -> Decision:
    """Return what stands for a trial's decision until it is made."""
    return Decision(trial, (), {}, "policy", None, None, seed, len(history), budget, history.corrections)


def look_of(space: Space, looks: Mapping[str, Looked]) -> Look | None:
    """Return what was read as policies take it, on the unit cube; None where nobody looked."""
    if not looks:
        return None
    read = [(v, looks.get(v.name, Looked(None))) for v in space.variables]
    return Look(
        tuple(None if seen.value is None else (seen.value - v.low) / (v.high - v.low) for v, seen in read),
        tuple(0.0 if seen.value is None else seen.sd / (v.high - v.low) for v, seen in read),
    )
