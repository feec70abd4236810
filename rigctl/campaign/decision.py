"""A decision: what the process that decides and the journal have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rigctl.core.money import Micros
from rigctl.core.policy import Proposal

Origin = Literal["policy", "rejected", "timed-out", "manual"]
"""Who decided: the policy; something else because its proposal was unusable, or because there was none (it was late, or
its process ended); a person."""


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
    note: str = ""
    traceback: str = ""
    """Of a policy that failed; goes into the alarm, not into the trial."""
