"""A factor that grew is the factor of the whole, to the last bit."""

import numpy as np
import pytest

from rigctl.core.gp.factor import BLOCK, factorise, solve
from rigctl.core.gp.hyperparameters import Hyperparameters

H = Hyperparameters((0.3, 0.4, 0.5), signal_sd=1.3, noise_sd=0.05)


def points(n, d=3):
    return np.random.default_rng(4).random((n, d))


def test_growing_trial_by_trial_gives_the_same_bits_as_factorising_at_once():
    """Over block after block, whatever the factor at hand: of one row less, many less, or more than are asked for."""
    x = points(3 * BLOCK + 5)
    known = None
    for n in range(1, len(x) + 1):
        known = factorise(x[:n], H, 0.0, known)
        np.testing.assert_array_equal(known.L, factorise(x[:n], H, 0.0).L)
    for n in (3, BLOCK, BLOCK + 1, 2 * BLOCK + 9):
        np.testing.assert_array_equal(factorise(x[:n], H, 0.0, known).L, factorise(x[:n], H, 0.0).L)
        jumped = factorise(x, H, 0.0, factorise(x[:n], H, 0.0))
        np.testing.assert_array_equal(jumped.L, known.L)


def test_it_is_the_cholesky_factor():
    """L L' is the covariance with its noise, its upper triangle 0; rows that differ, anywhere, are factorised anew."""
    x = points(2 * BLOCK + 30)
    L = factorise(x, H, 0.01).L
    K = 1.69 * np.exp(-0.5 * (((x[:, None] - x) / H.lengthscales) ** 2).sum(axis=2)) + (0.0025 + 0.01) * np.eye(len(x))
    np.testing.assert_allclose(L @ L.T, K, atol=1e-13)
    np.testing.assert_array_equal(np.triu(L, 1), 0.0)
    x = points(2 * BLOCK)
    changed = x.copy()
    changed[3, 1] += 1e-9
    np.testing.assert_array_equal(factorise(x, H, 0.0, factorise(changed, H, 0.0)).L, factorise(x, H, 0.0).L)


def test_what_is_not_positive_definite_is_refused_with_and_without_a_factor_at_hand():
    """A repeated row without noise has no safe pivot, in the first block or a later one."""
    still = Hyperparameters((0.3,), 1.0, 0.0)
    x = np.linspace(0, 60, BLOCK + 3)[:, None]
    good = factorise(x, still, 0.0)
    assert good is not None
    repeated = np.concatenate([x, x[5:6]])
    assert factorise(repeated, still, 0.0) is None
    assert factorise(repeated, still, 0.0, good) is None
    assert factorise(repeated, still, 1e-6, None) is not None


@pytest.mark.parametrize("transposed", [False, True])
def test_solving_by_rows(transposed):
    """Every row is solved for on its own, whatever the memory order."""
    L = np.linalg.cholesky(np.eye(7) + np.ones((7, 7)))
    rows = np.random.default_rng(0).random((4, 7))
    want = np.linalg.solve(L.T if transposed else L, rows.T).T
    for given in (rows, np.asfortranarray(rows)):
        np.testing.assert_allclose(solve(np.asfortranarray(L), given, transposed=transposed), want, atol=1e-13)
    assert solve(L, rows[:0]).shape == (0, 7)
