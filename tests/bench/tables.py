"""Tables of results made up for tests: the contract's columns, with values whose summaries are known by hand."""

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

COLUMNS = (
    *("cell", "problem", "costs", "variance", "policy", "seed", "budget"),
    *("trial", "control_set", "phase", "cost", "spent", "y", "value"),
    *("simple", "quality", "cost_regret", "cost_varying", "inference", "recommended"),
    *("dear_input", "hypervolume", "decision_s"),
)

Setting = tuple[str, str, float, float]
"""Problem, costs, variance, budget."""
SEEDS = 4


def rows(
    policy: str,
    seed: int,
    simple: Sequence[float],
    *,
    costs: Sequence[float] | float = 1.0,
    sets: Sequence[str] | str = "x1+x2",
    setting: tuple[str, str, float, float] = ("toy", "moderate", 0.04, 10.0),
    best: float = 1.0,
    phase: Sequence[str] | str = "commit",
    **columns: Sequence[float],
) -> list[dict[str, Any]]:
    """One run: the instantaneous regret of each trial; cumulated columns follow from it unless they are given."""
    n = len(simple)
    each = [costs] * n if isinstance(costs, float) else list(costs)
    played = [sets] * n if isinstance(sets, str) else list(sets)
    phases = [phase] * n if isinstance(phase, str) else list(phase)
    problem, cost_set, variance, budget = setting
    out = []
    for t in range(n):
        row = {
            "cell": f"{problem}-{cost_set}-{variance}-{policy}-{seed}",
            "problem": problem,
            "costs": cost_set,
            "variance": variance,
            "policy": policy,
            "seed": seed,
            "budget": budget,
            "trial": t + 1,
            "control_set": played[t],
            "phase": phases[t],
            "cost": each[t],
            "spent": sum(each[: t + 1]),
            "y": best - simple[t],
            "value": best - simple[t],
            "simple": min(simple[: t + 1]),
            "quality": sum(simple[: t + 1]),
            "cost_regret": sum(each[: t + 1]),
            "cost_varying": sum(c * s for c, s in zip(each[: t + 1], simple[: t + 1], strict=True)),
            "inference": min(simple[: t + 1]),
            "recommended": played[t],
            "dear_input": float("nan"),
            "hypervolume": float("nan"),
            "decision_s": 0.01,
        }
        out.append(row | {name: values[t] for name, values in columns.items()})
    return out


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
