"""Measure what ageing costs: the default policy on problems that age, and what those that know better reach.

`python -m tests.bench.measure_ageing hartmann3 25 5` plays seeds 0 to 4 (`5:15`: 5 to 14) with a budget of 25 and
moderate costs, and writes the table of docs/decisions/0017-ageing.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from rigctl.bench.asking.options import model_overrides, predefined
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import LEVELS, STEPS, bench_problem
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.simulate import good_cost, recommended_after, regrets, simulate, true_values
from rigctl.core.asking import Played
from rigctl.core.experiment.history import History
from rigctl.core.experiment.policy import Proposal
from rigctl.core.experiment.problem import JsonState, ModelOptions, Problem
from rigctl.core.gp import model
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.noticing import OutcomeRecord
from rigctl.core.gp.surrogate import Posterior, fit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers

POLICY = LikelyMaximisers()


@dataclass(frozen=True)
class Cut:
    """Knows when the plant has stepped, and forgets all outcomes from before."""

    name = POLICY.name

    def initial_state(self, problem: Problem) -> JsonState:
        return POLICY.initial_state(problem)

    def propose(
        self, state: JsonState, problem: Problem, history: History, rng: np.random.Generator
    ) -> tuple[Proposal, JsonState]:
        return POLICY.propose(state, problem, since_the_last_step(history, len(history)), rng)


def since_the_last_step(history: History, trial: int) -> History:
    """Return the same trials and costs, without the outcomes of before the last step."""
    last = max((s for s in STEPS if s <= trial), default=-1)
    return History.of(o if o.trial >= last else replace(o, y=None) for o in history.observations)


def unaware(
    record: OutcomeRecord, options: ModelOptions, previous: Hyperparameters | None, **rest: object
) -> Posterior:
    """Fit as if nothing ever changed."""
    return fit(record.x, record.y, options, previous, noise=record.noise, **rest)  # type: ignore[arg-type]


def judged(bench: BenchProblem, played: Played, cut: Callable[[History, int], History]) -> tuple[float, float, int]:
    """Return cost-varying regret since the first change, the regret of what is recommended in the end, and trials."""
    truth = bench.truth
    if truth is None:
        raise ValueError("a problem with a truth is needed")
    value = true_values(truth, played.decisions, len(bench.space.control_sets))
    costs = np.array([bench.costs.mean(d.proposal.control_set, d.proposal.setting) for d in played.decisions])
    varying = regrets(truth, value, costs, good_cost(bench, truth))["cost_varying"]
    known = replace(played, history=cut(played.history, len(played.decisions)))
    control_set, setting = recommended_after(known, len(played.decisions) - 1)
    best = max(b.value for b in truth.best)
    first = min(STEPS)
    left = float(best - truth.value(control_set, np.array([setting]))[0])
    return float(varying[-1] - varying[min(first, len(varying) - 1)]), left, len(played.decisions)


def main(name: str, budget: str, seeds: str, data: str | None = None) -> None:
    """Play all and print a line each, then means."""
    followed = [(f"@{kind}", "followed") for kind in LEVELS]
    ignored = [(f"@{kind}", "ignored") for kind in LEVELS]
    from_seed, _, to_seed = seeds.rpartition(":")
    arms = [followed[0], ("@step", "cut at the steps"), *followed[1:], ("", "not ageing"), *ignored]
    for suffix, arm in arms:
        found = []
        for seed in range(int(from_seed or 0), int(to_seed)):
            spec = predefined()["default"]
            bench = bench_problem(Cell(name + suffix, "moderate", 0.04, spec, seed, float(budget), data))
            cutting = arm.startswith("cut")
            with mock.patch.object(model, "fit_ageing", unaware if arm == "ignored" else model.fit_ageing):
                policy = Cut() if cutting else POLICY
                played = simulate(bench, policy, bench.problem(float(budget), model_overrides(spec)), seed)
                found.append(judged(bench, played, since_the_last_step if cutting else lambda h, _: h))
            state = played.decisions[-1].state.get("hyperparameters", {})
            terms = [f"{t['kind']} {t['since']} ({t['noticed']})" for t in state.get("ageing", [])]
            varying, left, trials = found[-1]
            print(f"  {name}{suffix} {arm} {seed}: {varying:.3f} {left:.4f} {trials} {terms}", flush=True)
        varying, left, trials = np.mean(found, axis=0)
        errors = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
        spread = f"{varying:.3f} ± {errors[0]:.3f} | {left:.4f} ± {errors[1]:.4f}"
        print(f"{name}{suffix} | {arm} | {spread} | {trials:.0f}", flush=True)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main(*sys.argv[1:])
