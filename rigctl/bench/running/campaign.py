"""A simulated campaign, as it was played."""

from __future__ import annotations

from dataclasses import dataclass

from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.policy import Proposal


@dataclass(frozen=True, slots=True)
class Play:
    """One charged trial, and what its decision left behind."""

    proposal: Proposal
    decision_s: float
    """CPU seconds."""
    state: JsonState
    """The policy's, after the decision."""


@dataclass(frozen=True, slots=True)
class Campaign:
    """A whole simulated campaign."""

    problem: Problem
    history: History
    """The free initial points (control set -1), then one observation per play."""
    plays: tuple[Play, ...]
    finished: str
    """Why it ended."""
    policy_seed: int
