"""Regrets of a simulated campaign (algorithms, section 1), as columns with one entry per charged trial."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.problems.truth import Truth
from rigctl.bench.running.campaign import Campaign, Play
from rigctl.core.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.money import to_units
from rigctl.core.policy import trial_rng
from rigctl.core.recommend import recommend

TOLERANCE = 0.1
"""alpha of the quality and cost regrets (U, Experiments)."""
CHECKPOINTS = 20
"""Even steps of the budget at which a recommendation is asked for; 25, 50 and 100 % are among them."""


def columns(bench: BenchProblem, campaign: Campaign) -> dict[str, list[Any]]:
    """Everything of the table besides the cell's key."""
    plays, history = campaign.plays, campaign.history
    charged = history.observations[len(history) - len(plays) :]
    spent = np.cumsum([o.cost for o in charged], dtype=np.int64)
    labels = bench.space.control_sets
    table: dict[str, list[Any]] = {
        "trial": [o.trial for o in charged],
        "control_set": [labels[p.proposal.control_set].label for p in plays],
        "phase": [p.proposal.phase for p in plays],
        "cost": [to_units(o.cost) for o in charged],
        "spent": [to_units(int(s)) for s in spent],
        "y": [o.y for o in charged],
    }
    table |= _of_truth(bench, campaign, spent)
    if bench.progress is None:
        table |= {"dear_input": [np.nan] * len(plays), "hypervolume": [np.nan] * len(plays)}
    else:
        progress = bench.progress(history)
        table |= {"dear_input": progress.dear_input.tolist(), "hypervolume": progress.hypervolume.tolist()}
        table |= {f"used_{i + 1}": used.tolist() for i, used in enumerate(progress.used.T)}
    return {**table, "decision_s": [p.decision_s for p in plays]}


def _of_truth(bench: BenchProblem, campaign: Campaign, spent: IntArray) -> dict[str, list[Any]]:
    count, truth = len(campaign.plays), bench.truth
    if truth is None:
        names = ("value", "simple", "quality", "cost_regret", "cost_varying", "inference")
        return {**{name: [np.nan] * count for name in names}, "recommended": [""] * count}
    value = true_values(truth, campaign.plays, len(bench.space.control_sets))
    costs = np.array([bench.costs.mean(p.proposal.control_set, p.proposal.setting) for p in campaign.plays])
    inference, recommended = _inference(truth, campaign, checkpoint_rows(spent, campaign.problem.budget))
    found = regrets(truth, value, costs, good_cost(bench, truth), known=known_beforehand(truth, campaign))
    return {
        "value": value.tolist(),
        **{name: column.tolist() for name, column in found.items()},
        "inference": inference,
        "recommended": recommended,
    }


def true_values(truth: Truth, plays: Sequence[Play], sets: int) -> FloatArray:
    """F of every played setting, (T,)."""
    out = np.empty(len(plays))
    for i in range(sets):
        rows = [t for t, p in enumerate(plays) if p.proposal.control_set == i]
        if rows:
            out[rows] = truth.value(i, np.array([plays[t].proposal.setting for t in rows], dtype=float))
    return out


def good_cost(bench: BenchProblem, truth: Truth, tolerance: float = TOLERANCE) -> float:
    """c_i*: the mean cost of the cheapest set whose best is within the tolerance, at its best."""
    most = max(b.value for b in truth.best)
    bar = truth.floor + (1 - tolerance) * (most - truth.floor)
    return min(bench.costs.mean(i, b.setting) for i, b in enumerate(truth.best) if b.value >= bar)


def known_beforehand(truth: Truth, campaign: Campaign) -> float:
    """Best value of the free initial points where they are settings: under one control set of every variable.

    There the papers count them (Xie et al., section 4); elsewhere a point shows no setting's value. -inf without any.
    """
    space, first = campaign.problem.space, len(campaign.history) - len(campaign.plays)
    if not first or [len(s.indices) for s in space.control_sets] != [space.dimension]:
        return -np.inf
    points = campaign.history.x[:first, list(space.control_sets[0].indices)]
    return float(truth.value(0, points).max())


def regrets(
    truth: Truth,
    value: FloatArray,
    costs: FloatArray,
    cheapest: float,
    tolerance: float = TOLERANCE,
    *,
    known: float = -np.inf,
) -> dict[str, FloatArray]:
    """After every trial: simple (the least so far), and quality, cost and cost-varying regret (cumulated).

    Args:
        truth: for the best value and the floor; quality regret is measured above the floor, as the tolerance is.
        value: (T,), F of the played settings.
        costs: (T,), mean costs of the played trials.
        cheapest: c_i*.
        tolerance: alpha.
        known: the best value known before the first trial, which simple regret begins with.
    """
    most = max(b.value for b in truth.best)
    gap = most - value
    return {
        "simple": np.minimum.accumulate(np.minimum(gap, most - known)),
        "quality": np.cumsum(gap - tolerance * (most - truth.floor)),
        "cost_regret": np.cumsum(np.maximum(costs - cheapest, 0.0)),
        "cost_varying": np.cumsum(costs * gap),
    }


def checkpoint_rows(spent: IntArray, budget: int) -> list[int]:
    """The last row whose cumulated cost is within each step of the budget; exact, as both are micro-units."""
    limits = [budget * k // CHECKPOINTS for k in range(1, CHECKPOINTS + 1)]
    rows = np.searchsorted(spent, limits, side="right") - 1
    return sorted({int(r) for r in rows if r >= 0})


def _inference(truth: Truth, campaign: Campaign, rows: Sequence[int]) -> tuple[list[float], list[str]]:
    """Inference regret and recommended set where they are computed, NaN and "" elsewhere."""
    count, most = len(campaign.plays), max(b.value for b in truth.best)
    regret, labels = [float("nan")] * count, [""] * count
    for row in rows:
        control_set, setting = recommended_after(campaign, row)
        value = truth.value(control_set, np.array([setting]))[0]
        regret[row] = float(most - value)
        labels[row] = campaign.problem.space.control_sets[control_set].label
    return regret, labels


def recommended_after(campaign: Campaign, row: int) -> tuple[int, tuple[float, ...]]:
    """What an operator would be told to run after that trial, at tolerance 0: set and setting (k,), unit cube."""
    initial = len(campaign.history) - len(campaign.plays)
    history = History(campaign.history.observations[: initial + row + 1])
    stored = campaign.plays[row].state.get("hyperparameters")
    known = Hyperparameters.from_json(stored) if stored else None
    rng = trial_rng(campaign.policy_seed, row + 2)
    choice = recommend(campaign.problem, history, rng, 0.0, known).choice
    space = campaign.problem.space
    control_set = space.index_of(choice.control_set)
    # the bench's variables run from 0 to 1, so engineering units are those of the cube
    return control_set, tuple(choice.setpoints[name] for name in space.control_sets[control_set].names)
