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

from rigctl.bench.asking.options import build_policy, model_overrides
from rigctl.bench.cell import Cell, PolicySpec
from rigctl.bench.problems.catalogue import bench_problem
from rigctl.bench.running.regrets import columns
from rigctl.bench.running.simulate import simulate
from rigctl.core.play import Post
from rigctl.core.policies.registry import USUAL_POLICY

LONGEST: Final = 20
"""Trials after which an outcome comes at the latest."""
NEVER: Final = 0.05
"""Share of outcomes that never come."""
_KEY: Final = 20260313
"""Of the delays' random stream, so that it shares nothing with the campaign's."""


@dataclass(frozen=True, slots=True)
class Regret:
    """What one campaign has lost."""

    per_spend: float
    """Mean gap to the best value over the money spent: trials weigh what they cost."""
    final: float
    """Gap of what is recommended once everything has come that comes."""
    trials: int


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
    played = simulate(bench, policy, bench.problem(cell.budget, model_overrides(cell.policy)), cell.seed, post=post)
    table = columns(bench, played)
    final = [value for value in table["inference"] if not np.isnan(value)]
    return Regret(table["cost_varying"][-1] / table["spent"][-1], final[-1], len(played.decisions))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line per seed and a last one of medians."""
    parser = argparse.ArgumentParser(description="Compare campaigns with late outcomes to those without.")
    parser.add_argument("problem")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--data")
    asked = parser.parse_args(arguments)
    spec = PolicySpec("default", USUAL_POLICY)
    told = sys.stdout.write
    told("seed: regret per spend and final regret at once; the same late; trials\n")
    found = []
    for seed in range(asked.seeds):
        cell = Cell(asked.problem, "moderate", 0.04, spec, seed, asked.budget, asked.data)
        both = regret(cell, None), regret(cell, Post(delays(seed)))
        found.append(both)
        said = "  ".join(f"{a:.4f} {b:.4f}" for a, b in ((r.per_spend, r.final) for r in both))
        told(f"{seed}: {said}  {both[0].trials} {both[1].trials}\n")
        sys.stdout.flush()
    ratios = [late.per_spend / once.per_spend for once, late in found]
    sums = [sum(r.per_spend for r in column) for column in zip(*found, strict=True)]
    ends = [median(r.final for r in column) for column in zip(*found, strict=True)]
    told(f"late over at once, regret per spend: median {median(ratios):.3f}, of the means {sums[1] / sums[0]:.3f}\n")
    told(f"median final regret: {ends[0]:.4g} at once, {ends[1]:.4g} late\n")


if __name__ == "__main__":
    main()
