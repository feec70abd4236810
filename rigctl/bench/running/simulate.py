"""One cell: a simulated campaign and its regrets, one row per charged trial.

The loop is everybody's (`core.asking`), so marginals may be learned here too.

Regrets of a simulated campaign (algorithms, section 1), as columns with one entry per charged trial.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import nan
from typing import Any

import numpy as np

from rigctl.bench.asking.options import build_policy, model_overrides
from rigctl.bench.cell import Cell
from rigctl.bench.problems.catalogue import bench_problem, rule_truth
from rigctl.bench.problems.problem import CHECKPOINTS, BenchProblem
from rigctl.bench.problems.rules import Nature, RuleTruth
from rigctl.bench.problems.truth import ProblemTruth
from rigctl.bench.running.store import code_version
from rigctl.core.advice.recommend import Option, planner_of, recommend
from rigctl.core.asking import Decided, Played, play, trial_rng
from rigctl.core.experiment.arrays import FloatArray, IntArray
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.experiment.natural import present
from rigctl.core.experiment.policy import Policy, Proposal
from rigctl.core.experiment.problem import Problem
from rigctl.core.experiment.space import Settings, Space
from rigctl.core.gp.model import fit_known
from rigctl.threads import one_thread

ROUNDED = 1e-6
"""Currency units: money has no smaller part."""
TOLERANCE = 0.1
"""alpha of the quality and cost regrets (U, Experiments)."""


def initial(played: Played) -> int:
    """Return the number of free initial points."""
    return len(played.history) - len(played.decisions)


def columns(bench: BenchProblem, played: Played, rules: RuleTruth | None = None) -> dict[str, list[Any]]:
    """Return all columns; with the truth about `rules`, inference regret is that of what would be done by a reading."""
    decided, history = played.decisions, played.history
    charged = history.observations[initial(played) :]
    spent = np.cumsum([o.cost for o in charged], dtype=np.int64)
    labels = bench.space.control_sets
    table: dict[str, list[Any]] = {
        "trial": [o.trial for o in charged],
        "control_set": [labels[d.proposal.control_set].label for d in decided],
        "phase": [d.proposal.phase for d in decided],
        "cost": [to_units(o.cost) for o in charged],
        "spent": [to_units(int(s)) for s in spent],
        "y": [o.y for o in charged],
    }
    table |= _of_truth(bench, played, spent) if rules is None else of_rules(rules, played, spent)
    unknown = [np.nan] * len(decided)
    table |= {"dear_input": unknown, "hypervolume": unknown} if bench.progress is None else bench.progress(history)
    return {**table, "decision_s": [d.decision_s for d in decided]}


def _of_truth(bench: BenchProblem, played: Played, spent: IntArray) -> dict[str, list[Any]]:
    count, truth = len(played.decisions), bench.truth
    if truth is None:
        return unknown_truth(count)
    value = true_values(truth, played.decisions, len(bench.space.control_sets))
    costs = np.array([bench.costs.mean(p.proposal.control_set, p.proposal.setting) for p in played.decisions])
    rows = checkpoint_rows(spent, played.problem.budget, bench.checkpoints)
    found = regrets(truth, value, costs, good_cost(bench, truth), known=known_beforehand(truth, played))
    return {
        "value": value.tolist(),
        **{name: column.tolist() for name, column in found.items()},
        **_advised(bench, truth, played, rows),
    }


def unknown_truth(count: int) -> dict[str, list[Any]]:
    names = ("value", "simple", "quality", "cost_regret", "cost_varying", "inference", "held", "cost_held")
    return {**{name: [np.nan] * count for name in names}, "recommended": [""] * count}


def of_rules(truth: RuleTruth, played: Played, spent: IntArray) -> dict[str, list[Any]]:
    """Return the columns of a campaign whose trials have readings before them.

    Regret, against the best rule, is that of the rule that an operator would be given after a trial, at tolerance 0,
    or of the setting for a policy that was not told of readings; `recommended` is what it controls most often. Regrets
    of single trials stay open.
    """
    table = unknown_truth(len(played.decisions))
    most = truth.value(truth.best)
    for row in checkpoint_rows(spent, played.problem.budget):
        known = _known_after(played, row)
        read = known.observations[-1].look is not None
        ways = rule_after(played, row, truth.readings) if read else truth.always(*recommended_after(played, row))
        table["inference"][row] = most - truth.value(ways)
        often = int(np.bincount(ways.sets).argmax())
        table["recommended"][row] = played.problem.space.control_sets[often].label
    return table


def true_values(truth: ProblemTruth, decided: Sequence[Decided], sets: int) -> FloatArray:
    """Return F of every played setting, (T,)."""
    out = np.empty(len(decided))
    for i in range(sets):
        rows = [t for t, p in enumerate(decided) if p.proposal.control_set == i]
        if rows:
            out[rows] = truth.value(i, np.array([decided[t].proposal.setting for t in rows], dtype=float))
    return out


def good_cost(bench: BenchProblem, truth: ProblemTruth, tolerance: float = TOLERANCE) -> float:
    """Return c_i*: the mean cost of the cheapest set whose best is within the tolerance, at its best."""
    most = max(b.value for b in truth.best)
    bar = truth.floor + (1 - tolerance) * (most - truth.floor)
    return min(bench.costs.mean(i, b.setting) for i, b in enumerate(truth.best) if b.value >= bar)


def known_beforehand(truth: ProblemTruth, played: Played) -> float:
    """Return the best value of the free initial points if they are settings: under one control set of every variable.

    There the papers count them (Xie et al., section 4); elsewhere a point shows no setting's value. -inf without any.
    """
    space = played.problem.space
    if not initial(played) or [len(s.indices) for s in space.control_sets] != [space.dimension]:
        return -np.inf
    points = played.history.x[: initial(played), list(space.control_sets[0].indices)]
    return float(truth.value(0, points).max())


def regrets(
    truth: ProblemTruth, value: FloatArray, costs: FloatArray, cheapest: float, *, known: float = -np.inf
) -> dict[str, FloatArray]:
    """Return simple regret (the least so far), and quality, cost and cost-varying regret (cumulated), by trial.

    `value` (T,) is F of the played settings, `costs` (T,) are mean costs of these trials, `cheapest` is c_i*. Quality
    regret is measured above the floor, as the tolerance is. Simple regret begins with `known`, the best value known
    before the first trial.
    """
    most = max(b.value for b in truth.best)
    gap = most - value
    return {
        "simple": np.minimum.accumulate(np.minimum(gap, most - known)),
        "quality": np.cumsum(gap - TOLERANCE * (most - truth.floor)),
        "cost_regret": np.cumsum(np.maximum(costs - cheapest, 0.0)),
        "cost_varying": np.cumsum(costs * gap),
    }


def checkpoint_rows(spent: IntArray, budget: int, steps: int = CHECKPOINTS) -> list[int]:
    """Return the last row whose cumulated cost is within each step of the budget; exact, as both are micro-units."""
    limits = [budget * k // steps for k in range(1, steps + 1)]
    rows = np.searchsorted(spent, limits, side="right") - 1
    return sorted({int(r) for r in rows if r >= 0})


def _advised(
    bench: BenchProblem, truth: ProblemTruth, played: Played, rows: Sequence[int]
) -> dict[str, list[float] | list[str]]:
    """Return inference regret and recommended set where they are computed, NaN and "" elsewhere.

    And whether the intervals told of the recommended value, and of what a trial of it costs, held the truth.
    """
    count, most = len(played.decisions), max(b.value for b in truth.best)
    regret, labels, (held, cost_held) = [nan] * count, [""] * count, ([nan] * count for _ in range(2))
    for row in rows:
        choice = advice_after(played, row)
        control_set, setting = in_cube(played.problem.space, choice)
        value = float(truth.value(control_set, np.array([setting]))[0])
        regret[row], labels[row] = most - value, played.problem.space.control_sets[control_set].label
        held[row] = float(choice.low <= value <= choice.high)
        if choice.cost_low is not None and choice.cost_high is not None:
            cost = bench.costs.mean(control_set, setting)
            cost_held[row] = float(choice.cost_low - ROUNDED <= cost <= choice.cost_high + ROUNDED)
    return {"inference": regret, "recommended": labels, "held": held, "cost_held": cost_held}


def recommended_after(played: Played, row: int) -> tuple[int, tuple[float, ...]]:
    """Return what an operator would be told to run after that trial, at tolerance 0: set and setting, unit cube."""
    return in_cube(played.problem.space, advice_after(played, row))


def advice_after(played: Played, row: int) -> Option:
    """Return the same with what would be told of it."""
    rng, state = trial_rng(played.seed, row + 2), played.decisions[row].state
    found = recommend(played.problem, _known_after(played, row), rng, 0.0, state)
    return found.promising or found.choice  # what the model stands for, tried or not


def in_cube(space: Space, told: Option) -> tuple[int, tuple[float, ...]]:
    """Return control set and setting of what was told."""
    control_set = space.index_of(told.control_set)
    x = space.to_unit(np.array([told.setpoints.get(name, 0.0) for name in space.names]))
    return control_set, space.setting(control_set, x)


def rule_after(played: Played, row: int, readings: FloatArray) -> Settings:
    """Return what would be run at each of the readings (N, d), unit cube, by the full rule after that trial."""
    history = _known_after(played, row)
    problem, _ = present(replace(played.problem, looks=True), history)
    posterior = fit_known(problem, history, played.decisions[row].state).posterior
    sets, points = planner_of(problem, history, posterior, trial_rng(played.seed, row + 2), 0.0).best_at(readings)
    return Settings(points, sets)


def _known_after(played: Played, row: int) -> History:
    return History(played.history.observations[: initial(played) + row + 1])


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
    left_at: dict[int, float] = field(default_factory=dict)
    """Where the last trial left the variables that it controlled, unit cube."""

    def to_change(self, to: Mapping[int, float]) -> float:
        """Return what it costs to bring the variables there, and remember that they are."""
        there, self.left_at = self.left_at, dict(to)
        parts = self.bench.changeovers
        return sum(parts[i] for i, at in to.items() if there.get(i) != at) if parts else 0.0

    def look(self) -> Look:
        """Read the variables of the next trial; raises ValueError if the cell is one in which nothing is read."""
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


def run_cell(cell: Cell) -> list[Row]:
    """Return the cell's table: one row per charged trial. Meanwhile this process keeps to one thread.

    Raises:
        UsageError: a name or option is wrong, or data are missing.
        PolicyError: the policy proposed what cannot be played.
    """
    # the first decision must not pay for loading them
    import scipy.stats.qmc  # noqa: F401, PLC0415
    import sklearn.gaussian_process  # noqa: F401, PLC0415

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
    bench: BenchProblem, policy: Policy, problem: Problem, seed: int, nature: Nature | None = None, *, told: bool = True
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
    members = bench.space.control_sets[proposal.control_set].indices
    x[list(members)] = proposal.setting
    y = _observe(bench, x[None], streams.noise)[0] + (0.0 if bench.level is None else bench.level(trial))
    cost = bench.costs.draw(proposal.control_set, proposal.setting, float(streams.costs.standard_normal()))
    cost += days.to_change(dict(zip(members, proposal.setting, strict=True)))
    return _observation(trial, proposal.control_set, x, y, to_micros(float(cost)))


def _observe(bench: BenchProblem, x: FloatArray, noise: np.random.Generator) -> FloatArray:
    """Return the noisy outcomes, (n, 1 + further)."""
    exact = np.asarray(bench.objective(x), dtype=float).reshape(len(x), -1)
    return exact + bench.noise.draw(x, 1 + len(bench.further), noise)


def _observation(trial: int, control_set: int, x: FloatArray, y: FloatArray, cost: int) -> Observation:
    first, *further = y.tolist()
    return Observation(trial, control_set, tuple(x.tolist()), first, cost, further=tuple(further))
