import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern

from rigctl.core.experiment import kernels
from rigctl.core.experiment.kernels import ProductKernel, SquaredExponential
from tests.core.plain import slopes

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
    found = slopes(lambda p: (weights * kernel.matrix(p, c)).sum(axis=1), a)
    np.testing.assert_allclose(got, found, rtol=1e-6, atol=1e-8)


def test_a_correlation_never_exceeds_one():
    """Rounding in the expanded square does not push the correlation of a point with itself above 1."""
    x = np.random.default_rng(1).random((200, 4))
    assert ProductKernel("squared-exponential", np.full(4, 1e-3)).matrix(x, x).max() <= 1.0


def log_slope(kernel, delta):
    if isinstance(kernel, SquaredExponential):
        return -delta / kernel.lengthscale**2
    scaled = delta * (np.sqrt(5.0) / kernel.lengthscale)
    r = np.abs(scaled)
    return -(np.sqrt(5.0) / kernel.lengthscale) * scaled * (1.0 + r) / (3.0 + r * (3.0 + r))


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_many_control_sets_come_out_as_one_by_one(name, monkeypatch):
    """However rows are sorted and cut into blocks, each has its own factors, and slopes in those only."""
    monkeypatch.setattr(kernels, "BLOCK", 150)
    rng = np.random.default_rng(2)
    a, c, mask = rng.random((40, 4)), rng.random((30, 4)), (rng.random((40, 4)) < 0.5).astype(float)
    lengthscales, weights = np.array([0.1, 0.3, 1.0, 3.0]), rng.standard_normal((40, 30))
    kernel = ProductKernel(name, lengthscales).to(c)
    got, slopes = kernel.matrix(a, mask), kernel.contract_slopes(a, weights, mask)
    for row in range(40):
        ours = [kernel.kernel.one(v) for v in range(4)]
        each = [one.value(a[row, v] - c[:, v]) for v, one in enumerate(ours) if mask[row, v]]
        np.testing.assert_allclose(got[row], np.prod([np.ones(30), *each], axis=0), rtol=1e-12)
        for v, one in enumerate(ours):
            wanted = mask[row, v] * weights[row] @ log_slope(one, a[row, v] - c[:, v])
            assert slopes[row, v] == pytest.approx(wanted, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("lengthscale", [1e-300, 1e-3, 0.3])
def test_a_point_is_as_its_own_copy(lengthscale):
    """A covariance of equal points is singular to the bit, and lengthscales of next to nothing overflow nowhere."""
    x = np.random.default_rng(1).random((20, 12))
    K = ProductKernel("matern-5/2", np.full(12, lengthscale)).matrix(x, x)
    np.testing.assert_array_equal(K.diagonal(), 1.0)
    assert np.isfinite(K).all()
