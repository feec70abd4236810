"""Points to begin a search from."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import qmc

from rigctl.core.bounds.grid import lattice


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
