"""What a person who writes down a trial may have mistyped: looked for before it is kept, and asked about.

A doubt is no mistake: whoever knows better says so, and it is recorded as it was written.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from rigctl.config.load import LoadedConfig
from rigctl.console.by_hand import ManualRow
from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.space import Variable
from rigctl.core.money import Micros, to_units
from rigctl.core.natural import Learned
from rigctl.printable import in_full

MARGIN = 0.25
"""Of the range's width: so far beyond it a reading raises no doubt, for what is left alone drifts."""
SLIP = 0.01
"""The same of what was set: an actuator cannot leave its range."""
FEWEST = 3
"""From so many other trials on they say what is usual."""
FAR, FAR_OF_FEW = 3.0, 30.0
"""Outcomes may lie so many times the width of those seen beyond them; the second, while these are fewer than `ENOUGH`:
a handful of trials at like settings lie close together, and the next suggestion may be at an edge."""
ENOUGH = 8
COSTS_FAR = 100.0
"""A cost may be so many times the usual one, or so small a part of it."""
ANYTHING = (-math.inf, math.inf)
LIKELY = 0.999
"""Share of what a variable left alone is declared to do that raises no doubt."""


def doubts(loaded: LoadedConfig, known: History, rows: Sequence[ManualRow], today: datetime) -> tuple[str, ...]:
    """Return what looks mistyped, a sentence each; each row is held against all others, those of the list too."""
    usual = _Usual.of(loaded, known, rows)
    found = []
    for row in rows:
        here = [*_out_of_range(loaded, row), *_far_outcome(loaded, usual, row), *_odd_cost(loaded, usual, row)]
        if row.known.date and (odd := _odd_date(row.known.date, today)):
            here.append(f"date: {row.known.date} {odd}")
        found += [f"{row.where}: {what}" if row.where else what for what in here]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Usual:
    """Says what is usual."""

    outcomes: tuple[FloatArray, ...]
    """Of each outcome all that were seen, rising."""
    costs: tuple[int, float]
    """How many are known, and their median, currency units."""

    @classmethod
    def of(cls, loaded: LoadedConfig, known: History, rows: Sequence[ManualRow]) -> _Usual:
        seen = []
        for k in range(len(loaded.rig.outcome_names)):
            before = known.outcomes[:, k] if len(known.complete) and known.outcomes.shape[1] > k else np.empty(0)
            here = [y for row in rows if (y := _outcome(row, k)) is not None]
            pool = np.concatenate([before, here])
            seen.append(np.sort(pool[np.isfinite(pool)]))
        costs = [to_units(o.cost) for o in known.observations if o.cost_known and o.cost > 0]
        costs += [to_units(amount) for row in rows if (amount := _amount(row)) > 0]
        return cls(tuple(seen), (len(costs), float(np.median(costs)) if costs else 0.0))


def _outcome(row: ManualRow, k: int) -> float | None:
    mine = (row.outcome, *row.further)
    return mine[k] if k < len(mine) else None


def _amount(row: ManualRow) -> Micros:
    return row.known.amount if row.known.amount is not None else row.cost


def _out_of_range(loaded: LoadedConfig, row: ManualRow) -> list[str]:
    found = []
    for variable in loaded.problem.space.variables:
        value, low, high = row.values.get(variable.name), *_usual(variable)
        margin, (least, most) = MARGIN * (high - low), loaded.plausible.get(variable.name, ANYTHING)
        if value is not None and not max(low - margin, least) <= value <= min(high + margin, most):
            found.append(_beyond(variable, value, low, high, variable.name))
        value, slip = row.setpoints.get(variable.name), SLIP * (variable.high - variable.low)
        if value is not None and not variable.low - slip <= value <= variable.high + slip:
            found.append(_beyond(variable, value, variable.low, variable.high, f"setpoint of {variable.name}"))
    return found


def _usual(variable: Variable) -> tuple[float, float]:
    """Return the range of setpoints, and what it does when it is left alone; engineering units."""
    low, high = variable.low, variable.high
    marginal, tail = variable.marginal, (1 - LIKELY) / 2
    ends = (
        np.array([marginal.low, marginal.high])
        if isinstance(marginal, Learned)
        else marginal.quantile(np.array([tail, 1 - tail]))
    )
    left, right = (float(end) for end in low + (high - low) * ends)
    return min(low, left), max(high, right)


def _beyond(variable: Variable, value: float, low: float, high: float, name: str) -> str:
    far = value - high if value > high else low - value
    side, unit = ("above" if value > high else "below"), f" {variable.unit}".rstrip()
    likely = [v for v in (value / 10, value / 100, value / 1000, value * 10) if low <= v <= high]
    meant = f"; was {likely[0]:g} meant?" if likely else ""
    return f"{name}: {value:g}{unit} is {far:.3g}{unit} {side} its range of {low:g} to {high:g}{meant}"


def _far_outcome(loaded: LoadedConfig, usual: _Usual, row: ManualRow) -> list[str]:
    found = []
    floors = [loaded.problem.floor, *(f.floor for f in loaded.problem.further)]
    maximise = [loaded.problem.maximise, *(f.maximise for f in loaded.problem.further)]
    for k, name in enumerate(loaded.rig.outcome_names):
        value, floor, seen = _outcome(row, k), floors[k], usual.outcomes[k]
        if value is None:
            continue
        least, most = loaded.plausible.get(name, ANYTHING)
        if value < least or value > most:
            found.append(f"{name}: {value:g} is outside the plausible {least:g} to {most:g}")
        if floor is not None and (value < floor if maximise[k] else value > floor):
            found.append(f"{name}: {value:g} is worse than the floor of {floor:g} that the configuration declares")
        if len(seen) <= FEWEST:  # itself is among them
            continue
        low, high = (float(v) for v in (seen[1 if value <= seen[0] else 0], seen[-2 if value >= seen[-1] else -1]))
        width, far = high - low, max(low - value, value - high)
        if width > 0 and far > (FAR if len(seen) > ENOUGH else FAR_OF_FEW) * width:
            found.append(
                f"{name}: {value:g} is {in_full(far / width, 3)} times the width of the {len(seen) - 1} others "
                f"({low:g} to {high:g}) away from them"
            )
    return found


def _odd_cost(loaded: LoadedConfig, usual: _Usual, row: ManualRow) -> list[str]:
    cost, currency = to_units(_amount(row)), loaded.currency
    count, middle = usual.costs
    told, usually = f"cost: {in_full(cost, 6)} {currency} is", f"the usual {in_full(middle, 6)} {currency}"
    if count > FEWEST and cost > COSTS_FAR * middle:
        return [f"{told} {in_full(cost / middle, 3)} times {usually}"]
    if count > FEWEST and 0 < cost < middle / COSTS_FAR:
        return [f"{told} {in_full(middle / cost, 3)} times less than {usually}"]
    budget = to_units(loaded.problem.budget)
    if cost > budget:
        return [f"{told} more than the whole budget of {in_full(budget, 6)} {currency}"]
    return []


def _odd_date(written: str, today: datetime) -> str:
    try:
        return "is yet to come" if datetime.fromisoformat(written).date() > today.date() else ""
    except ValueError:  # or written in another way
        return "is no day of the calendar" if re.match(r"\d{4}-\d\d-\d\d", written) else ""
