"""What it costs to bring a variable to another value than the last trial left it at, learned from what trials cost.

A trial's cost is what its control set costs, and a part for each variable that was brought elsewhere: an oven that
heats up takes hours whatever follows. The parts are learned by linear regression with normal priors (MacKay 2003,
chapter 28), as what control sets cost is; where every trial has changed everything, the priors say how much of it was
for the change, and the next trials, which then keep what is dear to change, tell. The same as switching costs in
"snake" optimisation (Folch et al. 2022) and split-plot designs (Jones and Nachtsheim 2009), but unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log
from typing import Final

import numpy as np

from rigctl.core.bounds.ascent import snapped
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.problem import Problem

SAME: Final = 0.02
"""A variable within this share of its range is where it was: no rig brings it back exactly."""
SHARE: Final = 0.5
"""Of what a trial costs, so much is guessed beforehand to be for changes, give or take as much."""
SCALES: Final = (0.02, 0.06, 0.2, 0.6, 2.0)
"""How far control sets cost apart, and trials of one, as shares of the mean of all: the likeliest count."""
ALONE: Final = 0.3
"""Of what sets cost apart, so much is their own, not a matter of their variables."""
VAGUE: Final = 2.0
"""What all trials cost, and what a change does, are known beforehand to within so many times the mean of all trials."""
LEAST: Final = 0.05
"""What is left of a trial's cost without its changes is at least this share."""


@dataclass(frozen=True, slots=True, eq=False)
class Changeovers:
    """Hold what changes cost, and where the last trial left each variable."""

    parts: FloatArray
    """(d,), currency units; 0 where a change is not said to cost."""
    left_at: FloatArray
    """(d,), unit cube; nan for a variable that was let go, or nobody knows where it is."""

    @classmethod
    def of(cls, problem: Problem, history: History) -> Changeovers:
        """Learn them, of the variables that are said to cost when they are changed."""
        d = problem.space.dimension
        if not problem.changeovers:
            return cls(np.zeros(d), np.full(d, np.nan))
        changed, last = _changes(problem, history.observations)
        parts = np.zeros(d)
        parts[list(problem.changeovers)] = _learned(problem, history.observations, changed)
        # measured beside a level or beyond the range, it is kept by the setpoint that it was measured at
        return cls(parts, snapped(np.clip(last, 0.0, 1.0), problem.space.steps))

    def costs(self, members: Sequence[int], settings: FloatArray) -> FloatArray:
        """Return what trials that control these variables at settings (b, k) cost more, (b,), currency units."""
        columns = list(members)
        return np.asarray(np.logical_not(_same(settings, self.left_at[columns])) @ self.parts[columns])

    def kept(self, members: Sequence[int], setting: Sequence[float]) -> tuple[float, ...]:
        """Return the setting (k,) with every variable that is dear to change where it was left."""
        old = self.left_at[list(members)]
        stays = (self.parts[list(members)] > 0) & ~np.isnan(old)
        return tuple(np.where(stays, old, np.asarray(setting, dtype=float)).tolist())


def without(problem: Problem, history: History) -> History:
    """Return the history as it would be if no trial had changed anything: what control sets cost by themselves."""
    found = Changeovers.of(problem, history)
    if not found.parts.any():
        return history
    changed, _ = _changes(problem, history.observations)
    paid = changed @ found.parts[list(problem.changeovers)]
    trials = [
        replace(o, cost=to_micros(max(LEAST * to_units(o.cost), to_units(o.cost) - part))) if part else o
        for o, part in zip(history.observations, paid.tolist(), strict=True)
    ]
    return History.of(trials, history.memo, history.corrections)


def _same(settings: FloatArray, old: FloatArray) -> FloatArray:
    return np.asarray(np.abs(settings - old) <= SAME)  # never of nan


def _changes(problem: Problem, observations: Sequence[Observation]) -> tuple[FloatArray, FloatArray]:
    """Return which of `changeovers` each trial has changed, (n, c), and where the last one left everything, (d,)."""
    sets, left_at = problem.space.control_sets, np.full(problem.space.dimension, np.nan)
    changed = np.zeros((len(observations), len(problem.changeovers)))
    for row, o in enumerate(observations):
        if not o.charged:
            continue
        members = set(sets[o.control_set].indices) if o.control_set >= 0 else set()
        now = np.full(len(left_at), np.nan)
        for column in members if o.x is not None else ():
            now[column] = o.x[column]  # type: ignore[index]  # measured, by the condition above
        same = _same(now, left_at)
        changed[row] = [c in members and not same[c] for c in problem.changeovers]
        left_at = now
    return changed, left_at


def _learned(problem: Problem, observations: Sequence[Observation], changed: FloatArray) -> FloatArray:
    """Return what a change of each of `changeovers` costs, (c,), currency units: the regression's mean, not below 0."""
    rows = [r for r, o in enumerate(observations) if o.charged and o.cost_known and o.control_set >= 0 and o.x]
    count, masks = changed.shape[1], problem.space.masks
    costs = np.array([to_units(observations[r].cost) for r in rows])
    if not costs.size or not costs.mean() > 0:
        return np.zeros(count)
    y = costs / costs.mean() - SHARE  # around what is guessed to be for no change
    sets = [observations[r].control_set for r in rows]
    design = np.hstack([np.ones((len(rows), 1)), masks[sets], np.eye(len(masks))[sets], changed[rows]])
    guess = np.zeros(design.shape[1])
    guess[-count:] = SHARE / count
    gram, seen, left = design.T @ design, design.T @ (y - design @ guess), float(np.square(y - design @ guess).sum())
    best, found = -np.inf, guess
    for apart, scatter in product(SCALES, SCALES):
        each = apart / np.sqrt(problem.space.dimension)
        sd = np.repeat([VAGUE, each, ALONE * apart, VAGUE], [1, masks.shape[1], len(masks), count])
        inner = np.eye(len(sd)) + sd[:, None] * gram * sd / scatter**2
        solved = np.linalg.solve(inner, sd * seen / scatter**2)
        misfit = (left - float(seen @ (sd * solved))) / scatter**2
        likelihood = -0.5 * (misfit + np.linalg.slogdet(inner)[1]) - len(rows) * log(scatter)
        if likelihood > best:
            best, found = likelihood, guess + sd * solved
    return np.asarray(np.maximum(found[-count:], 0.0) * costs.mean())
