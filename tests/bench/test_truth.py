"""True values and maxima against brute force that knows nothing of products and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from rigctl.bench.problems.full_control import full_control
from rigctl.bench.problems.problem import control_set_problem, recipes
from tests.bench.arrays import write_arrays
from tests.profiles import slow_beyond

NODES = 1 << 11


@pytest.fixture(scope="module")
def problems(tmp_path_factory):
    """Every problem with control sets, moderate costs, variance 0.04."""
    data = write_arrays(tmp_path_factory.mktemp("arrays"))
    return {name: control_set_problem(name, "moderate", 0.04, 0, data) for name in recipes()}


def by_brute_force(problem, control_set, setting):
    """The mean over scrambled Sobol nodes of the plain function, and the standard error plain sampling would have."""
    nodes = qmc.Sobol(problem.space.dimension, rng=np.random.default_rng(5)).random(NODES)
    x = np.stack([v.marginal.quantile(nodes[:, i]) for i, v in enumerate(problem.space.variables)], axis=1)
    x[:, list(problem.space.control_sets[control_set].indices)] = setting
    values = problem.objective(x)
    return values.mean(), values.std() / np.sqrt(NODES)


@pytest.mark.parametrize("name", slow_beyond(1, recipes()))
def test_values_of_settings(name, problems):
    """F of random settings of every control set is the mean of the function over what is not controlled."""
    problem, rng = problems[name], np.random.default_rng(7)
    for i, chosen in enumerate(problem.space.control_sets):
        setting = rng.random(len(chosen.indices))
        expected, error = by_brute_force(problem, i, setting)
        assert problem.truth.value(i, setting[None])[0] == pytest.approx(expected, abs=0.5 * error + 1e-6)


@pytest.mark.parametrize("name", recipes())
def test_maxima_are_reached_and_never_exceeded(name, problems):
    """The best setting has the best value, and no random or slightly moved setting is better (1e-4 of the range)."""
    problem, rng = problems[name], np.random.default_rng(8)
    values = problem.objective(rng.random((2000, problem.space.dimension)))
    slack = 1e-4 * (max(b.value for b in problem.truth.best) - values.min())
    for i, best in enumerate(problem.truth.best):
        at = np.array(best.setting)
        assert problem.truth.value(i, at[None])[0] == pytest.approx(best.value, abs=1e-9)
        near = np.clip(at + rng.standard_normal((300, len(at))) * rng.choice([1e-3, 1e-2, 0.1], (300, 1)), 0, 1)
        tried = np.concatenate([rng.random((1000, len(at))), near])
        assert problem.truth.value(i, tried).max() <= best.value + slack


@pytest.mark.parametrize(("name", "best"), [("hartmann3", 3.86278), ("hartmann6+6", 3.32237), ("ackley6+6", 0.0)])
def test_full_control_reaches_the_published_optimum(name, best, problems):
    """The set of all variables (last) is as good as the function itself."""
    assert problems[name].truth.best[-1].value == pytest.approx(best, abs=5e-6)


def test_dearer_is_not_better_on_hartmann3(problems):
    """{3} beats {1, 2}, which costs twice as much."""
    problem = problems["hartmann3"]
    best = {c.label: b.value for c, b in zip(problem.space.control_sets, problem.truth.best, strict=True)}
    assert best["x3"] > best["x1+x2"] + 0.5


@pytest.mark.parametrize("name", ["hartmann6+6", "ackley6+6", "levy6+6"])
def test_useless_variables_change_nothing(name, problems):
    """Controlling them is as good as controlling nothing, and adding them to the useful ones gains nothing."""
    best = [b.value for b in problems[name].truth.best]
    assert best[2] == best[3] == best[5]
    assert best[4] == pytest.approx(best[6], abs=1e-12)
    assert best[4] > max(best[0], best[1]) > best[2]


def test_more_variance_blurs(problems):
    """The value of controlling little falls as what is left alone varies more; full control does not care."""
    best = {v: control_set_problem("hartmann3", "cheap", v, 0).truth.best for v in (0.02, 0.08)}
    assert best[0.02][2].value > problems["hartmann3"].truth.best[2].value > best[0.08][2].value
    assert best[0.02][6].value == pytest.approx(best[0.08][6].value, abs=1e-9)


def test_every_seed_has_its_own_sample():
    """A Gaussian-process sample is another function for every seed, the same one for the same seed."""
    x = np.random.default_rng(0).random((20, 3))
    first, second, again = (recipes()["gp-sample3"].objective(seed, None)(x) for seed in (0, 1, 0))
    assert not np.allclose(first, second)
    assert np.array_equal(first, again)


def test_full_control_problems_know_their_optimum():
    """The best setting is the published one, and F is the function."""
    problem = full_control("levy", 4, "uniform")
    best = problem.truth.best[0]
    assert problem.truth.value(0, np.array([best.setting]))[0] == pytest.approx(best.value, abs=1e-9)
    assert problem.truth.floor < -100
