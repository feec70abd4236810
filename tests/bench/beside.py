"""Play drawn problems beside other libraries, and time their decisions.

`python -m tests.bench.beside --seeds 100:106 --with default --with optuna --with ax` plays every draw whose control
sets include all variables. The other libraries control everything in every trial, as they know nothing of control sets;
they are told the same free points, see the same noise, and pay the same costs. Each is imported only where it is asked
for, and must be installed: `pip install optuna torch`, `ax-platform`, `xopt`, `baybe`.

A line per draw and player: trials, regret of the best setting played and of what is recommended (of the others, the
setting of the best outcome), as shares of the outcome's range, and seconds per decision, of one thread's processor
time. Then, over all draws, geometric means of the first player's regrets as multiples of each player's.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides, predefined
from rigctl.bench.problems.drawn import Drawn, drawn
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.simulate import recommended_after, simulate, true_values
from rigctl.core.acquisition.outlook import all_variables
from rigctl.core.asking import Played
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import BudgetSpent, Policy, Proposal
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.policies.random_search import RandomSearch
from rigctl.threads import one_thread

SMALLEST = 1e-4
"""Regrets below this share of the range count as equal."""


class Library(Protocol):
    """Chooses points of the unit cube; larger outcomes are better."""

    def tell(self, x: Sequence[float], y: float) -> None: ...

    def ask(self) -> Sequence[float]: ...


class Optuna:
    """Optuna's GPSampler: expected improvement by a Gaussian process, Matern-5/2."""

    def __init__(self, d: int, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = {f"x{i}": optuna.distributions.FloatDistribution(0.0, 1.0) for i in range(d)}
        sampler = optuna.samplers.GPSampler(seed=seed, deterministic_objective=False)
        self._study, self._made = optuna.create_study(direction="maximize", sampler=sampler), optuna.trial.create_trial
        self._asked: Any = None

    def tell(self, x: Sequence[float], y: float) -> None:
        if self._asked is None:
            at = dict(zip(self._space, x, strict=True))
            self._study.add_trial(self._made(params=at, distributions=self._space, value=y))
        else:
            self._study.tell(self._asked, y)
            self._asked = None

    def ask(self) -> Sequence[float]:
        self._asked = self._study.ask(self._space)
        return [self._asked.params[name] for name in self._space]


class Ax:
    """Ax's default: Sobol points, then noisy expected improvement by BoTorch."""

    def __init__(self, d: int, seed: int) -> None:
        from ax.api.client import Client
        from ax.api.configs import RangeParameterConfig

        self._names = [f"x{i}" for i in range(d)]
        self._client, self._asked = Client(random_seed=seed), None
        each = [RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 1.0)) for name in self._names]
        self._client.configure_experiment(parameters=each)
        self._client.configure_optimization(objective="y")

    def tell(self, x: Sequence[float], y: float) -> None:
        if self._asked is None:
            self._asked = self._client.attach_trial(parameters=dict(zip(self._names, map(float, x), strict=True)))
        self._client.complete_trial(trial_index=self._asked, raw_data={"y": float(y)})
        self._asked = None

    def ask(self) -> Sequence[float]:
        ((self._asked, at),) = self._client.get_next_trials(max_trials=1).items()
        return [at[name] for name in self._names]


class Xopt:
    """Xopt's expected improvement."""

    def __init__(self, d: int, seed: int) -> None:
        import torch
        from xopt import VOCS
        from xopt.generators.bayesian import ExpectedImprovementGenerator

        torch.manual_seed(seed)
        self._names, self._rows = [f"x{i}" for i in range(d)], []
        vocs = VOCS(variables={name: [0.0, 1.0] for name in self._names}, objectives={"y": "MAXIMIZE"})
        self._generator = ExpectedImprovementGenerator(vocs=vocs)

    def tell(self, x: Sequence[float], y: float) -> None:
        import pandas as pd

        self._generator.add_data(pd.DataFrame([{**dict(zip(self._names, x, strict=True)), "y": y}]))

    def ask(self) -> Sequence[float]:
        (at,) = self._generator.generate(1)
        return [float(at[name]) for name in self._names]


class Baybe:
    """BayBE's default for continuous variables."""

    def __init__(self, d: int, seed: int) -> None:
        from baybe import Campaign
        from baybe.parameters import NumericalContinuousParameter
        from baybe.searchspace import SearchSpace
        from baybe.targets import NumericalTarget
        from baybe.utils.random import set_random_seed

        set_random_seed(seed)
        self._names = [f"x{i}" for i in range(d)]
        space = SearchSpace.from_product([NumericalContinuousParameter(name, (0.0, 1.0)) for name in self._names])
        self._campaign = Campaign(space, NumericalTarget("y").to_objective())

    def tell(self, x: Sequence[float], y: float) -> None:
        import pandas as pd

        self._campaign.add_measurements(pd.DataFrame([{**dict(zip(self._names, x, strict=True)), "y": y}]))

    def ask(self) -> Sequence[float]:
        at = self._campaign.recommend(1).iloc[0]
        return [float(at[name]) for name in self._names]


LIBRARIES: Mapping[str, Callable[[int, int], Library]] = {"optuna": Optuna, "ax": Ax, "xopt": Xopt, "baybe": Baybe}


@dataclass
class Everything:
    """Controls all variables as a library says. It remembers outside its state, so it is for this script only."""

    library: Library
    told: list[int] = field(default_factory=lambda: [0])
    name = "everything"

    def initial_state(self, problem: Problem) -> JsonState:
        return {}

    def propose(
        self,
        state: JsonState,
        problem: Problem,
        history: History,
        rng: np.random.Generator,
    ) -> tuple[Proposal, JsonState]:
        for o in history.complete[self.told[0] :]:
            self.library.tell(list(o.x or ()), float(o.y or 0.0))
        self.told[0] = len(history.complete)
        (everything,) = all_variables(problem)
        costs = history.costs(everything)
        if history.spent + (float(costs.max()) * 1e6 if costs.size else 0.0) > problem.budget:
            raise BudgetSpent("another trial of everything may not fit")
        setting = tuple(float(np.clip(u, 0.0, 1.0)) for u in self.library.ask())
        return Proposal(len(history) + 1, self.name, "search", everything, setting, "a library says so"), state


@dataclass(frozen=True)
class Standing:
    """Holds how a player ended. Regrets are shares of the outcome's range."""

    trials: int
    played: float
    recommended: float
    decision_s: float
    """Mean."""


def standing(draw: Drawn, played: Played, truth: ProblemTruth, *, ours: bool) -> Standing:
    most = max(b.value for b in truth.best)
    values = true_values(truth, played.decisions, len(draw.bench.space.control_sets))
    if ours:
        control_set, setting = recommended_after(played, len(played.decisions) - 1)
        value = float(truth.value(control_set, np.array([setting]))[0])
    else:
        outcomes = [o.y for o in played.history.observations[-len(values) :]]
        value = float(values[int(np.argmax(outcomes))])
    span = most - truth.floor
    seconds = float(np.mean([d.decision_s for d in played.decisions]))
    return Standing(len(values), float(most - values.max()) / span, (most - value) / span, seconds)


def play_one(name: str, seed: int) -> Standing | None:
    """Play one draw; None where not everything may be controlled together, or nothing could be paid."""
    draw = drawn(seed)
    truth = draw.bench.truth
    problem = draw.bench.problem(draw.budget, model_overrides(predefined()["default"]))
    if truth is None or not all_variables(problem):
        return None
    policy: Policy
    if name in LIBRARIES:
        policy = Everything(LIBRARIES[name](draw.bench.space.dimension, seed))
    elif name == "random":
        policy = RandomSearch()
    else:
        policy = build_policy(predefined()[name], None)
    began = time.perf_counter()
    played = simulate(draw.bench, policy, problem, seed)
    found = standing(draw, played, truth, ours=name not in LIBRARIES) if played.decisions else None
    print(f"{seed} {draw.family} d={draw.bench.space.dimension} {draw.costs} {name}: {found}", end="")
    print(f" ({time.perf_counter() - began:.0f} s in all)", flush=True)
    return found


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="100:106")
    parser.add_argument("--with", dest="players", action="append", help="a label of the bench, or a library")
    given = parser.parse_args(arguments)
    first, last = map(int, given.seeds.split(":"))
    players = given.players or ["default", "optuna"]
    with one_thread():
        table = [{name: play_one(name, seed) for name in players} for seed in range(first, last)]
    rows = [row for row in table if all(row.values())]
    print(f"{len(rows)} draws; regrets of {players[0]} as multiples of the other's, geometric means; mean seconds")
    for name in players:
        ratios = []
        for quantity in ("played", "recommended"):
            logs = [
                np.log(max(getattr(row[players[0]], quantity), SMALLEST) / max(getattr(row[name], quantity), SMALLEST))
                for row in rows
            ]
            ratios.append(float(np.exp(np.mean(logs))))
        seconds = float(np.mean([row[name].decision_s for row in rows if row[name] is not None]))
        print(f"{name}: played {ratios[0]:.2f}, recommended {ratios[1]:.2f}, {seconds:.3f} s a decision")


if __name__ == "__main__":
    main(sys.argv[1:])
