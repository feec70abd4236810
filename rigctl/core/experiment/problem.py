"""What an experiment is for: outcome and direction, budget, costs, and how it is modelled.

Inside, a *value* is the outcome turned so that larger is better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import inf, isfinite
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from annotated_types import Ge, Gt, Le

from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.kernels import KernelName
from rigctl.core.experiment.money import Micros
from rigctl.core.experiment.space import Space
from rigctl.flaws import require
from rigctl.kinds import Clash, Lengthscales, Number, Section, Whole
from rigctl.text import in_full, shown_unit

JsonState = Mapping[str, Any]
"""What `json.dumps` takes and gives back unchanged (floats survive exactly)."""


@dataclass(frozen=True, slots=True)
class ModelOptions(Section):
    """How the surrogate is fitted, and which confidence bound is used.

    The ranges of the fields are those of a configuration; the mathematics (algorithms 2 and 3) takes a `noise_sd` of 0,
    and any `nodes` and `max_points` from 1.

    Raises:
        ValueError: a number is out of its range.
    """

    hyperparameters: Literal["learned", "fixed"] = "learned"
    """`fixed` pins lengthscales, signal_sd, noise_sd and mean, without standardisation."""
    kernel: KernelName | None = None
    """A product of one-dimensional kernels in both cases; None: matern-5/2 where hyper-parameters are learned (rough
    enough for what rigs do), squared-exponential where they are fixed (as published)."""
    lengthscales: Lengthscales | None = None
    """On the unit cube: one number for all variables, or one per variable. Where learned, learning begins there."""
    signal_sd: Annotated[Number, Gt(0)] | None = None
    """Outcome's unit."""
    noise_sd: Annotated[Number, Gt(0)] | None = None
    """Outcome's unit."""
    mean: Number | None = None
    """Outcome's unit."""
    bounds: Literal["integrated", "pointwise"] = "integrated"
    """`integrated` is exact and fast; `pointwise` is the published one."""
    beta: Annotated[Number, Gt(0)] = 2.0
    """Half-width of the confidence bound, in standard deviations."""
    nodes: Annotated[Whole, Ge(16), Le(4096)] = 128
    """Quasi-Monte-Carlo nodes of the pointwise bound."""
    max_points: Annotated[Whole, Ge(50)] = 1000
    """Most points the surrogate is conditioned on; beyond, as many inducing points stand for all trials."""
    prior: Literal["dimension-scaled", "gamma"] = "dimension-scaled"
    """Of learned hyper-parameters: lengthscales that grow with the dimension (Hvarfner, Hellsten, Nardi 2024); `gamma`:
    BoTorch's earlier Gamma(3, 6), shorter lengthscales and less noise."""

    def __post_init__(self) -> None:
        for name in ("signal_sd", "beta"):
            value = getattr(self, name)
            require(value is None or 0 < value < inf, value, "must be finite and > 0", where=name)
        noise, mean, scales = self.noise_sd, self.mean, self.lengthscales
        require(noise is None or 0 <= noise < inf, noise, "must be finite and >= 0", where="noise_sd")
        require(mean is None or isfinite(mean), mean, "must be finite", where="mean")
        finite = not isinstance(scales, tuple) or all(0 < v < inf for v in scales)
        require(finite, scales, "must all be finite and > 0", where="lengthscales")
        for name in ("nodes", "max_points"):
            require(getattr(self, name) >= 1, getattr(self, name), "must be >= 1", where=name)

    @property
    def kernel_used(self) -> KernelName:
        """Return the kernel: the one that is named, else the usual one."""
        return self.kernel or usual_kernel(self.hyperparameters)

    @property
    def levels(self) -> tuple[int, ...]:
        """Return how many levels each variable has, as of `ProductKernel`; none are known before `over`."""
        return ()

    def over(self, levels: Sequence[int]) -> ModelOptions:
        """Return the options of a model of variables with so many levels, (d,); 0 for a number."""
        own: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(ModelOptions)}
        return CategoricalOptions(**own, counts=tuple(levels)) if any(levels) else ModelOptions(**own)

    def among(self, columns: Sequence[int]) -> ModelOptions:
        """Return the options of a model of some of the variables."""
        own, levels = self.lengthscales, [self.levels[v] for v in columns] if self.levels else ()
        return replace(self, lengthscales=None if own is None else tuple(own[v] for v in columns)).over(levels)

    def clashes(self) -> Iterator[Clash]:
        """What is fixed is given."""
        for key in ("lengthscales", "signal_sd", "noise_sd", "mean"):
            if self.hyperparameters == "fixed" and getattr(self, key) is None:
                yield Clash(key, 'must be given with "hyperparameters: fixed"', lead="is missing")


@dataclass(frozen=True, slots=True)
class CategoricalOptions(ModelOptions):
    """The options of a model with categories among its variables."""

    counts: tuple[int, ...] = ()

    @property
    def levels(self) -> tuple[int, ...]:
        return self.counts


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


def usual_kernel(hyperparameters: str) -> KernelName:
    """Return the kernel of a model that names none: the papers' where it is fixed, a rougher one where learned."""
    return "matern-5/2" if hyperparameters == "learned" else "squared-exponential"


@dataclass(frozen=True, slots=True)
class FurtherOutcome:
    """An outcome measured beside the first: weighed by policies of several, or kept within limits.

    Raises:
        ValueError: no value is within the limits, or `probability` is none that can be asked for.
    """

    name: str
    unit: str = ""
    maximise: bool = True
    floor: float | None = None
    """The worst value it can take, its own units; None: a bound from the data."""
    at_most: float | None = None
    """Its upper limit, its own units; None: there is none."""
    at_least: float | None = None
    """Its lower limit, its own units; None: there is none."""
    probability: float = 0.9
    """How likely a single trial must be to keep the limits, for its setting to be recommended."""

    def __post_init__(self) -> None:
        (low, high), p = self.limits, self.probability
        require(low < high, [low, high], "must rise from at_least to at_most", where=self.name)
        require(0.5 <= p < 1, p, "must be at least 0.5 and below 1", where=f"{self.name}: probability")

    @property
    def limits(self) -> tuple[float, float]:
        """Return the lower and the upper limit, its own units; infinite where there is none."""
        low = -inf if self.at_least is None else self.at_least
        return low, inf if self.at_most is None else self.at_most

    @property
    def limited(self) -> bool:
        return self.limits != (-inf, inf)

    @property
    def label(self) -> str:
        """Return outcome and limits: `roughness at most 3.2 um`."""
        ends = (("at least", self.at_least), ("at most", self.at_most))
        told = " and ".join(f"{word} {in_full(value, 6)}" for word, value in ends if value is not None)
        return f"{self.name} {told} {shown_unit(self.unit)}".rstrip()


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
        require(self.every >= 2, self.every, "must be >= 2", where="reference.every")


@dataclass(frozen=True, slots=True)
class Problem:
    """All a policy may know of the experiment besides its history."""

    space: Space
    budget: Micros
    maximise: bool = True
    floor: float | None = None
    """The worst value the outcome can take, its own units; None: a bound from the data, re-estimated."""
    model: ModelOptions = field(default_factory=lambda: ModelOptions(kernel="squared-exponential"))
    cost_ceiling: float | None = None
    """The most that a trial may cost, currency units: nothing is played that may cost more; None: what is left."""
    forecast_costs: tuple[float, ...] | None = None
    """(m,), currency units: what a trial of each set likely costs, as far as the configuration tells."""
    known_costs: tuple[float, ...] | None = None
    """(m,), currency units, for benches by hand that know them; None: learned from the meters."""
    cost_model: Literal["per-set", "per-setting"] = "per-set"
    """Whether a set's cost is one unknown mean, or depends on the setpoints too (dosing more costs more)."""
    changeovers: tuple[int, ...] = ()
    """Variables, columns of the space, that it costs to bring to another value than the last trial left them at; how
    much is learned. Empty: none."""
    known_cost_field: CostField | None = None
    """The mean cost of every setting, where it is known; None: learned from the meters."""
    further: tuple[FurtherOutcome, ...] = ()
    """Outcomes besides the first; policies of one outcome heed their limits alone."""
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
    stop_worth: float | None = None
    """What one unit of a better outcome is worth, currency units, whoever uses it for as long as that is done: the
    campaign ends once no trial is expected to be worth its cost; None: it goes on while there is money."""
    usual: Space | None = None
    """The variables over all readings, where `space` has what is expected after `look`; None: `space` is that."""

    @property
    def limited(self) -> bool:
        """Tell whether a further outcome has a limit."""
        return any(f.limited for f in self.further)

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
