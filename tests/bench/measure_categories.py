"""What categories are worth on drawn problems, beside numbering their levels.

    python -m tests.bench.measure_categories SEED ...

Plays the default on each problem (`categorical`) twice: told which variables are
categories, and told that they are whole numbers. Prints how much worse the recommended setting, and the best one
played, truly are than the best of all by brute force; shares of the distance from the mean of the cube to the best.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from rigctl.bench.problems.drawn import drawn
from rigctl.bench.problems.families import Rng
from rigctl.bench.problems.problem import BenchProblem
from rigctl.bench.running.simulate import in_cube, initial, one_thread, simulate
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.ascent import snapped
from rigctl.core.bounds.grid import sobol
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.marginals.families import Discrete
from rigctl.core.experiment.space import Variable
from rigctl.core.policies.likely_maximisers import LikelyMaximisers

SETTINGS, NODES = 2048, 128


def categorical(seed: int, *, numbered: bool = False) -> BenchProblem:
    """Return the drawn problem of that seed with categories for a third of its variables, at least one.

    Each has three to six levels, which stand for evenly spaced values of the variable in an order that is drawn.
    `numbered`, policies are told that they are whole numbers. There is no truth.
    """
    first, rng = drawn(seed, solved=False).bench, np.random.default_rng(np.random.SeedSequence([seed, 30]))
    d = first.space.dimension
    places, variables = {}, list(first.space.variables)
    for column in sorted(rng.choice(d, max(1, d // 3), replace=False).tolist()):
        count = int(rng.integers(3, 7))
        places[column] = rng.permutation((np.arange(count) + 0.5) / count)
        words = tuple(chr(ord("A") + level) for level in range(count))
        shares = Discrete.levels(rng.dirichlet(np.ones(count)).tolist())
        category = Variable.category(variables[column].name, words, shares)
        variables[column] = replace(category, levels=()) if numbered else category

    def placed(x: FloatArray) -> FloatArray:
        x = np.array(x, dtype=float)
        for column, of in places.items():
            x[:, column] = of[np.rint(x[:, column] * (len(of) - 1)).astype(int)]
        return first.objective(x)

    space = replace(first.space, variables=tuple(variables))

    def snapped_points(of: Rng) -> FloatArray:
        return snapped(of.random((5, d)), space.steps)

    return replace(first, objective=placed, space=space, initial=snapped_points)


def values(bench: BenchProblem, control_set: int, settings: FloatArray) -> FloatArray:
    """Return the true value, (b,), of settings (b, k), unit cube, on average over what is left alone."""
    u = sobol(bench.space.dimension, NODES)
    nodes = np.stack([m.quantile(u[:, i]) for i, m in enumerate(bench.marginals)], axis=1)
    x = np.tile(nodes, (len(settings), 1))
    x[:, list(bench.space.control_sets[control_set].indices)] = np.repeat(settings, NODES, axis=0)
    return np.asarray(bench.objective(x).reshape(-1, NODES).mean(axis=1))


def truth(bench: BenchProblem) -> tuple[float, float]:
    """Return the best value of all settings that were looked at, and the mean of the cube."""
    space, best = bench.space, -np.inf
    for i, chosen in enumerate(space.control_sets):
        columns = list(chosen.indices)
        settings = snapped(sobol(len(columns), SETTINGS), space.steps[columns])
        found = values(bench, i, settings)
        near = settings[np.argsort(-found)[:16]].repeat(64, axis=0)
        near = near + 0.05 * np.random.default_rng(0).standard_normal(near.shape) * (space.steps[columns] == 0)
        best = max(best, float(found.max()), float(values(bench, i, np.clip(near, 0.0, 1.0)).max()))
    return best, float(bench.objective(snapped(sobol(space.dimension, 1 << 11), space.steps)).mean())


def measured(seed: int) -> str:
    """Play both campaigns of a problem, and say in one line what came of them."""
    best, mean = truth(categorical(seed))
    told = [f"{seed:6d}"]
    for numbered in (False, True):
        bench = categorical(seed, numbered=numbered)
        with one_thread():
            played = simulate(bench, LikelyMaximisers(), bench.problem(drawn(seed, solved=False).budget), seed)
            found = recommend(played.problem, played.history, trial_rng(seed, 10_000), 0.0, rule=False).choice
        where = in_cube(bench.space, found)
        tried = played.history.observations[initial(played) :]
        at = [(o.control_set, bench.space.setting(o.control_set, np.array(o.x))) for o in tried]
        last, simple = (
            (best - max(values(bench, i, np.array([s]))[0] for i, s in a)) / (best - mean) for a in ([where], at)
        )
        told.append(f"{'numbered' if numbered else 'categories'} {last:.4f} {simple:.4f} of {len(tried)}")
    return "  ".join(told)


if __name__ == "__main__":
    for number in map(int, sys.argv[1:]):
        print(measured(number), flush=True)
