"""Plants that age: a level that steps, drifts or swings beside what a problem's function gives.

The level is common to all settings, so the truth of a problem stays what it is: which setting is best, and by how much.
A policy that knew the level would play as on the problem that does not age.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import pi, sin

from rigctl.bench.problems.problem import BenchProblem

STEPS: Mapping[int, float] = {30: -1.0, 55: 0.7}
"""From which trial on by how much, standard deviations of the problem's outcomes."""
RAMP_FROM, RAMP = 20, -0.03
"""From which trial on, and the rise per trial."""
PERIOD, SWING = 24, 0.6


def stepped(trial: int) -> float:
    return sum(height for since, height in STEPS.items() if trial >= since)


def ramped(trial: int) -> float:
    return RAMP * max(trial - RAMP_FROM, 0)


def swinging(trial: int) -> float:
    return SWING * sin(2 * pi * trial / PERIOD)


LEVELS: Mapping[str, Callable[[int], float]] = {"step": stepped, "ramp": ramped, "season": swinging}


def ageing(bench: BenchProblem, kind: str) -> BenchProblem:
    """Return the problem with a level that changes from trial to trial, in units of its outcomes' usual spread, 1."""
    return replace(bench, name=f"{bench.name}@{kind}", level=LEVELS[kind])
