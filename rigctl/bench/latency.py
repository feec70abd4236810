"""How long one decision takes: a policy's `propose` with n trials known, d = 5, seven control sets, CPU seconds.

What is measured is what a configuration that says nothing runs: the default policy, the default kernel. As in a
campaign, every decision is one trial after the last, so that what grows with the history (`core.gp.memo`) is at hand;
what the first decision of a new process takes is measured apart. Held to one core, and beside scikit-learn's own
prediction with the same data in the same run: their ratio compares between machines, which seconds do not.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle
from statistics import median
from typing import Literal

import numpy as np

from rigctl.bench.problems.problem import COST_SETS, PLANT_SETS
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.kernels import KernelName
from rigctl.core.experiment.marginals.families import TruncatedNormal
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import Policy
from rigctl.core.experiment.problem import JsonState, ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.policies.likely_maximisers import ExplorationShare, LikelyMaximisers
from rigctl.core.policies.registry import USUAL_POLICY, usual
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.flaws import require
from rigctl.threads import one_thread

BoundsKind = Literal["integrated", "pointwise"]

NAMES = ("ca", "b", "nh4", "k", "ph")
LENGTHSCALE = 0.2
NOISE_SD = 0.01
SIZES = (100, 300, 1000, 5000)


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """CPU seconds of one decision with n trials in the history."""

    policy: str
    kernel: KernelName
    n: int
    bounds: BoundsKind
    d: int
    sets: int
    nodes: int | None
    """Quasi-Monte-Carlo nodes; None for integrated bounds, which need none."""
    repeats: int
    median_s: float
    """With the hyper-parameters of the last fit, as in all but O(log n) decisions of a campaign."""
    min_s: float
    max_s: float
    restart_s: float
    """The first decision of a process that has only read the journal."""
    refit_s: float
    """One decision that learns the hyper-parameters anew."""
    baseline_s: float
    """scikit-learn's predict(return_std=True) at 1000 points with the same data and kernel, median, same run."""
    ratio: float
    """The median in units of the baseline: comparable between machines."""


def measure_latency(
    n_values: Sequence[int] = SIZES,
    bounds_kinds: Sequence[BoundsKind] = ("integrated", "pointwise"),
    repeats: int = 5,
    seed: int = 0,
    policy: str = USUAL_POLICY,
) -> list[LatencyRow]:
    """Return one row for every kind of bounds and number of trials, of a policy of that name.

    Raises:
        UsageError: no installed policy has that name, or it cannot be measured without options.
        ValueError: `repeats` or a number of trials is not positive.
    """
    measured = policy_to_measure(policy)
    return [measure(measured, n, plant_problem(kind), repeats, seed) for kind in bounds_kinds for n in n_values]


def policy_to_measure(name: str) -> Policy:
    """Return it with its default options, but always in the phase that takes longest: exploring, weighing.

    Raises:
        UsageError: no installed policy has that name, or it has options without defaults.
    """
    if name == LikelyMaximisers.name:
        return LikelyMaximisers(tolerance=0.0, explore=ExplorationShare(1.0, 1.0, 1.0), spread=0)
    if name == ValuePerCost.name:
        return ValuePerCost(explore=0.0)
    return usual(name)


def measure(policy: Policy, n: int, problem: Problem, repeats: int = 5, seed: int = 0) -> LatencyRow:
    """Time the decisions of any policy for the trials up to number n + 1; BLAS is held to one thread meanwhile.

    The policy keeps what it remembers of the model under `hyperparameters` and `fitted_at`, as `Outlook.to_state`; the
    problem is as of `plant_problem`. `n` trials are known at the last decision. The median of `repeats` decisions is
    taken; `seed` is that of the history and of the decisions.

    Raises:
        ValueError: `repeats` or `n` is not positive.
    """
    require(repeats >= 1 and n >= 1, {"n": n, "repeats": repeats}, "must be at least 1", where="latency")
    observations = history(n, seed).observations
    growing = [History.of(observations[: max(n - repeats, 0)])]
    for observation in observations[len(growing[0]) :]:
        growing.append(growing[-1].append(observation))
    state = fitted_state(policy, problem, len(growing[0]))

    def decide(past: History, start: JsonState = state) -> float:
        begin = time.process_time()
        policy.propose(start, problem, past, trial_rng(seed, len(past) + 1))
        return time.process_time() - begin

    with one_thread():
        # the first is not counted: it pays for imports, first allocations, and all that was to be kept from the
        # decisions before it
        spent = [decide(past) for past in growing][1:]
        restart_s = decide(History.of(observations))
        refit_s = decide(growing[-1], {**state, "fitted_at": 1})
        baseline_s = _baseline_s(growing[-1], problem.model.kernel_used, len(spent), seed)
    return LatencyRow(
        policy=policy.name,
        kernel=problem.model.kernel_used,
        n=n,
        bounds=problem.model.bounds,
        d=problem.space.dimension,
        sets=len(problem.space.control_sets),
        nodes=problem.model.nodes if problem.model.bounds == "pointwise" else None,
        repeats=len(spent),
        median_s=median(spent),
        min_s=min(spent),
        max_s=max(spent),
        restart_s=restart_s,
        refit_s=refit_s,
        baseline_s=baseline_s,
        ratio=median(spent) / baseline_s,
    )


def fitted_state(policy: Policy, problem: Problem, fitted_at: int) -> JsonState:
    """Return what the policy remembers where hyper-parameters were learned with that many trials known."""
    lengthscales = (LENGTHSCALE,) * problem.space.dimension
    known = Hyperparameters(lengthscales, signal_sd=1.0, noise_sd=NOISE_SD, kernel=problem.model.kernel_used)
    return {**policy.initial_state(problem), "hyperparameters": known.to_json(), "fitted_at": fitted_at}


def _baseline_s(past: History, name: KernelName, repeats: int, seed: int) -> float:
    """Return the median of predictions at 1000 points with its kernel of that name, after one that is not counted."""
    from sklearn.gaussian_process import GaussianProcessRegressor  # noqa: PLC0415 - heavy: only for the bench
    from sklearn.gaussian_process.kernels import RBF, Matern  # noqa: PLC0415

    lengthscales = np.full(len(NAMES), LENGTHSCALE)
    kernel = Matern(lengthscales, nu=2.5) if name == "matern-5/2" else RBF(lengthscales)
    model = GaussianProcessRegressor(kernel, alpha=NOISE_SD**2, optimizer=None).fit(past.x, past.y)
    points = np.random.default_rng(seed).random((1000, len(NAMES)))
    spent = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        model.predict(points, return_std=True)
        spent.append(time.process_time() - begin)
    return median(spent[1:])


def plant_problem(kind: BoundsKind) -> Problem:
    """Return plant growth's control sets (C, appendix C.1); left alone, variables have mean 0.5 and sd 0.2."""
    natural = TruncatedNormal.from_moments(0.5, 0.2)
    sets = [[NAMES[i] for i in indices] for indices in PLANT_SETS]
    space = Space.of([Variable(name, "", 0.0, 1.0, natural) for name in NAMES], sets)
    model = ModelOptions(bounds=kind)
    return Problem(space, to_micros(10**6), floor=-1.5, model=model)


def history(n: int, seed: int) -> History:
    """Return `n` trials, all sets in turn, of a smooth function with two peaks and a little noise."""
    rng = np.random.default_rng([seed, n])
    x = rng.random((n, len(NAMES)))
    near, far = np.square(x - 0.35).sum(axis=1), np.square(x - 0.8).sum(axis=1)
    y = 2.0 * np.exp(-3.0 * near) + 1.5 * np.exp(-6.0 * far) - 1.0 + NOISE_SD * rng.standard_normal(n)
    costs = [to_micros(cost) for cost in COST_SETS["moderate"]]
    rows = zip(cycle(enumerate(costs)), x.tolist(), y.tolist(), strict=False)
    return History.of(Observation(t, i, tuple(at), v, cost) for t, ((i, cost), at, v) in enumerate(rows, 1))
