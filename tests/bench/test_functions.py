"""The bench's functions against published values and formulae written out anew."""

from math import cos, e, exp, pi, sin, sqrt

import numpy as np
import pytest

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
from rigctl.bench.problems.terms import matern52_as_gaussians, root_exponential_as_gaussians
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


def test_ackley_as_written_by_its_author():
    """Minus 20 + e - 20 exp(-0.2 rms) - exp(mean cos), on [-32.768, 32.768]."""
    z = [1.0, -2.5, 30.0]
    x = np.array([[(v / 32.768 + 1) / 2 for v in z]])
    rms, waves = sqrt(sum(v * v for v in z) / 3), sum(cos(2 * pi * v) for v in z) / 3
    assert ackley(3)(x)[0] == pytest.approx(20 * exp(-0.2 * rms) + exp(waves) - 20 - e, rel=1e-12)


def test_levy_as_its_library_writes_it():
    """Minus sin^2 + sum + last, on [-10, 10]."""
    z = [-3.0, 7.5, 0.4]
    w = [1 + (v - 1) / 4 for v in z]
    first, last = sin(pi * w[0]) ** 2, (w[2] - 1) ** 2 * (1 + sin(2 * pi * w[2]) ** 2)
    inner = sum((v - 1) ** 2 * (1 + 10 * sin(pi * v + 1) ** 2) for v in w[:2])
    assert levy(3)(np.array([[(v + 10) / 20 for v in z]]))[0] == pytest.approx(-(first + inner + last), rel=1e-12)


def test_griewank_as_written_by_its_author():
    """Minus sum z^2 / 4000 - prod cos(z_i / sqrt i) + 1, on [-30, 30]."""
    z = [3.0, -20.0, 7.5]
    waves = cos(z[0]) * cos(z[1] / sqrt(2)) * cos(z[2] / sqrt(3))
    x = np.array([[(v + 30) / 60 for v in z]])
    assert griewank(3)(x)[0] == pytest.approx(-(sum(v * v for v in z) / 4000 - waves + 1), rel=1e-12)


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


def test_a_draw_is_its_seeds_alone():
    """The same seed gives the same function, another seed another."""
    x = np.random.default_rng(0).random((50, 3))
    assert np.array_equal(gp_sample(3, 0.1, 4)(x), gp_sample(3, 0.1, 4)(x))
    assert not np.allclose(gp_sample(3, 0.1, 4)(x), gp_sample(3, 0.1, 5)(x))


def test_draws_have_the_kernels_covariance():
    """Over 400 draws: variance 1, correlation exp(-delta^2 / (2 l^2)) along one axis."""
    x = np.array([[0.3, 0.3, 0.3], [0.4, 0.3, 0.3], [0.9, 0.3, 0.3]])
    values = np.array([gp_sample(3, 0.1, seed)(x) for seed in range(400)])
    covariance = values.T @ values / 400
    # four standard errors of a covariance of 400 draws
    assert covariance[0] == pytest.approx(np.array([1.0, exp(-0.5), 0.0]), abs=4 * sqrt(2 / 400))


def test_matern_is_a_mixture_of_gaussians():
    """To nine digits at any distance that matters."""
    weights, squares = matern52_as_gaussians()
    r2 = np.array([0.0, 1e-6, 0.01, 0.3, 1.0, 7.0, 40.0, 300.0])
    s = np.sqrt(5 * r2)
    mixture = np.exp(-0.5 * r2[:, None] / squares) @ weights
    assert mixture == pytest.approx((1 + s + s**2 / 3) * np.exp(-s), abs=1e-9)


def test_a_root_exponential_is_a_mixture_of_exponentials():
    """exp(-sqrt(s)) to nine digits, but at the very tip."""
    weights, rates = root_exponential_as_gaussians()
    s = np.array([1e-4, 0.01, 0.5, 3.0, 30.0, 200.0])
    assert np.exp(-s[:, None] * rates) @ weights == pytest.approx(np.exp(-np.sqrt(s)), abs=2e-9)
