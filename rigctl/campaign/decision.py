"""A decision: what the process that decides and the journal have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.policy import Proposal
from rigctl.core.experiment.space import Space

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
    """Budget the decision knew."""
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
