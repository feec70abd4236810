"""Measures what is lost where many trials are stood for by fewer inputs: docs/decisions/0006-many-trials.md.

python tests/core/measure_reduction.py --trials 3000 --points 1000
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp import inducing
from rigctl.core.gp.surrogate import Posterior, fit

NOISE = 0.01
WAYS = ("inducing", "inducing, best not kept", "last", "spread over time", "random", "best and random")


@dataclass(frozen=True)
class Function:
    """What is measured, and which variables are controlled together, near which setting."""

    name: str
    d: int
    value: Callable[[np.ndarray], np.ndarray]
    best: np.ndarray
    sets: tuple[tuple[int, ...], ...]


def hartmann(alpha, rates, centres, used):
    """The test function of that family, of the first `used` variables."""
    return lambda x: (alpha * np.exp(-(rates * (x[:, None, :used] - centres) ** 2).sum(axis=2))).sum(axis=1)


def functions():
    """Smooth in 3 variables, middling in 12 of which 6 matter, and rough in 5: a hard case for any reduction."""
    alpha = np.array([1.0, 1.2, 3.0, 3.2])
    a3 = np.array([[3, 10, 30], [0.1, 10, 35]] * 2)
    p3 = np.array([[3689, 1170, 2673], [4699, 4387, 7470], [1091, 8732, 5547], [381, 5743, 8828]]) / 1e4
    a6 = np.array(
        [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
    )
    p6 = (
        np.array(
            [
                [1312, 1696, 5569, 124, 8283, 5886],
                [2329, 4135, 8307, 3736, 1004, 9991],
                [2348, 1451, 3522, 2883, 3047, 6650],
                [4047, 8828, 8732, 5743, 1091, 381],
            ]
        )
        / 1e4
    )
    rng = np.random.default_rng(7)
    waves, phases, weights = (
        rng.standard_normal((200, 5)) / 0.2,
        2 * np.pi * rng.random(200),
        rng.standard_normal(200) / 10,
    )
    yield Function("hartmann3", 3, hartmann(alpha, a3, p3, 3), np.array([0.11, 0.56, 0.85]), ((0,), (1, 2), (0, 1, 2)))
    best = np.array([0.2, 0.15, 0.48, 0.28, 0.31, 0.66, *[0.5] * 6])
    sets = ((0, 1), (2, 3), tuple(range(6)), (6, 7), tuple(range(12)))
    yield Function("hartmann6+6", 12, hartmann(alpha, a6, p6, 6), best, sets)
    sets = ((0, 1), (2, 3), (0, 1, 2), (2, 3, 4), tuple(range(5)))
    yield Function("waves5", 5, lambda x: np.cos(x @ waves.T + phases) @ weights, np.full(5, 0.4), sets)


def campaign(f, n, rng):
    """Settings near the best one, a third anywhere; the other variables as they come."""
    x = np.clip(0.5 + 0.2 * rng.standard_normal((n, f.d)), 0, 1)
    for t in range(n):
        chosen = list(f.sets[rng.integers(len(f.sets))])
        near = f.best[chosen] + 0.1 * rng.choice([0, 0, 1, 3]) * rng.standard_normal(len(chosen))
        there = rng.random(len(chosen)) if rng.random() < 0.3 else near + 0.002 * rng.standard_normal(len(chosen))
        x[t, chosen] = np.clip(there, 0, 1)
    return x, f.value(x) + NOISE * rng.standard_normal(n)


def reduced(way, x, y, m, h, rng) -> Posterior:
    """One way to make do with m points."""
    n = len(y)
    if way.startswith("inducing"):
        share, inducing.BEST_SHARE = inducing.BEST_SHARE, inducing.BEST_SHARE if way == "inducing" else n
        posterior = fit(x, y, ModelOptions(max_points=m), h, refit=False)
        inducing.BEST_SHARE = share
        return posterior
    rows = {
        "last": np.arange(n - m, n),
        "spread over time": np.linspace(0, n - 1, m).round().astype(int),
        "random": rng.choice(n, m, replace=False),
        "best and random": np.union1d(np.argsort(-y)[: m // 2], rng.choice(n, m // 2, replace=False)),
    }[way]
    return fit(x[rows], y[rows], ModelOptions(max_points=m), h, refit=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=3000)
    parser.add_argument("--points", type=int, default=1000)
    asked = parser.parse_args()
    print("| function | way | points | CPU s | where | rmse | rmse, all trials | sd / sd of all: 5 %, median, 95 % |")
    for f in functions():
        rng = np.random.default_rng(0)
        x, y = campaign(f, asked.trials, rng)
        exact = fit(x, y, ModelOptions(max_points=asked.trials))
        h = exact.hyperparameters
        best = np.argsort(-y)[: asked.trials // 10]
        near = np.clip(x[rng.choice(best, 500)] + 0.01 * rng.standard_normal((500, f.d)), 0, 1)
        places = {"anywhere": rng.random((500, f.d)), "near the best": near}
        for way in WAYS:
            begin = time.process_time()
            few = reduced(way, x, y, asked.points, h, np.random.default_rng(1))
            spent = time.process_time() - begin
            for where, at in places.items():
                truth = f.value(at)
                errors = [float(np.sqrt(np.mean(np.square(p.mean(at) - truth)))) for p in (few, exact)]
                low, middle, high = np.quantile(few.sd(at) / exact.sd(at), [0.05, 0.5, 0.95])
                print(
                    f"| {f.name} | {way} | {len(few.x)} | {spent:.2f} | {where} | {errors[0]:.4f} | {errors[1]:.4f} "
                    f"| {low:.2f}, {middle:.2f}, {high:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
