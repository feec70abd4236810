"""Problems of two outcomes (Abdolshah et al., Experiments), and how a policy does on them (algorithms, section 4.5).

Everything is turned so that larger is better, inputs are on the unit cube, and outcomes are mapped to about [0, 1], as
in the paper. There is no noise; a trial costs 1, so the budget is a number of trials.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from rigctl.bench.problems.problem import BenchProblem, TrialCosts, one_set
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History
from rigctl.core.experiment.problem import FurtherOutcome
from rigctl.core.multi_objective.trade_off import hypervolume

ZDT3_LEAST = 0.7733691
"""Minus the least f2 of ZDT3."""
TRAY_BEST, TABLE_BEST = 2.06261, 19.2085
"""Minus the least values of cross-in-tray and Hoelder table."""


def zdt3(dimension: int = 5, *, mapped: bool = True) -> BenchProblem:
    """Return T3 of Zitzler, Deb and Thiele (2000): a front of five pieces, along x1, where all others are 0.

    f1 = x1, f2 = g (1 - sqrt(f1/g) - f1/g sin(10 pi f1)), g = 1 + 9 mean(x2 ... xd); f2 in [-0.774, 10], both small.
    Not mapped (`zdt3-unscaled`), the values are -f1 and -f2, and hypervolumes are larger by f2's range, 10.773.
    """

    def f(x: FloatArray) -> FloatArray:
        first, g = x[:, 0], 1.0 + 9.0 * x[:, 1:].mean(axis=1)
        second = g * (1.0 - np.sqrt(first / g) - first / g * np.sin(10 * np.pi * first))
        span = 10.0 + ZDT3_LEAST if mapped else 1.0
        return np.stack([worst[0] - first, (worst[1] - second) / span], axis=1)

    worst = (1.0, 10.0) if mapped else (0.0, 0.0)
    reference = (0.0, 0.0) if mapped else (-1.0, -10.0)
    return _problem(f, dimension, reference)


def trays() -> BenchProblem:
    """Return cross-in-tray and Hoelder table on [-10, 10]^2: many settings are equally good in each."""

    def f(x: FloatArray) -> FloatArray:
        at = 20.0 * x - 10.0
        radius = np.hypot(at[:, 0], at[:, 1]) / np.pi
        waves = np.sin(at[:, 0]) * np.sin(at[:, 1]) * np.exp(np.abs(100.0 - radius))
        tray = 1e-4 * (np.abs(waves) + 1.0) ** 0.1
        table = np.abs(np.sin(at[:, 0]) * np.cos(at[:, 1]) * np.exp(np.abs(1.0 - radius)))
        return np.stack([tray / TRAY_BEST, table / TABLE_BEST], axis=1)

    return _problem(f, 2, (0.0, 0.0))


def _problem(f: Callable[[FloatArray], FloatArray], dimension: int, reference: Sequence[float]) -> BenchProblem:
    """Return the problem of two outcomes f, (n, d) -> (n, 2); inputs are dear to use in their order, the first most.

    Points known beforehand count neither as trials nor as use of the dear input.
    """
    space = one_set(dimension)

    def progress(history: History) -> dict[str, list[float]]:
        first = len(history) - sum(o.control_set >= 0 for o in history.observations)
        used, y = np.cumsum(history.x[first:], axis=0).reshape(-1, dimension), history.outcomes
        volumes = [hypervolume(y[: first + t], np.array(reference)) for t in range(1, len(used) + 1)]
        each = {f"used_{i + 1}": used[:, i].tolist() for i in range(dimension)}
        return {"dear_input": used[:, 0].tolist(), "hypervolume": volumes, **each}

    return BenchProblem(
        space=space,
        objective=f,
        costs=TrialCosts((1.0,), noise_sd=0.0, told=True),
        truth=None,
        noise_sd=0.0,
        options={"ca-mobo": {"order": space.names}},
        further=(FurtherOutcome("y2"),),
        progress=progress,
    )
