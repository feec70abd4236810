"""Problems of two outcomes (Abdolshah et al., Experiments), and how a policy does on them (algorithms, section 4.5).

Everything is turned so that larger is better, inputs are on the unit cube, and outcomes are mapped to about [0, 1], as
in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from rigctl.core.arrays import FloatArray
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import FurtherOutcome, JsonState, ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.marginals.families import Uniform
from rigctl.core.money import MICROS_PER_UNIT, Micros
from rigctl.core.multi_objective.hypervolume import hypervolume
from rigctl.core.policy import Policy, next_proposal, trial_rng

INITIAL = 5
"""Random points known beforehand; they count neither as trials nor as use of the dear input."""

ZDT3_LEAST = 0.7733691
"""Minus the least f2 of ZDT3."""
TRAY_BEST, TABLE_BEST = 2.06261, 19.2085
"""Minus the least values of cross-in-tray and Hoelder table."""


@dataclass(frozen=True, slots=True)
class MultiOutcome:
    """A noise-free problem of several outcomes."""

    name: str
    f: Callable[[FloatArray], FloatArray]
    """(b, d), unit cube -> (b, K), larger is better."""
    reference: tuple[float, ...]
    """(K,), from which hypervolumes are counted."""
    order: tuple[int, ...]
    """Inputs that are dear to use, dearest first."""
    dimension: int
    best: float | None = None
    """Hypervolume of the true front, where it is known."""

    @property
    def names(self) -> tuple[str, ...]:
        """x1, x2, ... as policies are told."""
        return tuple(f"x{i + 1}" for i in range(self.dimension))

    @property
    def order_names(self) -> tuple[str, ...]:
        """The order, as an option of `ca-mobo`."""
        return tuple(self.names[i] for i in self.order)


@dataclass(frozen=True, slots=True)
class MultiRow:
    """One trial."""

    trial: int
    x: tuple[float, ...]
    """(d,), unit cube."""
    y: tuple[float, ...]
    """(K,)."""
    hypervolume: float
    """Of everything measured so far, initial points included."""
    used: tuple[float, ...]
    """(d,): the sum of every input over the trials so far."""
    dear: float
    """That of the dearest input."""


def run_multi(
    problem: MultiOutcome,
    policy: Policy,
    trials: int,
    seed: int,
    *,
    initial: int = INITIAL,
    model: ModelOptions | None = None,
) -> Iterator[MultiRow]:
    """Let a policy play, controlling every input; one row per trial, as it happens. Costs are 1 a trial."""
    variables = [Variable(name, "", 0.0, 1.0, Uniform()) for name in problem.names]
    told = Problem(
        Space.of(variables, [problem.names]),
        budget=(trials + 1) * MICROS_PER_UNIT,
        known_costs=(1.0,),
        further=tuple(FurtherOutcome(f"y{k + 2}") for k in range(len(problem.reference) - 1)),
        model=ModelOptions(max_points=500) if model is None else model,
    )
    state: JsonState | None = None
    history, seen = _known(problem, initial, seed)
    used = np.zeros(problem.dimension)
    for trial in range(1, trials + 1):
        proposal, state = next_proposal(policy, state, told, history, trial_rng(seed, trial))
        x = np.array(proposal.setting)
        y = problem.f(x[None, :])[0]
        seen, used = np.vstack([seen, y]), used + x
        history = history.append(_observation(trial, 0, x, y, MICROS_PER_UNIT))
        volume = hypervolume(seen, np.array(problem.reference))
        yield MultiRow(trial, _floats(x), _floats(y), volume, _floats(used), float(used[problem.order[0]]))


def _known(problem: MultiOutcome, count: int, seed: int) -> tuple[History, FloatArray]:
    """Random points known beforehand, and their outcomes (count, K)."""
    x = np.random.default_rng([seed, problem.dimension]).random((count, problem.dimension))
    y = problem.f(x)
    return History.of(_observation(0, -1, *pair, 0) for pair in zip(x, y, strict=True)), y


def _observation(trial: int, control_set: int, x: FloatArray, y: FloatArray, cost: Micros) -> Observation:
    first, *further = _floats(y)
    return Observation(trial, control_set, _floats(x), first, cost, further=tuple(further))


def _floats(row: FloatArray) -> tuple[float, ...]:
    return tuple(float(v) for v in row)


def zdt3(dimension: int = 5, *, mapped: bool = True) -> MultiOutcome:
    """Zitzler, Deb and Thiele (2000), T3: a front of five separate pieces, along x1, where all others are 0.

    f1 = x1, f2 = g (1 - sqrt(f1/g) - f1/g sin(10 pi f1)), g = 1 + 9 mean(x2 ... xd); f2 in [-0.774, 10], both small.
    Not mapped (`zdt3-unscaled`), the values are -f1 and -f2, and hypervolumes are larger by f2's range, 10.773.
    """

    def f(x: FloatArray) -> FloatArray:
        first, g = x[:, 0], 1.0 + 9.0 * x[:, 1:].mean(axis=1)
        second = g * (1.0 - np.sqrt(first / g) - first / g * np.sin(10 * np.pi * first))
        span = 10.0 + ZDT3_LEAST if mapped else 1.0
        return np.stack([worst[0] - first, (worst[1] - second) / span], axis=1)

    worst = (1.0, 10.0) if mapped else (0.0, 0.0)
    reference = (0.0, 0.0) if mapped else (-1.0, -10.0)
    along = np.zeros((20_001, dimension))
    along[:, 0] = np.linspace(0.0, 1.0, len(along))
    best = hypervolume(f(along), np.array(reference))
    name = "zdt3" if mapped else "zdt3-unscaled"
    return MultiOutcome(name, f, reference, tuple(range(dimension)), dimension, best)


def trays() -> MultiOutcome:
    """Cross-in-tray and Hoelder table on [-10, 10]^2, both minimised; many settings are equally good in each."""

    def f(x: FloatArray) -> FloatArray:
        at = 20.0 * x - 10.0
        radius = np.hypot(at[:, 0], at[:, 1]) / np.pi
        waves = np.sin(at[:, 0]) * np.sin(at[:, 1]) * np.exp(np.abs(100.0 - radius))
        tray = 1e-4 * (np.abs(waves) + 1.0) ** 0.1
        table = np.abs(np.sin(at[:, 0]) * np.cos(at[:, 1]) * np.exp(np.abs(1.0 - radius)))
        return np.stack([tray / TRAY_BEST, table / TABLE_BEST], axis=1)

    return MultiOutcome("trays", f, (0.0, 0.0), (0, 1), 2)


def random_forest(seed: int = 0) -> MultiOutcome:
    """Number of trees and their depth, 1 to 100 each, of scikit-learn's random forest: training work against error.

    Data: its bundled handwritten digits, every second image for training, the others for the error. The work stands for
    the paper's training time, which no two runs would agree on: every split looks at all samples of its node, so it is
    the sum of their numbers over all splits. Both are mapped to [0, 1]: no work is 1, that of the largest forest is 0.
    """
    from sklearn.datasets import load_digits  # noqa: PLC0415 - heavy: only for this problem

    images, digits = load_digits(return_X_y=True)
    most = _forest(images, digits, 100, 100, seed)[0]

    def one(x: FloatArray) -> tuple[float, float]:
        trees, depth = (1 + round(99 * float(u)) for u in x)
        work, error = _forest(images, digits, trees, depth, seed)
        return 1.0 - work / most, 1.0 - error

    def f(x: FloatArray) -> FloatArray:
        return np.array([one(row) for row in x])

    return MultiOutcome("random-forest", f, (0.0, 0.0), (0, 1), 2)


def _forest(images: FloatArray, digits: FloatArray, trees: int, depth: int, seed: int) -> tuple[float, float]:
    """Samples looked at by all splits, and the share of the other images that are taken for another digit."""
    from sklearn.ensemble import RandomForestClassifier  # noqa: PLC0415 - heavy: only for this problem

    forest = RandomForestClassifier(trees, max_depth=depth, random_state=seed)
    forest.fit(images[::2], digits[::2])
    splits = (tree.tree_.n_node_samples[tree.tree_.feature >= 0] for tree in forest.estimators_)
    return float(sum(int(s.sum()) for s in splits)), 1.0 - float(forest.score(images[1::2], digits[1::2]))
