"""What a person who writes down a trial may have mistyped: looked for before it is kept, and asked about.

A doubt is no mistake: whoever knows better says so, and it is recorded as it was written.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from statistics import median

import numpy as np

from rigctl.config.load import LoadedConfig
from rigctl.console.by_hand import ManualRow, observation
from rigctl.core.experiment.history import History
from rigctl.core.experiment.space import Variable
from rigctl.core.money import to_units
from rigctl.core.natural import Learned

MARGIN = 0.25
"""Of the range's width: so far beyond it a reading raises no doubt, for what is left alone drifts."""
SLIP = 0.01
"""The same of what was set: an actuator cannot leave its range."""
FEWEST = 3
"""From so many trials on they say what is usual."""
FAR = 3.0
"""Outcomes may lie so many times the width of those seen beyond them."""
COSTS_FAR = 100.0
"""A cost may be so many times the usual one, or so small a part of it."""
LIKELY = 0.999
"""Share of what a variable left alone is declared to do that raises no doubt."""


def doubts(loaded: LoadedConfig, known: History, rows: Sequence[ManualRow], today: datetime) -> tuple[str, ...]:
    """Return what looks mistyped, a sentence each; each row is held against those before it."""
    found = []
    for number, row in enumerate(rows, start=len(known) + 1):
        here = [*_out_of_range(loaded, row), *_far_outcome(loaded, known, row), *_odd_cost(loaded, known, row)]
        if row.known.date and _is_later(row.known.date, today):
            here.append(f"date: {row.known.date} is yet to come")
        found += [f"{row.where}: {what}" if row.where else what for what in here]
        known = known.append(observation(number, row, loaded.problem.space))
    return tuple(found)


def _out_of_range(loaded: LoadedConfig, row: ManualRow) -> list[str]:
    found = []
    for variable in loaded.problem.space.variables:
        value, low, high = row.values.get(variable.name), *_usual(variable)
        margin = MARGIN * (high - low)
        if value is not None and not low - margin <= value <= high + margin:
            found.append(_beyond(variable, value, low, high, variable.name))
        value, slip = row.setpoints.get(variable.name), SLIP * (variable.high - variable.low)
        if value is not None and not variable.low - slip <= value <= variable.high + slip:
            found.append(_beyond(variable, value, variable.low, variable.high, f"setpoint of {variable.name}"))
    return found


def _usual(variable: Variable) -> tuple[float, float]:
    """Return the range of setpoints, and what it does when it is left alone; engineering units."""
    low, high = variable.low, variable.high
    if isinstance(variable.marginal, Learned):
        return low, high
    tail = (1 - LIKELY) / 2
    left, right = (float(q) for q in low + (high - low) * variable.marginal.quantile(np.array([tail, 1 - tail])))
    return min(low, left), max(high, right)


def _beyond(variable: Variable, value: float, low: float, high: float, name: str) -> str:
    far = value - high if value > high else low - value
    side, unit = ("above" if value > high else "below"), f" {variable.unit}".rstrip()
    likely = [v for v in (value / 10, value / 100, value / 1000, value * 10) if low <= v <= high]
    meant = f"; was {likely[0]:g} meant?" if likely else ""
    return f"{name}: {value:g}{unit} is {far:.3g}{unit} {side} its range of {low:g} to {high:g}{meant}"


def _far_outcome(loaded: LoadedConfig, known: History, row: ManualRow) -> list[str]:
    found = []
    floors = [loaded.problem.floor, *(f.floor for f in loaded.problem.further)]
    signs = [loaded.problem.maximise, *(f.maximise for f in loaded.problem.further)]
    mine = (row.outcome, *row.further)
    for k, (name, value) in enumerate(zip(loaded.rig.outcome_names, mine, strict=False)):
        if value is None:
            continue
        floor, maximise = floors[k], signs[k]
        if floor is not None and (value < floor if maximise else value > floor):
            found.append(f"{name}: {value:g} is worse than the floor of {floor:g} that the configuration declares")
        seen = known.outcomes[:, k] if len(known.complete) and known.outcomes.shape[1] > k else np.empty(0)
        seen = seen[np.isfinite(seen)]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (0.0, 0.0)
        width, far = high - low, max(low - value, value - high)
        if seen.size >= FEWEST and width > 0 and far > FAR * width:
            found.append(
                f"{name}: {value:g} is {far / width:.3g} times the width of the {seen.size} outcomes seen "
                f"({low:g} to {high:g}) away from them"
            )
    return found


def _odd_cost(loaded: LoadedConfig, known: History, row: ManualRow) -> list[str]:
    costs = [to_units(o.cost) for o in known.observations if o.cost_known and o.cost > 0]
    amount = row.known.amount if row.known.amount is not None else row.cost
    cost, currency = to_units(amount), loaded.currency
    usual = median(costs) if len(costs) >= FEWEST else None
    if usual is not None and cost > COSTS_FAR * usual:
        return [f"cost: {cost:g} {currency} is {cost / usual:.3g} times the usual {usual:g} {currency}"]
    if usual is not None and 0 < cost < usual / COSTS_FAR:
        return [f"cost: {cost:g} {currency} is a {usual / cost:.3g}th of the usual {usual:g} {currency}"]
    budget = to_units(loaded.problem.budget)
    if cost > budget:
        return [f"cost: {cost:g} {currency} is more than the whole budget of {budget:g} {currency}"]
    return []


def _is_later(written: str, today: datetime) -> bool:
    try:
        return datetime.fromisoformat(written).date() > today.date()
    except ValueError:
        return False  # written in another way
