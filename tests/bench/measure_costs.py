"""Measure how often a trial costs more than "at most", and how well mean costs are known.

Control sets of which each was played a number of times cost 1, 2, 3 ... on average; then each is played once more. Two
standard deviations of a normal promise that one trial in 44 (2.3 %) costs more. Then the same of costs that depend on
the setting, and of control sets that were never tried.

`python -m tests.bench.measure_costs`
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import exp, gamma
from types import MappingProxyType

import numpy as np

from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.fields import cost_process
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Space, Variable

Draw = Callable[[np.random.Generator, int], FloatArray]
NEXT = 20
"""Trials that every prediction is held against."""
PLAYED = (2, 3, 5, 10, 20, 50)


@dataclass(frozen=True)
class Law:
    """How a trial's cost varies, relative to its set."""

    draw: Draw
    mean: float


LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "normal, sd 5 %": Law(lambda rng, n: 1 + 0.05 * rng.normal(size=n), 1.0),
        "normal, sd 20 %": Law(lambda rng, n: np.maximum(1 + 0.2 * rng.normal(size=n), 0.01), 1.0),
        "log-normal, sd 0.5": Law(lambda rng, n: np.exp(0.5 * rng.normal(size=n)), exp(0.125)),
        "log-normal, sd 1": Law(lambda rng, n: np.exp(rng.normal(size=n)), exp(0.5)),
        "gamma, shape 2": Law(lambda rng, n: rng.gamma(2, 0.5, size=n), 1.0),
        "Student t of 3, 10 %": Law(lambda rng, n: np.maximum(1 + 0.1 * rng.standard_t(3, size=n), 0.01), 1.0),
        "normal 10 %, 5 % threefold": Law(
            lambda rng, n: np.where(rng.random(n) < 0.05, 3.0, 1.0) * (1 + 0.1 * rng.normal(size=n)), 1.1
        ),
    }
)

HELD_OUT: Mapping[str, Law] = MappingProxyType(
    {
        "uniform, 40 to 160 %": Law(lambda rng, n: rng.uniform(0.4, 1.6, size=n), 1.0),
        "Weibull, shape 0.8": Law(lambda rng, n: rng.weibull(0.8, size=n), gamma(1 + 1 / 0.8)),
        "Pareto, index 4": Law(lambda rng, n: 1 + rng.pareto(4, size=n), 4 / 3),
        "one in three half as dear": Law(lambda rng, n: np.where(rng.random(n) < 1 / 3, 0.5, 1.0), 5 / 6),
    }
)
"""Laws by which nothing was chosen; with seeds that nothing was chosen by."""


def played(sets: int) -> Problem:
    """Return a problem of so many control sets."""
    variables = tuple(Variable(f"v{i}", "1", 0.0, 1.0, Uniform()) for i in range(sets))
    return Problem(Space.of(variables, [[v.name] for v in variables]), to_micros(1e6))


def metered(costs: FloatArray) -> History:
    """Return a history of sets (m, n) that have cost so much."""
    middle = (0.5,) * len(costs)
    return History.of(Observation(0, i, middle, 0.0, to_micros(float(c))) for i, row in enumerate(costs) for c in row)


def measured(law: Law, sets: int, count: int, campaigns: int, seed: int = 0) -> tuple[float, float, float]:
    """Return the share of trials above "at most", of mean costs within their interval, and the mean's relative bias."""
    rng, problem = np.random.default_rng([seed, sets, count]), played(sets)
    scale, above, within, bias = np.arange(1.0, sets + 1), 0.0, 0.0, 0.0
    for _ in range(campaigns):
        costs = scale[:, None] * law.draw(rng, sets * count).reshape(sets, count)
        beliefs = believe(problem, metered(costs), "empirical-bernstein")
        then = scale[:, None] * law.draw(rng, sets * NEXT).reshape(sets, NEXT)
        above += float((then > np.array([to_units(b.upper) for b in beliefs])[:, None]).mean())
        true = scale * law.mean
        ends = [b.spread.interval(b.mean, 0.95) for b in beliefs if b.spread is not None and b.mean is not None]
        within += float(np.mean([low <= t <= high for (low, high), t in zip(ends, true, strict=True)])) if ends else 0.0
        bias += float(np.mean([b.mean or 0.0 for b in beliefs] / true)) - 1
    return above / campaigns, within / campaigns, bias / campaigns


def by_setting(law: Law, count: int, campaigns: int, seed: int = 0) -> tuple[float, float]:
    """Return the share of trials above "at most" where costs depend on the setting, and the median bias of the mean."""
    rng, above, bias = np.random.default_rng([seed, count]), 0.0, []
    for _ in range(campaigns):
        x, at = rng.random((count, 1)), rng.random((NEXT, 1))
        process = cost_process(x, (0.5 + x[:, 0]) * law.draw(rng, count))
        if process is not None:
            above += float(((0.5 + at[:, 0]) * law.draw(rng, NEXT) > process.upper(at)).mean())
            bias.append(float(np.mean(process.mean(at) / ((0.5 + at[:, 0]) * law.mean))) - 1)
    return above / campaigns, float(np.median(bias))


def never_tried(campaigns: int, spread: float, tried: int, seed: int = 0) -> tuple[float, float]:
    """Return the share of sets never tried above "at most", and the median factor of that over the cost.

    Four variables whose parts are log-normal of this sd, and a part that every trial costs; all 15 control sets, of
    which so many were tried, twice each.
    """
    rng, names = np.random.default_rng([seed, tried]), [f"v{i}" for i in range(4)]
    variables = tuple(Variable(name, "1", 0.0, 1.0, Uniform()) for name in names)
    members = [[n for i, n in enumerate(names) if k >> i & 1] for k in range(1, 16)]
    problem, above, factors = Problem(Space.of(variables, members), to_micros(1e6)), 0, []
    for _ in range(campaigns):
        base, *parts = np.exp(spread * rng.normal(size=5))
        true = [base + sum(parts[names.index(n)] for n in m) for m in members]
        order = rng.permutation(15)
        rows = [Observation(0, int(i), (0.5,) * 4, 0.0, to_micros(float(true[i]))) for i in order[:tried] for _ in "ab"]
        beliefs = believe(problem, History.of(rows), "empirical-bernstein")
        for i in order[tried:]:
            above += true[i] > to_units(beliefs[i].upper)
            factors.append(to_units(beliefs[i].upper) / true[i])
    return above / len(factors), float(np.median(factors))


def held_out(campaigns: int) -> Iterator[str]:
    """Write those of laws that played no part in choosing the method."""
    for name, law in HELD_OUT.items():
        found = [measured(law, 7, n, campaigns // 7, seed=10_000) for n in PLAYED]
        yield f"| {name} | {' | '.join(f'{100 * a:.1f} ({100 * w:.0f}; {100 * b:+.0f})' for a, w, b in found)} |"


def table(campaigns: int) -> Iterator[str]:
    """Write the figures of `docs/benchmarks.md`."""
    heads = " | ".join(map(str, PLAYED))
    for sets in (1, 7):
        yield f"| costs, {sets} sets played | {heads} |"
        for name, law in LAWS.items():
            found = [measured(law, sets, n, campaigns // sets) for n in PLAYED]
            yield f"| {name} | {' | '.join(f'{100 * a:.1f} ({100 * w:.0f}; {100 * b:+.0f})' for a, w, b in found)} |"
    yield f"| costs by setting | {heads} |"
    for name, law in LAWS.items():
        told = [by_setting(law, n, campaigns // 10) for n in PLAYED[1:]]
        yield f"| {name} | - | {' | '.join(f'{100 * a:.1f} ({100 * b:+.0f})' for a, b in told)} |"
    yield "| parts differ by a log-normal of sd | 1 set tried | 2 | 4 | 8 |"
    for spread in (0.3, 0.7, 1.0):
        told = [never_tried(campaigns // 2, spread, n) for n in (1, 2, 4, 8)]
        yield f"| {spread} | {' | '.join(f'{100 * a:.1f} ({f:.1f})' for a, f in told)} |"


if __name__ == "__main__":
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--campaigns", type=int, default=1400, help="simulated campaigns per figure")
    asked.add_argument("--held-out", action="store_true", help="by laws that nothing was chosen by")
    given = asked.parse_args()
    for line in (held_out if given.held_out else table)(given.campaigns):
        print(line, flush=True)
