"""Measure what it saves that costs of changes are learned: `python -m tests.system.measure_changeovers 20100 8`.

Drawn problems in which one variable is an oven: a trial that brings it elsewhere costs as much as five trials of those
control sets more. The default policy, which is to find the best (tolerance 0), plays each twice, with the same random
numbers: told that a change of it costs (not how much), and not told. Printed are the ratios of their regrets, as
geometric means with two standard errors, and with which share of the money the first has the regret that the second
ends with.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rigctl.bench.problems.drawn import drawn
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.simulate import columns, simulate
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.money import to_units
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.threads import one_thread

CHANGE = 5.0
"""A change costs as much as so many trials."""
STEPS = 20
"""Of the money, at which regret is looked at."""
LEAST = 1e-4
"""Regrets below this are as good as none."""
MONEY = 3.0
"""Times the problem's own budget, as much of it goes into changes."""


def with_an_oven(bench: BenchProblem) -> BenchProblem:
    """Return the problem whose variable that most control sets hold costs when it is changed."""
    sets = bench.space.control_sets
    held = [sum(c in s.indices for s in sets) for c in range(bench.space.dimension)]
    oven = int(np.argmax(held))
    middle = [bench.costs.mean(i, [0.5] * len(s.indices)) for i, s in enumerate(sets) if oven in s.indices]
    parts = np.zeros(bench.space.dimension)
    parts[oven] = CHANGE * float(np.mean(middle))
    return replace(bench, changeovers=tuple(parts.tolist()))


def one(seed: int) -> FloatArray:
    """Return simple and inference regret at every step of the money, told and not told: (2, 2, STEPS)."""
    outline = drawn(seed, solved=True)
    bench = with_an_oven(outline.bench)
    problem, policy = bench.problem(MONEY * outline.budget), LikelyMaximisers(tolerance=0.0)
    found = []
    for asked in (problem, replace(problem, changeovers=())):
        table = columns(bench, simulate(bench, policy, asked, seed))
        steps = to_units(problem.budget) * np.arange(1, STEPS + 1) / STEPS
        rows = np.searchsorted(table["spent"], steps, side="right") - 1
        found.append([_last(table[name], rows) for name in ("simple", "inference")])
    ends = ", ".join(f"{simple[-1]:.3g} and {inference[-1]:.3g}" for simple, inference in found)
    print(f"{seed}: simple and inference regret at the end, told {ends} not told", flush=True)
    return np.array(found)


def _last(column: Sequence[float], rows: IntArray) -> FloatArray:
    """Return the last known value at each row; nan before the first."""
    known = [i for i, v in enumerate(column) if not np.isnan(v)]
    return np.array([next((column[i] for i in reversed(known) if i <= r), np.nan) for r in rows])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    given = parser.parse_args(arguments)
    with one_thread():
        every = np.array([one(seed) for seed in range(given.first, given.first + given.count)])
    logs = np.log(np.maximum(every, LEAST))
    for kind, name in enumerate(("simple", "inference")):
        told, blind = logs[:, 0, kind], logs[:, 1, kind]
        for step in (STEPS // 4, STEPS // 2, STEPS):
            apart = told[:, step - 1] - blind[:, step - 1]
            apart = apart[~np.isnan(apart)]
            mean, error = apart.mean(), 2 * apart.std(ddof=1) / np.sqrt(len(apart))
            low, middle, high = np.exp([mean - error, mean, mean + error])
            print(f"{name} regret at {step / STEPS:.0%}: {middle:.3f} ({low:.3f} to {high:.3f})")
        reached = np.where(np.isnan(told), np.inf, told).mean(axis=0) <= blind[:, -1].mean()
        share = (reached.argmax() + 1) / STEPS if reached.any() else np.inf
        print(f"{name} regret that it ends with where not told: told at {share:.0%} of the money")


if __name__ == "__main__":
    main()
