"""The bench's functions against published values, formulae written out anew and pymoo, and their costs."""

from math import cos, e, exp, pi, sin, sqrt

import numpy as np
import pytest

from rigctl.bench.problems.full_control import full_control
from rigctl.bench.problems.functions import (
    DATA_FILES,
    ackley,
    data_file,
    gp_sample,
    griewank,
    hartmann3,
    hartmann6,
    kernel_sum,
    levy,
    michalewicz,
    rosenbrock,
)
from rigctl.bench.problems.problem import trays, zdt3
from rigctl.bench.problems.terms import matern52_as_gaussians, root_exponential_as_gaussians
from rigctl.bench.running.simulate import columns, simulate
from rigctl.core.multi_objective.trade_off import hypervolume
from rigctl.errors import UsageError
from tests.bench.arrays import read_formula, write_arrays


@pytest.mark.parametrize(
    ("function", "at", "best"),
    [
        (hartmann3(), (0.114614, 0.555649, 0.852547), 3.86278),
        (hartmann6(), (0.20169, 0.150011, 0.476874, 0.275332, 0.311652, 0.6573), 3.32237),
        (ackley(6), (0.5,) * 6, 0.0),
        (levy(6), (0.55,) * 6, 0.0),
        (griewank(4), (0.5,) * 4, 0.0),
        (rosenbrock(5), (0.75,) * 5, 0.0),
        (michalewicz(2), (2.202906 / pi, 1.570796 / pi), 1.8013034),
    ],
    ids=["hartmann3", "hartmann6", "ackley", "levy", "griewank", "rosenbrock", "michalewicz"],
)
def test_published_optimum(function, at, best):
    """At the published maximiser stands the published maximum, and nowhere a larger value."""
    assert function(np.array([at]))[0] == pytest.approx(best, abs=5e-6)
    points = np.random.default_rng(0).random((20_000, len(at)))
    assert function(points).max() <= best + 1e-6


@pytest.mark.parametrize("name", ["plant", "airfoil"])
def test_arrays_are_evaluated_as_their_readme_says(name, tmp_path):
    """Both kernels, at points inside the cube and on its corners."""
    write_arrays(tmp_path)
    function = kernel_sum(name, tmp_path)
    points = np.concatenate([np.random.default_rng(1).random((20, 5)), np.zeros((1, 5)), np.ones((1, 5))])
    expected = [read_formula(tmp_path / DATA_FILES[name], x) for x in points]
    assert function(points) == pytest.approx(np.array(expected), rel=1e-12)


@pytest.mark.parametrize("directory", [None, "empty"])
def test_missing_arrays_name_the_remedy(directory, tmp_path, golden):
    """Without a directory, or with one that lacks the file, the message says which file and which option."""
    with golden.raises(UsageError):
        data_file("airfoil", None if directory is None else tmp_path)


@pytest.mark.slow
def test_draws_have_the_kernels_covariance():
    """Over 400 draws: variance 1, correlation exp(-delta^2 / (2 l^2)) along one axis; the same seed draws the same."""
    x = np.array([[0.3, 0.3, 0.3], [0.4, 0.3, 0.3], [0.9, 0.3, 0.3]])
    values = np.array([gp_sample(3, 0.1, seed)(x) for seed in range(400)])
    covariance = values.T @ values / 400
    # four standard errors of a covariance of 400 draws
    assert covariance[0] == pytest.approx(np.array([1.0, exp(-0.5), 0.0]), abs=4 * sqrt(2 / 400))
    x = np.random.default_rng(0).random((50, 3))
    assert np.array_equal(gp_sample(3, 0.1, 4)(x), gp_sample(3, 0.1, 4)(x))
    assert not np.allclose(gp_sample(3, 0.1, 4)(x), gp_sample(3, 0.1, 5)(x))


def test_matern_is_a_mixture_of_gaussians():
    """To nine digits at any distance that matters, but at the very tip."""
    weights, squares = matern52_as_gaussians()
    r2 = np.array([0.0, 1e-6, 0.01, 0.3, 1.0, 7.0, 40.0, 300.0])
    s = np.sqrt(5 * r2)
    mixture = np.exp(-0.5 * r2[:, None] / squares) @ weights
    assert mixture == pytest.approx((1 + s + s**2 / 3) * np.exp(-s), abs=1e-9)
    weights, rates = root_exponential_as_gaussians()
    s = np.array([1e-4, 0.01, 0.5, 3.0, 30.0, 200.0])
    assert np.exp(-s[:, None] * rates) @ weights == pytest.approx(np.exp(-np.sqrt(s)), abs=2e-9)


NAMES = ("ackley", "levy", "rosenbrock")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dimension", [2, 4, 8, 16])
def test_the_best_value_is_where_it_is_said_to_be_and_nowhere_else(name, dimension):
    """The function is best there, and of thousands of other points none comes up to it."""
    problem = full_control(name, dimension)
    (best,) = problem.truth.best
    at = np.array([best.setting])
    assert problem.objective(at)[0] == pytest.approx(best.value, abs=1e-12)
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.random((4000, dimension)), at + 0.01 * rng.standard_normal((1000, dimension))])
    assert (problem.objective(points) < best.value).all()
    assert problem.objective(points).shape == (5000,)


def test_functions_have_the_papers_values():
    """Eqs. 74 to 76, negated, at points summed by hand; Ackley's, Levy's and Griewank's on their own ranges."""
    corner, middle = np.ones((1, 3)), np.full((1, 3), 0.5)
    of_ackley, of_levy, of_rosenbrock = (full_control(name, 3).objective for name in NAMES)
    assert of_ackley(corner)[0] == pytest.approx(-20 * (1 - np.exp(-0.2)))  # all x = 1, all cosines 1
    quarter = np.full((1, 3), 0.625)  # all x = 1/4, all cosines 0
    assert of_ackley(quarter)[0] == pytest.approx(-(20 - 20 * np.exp(-0.05) - 1 + np.e))
    fifths = np.array([[0.75, 0.75, 0.75]])  # x = 5, so w = 2: (w - 1)^2 = 1, sines of 2 pi and 2 pi + 1
    assert of_levy(fifths)[0] == pytest.approx(-(0 + 2 * (1 + 10 * np.sin(1.0) ** 2) + 1))
    assert of_levy(middle)[0] == pytest.approx(  # x = 0, w = 3/4
        -(0.5 + 2 * 0.0625 * (1 + 10 * np.sin(0.75 * np.pi + 1) ** 2) + 0.0625 * 2)
    )
    assert of_rosenbrock(middle)[0] == pytest.approx(-2 * (100 * (2.5 - 6.25) ** 2 + 1.5**2))
    assert of_rosenbrock(np.array([[0.4, 0.4, 1 / 3]]))[0] == pytest.approx(-(0 + 100.0 + 0))  # (1, 1, 0)
    z = [1.0, -2.5, 30.0]
    x = np.array([[(v / 32.768 + 1) / 2 for v in z]])
    rms, waves = sqrt(sum(v * v for v in z) / 3), sum(cos(2 * pi * v) for v in z) / 3
    assert ackley(3)(x)[0] == pytest.approx(20 * exp(-0.2 * rms) + exp(waves) - 20 - e, rel=1e-12)
    z = [-3.0, 7.5, 0.4]
    w = [1 + (v - 1) / 4 for v in z]
    first, last = sin(pi * w[0]) ** 2, (w[2] - 1) ** 2 * (1 + sin(2 * pi * w[2]) ** 2)
    inner = sum((v - 1) ** 2 * (1 + 10 * sin(pi * v + 1) ** 2) for v in w[:2])
    assert levy(3)(np.array([[(v + 10) / 20 for v in z]]))[0] == pytest.approx(-(first + inner + last), rel=1e-12)
    z = [3.0, -20.0, 7.5]
    waves = cos(z[0]) * cos(z[1] / sqrt(2)) * cos(z[2] / sqrt(3))
    x = np.array([[(v + 30) / 60 for v in z]])
    assert griewank(3)(x)[0] == pytest.approx(-(sum(v * v for v in z) / 4000 - waves + 1), rel=1e-12)


@pytest.mark.parametrize(
    ("costs", "cheapest", "dearest"), [("uniform", 1, 1), ("varying", 1, 21), ("varying-sum", 1, 161)]
)
def test_costs_are_the_papers(costs, cheapest, dearest):
    """Eq. 77 at both corners of the cube, its slope everywhere the same; as many free points as in the paper."""
    problem = full_control("levy", 8, costs)
    field = problem.costs.field
    corners = np.array([np.zeros(8), np.ones(8)])
    np.testing.assert_allclose(field.mean(0, corners), [cheapest, dearest])
    np.testing.assert_array_equal(field.upper(0, corners), field.mean(0, corners))
    slope = (dearest - cheapest) / 8
    np.testing.assert_allclose(field.gradient(0, corners), np.full((2, 8), slope))
    assert problem.initial_points(np.random.default_rng(0)).shape == (18, 8)


def test_zdt3_is_the_published_function():
    """ZDT3 is pymoo's, negated and mapped; cross-in-tray and Hoelder table are worth 1 at best, and nothing more."""
    from pymoo.problems.multi.zdt import ZDT3

    x = np.random.default_rng(0).random((200, 5))
    theirs = ZDT3(n_var=5).evaluate(x)
    assert zdt3(mapped=False).objective(x) == pytest.approx(-theirs)
    assert zdt3().objective(x) == pytest.approx(np.stack([1 - theirs[:, 0], (10 - theirs[:, 1]) / 10.7733691], axis=1))
    f = trays().objective
    assert f((np.array([[1.3494, -1.3494]]) + 10) / 20)[0, 0] == pytest.approx(1.0, abs=1e-5)
    assert f((np.array([[-8.05502, 9.66459]]) + 10) / 20)[0, 1] == pytest.approx(1.0, abs=1e-5)
    assert f(np.random.default_rng(0).random((5000, 2))).max() <= 1.0 + 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("mapped", [True, False])
def test_the_front_of_zdt3_is_known(mapped):
    """Its hypervolume is that of pymoo's front, and no random point reaches beyond it."""
    from pymoo.problems.multi.zdt import ZDT3

    problem, reference = zdt3(mapped=mapped), np.zeros(2) if mapped else np.array([-1.0, -10.0])
    front = -ZDT3(n_var=5).pareto_front()
    if mapped:
        front = np.stack([1 + front[:, 0], (10 + front[:, 1]) / 10.7733691], axis=1)
    along = np.linspace(0.0, 1.0, 4001)[:, None] * np.array([1.0, 0.0, 0.0, 0.0, 0.0])
    best = hypervolume(problem.objective(along), reference)
    assert best == pytest.approx(hypervolume(front, reference), rel=5e-3)
    cloud = problem.objective(np.random.default_rng(1).random((1000, 5)) ** 3)
    assert hypervolume(cloud, reference) < best


def table(problem, policy, trials, seed):
    return columns(problem, simulate(problem, policy, problem.problem(float(trials)), seed))
