"""The lines of a rule in engineering units, rounded as a person would write them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

import numpy as np

from rigctl.core.advice.rule import Between, RuleLine, Setting, Slope
from rigctl.core.advice.rules.lines import Leaf
from rigctl.core.advice.rules.planner import FoundRule, Planner
from rigctl.core.advice.rules.readings import Readings
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.space import Variable

FINE = 200
"""Parts of a range that settings are rounded to."""


def written(planner: Planner, found: FoundRule) -> Iterator[RuleLine]:
    """Write the lines down, without what they are worth; readings count from what is usual where the line holds."""
    left, read = np.ones(len(found.readings.days), dtype=bool), found.readings.read()
    for leaf in found.leaves:
        mine = left & leaf.holds(found.readings.days)
        left &= ~mine
        yield _line(planner, found, leaf, np.median(read[mine if mine.any() else slice(None)], axis=0))


def _line(planner: Planner, found: FoundRule, leaf: Leaf, middle: FloatArray) -> RuleLine:
    space, formula = planner.problem.space, found.formulas[leaf.formula]
    chosen = space.control_sets[formula.control_set]
    at = formula.settings(middle[None])[0]
    return RuleLine(
        when=tuple(_conditions(space.variables, found.readings, leaf)),
        control_set=chosen.names,
        settings=tuple(
            _setting(space.variables, column, float(at[k]), formula.slopes[k], middle)
            for k, column in enumerate(chosen.indices)
        ),
        share=0.0,
        expected=0.0,
        low=0.0,
        high=0.0,
        cost_per_trial=None,
        trials=planner.history.trials_of(formula.control_set),
    )


def _conditions(variables: Sequence[Variable], readings: Readings, leaf: Leaf) -> Sequence[Between]:
    found = []
    for column, (variable, own) in enumerate(zip(variables, readings.levels, strict=True)):
        edges = [
            None if level in (0, len(own)) else _between(variable, float(own[level - 1]), float(own[level]))
            for level in (int(leaf.low[column]), min(int(leaf.high[column]), len(own)))
        ]
        if edges != [None, None]:
            found.append(Between(variable.name, *edges))
    return found


def _between(variable: Variable, below: float, above: float) -> float:
    """Return the number of fewest digits above one reading and not above the other, engineering units."""
    span = variable.high - variable.low
    low, high = variable.low + span * below, variable.low + span * above
    for decimals in range(_decimals(span) - 2, 16):
        value = round(ceil(low * 10.0**decimals + 1e-9) / 10.0**decimals, decimals)
        if low < value <= high:
            return value
    return high


def _decimals(span: float) -> int:
    """Return with how many decimals a setting of such a range is written."""
    return ceil(-log10(span / FINE))


def _setting(variables: Sequence[Variable], column: int, at: float, slopes: FloatArray, middle: FloatArray) -> Setting:
    v = variables[column]
    span = v.high - v.low
    decimals = _decimals(span)
    follows = []
    for other in np.flatnonzero(slopes).tolist():
        r = variables[other]
        per_unit = float(slopes[other]) * span / (r.high - r.low)
        rounded = round(per_unit, 1 - floor(log10(abs(per_unit))))
        about = round(r.low + (r.high - r.low) * float(middle[other]), _decimals(r.high - r.low))
        follows.append(Slope(r.name, about, rounded))
    own = round(v.low + span * at, decimals + 1) if follows else v.setpoint(at)
    return Setting(v.name, own, tuple(follows), v.low, v.high, v.step)
