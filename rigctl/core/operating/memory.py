"""What is run for production, as the journal keeps it: made once, and the same until it is to be made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rigctl.codec import plain, typed
from rigctl.core.advice.rule import RuleLine
from rigctl.core.experiment.policy import PRODUCTION
from rigctl.core.experiment.problem import JsonState


@dataclass(frozen=True, slots=True)
class Way:
    """One control set at one setting, for any reading."""

    control_set: tuple[str, ...]
    at: Mapping[str, float]
    """Engineering units."""
    cost: float | None = None
    """Of a batch, currency units; None: nobody knows."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One change of supply or response since what is run was learned."""

    source: str
    """A variable, or `response`."""
    noticed: int
    """The trial at which the evidence sufficed."""
    told: str
    """In a sentence, without the last full stop; as it was told first."""
    batch: int = 0
    """The batch at whose decision that was, or the last one for which what is run was made anew and still does not
    know of it: what is run was made before it was known, or anew since."""
    by_errors: bool = False
    """Whether the errors of what was expected gave it away, and not a term of the model that goes on learning."""


@dataclass(frozen=True, slots=True)
class Pending:
    """What a batch was expected to gain and to lose, until it is known whether it has given an outcome."""

    trial: int
    gain: float
    loss: float


@dataclass(frozen=True, slots=True)
class Memory:
    """Hold what is run, and what has been seen while it was. Values are in outcome units, larger is better."""

    begun: int
    """The first batch, by its trial number."""
    since: int
    """Trials that it was made of: the first so many."""
    outcomes: int
    """How many of them had given one."""
    asked: str
    """What it was made for; with another wish it is made anew."""
    ways: tuple[Way, ...]
    """Run where no line holds, or cannot be played: the first of these that can."""
    lines: tuple[RuleLine, ...] = ()
    """Of the rule; empty where no reading calls for anything else than the first of `ways`."""
    model: Mapping[str, Any] = field(default_factory=dict)
    """Of the fit that expectations are of (`Fitted.to_state`)."""
    watch: Mapping[str, Any] = field(default_factory=dict)
    """The same of the fit to all outcomes, by which a change of the response shows."""
    drifts: tuple[Drift, ...] = ()
    """All since the first batch that still show."""
    gained: float = 0.0
    """Over controlling nothing, by the rule, expected; of batches with an outcome."""
    lost: float = 0.0
    """By exploring, against the rule, expected."""
    pending: Pending | None = None
    """The last batch."""
    owed: tuple[Pending, ...] = ()
    """Batches before it whose outcome is awaited; their losses are counted."""

    @property
    def standing(self) -> tuple[Drift, ...]:
        """Return the changes that what is run does not know of."""
        return tuple(d for d in self.drifts if d.batch > self.since)


def remembered(state: JsonState | None) -> Memory | None:
    """Return what is run by a policy's state; None where nothing is, or another version has written it."""
    if state is None or PRODUCTION not in state:
        return None
    try:
        return typed(Memory, state[PRODUCTION])
    except (TypeError, ValueError, KeyError, AttributeError):
        return None


def kept(memory: Memory, state: JsonState) -> dict[str, Any]:
    """Return a policy's state with it; what a campaign's own policy remembers stays."""
    return {**state, PRODUCTION: plain(memory)}
