"""Measure how often the intervals that are told hold the truth: of a rule, a fixed setting, and what looking gains.

`python -m tests.bench.measure_intervals airfoil --seeds 100:115 --data DIR` plays campaigns of the default policy and
asks the bench for the true values of what is recommended in the end. A line per campaign: expected, standard deviation
as told, truth, and how many of the former they are apart.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides, predefined
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem, rule_truth
from rigctl.bench.problems.rules import Nature, RuleTruth
from rigctl.bench.running.simulate import one_thread, simulate
from rigctl.core.advice.recommend import recommend
from rigctl.core.advice.rule import Rule
from rigctl.core.advice.worth import half_width
from rigctl.core.asking import Played, trial_rng
from rigctl.core.experiment.space import Settings, Space

TOLERANCE = 0.05


@dataclass(frozen=True)
class Told:
    """Holds one interval, and the truth."""

    what: str
    low: float
    high: float
    truth: float

    @property
    def sd(self) -> float:
        return (self.high - self.low) / 2 / half_width(1.0)

    @property
    def apart(self) -> float:
        """How many standard deviations the truth is above the middle."""
        return (self.truth - (self.low + self.high) / 2) / self.sd if self.sd else 0.0


def followed(space: Space, rule: Rule, truth: RuleTruth) -> Settings:
    """Return what somebody who follows the short rule does at each of the readings."""
    sets, points = [], np.full(truth.readings.shape, 0.5)
    for row, read in enumerate(space.to_engineering(truth.readings).tolist()):
        readings = dict(zip(space.names, read, strict=True))
        line = rule.line_for(readings)
        assert line is not None, "nothing is missing"
        sets.append(space.index_of(line.control_set))
        for name, value in line.setpoints(readings).items():
            column = space.names.index(name)
            points[row, column] = (value - space.lows[column]) / space.spans[column]
    return Settings(points, np.array(sets))


def always(space: Space, names: Sequence[str], setpoints: Mapping[str, float], truth: RuleTruth) -> float:
    """Return what a fixed setting is truly worth."""
    number = space.index_of(names)
    columns = space.control_sets[number].indices
    setting = [(setpoints[space.names[c]] - space.lows[c]) / space.spans[c] for c in columns]
    return truth.value(truth.always(number, setting))


def intervals(played: Played, truth: RuleTruth) -> Iterator[Told]:
    """Give what is told after a campaign."""
    problem, space = replace(played.problem, looks=True), played.problem.space
    state = played.decisions[-1].state
    found = recommend(problem, played.history, trial_rng(played.seed, len(played.history)), TOLERANCE, state)
    rule, choice = found.rule, found.choice
    assert rule is not None, "the problem looks first"
    best, gain = rule.looking.best, rule.looking.gain
    value = truth.value(followed(space, rule, truth))
    fixed = always(space, best.control_set, best.setpoints, truth)
    yield Told("rule", rule.low, rule.high, value)
    yield Told("fixed", choice.low, choice.high, always(space, choice.control_set, choice.setpoints, truth))
    if rule.follows:
        yield Told("gain", gain.low, gain.high, value - fixed)


def campaign(problem: str, rho: float, budget: float, seed: int, data: str | None) -> list[Told]:
    """Play one, and return what is told after it."""
    cell = Cell(problem, "moderate", 0.04, predefined()["default"], seed, budget, data, rho)
    with one_thread():
        bench, truth = bench_problem(cell), rule_truth(cell)
        assert truth is not None, "the nature of the problem persists"
        policy = build_policy(cell.policy, bench.options.get(cell.policy.policy))
        asked = bench.problem(budget, model_overrides(cell.policy))
        return list(intervals(simulate(bench, policy, asked, seed, Nature(rho, 0.0), told=True), truth))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a line per campaign, and how many intervals held the truth."""
    parser = argparse.ArgumentParser(description="Hold the intervals that are told against the truth.")
    parser.add_argument("problem")
    parser.add_argument("--seeds", default="0:5")
    parser.add_argument("--rho", type=float, default=1.0)
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--data")
    asked = parser.parse_args(arguments)
    found: dict[str, list[Told]] = {}
    for seed in range(*map(int, asked.seeds.split(":"))):
        told = campaign(asked.problem, asked.rho, asked.budget, seed, asked.data)
        said = (f"{t.what} {(t.low + t.high) / 2:.4f} ± {t.sd:.4f} true {t.truth:.4f} ({t.apart:+.1f})" for t in told)
        sys.stdout.write(f"{seed}: {'; '.join(said)}\n")
        sys.stdout.flush()
        for t in told:
            found.setdefault(t.what, []).append(t)
    for what, each in found.items():
        held, apart = sum(t.low <= t.truth <= t.high for t in each), np.array([t.apart for t in each])
        size = (
            f"apart by {np.median(apart):+.1f} in the median, {np.sqrt(np.square(apart).mean()):.1f} root mean square"
        )
        sys.stdout.write(f"{what}: {held} of {len(each)} hold the truth; {size}\n")


if __name__ == "__main__":
    main()
