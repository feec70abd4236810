"""One cell: a simulated campaign and its regrets, one row per charged trial.

The loop is everybody's (`core.asking`), so marginals may be learned here too.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem, rule_truth
from rigctl.bench.problems.nature import Nature
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.regrets import columns
from rigctl.bench.running.store import code_version
from rigctl.core.asking import Played, play
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import Problem

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Streams:
    """The random streams of one seed: the same for every policy, trial by trial."""

    initial: np.random.Generator
    natural: np.random.Generator
    noise: np.random.Generator
    costs: np.random.Generator
    before: np.random.Generator
    policy_seed: int

    @classmethod
    def of(cls, seed: int) -> Streams:
        """Spawn all from `SeedSequence(seed)`."""
        *sequences, policy, before = np.random.SeedSequence(seed).spawn(6)
        initial, natural, noise, costs = map(np.random.default_rng, sequences)
        seed_of_policy = int(policy.generate_state(1)[0])
        return cls(initial, natural, noise, costs, np.random.default_rng(before), seed_of_policy)


@dataclass(slots=True)
class SimulatedDays:
    """Let time pass: what is read before each trial, and what the variables then are."""

    bench: BenchProblem
    nature: Nature | None
    streams: Streams
    before: FloatArray = field(default_factory=lambda: np.empty(0))
    """(d,), unit cube: what they were when last read."""

    def look(self) -> Look:
        """Read the variables of the next trial.

        Raises:
            ValueError: nothing is read here.
        """
        if self.nature is None:
            raise ValueError("look: got a cell without rho, need one to read anything")
        d = self.bench.space.dimension
        self.before = self.bench.left_alone(self.streams.before.random(d))
        return self.nature.look(self.before, self.streams.before.standard_normal(d))

    def during(self) -> FloatArray:
        """Return what the variables are if none is controlled, (d,); in every trial one draw of each stream."""
        quantiles = self.streams.natural.random(self.bench.space.dimension)
        if self.nature is None:
            return self.bench.left_alone(quantiles)
        return self.nature.during(self.bench.marginals, self.before, quantiles)


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep this process to one thread: campaigns side by side would take the processors from each other."""
    # a limit only holds for libraries loaded by then, and the first decision must not pay for loading them
    import scipy.stats.qmc  # noqa: F401, PLC0415
    import sklearn.gaussian_process  # noqa: F401, PLC0415
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - with scikit-learn

    with threadpool_limits(limits=1):
        yield


def run_cell(cell: Cell) -> list[Row]:
    """Return the cell's table: one row per charged trial. Meanwhile this process keeps to one thread.

    Raises:
        UsageError: a name or option is wrong, or data are missing.
        PolicyError: the policy proposed what cannot be played.
    """
    with one_thread():
        bench, rules = bench_problem(cell), rule_truth(cell)
        policy = build_policy(cell.policy, bench.options.get(cell.policy.policy))
        problem = bench.problem(cell.budget, model_overrides(cell.policy))
        nature = None if cell.rho is None else Nature(cell.rho, cell.reading_sd)
        played = simulate(bench, policy, problem, cell.seed, nature, told=cell.policy.reading)
        table = columns(bench, played, rules)
    of_cell = {name: getattr(cell, name) for name in ("problem", "costs", "variance", "policy", "seed", "budget")}
    key = {"cell": cell.id, **of_cell, "problem": cell.scene, "policy": cell.policy.label, "code": code_version()}
    return [{**key, **{name: column[t] for name, column in table.items()}} for t in range(len(played.decisions))]


def simulate(
    bench: BenchProblem,
    policy: Policy,
    problem: Problem,
    seed: int,
    nature: Nature | None = None,
    *,
    told: bool = True,
) -> Played:
    """Propose, draw what is uncontrolled, observe, charge; until the policy has finished or the budget is spent.

    Where there are readings the policy is `told` them, or plays on the same days without them.
    """
    streams = Streams.of(seed)
    days, trials = SimulatedDays(bench, nature, streams), count(1)
    looks = nature is not None and told

    def observe(proposal: Proposal) -> Observation:
        if nature is not None and not looks:
            days.look()
        return _played(bench, proposal, next(trials), days)

    points = bench.initial_points(streams.initial)
    seen = zip(points, _observe(bench, points, streams.initial), strict=True)
    known = History.of(_observation(0, -1, x, y, 0) for x, y in seen)
    look, seed = days.look if looks else None, streams.policy_seed
    return play(policy, problem, observe, seed, look=look, known=known, timer=time.thread_time)


def _played(bench: BenchProblem, proposal: Proposal, trial: int, days: SimulatedDays) -> Observation:
    """Draw from every stream in every trial, whatever is controlled: policies stay comparable trial by trial."""
    x, streams = days.during(), days.streams
    x[list(bench.space.control_sets[proposal.control_set].indices)] = proposal.setting
    y = _observe(bench, x[None], streams.noise)[0] + (0.0 if bench.level is None else bench.level(trial))
    cost = bench.costs.draw(proposal.control_set, proposal.setting, float(streams.costs.standard_normal()))
    return _observation(trial, proposal.control_set, x, y, to_micros(float(cost)))


def _observe(bench: BenchProblem, x: FloatArray, noise: np.random.Generator) -> FloatArray:
    """Return the noisy outcomes, (n, 1 + further)."""
    exact = np.asarray(bench.objective(x), dtype=float).reshape(len(x), -1)
    return np.asarray(exact + bench.noise_sd * noise.standard_normal((len(x), 1 + len(bench.further))))


def _observation(trial: int, control_set: int, x: FloatArray, y: FloatArray, cost: int) -> Observation:
    first, *further = y.tolist()
    return Observation(trial, control_set, tuple(x.tolist()), first, cost, further=tuple(further))
