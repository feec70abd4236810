"""What a trial takes and costs before any has been run, as far as the configuration tells. Pure; nothing is asked.

The least is certain: the time that every trial takes, and what the meters of time and per trial charge for it. Likely
is the mean over the control sets, each as often as the others: doses from where nature leaves a variable to a setpoint
anywhere in its range, and energy at the rated power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Variable
from rigctl.core.money import to_units
from rigctl.rig.metering import trial_s
from rigctl.rig.spec import ActuatorLimits, DosingSpec, MeterSpec, RigSpec

GRID: Final = 19
"""Values of a variable, and setpoints, that a mean is taken over."""
DAY_S: Final = 86400.0


@dataclass(frozen=True, slots=True)
class MeterForecast:
    """Says what one meter will charge for a trial, currency units."""

    name: str
    least: float
    likely: float | None
    """None: the configuration does not tell."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Says what a trial takes and costs, and what the budget buys."""

    budget: float
    """Currency units, as all costs."""
    least_s: float
    """Rig seconds; 0 of a bench by hand."""
    likely_s: float
    meters: tuple[MeterForecast, ...]
    daily: float = math.inf
    """Likely trials in 24 hours that the caps of the pumps let through."""
    max_trials: int | None = None

    @property
    def least(self) -> float:
        return sum(m.least for m in self.meters)

    @property
    def likely(self) -> float | None:
        """Return what is likely charged by the meters that anything is known of; None if by none."""
        known = [m.likely for m in self.meters if m.likely is not None]
        return sum(known) if known else None

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(m.name for m in self.meters if m.likely is None)

    def buys(self, cost: float | None) -> int | None:
        """Return the number of trials at this cost; None where it is not known, or nothing ends them."""
        if not cost:
            return self.max_trials
        trials = math.floor(self.budget / cost * (1 + 1e-9))
        return trials if self.max_trials is None else min(trials, self.max_trials)

    @property
    def days(self) -> float | None:
        """Return how long the likely number of trials takes, days of rig time."""
        trials = self.buys(self.likely)
        if trials is None or not self.likely_s:
            return None
        return max(trials * self.likely_s / DAY_S, trials / self.daily)


def forecast(spec: RigSpec, problem: Problem, max_trials: int | None = None) -> Forecast:
    """Return what a trial of this rig takes and costs; of a bench by hand only what known costs say."""
    budget = to_units(problem.budget)
    if not spec.devices:
        known = problem.known_costs
        costs = [] if known is None else [MeterForecast("trial", min(known), sum(known) / len(known))]
        return Forecast(budget, 0.0, 0.0, tuple(costs), max_trials=max_trials)
    least_s = trial_s(spec.timing)
    doses = {pump: dose for pump in spec.dosing if (dose := _dose(spec, problem, pump)) is not None}
    likely_s = least_s + max((d.share * d.mixing_s for d in doses.values()), default=0.0)
    volumes = {pump: d.share * d.volume_ml for pump, d in doses.items()} | _given(spec, problem)
    along = spec.partners.items()
    volumes |= {p: ratio * volumes[pump] for pump, others in along for p, ratio in others.items() if pump in volumes}
    caps = {pump: limits.per_day_ml for pump, limits in spec.limits.items() if limits.per_day_ml is not None}
    daily = min((caps[p] / v for p, v in volumes.items() if p in caps and v > 0), default=math.inf)
    meters = tuple(_meter(meter, least_s, likely_s, volumes) for meter in spec.meters)
    return Forecast(budget, least_s, likely_s, meters, daily, max_trials)


def _meter(meter: MeterSpec, least_s: float, likely_s: float, volumes: Mapping[str, float]) -> MeterForecast:
    price = float(meter.price)
    if meter.kind == "fixed":
        return MeterForecast(meter.name, price, price)
    if meter.kind == "time":
        return MeterForecast(meter.name, price * least_s / 3600, price * likely_s / 3600)
    used = volumes.get(meter.device or "") if meter.kind == "volume" else None
    if used is None and meter.rated_per_h is not None:
        used = meter.rated_per_h * likely_s / 3600
    return MeterForecast(meter.name, 0.0, None if used is None else price * used)


def _given(spec: RigSpec, problem: Problem) -> dict[str, float]:
    """Return the volumes that are variables, by pump, mL: in the middle of their ranges, or what is given otherwise."""
    space, given = problem.space, dict[str, float]()
    for index, variable in enumerate(space.variables):
        pump = next((v.actuator for v in spec.variables if v.name == variable.name), None)
        if pump is not None and pump in spec.volumes:
            share = sum(index in s.indices for s in space.control_sets) / len(space.control_sets)
            middle = (variable.low + variable.high) / 2
            given[pump] = share * middle + (1 - share) * spec.volumes[pump].otherwise_ml
    return given


@dataclass(frozen=True, slots=True)
class _Dose:
    """Says what a pump gives in a trial that controls its variable."""

    volume_ml: float
    mixing_s: float
    share: float
    """Of the control sets, in which it is controlled."""


def _dose(spec: RigSpec, problem: Problem, pump: str) -> _Dose | None:
    space = problem.space
    wiring = next((v for v in spec.variables if pump in v.actuators), None)
    if wiring is None:
        return None
    index = next(i for i, v in enumerate(space.variables) if v.name == wiring.name)
    dosing, limits = spec.dosing[pump], spec.limits[pump]
    volumes = _volumes(space.variables[index], dosing)
    mean_ml = sum(volumes) / len(volumes)
    doses = sum(_doses(v, limits) for v in volumes) / len(volumes)
    share = sum(index in s.indices for s in space.control_sets) / len(space.control_sets)
    return _Dose(mean_ml, doses * dosing.mix_s, share)


def _doses(volume_ml: float, limits: ActuatorLimits) -> int:
    return math.ceil(volume_ml / limits.per_dose_ml) if limits.per_dose_ml else int(volume_ml > 0)


def _volumes(variable: Variable, dosing: DosingSpec) -> list[float]:
    """Return the volumes that bring the variable from where it may be to where it may be sent, mL.

    A treatment leaves it at the far end of the range; the pump does nothing where it would have to go back.
    """
    import numpy as np  # noqa: PLC0415  # a fraction of a second that only rigs with pumps need

    shares = (np.arange(GRID) + 0.5) / GRID
    span, raises = variable.high - variable.low, dosing.effect_per_ml > 0
    starts = variable.low + span * variable.marginal.quantile(shares)
    if dosing.treatment is not None:
        starts = np.array([variable.low if raises else variable.high])
    missing = (variable.low + span * shares)[:, None] - starts[None, :]
    volumes = np.where(np.abs(missing) > dosing.tolerance, missing / dosing.effect_per_ml, 0.0)
    return [float(v) for v in np.maximum(volumes, 0.0).ravel()]
