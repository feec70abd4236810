"""What limits do on drawn problems: the recommended value, and how often trials there keep the limit.

    python -m tests.bench.measure_limits SEED ...

Prints one line per problem and way: how likely a trial at the recommended setting truly keeps the limit, the share of
what a limit leaves to gain that is reached there, and the share of the campaign's trials that kept it. 1 is the best
value, by brute force, of settings that truly keep it with the probability asked for; 0 is the mean value of the cube.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from rigctl.bench.problems.drawn import drawn, placed
from rigctl.bench.problems.families import families
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.simulate import in_cube, one_thread, simulate
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import Played, trial_rng
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import FurtherOutcome
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.random_search import RandomSearch

SETTINGS, NODES, DRAWS = 512, 64, 10
WAYS: Mapping[str, tuple[Policy, bool]] = {
    "default": (LikelyMaximisers(), True),
    "explore-then-commit": (ExploreThenCommit(), True),
    "random": (RandomSearch(), True),
    "ignoring": (LikelyMaximisers(), False),
}
"""By name a policy, and whether it is told of the limit."""


def limited(seed: int) -> BenchProblem:
    """Return the drawn problem of that seed with a second outcome, which has a limit.

    That outcome is another drawn function of some of the variables, with as large a range and as much noise as the
    first. Three to six of ten points of the cube, evenly chosen, are below the limit.
    """
    first, rng = drawn(seed).bench, np.random.default_rng(np.random.SeedSequence([seed, 29]))
    d, known = first.space.dimension, families()
    family = known[str(rng.choice([name for name, one in known.items() if one.least <= d]))]
    objective = placed(family.make(int(rng.integers(family.least, min(family.most, d) + 1)), rng), 0, rng)
    columns = rng.permutation(d)[: objective.dimension]
    cube = sobol(d, 1 << 11)
    own = objective(cube[:, columns])
    scale = float(np.ptp(first.objective(cube)) / np.ptp(own))
    limit = scale * float(np.quantile(own, rng.uniform(0.3, 0.6)))

    def both(x: FloatArray) -> FloatArray:
        return np.stack([first.objective(x), scale * objective(np.asarray(x)[:, columns])], axis=1)

    return replace(first, objective=both, further=(FurtherOutcome("y2", maximise=False, at_most=limit),))


@dataclass(frozen=True)
class Truth:
    """Judge settings by brute force."""

    bench: BenchProblem

    @cached_property
    def nodes(self) -> FloatArray:
        u = sobol(self.bench.space.dimension, NODES)
        return np.stack([m.quantile(u[:, i]) for i, m in enumerate(self.bench.marginals)], axis=1)

    def of(self, control_set: int, settings: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return value and probability of keeping the limit, (b,) each, of settings (b, k)."""
        x = np.tile(self.nodes, (len(settings), 1))
        x[:, list(self.bench.space.control_sets[control_set].indices)] = np.repeat(settings, NODES, axis=0)
        exact = self.bench.objective(x)
        noise = self.bench.noise.draw(np.tile(x, (DRAWS, 1)), 2, np.random.default_rng(0))[:, 1]
        kept = (exact[:, 1] + noise.reshape(DRAWS, -1) <= self.bench.further[0].limits[1]).mean(axis=0)
        return exact[:, 0].reshape(-1, NODES).mean(axis=1), kept.reshape(-1, NODES).mean(axis=1)

    @cached_property
    def best(self) -> float:
        """Return the best value of settings that keep the limit likely enough; NaN where none does."""
        found = [np.nan]
        for i, chosen in enumerate(self.bench.space.control_sets):
            value, kept = self.of(i, sobol(len(chosen.indices), SETTINGS))
            found += [float(v) for v in value[kept >= self.bench.further[0].probability]]
        return float(np.nanmax(found)) if len(found) > 1 else np.nan


@lru_cache(maxsize=1)
def truth_of(seed: int) -> Truth:
    return Truth(limited(seed))


def measured(seed: int, way: str) -> str:
    """Play one campaign of a drawn problem, and say in one line what came of it."""
    (policy, told), truth = WAYS[way], truth_of(seed)
    bench = truth.bench
    if np.isnan(truth.best):
        return f"{seed:4d} {way:20s} no setting keeps the limit"
    worst = float(bench.objective(sobol(bench.space.dimension, 1 << 11))[:, 0].mean())
    blind = tuple(replace(f, at_most=None) for f in bench.further)
    problem = bench.problem(drawn(seed).budget)
    with one_thread():
        played = simulate(bench, policy, problem if told else replace(problem, further=blind), seed)
        found = recommend(played.problem, played.history, trial_rng(seed, 10_000), 0.0, rule=False)
    control_set, setting = in_cube(bench.space, found.choice)
    value, kept = (float(v[0]) for v in truth.of(control_set, np.array([setting])))
    share = (value - worst) / (truth.best - worst)
    said = found.choice.kept[0].probability if found.choice.kept else np.nan
    return (
        f"{seed:4d} {way:20s} trials {len(played.decisions):4d} kept {kept:.3f} said {said:.3f} share {share:+.3f}"
        f" within {_within(played, bench):.2f} {max(d.decision_s for d in played.decisions):.2f} s"
    )


def _within(played: Played, bench: BenchProblem) -> float:
    rows: Sequence[float] = [o.further[0] for o in played.history.complete if o.control_set >= 0]
    return float(np.mean([v <= bench.further[0].limits[1] for v in rows]))


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        for name in WAYS:
            print(measured(number, name), flush=True)
