"""Kernels are products of one-dimensional ones."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from rigctl.core.experiment.kernels import ProductKernel, kernel_1d

NAMES = ("squared-exponential", "matern-5/2")


@pytest.fixture
def points():
    """Rows (6, 3) and (4, 3)."""
    rng = np.random.default_rng(3)
    return rng.random((6, 3)), rng.random((4, 3))


@pytest.mark.parametrize("name", NAMES)
def test_kernel_is_a_product_of_scikit_learns_one_dimensional_kernels(name, points):
    """Both kernels factorise over the variables, with or without leaving some out."""
    a, c = points
    lengthscales = np.array([0.2, 0.5, 2.0])
    kernel = ProductKernel(name, lengthscales)
    ones = [RBF(v) if name == NAMES[0] else Matern(v, nu=2.5) for v in lengthscales]
    factors = [k(a[:, [i]], c[:, [i]]) for i, k in enumerate(ones)]
    np.testing.assert_allclose(kernel.matrix(a, c), np.prod(factors, axis=0), rtol=1e-12)
    mask = np.tile([1.0, 0.0, 1.0], (6, 1))
    mask[0] = [0.0, 1.0, 0.0]
    got = kernel.matrix(a, c, mask)
    np.testing.assert_allclose(got[1:], (factors[0] * factors[2])[1:], rtol=1e-12)
    np.testing.assert_allclose(got[0], factors[1][0], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_contracted_slopes_are_the_gradient(name, points):
    """The gradient of a weighted sum of correlations agrees with finite differences."""
    a, c = points
    kernel = ProductKernel(name, np.array([0.2, 0.5, 2.0]))
    weights = np.random.default_rng(0).standard_normal((6, 4))
    got = kernel.to(c).contract_slopes(a, weights * kernel.matrix(a, c))
    for variable in range(3):
        step = np.zeros(3)
        step[variable] = 1e-6
        high, low = ((weights * kernel.matrix(a + s, c)).sum(axis=1) for s in (step, -step))
        np.testing.assert_allclose(got[:, variable], (high - low) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_correlation_never_exceeds_one():
    """Rounding in the expanded square does not push the correlation of a point with itself above 1."""
    x = np.random.default_rng(1).random((200, 4))
    assert ProductKernel("squared-exponential", np.full(4, 1e-3)).matrix(x, x).max() <= 1.0


def test_an_unknown_kernel_is_refused():
    """A misspelt kernel is an error that names the known ones."""
    with pytest.raises(ValueError, match="matern-5/2"):
        kernel_1d("matern", 1.0)
