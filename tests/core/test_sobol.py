import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import qmc

from rigctl.core.bounds.grid import NUMBERS, scrambled


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


def test_scipys_statistics_are_not_loaded_for_it():
    """They take longer to load than a decision takes."""
    code = (
        "import sys; from rigctl.core.bounds.grid import sobol; sobol(10, 8); assert 'scipy.stats' not in sys.modules"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
