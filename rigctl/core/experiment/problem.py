"""What an experiment is for: outcome and direction, budget, costs, and how it is modelled.

Inside, a *value* is the outcome turned so that larger is better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Literal, Protocol

import numpy as np

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.space import Space
from rigctl.flaws import got

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
                raise ValueError(got(value, "must be finite and > 0", where=name))
        if self.noise_sd is not None and not (isfinite(self.noise_sd) and self.noise_sd >= 0):
            raise ValueError(got(self.noise_sd, "must be finite and >= 0", where="noise_sd"))
        if self.mean is not None and not isfinite(self.mean):
            raise ValueError(got(self.mean, "must be finite", where="mean"))
        if self.lengthscales is not None and not all(isfinite(v) and v > 0 for v in self.lengthscales):
            raise ValueError(got(list(self.lengthscales), "must all be finite and > 0", where="lengthscales"))
        for name in ("nodes", "max_points"):
            if getattr(self, name) < 1:
                raise ValueError(got(getattr(self, name), "must be >= 1", where=name))


class CostField(Protocol):
    """The expected cost of trials, currency units, always positive. Settings are (b, k), unit cube."""

    def mean(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Expected cost of a trial of this set at each setting, (b,)."""
        ...

    def gradient(self, control_set: int, settings: FloatArray) -> FloatArray:
        """Its derivative by the setting, (b, k)."""
        ...

    def upper(self, control_set: int, settings: FloatArray) -> FloatArray:
        """What a trial is predicted to cost at most, (b,): two standard deviations up."""
        ...


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
class ReferenceTrials:
    """Say that one setting is played again every so many trials, so that a plant that ages shows.

    Raises:
        ValueError: it would be played in every trial.
    """

    every: int
    """Trials."""
    control_set: int | None = None
    """None: what would be recommended when the first of them is due."""
    setting: tuple[float, ...] = ()
    """(k,), unit cube."""
    second_sensor: str = ""
    """The further outcome that another sensor of the first one gives; empty: there is none."""

    def __post_init__(self) -> None:
        if self.every < 2:
            raise ValueError(got(self.every, "must be >= 2", where="reference.every"))


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
    """The most that a trial may cost, currency units: nothing is played that may cost more; None: what is left."""
    forecast_costs: tuple[float, ...] | None = None
    """(m,), currency units: what a trial of each set likely costs, as far as the configuration tells."""
    known_costs: tuple[float, ...] | None = None
    """(m,), currency units, for benches by hand that know them; None: learned from the meters."""
    cost_model: Literal["per-set", "per-setting"] = "per-set"
    """Whether a set's cost is one unknown mean, or depends on the setpoints too (dosing more costs more)."""
    known_cost_field: CostField | None = None
    """The mean cost of every setting, where it is known; None: learned from the meters."""
    further: tuple[FurtherOutcome, ...] = ()
    """Outcomes besides the first; policies of one outcome ignore them."""
    unavailable: Mapping[int, str] = field(default_factory=dict)
    """Control sets that cannot be played now, and why, in words: they count as ones that do not fit the budget."""
    looks: bool = False
    """Whether the variables are read before every decision: what is sought is then a rule, a setting per reading."""
    look: Look | None = None
    """What they read now, before the trial that is to be decided; None: not read."""
    persistence: tuple[float, ...] | None = None
    """(d,), in [0, 1]: what persists of a deviation from a reading to its trial, where it is known; None: learned."""
    reference: ReferenceTrials | None = None
    """Which setting is played again and again; None: none."""
    usual: Space | None = None
    """The variables over all readings, where `space` has what is expected after `look`; None: `space` is that."""

    @property
    def costs_told(self) -> bool:
        """Tell whether costs are known, not learned."""
        return self.known_costs is not None or self.known_cost_field is not None

    @property
    def costs_by_setting(self) -> bool:
        """Tell whether what a trial costs depends on where its control set is played."""
        return self.cost_model == "per-setting" or self.known_cost_field is not None


def sign(problem: Problem) -> float:
    """+1 to maximise, -1 to minimise: value = sign * outcome."""
    return 1.0 if problem.maximise else -1.0


def values(problem: Problem, history: History) -> FloatArray:
    """(n,): outcomes as values, larger is better."""
    return sign(problem) * history.y


def value_floor(problem: Problem, history: History, left_out: Sequence[int] = ()) -> float:
    """The worst value the outcome can take: the worst seen so far (re-estimated every trial) or the configured one.

    Outcomes that are not believed, `left_out` of the complete ones, do not count: one of them would make all sets good.

    A configured floor that an outcome has already been below was wrong; with it a share of the distance to the best
    would be negative, and no set good enough.
    """
    seen = np.delete(values(problem, history), list(left_out))
    worst = float(seen.min()) if seen.size else np.inf
    if problem.floor is not None:
        return min(sign(problem) * problem.floor, worst)
    return worst if np.isfinite(worst) else 0.0
