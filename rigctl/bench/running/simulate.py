"""One cell: a simulated campaign and its regrets, one row per charged trial."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.campaign import Campaign, Play
from rigctl.bench.running.provenance import code_version
from rigctl.bench.running.regrets import columns
from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import JsonState, Problem
from rigctl.core.money import to_micros
from rigctl.core.policy import Finished, Policy, Proposal, next_proposal, trial_rng

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Streams:
    """The random streams of one seed: the same for every policy, trial by trial."""

    initial: np.random.Generator
    natural: np.random.Generator
    noise: np.random.Generator
    costs: np.random.Generator
    policy_seed: int

    @classmethod
    def of(cls, seed: int) -> Streams:
        """All from `SeedSequence(seed)`."""
        *sequences, policy = np.random.SeedSequence(seed).spawn(5)
        initial, natural, noise, costs = map(np.random.default_rng, sequences)
        return cls(initial, natural, noise, costs, int(policy.generate_state(1)[0]))


def run_cell(cell: Cell) -> list[Row]:
    """The cell's table: one row per charged trial.

    Raises:
        UsageError: a name or option is wrong, or data are missing.
        PolicyError: the policy proposed what cannot be played.
    """
    # a limit only holds for libraries loaded by then, and the first decision must not pay for loading them
    import scipy.stats.qmc  # noqa: F401, PLC0415
    import sklearn.gaussian_process  # noqa: F401, PLC0415
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - with scikit-learn

    bench = bench_problem(cell)
    policy = build_policy(cell.policy, bench.options.get(cell.policy.policy))
    with threadpool_limits(limits=1):
        campaign = simulate(bench, policy, bench.problem(cell.budget, model_overrides(cell.policy)), cell.seed)
        table = columns(bench, campaign)
    key = {
        "cell": cell.id,
        "problem": cell.problem,
        "costs": cell.costs,
        "variance": cell.variance,
        "policy": cell.policy.label,
        "seed": cell.seed,
        "budget": cell.budget,
        "code": code_version(),
    }
    return [{**key, **{name: column[t] for name, column in table.items()}} for t in range(len(campaign.plays))]


def simulate(bench: BenchProblem, policy: Policy, problem: Problem, seed: int) -> Campaign:
    """Propose, draw what is uncontrolled, observe, charge; until the policy has finished or the budget is spent."""
    streams = Streams.of(seed)
    history = _known_beforehand(bench, streams)
    state: JsonState | None = None
    plays: list[Play] = []
    finished = "the budget is spent"
    while history.spent < problem.budget:
        rng = trial_rng(streams.policy_seed, len(plays) + 1)
        begin = time.thread_time()
        try:
            proposal, state = next_proposal(policy, state, problem, history, rng)
        except Finished as reason:
            finished = str(reason)
            break
        spent_s = time.thread_time() - begin
        plays.append(Play(proposal, spent_s, state))
        history = history.append(_played(bench, proposal, len(plays), streams))
    return Campaign(problem, history, tuple(plays), finished, streams.policy_seed)


def _known_beforehand(bench: BenchProblem, streams: Streams) -> History:
    points = bench.initial_points(streams.initial)
    seen = _observe(bench, points, streams.initial.standard_normal((len(points), 1 + len(bench.further))))
    return History.of(
        Observation(0, -1, tuple(x), y[0], 0, further=tuple(y[1:]))
        for x, y in zip(points.tolist(), seen.tolist(), strict=True)
    )


def _played(bench: BenchProblem, proposal: Proposal, trial: int, streams: Streams) -> Observation:
    """Every stream is drawn from in every trial, whatever is controlled: policies stay comparable trial by trial."""
    quantiles = streams.natural.random(bench.space.dimension)
    x = np.array([v.marginal.quantile(q) for v, q in zip(bench.space.variables, quantiles, strict=True)])
    x[list(bench.space.control_sets[proposal.control_set].indices)] = proposal.setting
    y = _observe(bench, x[None], streams.noise.standard_normal((1, 1 + len(bench.further))))[0]
    cost = bench.costs.draw(proposal.control_set, proposal.setting, float(streams.costs.standard_normal()))
    return Observation(
        trial,
        proposal.control_set,
        tuple(x.tolist()),
        float(y[0]),
        to_micros(float(cost)),
        further=tuple(y[1:].tolist()),
    )


def _observe(bench: BenchProblem, x: FloatArray, deviates: FloatArray) -> FloatArray:
    """(n, 1 + further) noisy outcomes."""
    exact = np.asarray(bench.objective(x), dtype=float).reshape(len(x), -1)
    return np.asarray(exact + bench.noise_sd * deviates)
