"""Tables of results made up for tests: the contract's columns, with values whose summaries are known by hand."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

COLUMNS = (
    *("cell", "problem", "costs", "variance", "policy", "seed", "budget"),
    *("trial", "control_set", "phase", "cost", "spent", "y", "value"),
    *("simple", "quality", "cost_regret", "cost_varying", "inference", "recommended"),
    *("dear_input", "hypervolume", "decision_s"),
)

SEEDS = 4
Setting = tuple[str, str, float, float]


def rows(
    policy: str,
    seed: int,
    simple: Sequence[float],
    *,
    costs: Sequence[float] | float = 1.0,
    sets: Sequence[str] | str = "x1+x2",
    setting: Setting = ("toy", "moderate", 0.04, 10.0),
    best: float = 1.0,
    phase: Sequence[str] | str = "commit",
    **columns: Sequence[float],
) -> list[dict[str, Any]]:
    """One run: the instantaneous regret of each trial; cumulated columns follow from it unless they are given."""
    problem, cost_set, variance, budget = setting
    regret, cost = np.array(simple), np.broadcast_to(np.array(costs, dtype=float), len(simple))
    values = (
        *(f"{problem}-{cost_set}-{variance}-{policy}-{seed}", problem, cost_set, variance, policy, seed, budget),
        *(range(1, len(regret) + 1), sets, phase, cost, cost.cumsum(), best - regret, best - regret),
        *(np.minimum.accumulate(regret), regret.cumsum(), cost.cumsum(), (cost * regret).cumsum()),
        *(np.minimum.accumulate(regret), sets, np.nan, np.nan, 0.01),
    )
    made = {**dict(zip(COLUMNS, values, strict=True)), **columns}
    told = [np.broadcast_to(np.array(column, dtype=object), len(regret)) for column in made.values()]
    return [dict(zip(made, row, strict=True)) for row in zip(*told, strict=True)]


def ending(
    policy: str, regret: float, setting: Setting, seeds: int = SEEDS, **columns: Any
) -> list[list[dict[str, Any]]]:
    """Runs that start at regret 2 and end at about that one, a little different for each seed."""
    half = setting[3] / 2
    return [
        rows(policy, s, [2.0, regret * (1 + 0.01 * s)], costs=half, setting=setting, best=2.0, **columns)
        for s in range(seeds)
    ]


def frame(runs: Iterable[list[dict[str, Any]]]) -> pd.DataFrame:
    table = [row for run in runs for row in run]
    further = sorted({name for row in table for name in row} - set(COLUMNS))
    return pd.DataFrame(table, columns=[*COLUMNS, *further])
