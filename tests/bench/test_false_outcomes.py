"""What false outcomes do to campaigns of the default policy; the figures are in docs/benchmarks.md.

Every seed has a function of its own, scaled to a standard deviation of 1 over the cube; none is one of the bench's.
"""

import numpy as np
import pytest

from rigctl import History, Observation, TruncatedNormal
from rigctl.bench.problems.functions import gp_sample
from rigctl.bench.problems.problem import COST_SETS, SUBSETS_OF_3
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions, Problem, usual_kernel
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from tests.core.conftest import campaign, unit_space

MARGINAL = TruncatedNormal.from_moments(0.5, 0.2)
NOISE_SD = 0.05
LUCK = 0.2
"""A lucky outcome reads as much better than the best setting there is, in standard deviations of the function."""
TYPED = 100.0
"""A gross outcome is so many times too large; every other one has the wrong sign besides."""


class World:
    """One function, what is true of it, and what is told of each outcome."""

    def __init__(self, seed, falsified):
        objective = gp_sample(3, 0.45, 10_000 + seed)  # smoother than the bench's
        self.scale = float(objective(np.random.default_rng(1).random((2000, 3))).std())
        self.objective, self.truth = objective, ProblemTruth.of(objective, [MARGINAL] * 3, SUBSETS_OF_3)
        self.best = max(b.value for b in self.truth.best) / self.scale
        self.falsified, self.rng, self.trials = falsified, np.random.default_rng([seed, 1]), 0

    def __call__(self, x):
        true = float(self.objective(x[None])[0]) / self.scale + NOISE_SD * self.rng.standard_normal()
        self.trials += 1
        return self.falsified(self, self.trials, true)

    def regret(self, played, history):
        state, problem = played.decisions[-1].state, played.problem
        choice = recommend(problem, history, trial_rng(played.seed, len(history)), 0.0, state).choice
        index = problem.space.index_of(choice.control_set)
        setting = [choice.setpoints[n] for n in problem.space.control_sets[index].names]
        return self.best - float(self.truth.value(index, np.array([setting]))[0]) / self.scale


def gross(world, _trial, y):
    hit, turned = world.rng.random() < 0.05, world.rng.random() < 0.5
    return (-1.0 if turned else 1.0) * TYPED * y if hit else y


KINDS = {
    "clean": lambda _w, _trial, y: y,
    "lucky5": lambda w, _trial, y: w.best + LUCK if w.rng.random() < 0.05 else y,
    "gross5": gross,
    "typed11": lambda _w, trial, y: TYPED * y if trial == 11 else y,
}


def played_in(world, seed, budget):
    names = ["x1", "x2", "x3"]
    space = unit_space(names, [[names[i] for i in s] for s in SUBSETS_OF_3], MARGINAL)
    problem = Problem(space, to_micros(budget), model=ModelOptions(kernel=usual_kernel("learned")))
    costs = COST_SETS["moderate"]
    return campaign(
        LikelyMaximisers(), problem, costs, world, seed=seed, nature=lambda rng, d: MARGINAL.quantile(rng.random(d))
    )


@pytest.mark.parametrize(
    ("kinds", "budget"),
    [
        pytest.param(("clean", "gross5"), 4.0, marks=pytest.mark.slow),
        pytest.param(tuple(KINDS), 10.0, marks=pytest.mark.nightly),
    ],
)
def test_a_campaign_survives_false_outcomes(kinds, budget):
    """One in twenty lucky, hundredfold, or a last one: what is recommended is no worse than a fifth of a spread."""
    seed, regrets = 2, []
    for kind in kinds:
        world = World(seed, KINDS[kind])
        played = played_in(world, seed, budget)
        regrets.append(world.regret(played, played.history))
        if kind == "clean":
            lucky = Observation(len(played.history) + 1, 4, (0.9, 0.1, 0.9), world.best + LUCK, to_micros(0.2))
            regrets.append(world.regret(played, History.of([*played.history.observations, lucky])))
    assert regrets[0] < 0.1
    assert max(regrets) < 0.2
