"""What a trial takes and costs before any has been run, as far as the configuration tells. Pure; nothing is asked.

The least is certain: the time that every trial takes, and what the meters of time and per trial charge for it. Likely
is the mean over the control sets, each as often as the others: doses from where nature leaves a variable to a setpoint
anywhere in its range, and energy at the rated power.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.experiment.money import to_units
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Variable
from rigctl.rig.limits import DAY_S, CapSpec
from rigctl.rig.spec import DosingSpec, MeterSpec, RigSpec, VariableWiring

GRID: Final = 19
"""Values of a variable, and setpoints, that a mean is taken over."""


@dataclass(frozen=True, slots=True)
class MeterForecast:
    """Says what one meter will charge for a trial, currency units."""

    name: str
    least: float
    likely: float | None
    """None: the configuration does not tell."""


@dataclass(frozen=True, slots=True)
class CapForecast:
    """Says how many trials a cap likely allows."""

    per_day: float
    in_all: int | None
    """None: without end."""


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
    capped: Mapping[str, CapForecast] = field(default_factory=dict)
    """By pump or tank with caps."""

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
        most = [c.in_all for c in self.capped.values() if c.in_all is not None]
        most += [] if self.max_trials is None else [self.max_trials]
        most += [math.floor(self.budget / cost * (1 + 1e-9))] if cost else []
        return min(most, default=None)

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
    least_s = spec.timing.takes_s
    doses = {
        pump: _dose(spec, problem, v, pump) for v in spec.variables for pump in v.actuators if pump in spec.partners
    }
    likely_s = least_s + max((d.mixing_s for d in doses.values()), default=0.0) + _ramp_s(spec)
    volumes = {pump: d.volume_ml for pump, d in doses.items()}
    volumes |= {other: r * volumes[pump] for pump in doses for other, r in spec.partners[pump].items()}
    takes = {cap: sum(volumes.get(pump, 0.0) for pump in cap.pumps) for cap in spec.caps}
    capped = [(cap, _capped(cap, ml)) for cap, ml in takes.items() if ml > 0]
    daily = min((found.per_day for _, found in capped), default=math.inf)
    meters = tuple(_meter(meter, least_s, likely_s, volumes) for meter in spec.meters)
    told = {cap.name: found for cap, found in capped}
    return Forecast(budget, least_s, likely_s, meters, daily, max_trials, told)


def by_control_set(spec: RigSpec, problem: Problem) -> tuple[float, ...] | None:
    """Return what a trial of each control set likely costs, currency units; None where a meter cannot be foretold."""
    if not spec.devices:
        return None
    space = problem.space
    alone = (replace(problem, space=replace(space, control_sets=(s,))) for s in space.control_sets)
    told = [forecast(spec, one) for one in alone]
    return None if told[0].unknown else tuple(f.likely or 0.0 for f in told)


def _ramp_s(spec: RigSpec) -> float:
    """Return the rig seconds of the slowest ramp from one setpoint to another, on average over both."""
    spans = [(limits.slew, limits.high - limits.low) for limits in spec.limits.values()]
    return max((slew.longest_s(span / 3) for slew, span in spans if slew is not None), default=0.0)


def _capped(cap: CapSpec, takes_ml: float) -> CapForecast:
    """Return the trials that fit a cap if one takes so much."""
    daily = min((most_ml / takes_ml * DAY_S / span_s for span_s, most_ml, _ in cap.windows), default=math.inf)
    return CapForecast(daily, None if cap.per_campaign_ml is None else math.floor(cap.per_campaign_ml / takes_ml))


def _meter(meter: MeterSpec, least_s: float, likely_s: float, volumes: Mapping[str, float]) -> MeterForecast:
    price = float(meter.mean_price)
    if meter.kind == "fixed":
        return MeterForecast(meter.name, price, price)
    if meter.kind == "time":
        return MeterForecast(meter.name, price * least_s / 3600, price * likely_s / 3600)
    used = volumes.get(meter.device or "") if meter.kind == "volume" else None
    if used is None and meter.rated_per_h is not None:
        used = meter.rated_per_h * likely_s / 3600
    return MeterForecast(meter.name, 0.0, None if used is None else price * used)


@dataclass(frozen=True, slots=True)
class _Dose:
    """Says what a pump gives in a trial, on average over all control sets."""

    volume_ml: float
    mixing_s: float


def _dose(spec: RigSpec, problem: Problem, wiring: VariableWiring, pump: str) -> _Dose:
    space = problem.space
    index = next(i for i, v in enumerate(space.variables) if v.name == wiring.name)
    variable = space.variables[index]
    share = sum(index in s.indices for s in space.control_sets) / len(space.control_sets)
    if pump in spec.volumes:
        given = spec.volumes[pump]
        mean_ml = share * (variable.low + variable.high) / 2 + (1 - share) * given.otherwise_ml
        return _Dose(mean_ml, given.mix_s if mean_ml else 0.0)
    dosing, most_ml = spec.dosing[pump], largest_dose_ml(spec, pump)
    volumes = _volumes(variable, dosing)
    doses = sum(math.ceil(v / most_ml) if most_ml else int(v > 0) for v in volumes) / len(volumes)
    return _Dose(share * sum(volumes) / len(volumes), share * doses * dosing.mix_s)


def largest_dose_ml(spec: RigSpec, pump: str) -> float | None:
    """Return the most that a pump may give at once, by its own cap and by those of the pumps that go along."""
    ratios = {pump: 1.0, **spec.partners.get(pump, {})}
    caps = [(spec.limits[p].per_dose_ml, r) for p, r in ratios.items() if p in spec.limits and r > 0]
    return min((cap / ratio for cap, ratio in caps if cap is not None), default=None)


def _volumes(variable: Variable, dosing: DosingSpec) -> list[float]:
    """Return the volumes that bring the variable from where it may be to where it may be sent, mL.

    A treatment leaves it at the far end of the range; the pump does nothing where it would have to go back.
    """
    import numpy as np  # noqa: PLC0415  # a fraction of a second that only rigs with pumps need

    shares = (np.arange(GRID) + 0.5) / GRID
    span, raises = variable.high - variable.low, dosing.effect_per_ml > 0
    nature = variable.marginal
    if isinstance(nature, TruncatedNormal):  # its quantiles would load SciPy
        nodes, weights = nature.rule(nature.scale)
        starts = variable.low + span * np.interp(shares, np.cumsum(weights) - weights / 2, nodes)
    else:
        starts = variable.low + span * nature.quantile(shares)
    if dosing.treatment is not None:
        starts = np.array([variable.low if raises else variable.high])
    missing = (variable.low + span * shares)[:, None] - starts[None, :]
    volumes = np.where(np.abs(missing) > dosing.tolerance, missing / dosing.effect_per_ml, 0.0)
    return [float(v) for v in np.maximum(volumes, 0.0).ravel()]
