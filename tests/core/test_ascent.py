"""Many climbs at once, each to a maximum inside the unit cube, and the points they start from."""

import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from rigctl.core.bounds import ascent
from rigctl.core.bounds.ascent import climb
from rigctl.core.bounds.grid import NUMBERS, lattice, scrambled


@pytest.mark.parametrize("d", [1, 2, 5, 12])
def test_it_fills_the_cube_more_evenly_than_chance(d):
    """Its discrepancy is well below that of independent points, and so is that of its first quarter."""
    for count in (128, 512):
        ours = qmc.discrepancy(lattice(d, 512, np.random.default_rng(3))[:count])
        chance = np.mean([qmc.discrepancy(np.random.default_rng(s).random((count, d))) for s in range(5)])
        assert ours < 0.7 * chance


def test_it_depends_on_the_generator_alone():
    """The same state gives the same points, all inside the cube; another gives others."""
    a, b = (lattice(3, 64, np.random.default_rng(s)) for s in (1, 1))
    np.testing.assert_array_equal(a, b)
    assert ((a >= 0) & (a < 1)).all()
    assert not np.array_equal(a, lattice(3, 64, np.random.default_rng(2)))


def hills(centres, heights, widths):
    def objective(points, _index):
        away = points[:, None, :] - centres
        each = heights * np.exp(-0.5 * np.square(away / widths[:, None]).sum(axis=2))
        gradient = -(each[:, :, None] * away / np.square(widths)[:, None]).sum(axis=1)
        return each.sum(axis=1), gradient

    return objective


def run(objective, starts, *, free=None, groups=None, **options):
    starts = np.array(starts, dtype=float)
    d = starts.shape[1]
    groups = np.arange(len(starts)) if groups is None else np.array(groups)
    free = np.ones((len(starts), d)) if free is None else np.array(free, dtype=float)
    return climb(objective, starts, free, groups, np.full(d, 0.3), tolerance=1e-12, **options)


def test_each_start_climbs_its_own_hill():
    """Starts near different hills arrive at different tops, to six digits."""
    objective = hills(np.array([[0.2, 0.3], [0.8, 0.6]]), np.array([1.0, 2.0]), np.array([0.1, 0.1]))
    maxima = run(objective, [[0.3, 0.2], [0.7, 0.7]])
    np.testing.assert_allclose(maxima.points, [[0.2, 0.3], [0.8, 0.6]], atol=1e-6)
    np.testing.assert_allclose(maxima.values, [1.0, 2.0], atol=1e-9)


def test_maxima_on_the_edge_of_the_cube_are_found():
    """A hill whose top lies outside is climbed to the boundary and along it; only free variables change."""
    objective = hills(np.array([[1.3, 0.4, -0.2]]), np.array([1.0]), np.array([0.4]))
    maxima = run(objective, [[0.1, 0.9, 0.9], [0.5, 0.5, 0.5]])
    np.testing.assert_allclose(maxima.points, [[1.0, 0.4, 0.0]] * 2, atol=1e-5)
    objective = hills(np.array([[0.2, 0.3]]), np.array([1.0]), np.array([0.3]))
    maxima = run(objective, [[0.5, 0.9]], free=[[1, 0]])
    np.testing.assert_allclose(maxima.points, [[0.2, 0.9]], atol=1e-6)


def test_narrow_valleys_are_followed():
    """Minus Rosenbrock's function, badly scaled and curved, is climbed to its top."""

    def objective(points, _index):
        a, b = points[:, 0], points[:, 1]
        value = -((0.7 - a) ** 2) - 100 * (b - a**2) ** 2
        return value, np.stack([2 * (0.7 - a) + 400 * a * (b - a**2), -200 * (b - a**2)], axis=1)

    maxima = run(objective, [[0.05, 0.95]], most_sweeps=300)
    np.testing.assert_allclose(maxima.points, [[0.7, 0.49]], atol=1e-4)


def test_a_flat_function_ends_at_once():
    """Without a slope there is nothing to do; steps that gain more than promised raise no arithmetic warnings."""
    asked = []

    def flat(points, _index):
        asked.append(len(points))
        return np.zeros(len(points)), np.zeros_like(points)

    maxima = run(flat, [[0.5, 0.5], [0.1, 0.2]])
    assert asked == [2]
    np.testing.assert_array_equal(maxima.points, [[0.5, 0.5], [0.1, 0.2]])

    def objective(points, _index):
        return 1e6 * np.square(points).sum(axis=1), 2e6 * points

    maxima = run(objective, [[0.2, 0.7], [0.5, 0.5]])
    np.testing.assert_array_equal(maxima.points, [[1.0, 1.0], [1.0, 1.0]])


def test_no_value_ever_falls():
    """What is returned is at least as high as its start, even when the sweeps run out."""
    rng = np.random.default_rng(0)
    objective = hills(rng.random((30, 4)), rng.standard_normal(30), np.full(30, 0.15))
    starts = rng.random((50, 4))
    for sweeps in (1, 2, 3, 5, 60):
        maxima = run(objective, starts, most_sweeps=sweeps)
        values, _ = objective(maxima.points, None)
        assert (maxima.values >= objective(starts, None)[0] - 1e-12).all()
        np.testing.assert_allclose(values, maxima.values)
        assert ((maxima.points >= 0) & (maxima.points <= 1)).all()


def test_groups_keep_their_best():
    """Giving up on hopeless climbs and followers costs no group its highest top."""
    rng = np.random.default_rng(1)
    objective = hills(rng.random((20, 3)), rng.random(20), np.full(20, 0.12))
    starts = rng.random((60, 3))
    alone = run(objective, starts)
    together = run(objective, starts, groups=[0] * 30 + [1] * 30)
    for group in (slice(0, 30), slice(30, 60)):
        assert together.values[group].max() == pytest.approx(alone.values[group].max(), abs=1e-9)


def test_a_curvature_that_rounding_has_made_singular_ends_no_climb():
    """Two points, one with a ridge along which nothing is left of the curvature: both get a direction uphill."""
    ridge = np.array([[1.0, 1.0], [1.0, 1.0]])
    points = np.full((2, 2), 0.5)
    state = ascent._begin(points, np.zeros(2), np.array([[1.0, 0.5], [0.2, 0.1]]), np.ones((2, 2)))
    state.curvature[:], state.fresh[:] = [ridge, np.eye(2)], False
    ascent._aim(state)
    assert np.isfinite(state.direction).all()
    assert (np.vecdot(state.direction, state.gradient) > 0).all()


@pytest.mark.parametrize("dimension", [1, 2, 5, 12, len(NUMBERS), len(NUMBERS) + 1])
def test_points_are_those_of_scipy_to_the_bit(dimension):
    """From the first on, or later ones alone; and the generator goes on from where SciPy leaves it."""
    ours, theirs = np.random.default_rng(dimension), np.random.default_rng(dimension)
    assert np.array_equal(scrambled(dimension, 0, 64, ours), qmc.Sobol(dimension, rng=theirs).random(64))
    assert ours.random() == theirs.random()
    for first in (1, 2, 37, 500):
        sequence = qmc.Sobol(dimension, rng=theirs)
        sequence.fast_forward(first)
        assert np.array_equal(scrambled(dimension, first, 1, ours), sequence.random(1))


def test_the_first_point_and_none():
    """One point is the sequence's first; none is an empty array of the right width."""
    rng, same = np.random.default_rng(3), np.random.default_rng(3)
    assert np.array_equal(scrambled(4, 0, 1, rng), qmc.Sobol(4, rng=same).random(1))
    assert scrambled(4, 0, 0, rng).shape == (0, 4)


@pytest.mark.slow
def test_scipys_statistics_are_not_loaded_for_it():
    """They take longer to load than a decision takes."""
    code = (
        "import sys; from rigctl.core.bounds.grid import sobol; sobol(10, 8); assert 'scipy.stats' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
