"""What the budget and the pumps allow, against what is asked of them."""

from __future__ import annotations

import math
from typing import Final

from rigctl.config.findings import Context
from rigctl.config.forecast import forecast, largest_dose_ml
from rigctl.config.wording import lasting
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Variable
from rigctl.errors import KeyPath
from rigctl.rig.spec import DosingSpec, RigSpec

RARE: Final = 1e-4
"""Natural values further out are as good as never seen."""
_COUNTED: Final = (
    "budget",
    "variables",
    "control_sets",
    "trial",
    "meters",
    "devices",
    "dosing",
    "safety",
    "known_costs",
)
"""Sections that a trial's cost depends on."""


def check_budget(context: Context, spec: RigSpec, problem: Problem) -> None:
    """Find a budget that buys no trial, or fewer than there are control sets."""
    if any(context.findings.told_below((section,)) for section in _COUNTED):
        return
    told = forecast(spec, problem, context.config.max_trials)
    got, path = f'got "{context.config.budget["total"]}"', ("budget",)
    must = f"must be at least {_up(told.least)} {context.config.currency}, the least that one trial costs"
    if told.least > told.budget:
        because = f": a trial takes at least {lasting(told.least_s)}" if told.least_s else ""
        context.findings.add(path, f"{got}, {must}{because}; raise it")
        return
    if problem.cost_ceiling is not None and told.least > problem.cost_ceiling:
        context.findings.add(("budget", "max_per_trial"), f"got {problem.cost_ceiling:g}, {must}; raise it")
        return
    trials, sets = told.buys(told.likely), len(problem.space.control_sets)
    if trials is not None and trials < sets and context.config.max_trials is None:
        enough = f"{_up(sets * (told.likely or 0.0))} {context.config.currency}"
        what = f"{got}, which likely buys {trials} of the {sets} trials that play every control set once"
        context.findings.warn(path, f"{what}, must be about {enough} for them; raise it, or list fewer control sets")


def _up(amount: float) -> str:
    """Write an amount that is no less."""
    return f"{math.ceil(amount * 1e3 - 1e-6) / 1e3:g}"


def check_doses(context: Context, spec: RigSpec, variable: Variable) -> None:
    """Find setpoints that a pump does not reach in so many doses of such a size."""
    for pump in next((v.actuators for v in spec.variables if v.name == variable.name), ()):
        parts: list[KeyPath] = [
            ("dosing", pump),
            *(("safety", "limits", p) for p in (pump, *spec.partners.get(pump, ()))),
        ]
        most_ml = largest_dose_ml(spec, pump)
        if pump in spec.dosing and most_ml and not any(map(context.findings.told_below, parts)):
            _check_pump(context, spec, variable, pump, most_ml)


def _check_pump(context: Context, spec: RigSpec, variable: Variable, pump: str, most_ml: float) -> None:
    dosing, path = spec.dosing[pump], ("dosing", pump, "max_doses")
    reach = dosing.max_doses * most_ml * abs(dosing.effect_per_ml) + dosing.tolerance
    nearest, furthest, end = _ways(variable, dosing)
    if furthest <= reach:
        return
    needed = math.ceil((furthest - dosing.tolerance) / (most_ml * abs(dosing.effect_per_ml)))
    from_where = "from where its treatment leaves it" if dosing.treatment is not None else "from all natural values"
    got = f"got {dosing.max_doses} doses of at most {most_ml:g} mL, which move {variable.name} by "
    got += f"{reach - dosing.tolerance:.3g} {variable.unit}"
    must = f"must be {needed} to reach the setpoint {end:g} {from_where}"
    remedy = f"; or raise safety.limits.{pump}.per_dose to {_volume(furthest, dosing, most_ml)}, or narrow the range"
    find = context.findings.add if nearest > reach and dosing.treatment is None else context.findings.warn
    find(path, f"{got}, {must}{remedy}")


def _ways(variable: Variable, dosing: DosingSpec) -> tuple[float, float, float]:
    """Return the shortest and the longest way to the furthest setpoint, and this, in the variable's unit.

    A pump goes its own way only: what lies on the other side is another pump's, or refused.
    """
    import numpy as np  # noqa: PLC0415  # a fraction of a second that only rigs with pumps need

    span = variable.high - variable.low
    raises = dosing.effect_per_ml > 0
    end = variable.high if raises else variable.low
    if dosing.treatment is not None:
        return span, span, end
    ways = end - (variable.low + span * variable.marginal.quantile(np.array([RARE, 1 - RARE])))
    ways = np.maximum(ways if raises else -ways, 0.0)
    return float(ways.min()), float(ways.max()), end


def _volume(furthest: float, dosing: DosingSpec, most_ml: float) -> str:
    needed = (furthest - dosing.tolerance) / abs(dosing.effect_per_ml) / dosing.max_doses
    return f"{math.ceil(10 * max(needed, most_ml)) / 10:g} mL"
