"""What a policy is, what it is given, and what it answers.

A policy is a pure function: `propose(state, problem, history, rng) -> (Proposal, state')`. Its state is JSON, is
committed together with the proposal, and is all it remembers; so a decision can be recomputed from the journal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from rigctl.core.costing.cost_field import CostField
from rigctl.core.history import History
from rigctl.core.money import Micros, to_units
from rigctl.core.space import Space

JsonState = Mapping[str, Any]
"""What `json.dumps` takes and gives back unchanged (floats survive exactly)."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How the surrogate is fitted and which confidence bound is used (algorithms 2 and 3).

    The ranges are what the mathematics takes; a configuration's `model` is narrower for `noise_sd`, `nodes` and
    `max_points`.

    Raises:
        ValueError: a number is out of its range.
    """

    hyperparameters: Literal["learned", "fixed"] = "learned"
    kernel: Literal["squared-exponential", "matern-5/2"] = "squared-exponential"
    """A product of 1-D kernels in both cases."""
    lengthscales: tuple[float, ...] | None = None
    """(d,), unit cube; required when fixed, the starting point when learned."""
    signal_sd: float | None = None
    """Outcome units; required when fixed."""
    noise_sd: float | None = None
    """Outcome units; required when fixed."""
    mean: float | None = None
    """Outcome units; required when fixed. Fixed means no standardisation."""
    bounds: Literal["integrated", "pointwise"] = "integrated"
    beta: float = 2.0
    nodes: int = 128
    """Quasi-Monte-Carlo nodes of the pointwise bound."""
    max_points: int = 1000
    """Most points the posterior is conditioned on; beyond, as many inducing points stand for all of them."""
    prior: Literal["dimension-scaled", "gamma"] = "dimension-scaled"
    """What hyper-parameters are learned under: log-normal lengthscales that grow with the dimension (Hvarfner,
    Hellsten, Nardi 2024), or BoTorch's earlier Gamma(3, 6), short in every dimension, with less noise."""

    def __post_init__(self) -> None:
        for name in ("signal_sd", "beta"):
            value = getattr(self, name)
            if value is not None and not (isfinite(value) and value > 0):
                raise ValueError(f"{name}: got {value}, must be finite and > 0")
        if self.noise_sd is not None and not (isfinite(self.noise_sd) and self.noise_sd >= 0):
            raise ValueError(f"noise_sd: got {self.noise_sd}, must be finite and >= 0")
        if self.mean is not None and not isfinite(self.mean):
            raise ValueError(f"mean: got {self.mean}, must be finite")
        if self.lengthscales is not None and not all(isfinite(v) and v > 0 for v in self.lengthscales):
            raise ValueError(f"lengthscales: got {list(self.lengthscales)}, must all be finite and > 0")
        for name in ("nodes", "max_points"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: got {getattr(self, name)}, must be >= 1")


def usual_kernel(hyperparameters: str) -> Literal["squared-exponential", "matern-5/2"]:
    """Return the kernel of a model that names none: the papers' where it is fixed, a rougher one where learned."""
    return "matern-5/2" if hyperparameters == "learned" else "squared-exponential"


@dataclass(frozen=True, slots=True)
class FurtherOutcome:
    """An outcome measured beside the first, for policies that weigh several."""

    name: str
    unit: str = ""
    maximise: bool = True
    floor: float | None = None
    """The worst value it can take, its own units; None: a bound from the data."""


@dataclass(frozen=True, slots=True)
class Problem:
    """All a policy may know of the experiment besides its history."""

    space: Space
    budget: Micros
    maximise: bool = True
    floor: float | None = None
    """The worst value the outcome can take, its own units; None: a bound from the data, re-estimated."""
    model: ModelOptions = field(default_factory=ModelOptions)
    cost_ceiling: float | None = None
    """The dearest a trial can be, currency units; None: the dearest metered so far."""
    known_costs: tuple[float, ...] | None = None
    """(m,), currency units, for benches by hand that know them; None: learned from the meters."""
    cost_model: Literal["per-set", "per-setting"] = "per-set"
    """Whether a set's cost is one unknown mean, or depends on the setpoints too (dosing more costs more)."""
    known_cost_field: CostField | None = None
    """The mean cost of every setting, where it is known; None: learned from the meters."""
    further: tuple[FurtherOutcome, ...] = ()
    """Outcomes besides the first; policies of one outcome ignore them."""


@dataclass(frozen=True, slots=True)
class SetReport:
    """What a decision believed about one control set. Values in the outcome's own units, costs in currency."""

    control_set: tuple[str, ...]
    upper: float
    """Best upper confidence bound over the set's settings."""
    lower: float
    """Best lower confidence bound over the set's settings."""
    upper_at: Mapping[str, float]
    """The setting with that upper bound, engineering units."""
    lower_at: Mapping[str, float]
    """The setting with that lower bound, engineering units."""
    mean: float
    """Posterior mean of the setting's value at `upper_at`."""
    sd: float
    """Posterior spread at `upper_at`: of the value itself (integrated) or E[sigma] (pointwise)."""
    cost_mean: float | None
    cost_lcb: float
    trials: int
    eligible: bool
    """Whether the set may still be good enough (S1)."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What to do in the next trial, and why."""

    trial: int
    policy: str
    phase: str
    control_set: int
    setting: tuple[float, ...]
    """(k,), unit cube: values of the chosen set's variables."""
    reason: str
    sets: tuple[SetReport, ...] = ()
    threshold: float | None = None
    """What a set's upper bound must exceed to stay eligible, outcome units."""
    predicted_cost: float | None = None
    """Upper prediction of this trial's cost, currency units; None before anything is known of costs."""
    notes: tuple[str, ...] = ()
    """What went wrong on the way and was done instead, e.g. a fit that failed (fault 49)."""


class Finished(Exception):
    """The policy proposes nothing more; says why. Not an error: the campaign ends and recommends."""


class NotWorthIt(Finished):
    """No trial is expected to be worth its cost: the policy's own stopping rule fired."""


class BudgetSpent(Finished):
    """No control set fits the remaining budget any more; says which was the cheapest."""


class Policy(Protocol):
    """Chooses the next control set and setting."""

    name: str

    def initial_state(self, problem: Problem) -> JsonState:
        """The state before the first trial."""
        ...

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        """The next trial, and the state to commit with it.

        Raises:
            BudgetSpent: nothing fits the remaining budget.
            NotWorthIt: its stopping rule fired.
            PolicyError: the policy cannot decide.
        """
        ...


@runtime_checkable
class Particular(Protocol):
    """What a policy has that does not fit every problem: a configuration is refused with its reasons."""

    def mistakes(self, problem: Problem) -> Sequence[tuple[str, str]]:
        """What does not fit, as (dotted configuration key, what is wrong with it); empty if it fits."""
        ...


def trial_rng(seed: int, trial: int) -> np.random.Generator:
    """The one source of randomness of a trial's decision: depends on nothing but seed and trial number."""
    return np.random.default_rng([seed, trial])


def validate(proposal: Proposal, problem: Problem) -> Sequence[str]:
    """What is wrong with a proposal; empty if it may be played (fault 42)."""
    space = problem.space
    if not 0 <= proposal.control_set < len(space.control_sets):
        return [f"control set {proposal.control_set} does not exist"]
    indices = space.control_sets[proposal.control_set].indices
    if len(proposal.setting) != len(indices):
        return [f"{len(proposal.setting)} values for {len(indices)} controlled variables"]
    return [
        f"{space.variables[i].name}: got {u!r} on the unit cube, must be in [0, 1]"
        for i, u in zip(indices, proposal.setting, strict=True)
        if not (np.isfinite(u) and 0.0 <= u <= 1.0)
    ]


def remaining(problem: Problem, history: History) -> float:
    """Budget left, currency units; for predictions only, sums stay in micro-units."""
    return to_units(problem.budget - history.spent)
