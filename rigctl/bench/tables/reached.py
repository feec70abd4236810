"""How much money one policy needs to get where another ended, of what the other took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import TYPE_CHECKING, Any

import numpy as np

from rigctl.bench.tables.results import (
    SCENARIO,
    PolicyScenario,
    Stat,
    policies_of,
    scenarios_of,
    steps,
    trials_of,
    within,
)

if TYPE_CHECKING:
    import pandas as pd

PLACES = 20
"""Even steps of the budget at which a recommendation was judged."""
NOISE = 0.01
"""Standard deviation of the noise of the bench's problems. A regret below it counts as it: nobody is asked to reach
what could not be told from it."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Ours against one other policy on one scenario, by inference regret, paired by seeds."""

    scenario: PolicyScenario
    other: str
    ours: Stat
    """Inference regret at the end."""
    theirs: Stat
    difference: Stat
    """Ours minus theirs."""
    money: float
    """What ours spent until it was first as good as theirs at the end, by what theirs spent until it first was."""
    never: int
    """Seeds on which ours never was. They count as if it had been at the end of the budget, which flatters ours."""


def reached(frame: pd.DataFrame, ours: str, others: Sequence[str]) -> tuple[Reached, ...]:
    """Return a row per scenario and other policy that share seeds with ours.

    Raises:
        UsageError: the table is not one of this bench.
    """
    trials = trials_of(frame)
    rows = []
    for scenario in scenarios_of(trials):
        runs = within(trials, [scenario])
        there = policies_of(runs)
        for other in (name for name in others if name in there and ours in there and name != ours):
            row = _row(scenario, runs, ours, other)
            rows += [row] if row is not None else []
    return tuple(rows)


def _row(scenario: PolicyScenario, runs: pd.DataFrame, ours: str, other: str) -> Reached | None:
    import pandas as pd  # noqa: PLC0415 - heavy, and an extra

    places = np.linspace(0.0, scenario.budget, PLACES + 1)[1:]
    regrets: Any = steps(runs, "inference", runs["spent"], places)
    pair = [regrets.xs(name, level="policy").droplevel(SCENARIO) for name in (ours, other)]
    seeds = pair[0].index.intersection(pair[1].index)
    mine, theirs = (table.loc[seeds].to_numpy(dtype=float) for table in pair)
    if not len(seeds) or np.isnan(theirs[:, -1]).any():
        return None
    bar = np.maximum(theirs[:, -1:], NOISE)
    there = [np.maximum(table, NOISE) <= bar for table in (mine, theirs)]
    never = ~there[0].any(axis=1)
    taken = np.where(never, PLACES, there[0].argmax(axis=1) + 1) / (there[1].argmax(axis=1) + 1)
    ends = mine[:, -1], theirs[:, -1], mine[:, -1] - theirs[:, -1]
    ours_end, their_end, difference = (Stat.of(pd.Series(values)) for values in ends)
    money = float(np.exp(np.log(taken).mean()))
    return Reached(scenario, other, ours_end, their_end, difference, money, int(never.sum()))


def reached_text(rows: Sequence[Reached]) -> str:
    """Return a line per row, and the geometric mean of the money."""
    lines = [
        f"{row.scenario}: {row.ours} against {row.other}'s {row.theirs} at the end, difference {row.difference}; "
        f"as good as that after {row.money:.0%} of the money"
        + (f" (never with {row.never} of {row.ours.n} seeds)" if row.never else "")
        for row in rows
    ]
    mean = exp(sum(log(row.money) for row in rows) / len(rows)) if rows else float("nan")
    return "\n".join([*lines, f"geometric mean of the money: {mean:.0%}"])
