"""Curves over all seeds of a setting: regret, evaluations, hypervolume against metered cost or against trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Literal

import numpy as np

from rigctl.bench.tables.runs import Run, Setting, Stat
from rigctl.core.arrays import FloatArray

Axis = Literal["cost", "trial"]
POINTS = 120
"""Steps of the common grid of metered cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One quantity of one policy on one setting against cost or trials."""

    setting: Setting
    policy: str
    column: str
    axis: Axis
    at: FloatArray
    """(g,), currency or trial number."""
    mean: FloatArray
    """(g,); NaN where a seed has no value yet, or none any more: a mean over changing seeds would jump."""
    se: FloatArray
    """(g,), standard error of the mean; NaN for a single seed."""
    median: FloatArray
    low: FloatArray
    """(g,), lower quartile."""
    high: FloatArray
    """(g,), upper quartile."""
    n: int
    """Seeds."""


def cost_grid(budget: float, points: int = POINTS) -> FloatArray:
    """(points + 1,): 0 to the budget in even steps; 25, 50 and 100 % are among them when `points` divides by 4."""
    return np.linspace(0.0, budget, points + 1)


def curve_of(runs: Sequence[Run], column: str, axis: Axis = "cost", points: int = POINTS) -> Curve:
    """Of the runs of one policy on one setting.

    Against cost, each run is a step function: its last value before that cost, also after it ended early. Against
    trials, the curve ends where the first run does.

    Raises:
        ValueError: there are no runs, or of more than one policy or setting.
    """
    if len({(run.setting, run.policy) for run in runs}) != 1:
        raise ValueError(f"curve: got {len(runs)} runs, must be of one policy on one setting")
    setting, policy = runs[0].setting, runs[0].policy
    if axis == "cost":
        at = cost_grid(setting.budget, points)
        values = np.stack([run.at_cost(column, at) for run in runs])
    else:
        at = np.arange(0, max(int(run.numbers["trial"][-1]) for run in runs) + 1, dtype=float)
        values = np.stack([run.at_trial(column, at) for run in runs])
    mean, se, median, low, high = _over_seeds(values)
    return Curve(setting, policy, column, axis, at, mean, se, median, low, high, len(values))


def _over_seeds(values: FloatArray) -> tuple[FloatArray, ...]:
    """Mean, standard error, median and quartiles of (n, g), (g,) each."""
    n, count = values.shape
    everyone = np.isfinite(values).all(axis=0)
    unknown = np.full(count, nan)
    mean, se, median, low, high = (unknown.copy() for _ in range(5))
    present = values[:, everyone]
    mean[everyone] = present.mean(axis=0)
    if n > 1:
        se[everyone] = present.std(axis=0, ddof=1) / np.sqrt(n)
    low[everyone], median[everyone], high[everyone] = np.quantile(present, [0.25, 0.5, 0.75], axis=0)
    return mean, se, median, low, high


def settled_cost(runs: Sequence[Run], control_set: str) -> Stat:
    """Mean cost after which these runs of one policy only play that set; no runs counted unless every one settles."""
    settled = [run.settled_at(control_set) for run in runs]
    return Stat.of(settled) if np.isfinite(settled).all() else Stat(nan, nan, 0)
