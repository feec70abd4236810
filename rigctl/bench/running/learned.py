"""The rule that a campaign has learned: for every reading what promises most there, one standard deviation off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rigctl.bench.problems.rules import Ways
from rigctl.bench.problems.truth import sobol
from rigctl.core.arrays import FloatArray, IntArray
from rigctl.core.bounds.expectations import Expectations, ValueSpread
from rigctl.core.bounds.levels import climb_on_grid, snapped
from rigctl.core.experiment.history import History, Look
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.model import fit_history
from rigctl.core.natural import persistences, present
from rigctl.core.persistence import conditioned
from rigctl.core.recommend import DOUBT

SETTINGS = (32, 128, 512)
"""Of the whole cube, for a control set of one, two, and more variables; beside all trials."""
SCOUTS = 24
"""Readings from whose best settings all control sets climb; what they find is weighed at every reading."""
JUDGED = 4
"""Settings of a control set whose spread is computed at a reading: those with the best means."""
TOLERANCE = 1e-4


def learned_rule(
    problem: Problem, history: History, readings: FloatArray, known: Hyperparameters | None = None
) -> Ways:
    """Return what would be done at each of the readings (N, d), unit cube, by what the history says.

    Args:
        problem: as its policy was told.
        history: all trials, with what was read before them.
        readings: unit cube.
        known: hyper-parameters of the last fit.
    """
    trusted, error = persistences(problem, history), next(o.look.sd for o in history.observations[::-1] if o.look)
    usual = present(replace(problem, look=None), history)[0]
    looks = [Look(tuple(map(float, row)), error) for row in readings]
    spaces = [conditioned(usual, trusted, look).space for look in looks]
    weighing = _Weighing(Expectations.over(fit_history(problem, history, known).posterior, spaces), usual.space)
    count = len(usual.space.control_sets)
    every = [weighing.screened(i) for i in range(count)]
    best = [weighing.best(i, pool) for i, pool in enumerate(every)]
    scouts = np.linspace(0, len(spaces) - 1, min(SCOUTS, len(spaces))).astype(int)
    for i, (points, _) in enumerate(best):
        found = weighing.climbed(points[scouts], scouts * count + i)
        best[i] = weighing.best(i, np.concatenate([every[i], found]))
    sets = np.argmax([worth for _, worth in best], axis=0)
    rows = np.arange(len(sets))
    chosen = np.stack([points for points, _ in best])[sets, rows]
    return Ways(sets, weighing.climbed(chosen, rows * count + sets))


class _Weighing:
    """Weighs settings by mean less `DOUBT` standard deviations, at all readings at once. Standardised."""

    def __init__(self, expectations: Expectations, space: Space) -> None:
        self.e, self.space, self.spread = expectations, space, ValueSpread(expectations)

    def rows(self, control_set: int) -> IntArray:
        """Return that set's rows of the expectations, (N,), reading by reading."""
        return np.arange(control_set, len(self.e.mask), len(self.space.control_sets))

    def screened(self, control_set: int) -> FloatArray:
        """Return settings of a control set to look at, (s, d), unit cube."""
        size = min(len(self.space.control_sets[control_set].indices), len(SETTINGS))
        trials = np.clip(self.e.posterior.x, 0.0, 1.0)
        return snapped(np.concatenate([sobol(self.space.dimension, SETTINGS[size - 1]), trials]), self.space.steps)

    def best(self, control_set: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return which of the settings (s, d) is best at every reading, (N, d), and its worth, (N,)."""
        e, rows = self.e, self.rows(control_set)
        inner = e.inner(points, np.full(len(points), control_set))
        means = e.posterior.hyperparameters.mean + e.alpha[rows] @ inner.T
        few = min(JUDGED, len(points))
        top = np.argpartition(-means, few - 1, axis=1)[:, :few]
        sd = self.spread.sd(inner[top.ravel()], np.repeat(rows, few)).reshape(top.shape)
        worth = np.take_along_axis(means, top, axis=1) - DOUBT * sd
        pick, every = worth.argmax(axis=1), np.arange(len(rows))
        return points[top[every, pick]], worth[every, pick]

    def climbed(self, starts: FloatArray, rows: IntArray) -> FloatArray:
        """Return where climbs from settings (b, d) end, (b, d), each at the control set and reading of its row (b,)."""
        e, h = self.e, self.e.posterior.hyperparameters

        def worth(points: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
            return e.value_and_gradient(points, rows[index], np.full(len(index), -DOUBT), self.spread)

        scales, steps, tolerance = np.array(h.lengthscales), self.space.steps, TOLERANCE * h.signal_sd
        return climb_on_grid(
            worth, starts, e.mask[rows], np.arange(len(starts)), scales, steps=steps, tolerance=tolerance, few=0
        ).points
