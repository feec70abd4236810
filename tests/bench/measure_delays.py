"""What late outcomes cost: the same campaigns with every outcome at once, and with delays; `python -m` runs it.

Outcomes come 0 to 20 trials after their own, one in twenty never does, and at most sixteen are under way.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides, predefined
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem
from rigctl.bench.running.simulate import columns, one_thread, simulate
from rigctl.core.experiment.arrays import FloatArray, IntArray
from tests.bench.late import Awaiting, Post

LONGEST: Final = 20
"""Trials after which an outcome comes at the latest."""
NEVER: Final = 0.05
"""Share of outcomes that never come."""
_BOTH: Final = ("gaps", "costs")
_KEY: Final = 20260313
"""Of the delays' random stream, so that it shares nothing with the campaign's."""


@dataclass(frozen=True, slots=True)
class Regret:
    """What one campaign has lost."""

    per_spend: float
    """Mean gap to the best value over the money spent: trials weigh what they cost."""
    final: float
    """Gap of what is recommended once everything has come that comes."""
    gaps: FloatArray
    """(T,), of each trial, weighed by what it cost."""
    costs: FloatArray
    """(T,), currency."""


def delays(seed: int) -> Callable[[int], int | None]:
    """Return the delay of each trial's outcome by its number, whatever was asked before; None: it never comes."""

    def drawn(trial: int) -> int | None:
        rng = np.random.default_rng([_KEY, seed, trial])
        never, delay = rng.random() < NEVER, int(rng.integers(LONGEST + 1))
        return None if never else delay

    return drawn


def regret(cell: Cell, post: Post | None) -> Regret:
    """Play one campaign, and return what it lost; outcomes come by `post`."""
    bench = bench_problem(cell)
    policy = build_policy(cell.policy, bench.options.get(cell.policy.policy))
    late = None if post is None else Awaiting(policy, post)
    played = simulate(bench, late or policy, bench.problem(cell.budget, model_overrides(cell.policy)), cell.seed)
    played = played if late is None else late.told(played)
    table = columns(bench, played)
    final = [value for value in table["inference"] if not np.isnan(value)]
    gaps = np.diff(np.array([0.0, *table["cost_varying"]]))
    return Regret(table["cost_varying"][-1] / table["spent"][-1], final[-1], gaps, np.array(table["cost"]))


def known(post: Callable[[int], int | None], trials: int) -> IntArray:
    """Return how many outcomes have come before each of so many trials, (T,)."""
    comes = [trial + late for trial in range(1, trials + 1) if (late := post(trial)) is not None]
    return np.searchsorted(np.sort(comes), np.arange(1, trials + 1))


def by_what_is_known(at_once: Sequence[Regret], late: Sequence[Regret]) -> float:
    """Return late's regret per spend over that at once if only the number of outcomes known mattered.

    Each late trial is given the mean gap and cost of the trial that had as many outcomes before it where all came at
    once. What decisions know of trials under way makes the difference to what is measured.
    """
    longest = max(len(run.gaps) for run in (*at_once, *late))
    gaps, costs = (np.mean([_lengthened(getattr(run, name), longest) for run in at_once], axis=0) for name in _BOTH)
    rows = [known(delays(seed), len(run.gaps)) for seed, run in enumerate(late)]
    expected = np.mean([gaps[row].sum() / costs[row].sum() for row in rows])
    return float(expected / np.mean([run.per_spend for run in at_once]))


def _lengthened(values: FloatArray, length: int) -> FloatArray:
    """Go on with the mean of the last ten."""
    return np.concatenate([values, np.full(length - len(values), values[-10:].mean())])


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per seed and a last one of medians."""
    parser = argparse.ArgumentParser(description="Compare campaigns with late outcomes to those without.")
    parser.add_argument("problem")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--data")
    asked = parser.parse_args(arguments)
    spec = predefined()["default"]
    told = sys.stdout.write
    told("seed: regret per spend and final regret at once; the same late; trials\n")
    found = []
    for seed in range(asked.seeds):
        cell = Cell(asked.problem, "moderate", 0.04, spec, seed, asked.budget, asked.data)
        with one_thread():
            both = regret(cell, None), regret(cell, Post(delays(seed)))
        found.append(both)
        said = "  ".join(f"{a:.4f} {b:.4f}" for a, b in ((r.per_spend, r.final) for r in both))
        told(f"{seed}: {said}  {len(both[0].gaps)} {len(both[1].gaps)}\n")
        sys.stdout.flush()
    ratios = [late.per_spend / once.per_spend for once, late in found]
    sums = [sum(r.per_spend for r in column) for column in zip(*found, strict=True)]
    ends = [median(r.final for r in column) for column in zip(*found, strict=True)]
    told(f"late over at once, regret per spend: median {median(ratios):.3f}, of the means {sums[1] / sums[0]:.3f}\n")
    guess = by_what_is_known(*zip(*found, strict=True))
    told(f"the same, if only the number of outcomes known mattered: {guess:.3f}\n")
    told(f"median final regret: {ends[0]:.4g} at once, {ends[1]:.4g} late\n")


if __name__ == "__main__":
    main()
