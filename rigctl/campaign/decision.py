"""A decision, and proposals to and from JSON: what the process that decides and the journal have in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rigctl.core.money import Micros
from rigctl.core.policy import Proposal, SetReport

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
    note: str = ""
    traceback: str = ""
    """Of a policy that failed; goes into the alarm, not into the trial."""


def proposal_to_json(proposal: Proposal) -> str:
    """A proposal as JSON; floats survive exactly."""
    return json.dumps(asdict(proposal))


def proposal_from_json(text: str) -> Proposal:
    """The proposal that `proposal_to_json` wrote."""
    fields = json.loads(text)
    reports = tuple(SetReport(**{**s, "control_set": tuple(s["control_set"])}) for s in fields.pop("sets"))
    return Proposal(**{**fields, "setting": tuple(fields["setting"]), "sets": reports, "notes": tuple(fields["notes"])})
