"""Results made up by chance for every claim of a paper, some clear and some not, so that all verdicts occur."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from tests.bench.tables import Setting, frame, rows

WORLDS = (0, 1, 2, 3)
"""The last is at half the published budgets."""
SETS = ("x1", "x2", "x1+x2", "x1+x2+x3")
C_POLICIES = ("ts-psq", "ucb-psq", "etc-50", "etc-100", "etc-ada")
PER_COST = ("ts-psq-per-cost", "ucb-psq-per-cost", "ei-psq-per-cost")
M_POLICIES = ("ca-mobo", "ca-mobo-printed", "mo-ucb")


def made_up(paper: str, world: int) -> pd.DataFrame:
    """A table of that paper's settings and policies."""
    draw = np.random.default_rng([world, len(paper)])
    spread = (0.05, 0.4, 1.5, 0.4)[world]
    runs = []
    for setting, policies in _grids(paper):
        at = (*setting[:3], setting[3] / 2) if world == WORLDS[-1] else setting
        levels = dict(zip(policies, np.exp(draw.normal(-2.0, 0.7, len(policies))), strict=True))
        runs += [
            _run(draw, at, p, s, level * np.exp(spread * draw.normal()))
            for p, level in levels.items()
            for s in range(4)
        ]
    return frame(runs)


def _grids(paper: str) -> Iterator[tuple[Setting, Sequence[str]]]:
    if paper == "ucb-cvs":
        problems = ("gp-sample3", "hartmann3", "plant", "airfoil")
        for problem, costs, variance in product(problems, ("cheap", "moderate", "expensive"), (0.02, 0.04, 0.08)):
            known = "" if problem == "hartmann3" else "-known"
            more = PER_COST if (problem, costs) == ("gp-sample3", "moderate") else ()
            yield (problem, costs + known, variance, 200.0 if problem == "plant" else 50.0), (*C_POLICIES, *more)
    elif paper == "unknown-cost":
        problems = ("hartmann6+6", "ackley6+6", "levy6+6", "airfoil")
        for problem, costs, variance in product(problems, ("cheap", "moderate"), (0.02, 0.04)):
            yield (problem, costs, variance, 100.0), ("u-alg1-share", "ts-psq", "ucb-psq", "etc-50-size")
    elif paper == "gittins":
        for function, d in product(("ackley", "levy", "rosenbrock"), (4, 8, 16)):
            yield (f"{function}{d}", "uniform", 0.0, 10.0 * d), ("pbgi", "pbgi-d", "ei", "ucb", "ts")
            yield (f"{function}{d}", "varying", 0.0, 25.0 * d), ("pbgi", "pbgi-d", "eipc", "ei")
    else:
        own = tuple(f"{name}-own" for name in M_POLICIES)
        for problem in ("zdt3", "trays"):
            yield (problem, "unit", 0.0, 500.0), (*M_POLICIES, *own)
        yield ("zdt3-unscaled", "unit", 0.0, 500.0), own


def _run(draw: np.random.Generator, setting: Setting, policy: str, seed: int, level: float) -> list[dict[str, Any]]:
    n = int(draw.integers(4, 9))
    cost = setting[3] * draw.dirichlet(np.ones(n)) * draw.uniform(0.8, 1.05)
    explored = int(draw.integers(1, n - 1))
    late = 0.1 if policy.startswith("ei") else 0.6
    best_from = explored + int(draw.random() < late) * n
    several: dict[str, Any] = {}
    if setting[1] == "unit":
        d = 2 if setting[0] == "trays" else 5
        used = np.cumsum(draw.random((n, d)) * level * np.linspace(0.3, 1.0, d), axis=0)
        several = {f"used_{i + 1}": used[:, i].tolist() for i in range(d)}
        several |= {
            "dear_input": used[:, 0].tolist(),
            "hypervolume": np.linspace(0.5, 0.9 + 0.01 * draw.random(), n).tolist(),
        }
    return rows(
        *(policy, seed, (level * np.geomspace(8.0, 1.0, n)).tolist()),
        costs=cost.tolist(),
        sets=[SETS[-1] if t >= best_from else SETS[int(draw.integers(3))] for t in range(n)],
        setting=setting,
        best=2.0,
        phase=["explore" if t < explored else "commit" for t in range(n)],
        **several,
    )
