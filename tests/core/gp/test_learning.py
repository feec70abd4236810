"""scikit-learn's process with our likelihood: what it climbs is what it says, and what it learns is its kernel."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.learning import MapRegressor, ProductCovariance
from rigctl.core.gp.priors import log_prior
from rigctl.core.gp.surrogate import fit

THETA = np.log([1.2, 0.1, 0.3, 0.8])


def trials(n=30, d=2):
    rng = np.random.default_rng(0)
    x = rng.random((n, d))
    return x, np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(n)


def regressor(kind=MapRegressor, kernel="squared-exponential"):
    return kind(ProductCovariance(np.exp(THETA), kernel), log_prior("dimension-scaled", 2))


@pytest.mark.parametrize(
    ("kernel", "prior", "learned"),
    [
        ("squared-exponential", "dimension-scaled", [1.07189834069, 0.073649650008, 0.262578559382, 7.06222866835]),
        ("squared-exponential", "gamma", [1.32869050346, 0.0707240439839, 0.307195628668, 1.35041994351]),
        ("matern-5/2", "dimension-scaled", [1.01344180235, 0.071362038727, 0.32214652764, 6.64854297706]),
        ("matern-5/2", "gamma", [0.979165323380, 0.066408748968, 0.319768689231, 1.43899315939]),
    ],
)
def test_what_is_learned_is_what_release_0_1_learned(kernel, prior, learned):
    """Campaigns begun with an earlier version are decided alike: the same data give the same hyper-parameters."""
    h = fit(*trials(), ModelOptions(kernel=kernel, prior=prior)).hyperparameters
    assert [h.signal_sd, h.noise_sd, *h.lengthscales] == pytest.approx(learned, rel=1e-6)


def test_its_likelihood_is_scikit_learns_plus_the_prior():
    """Against scikit-learn's own kernels for the same covariance: a constant times RBF, and white noise."""
    x, y = trials()
    ours = regressor().fit(x, y)
    kernel = ConstantKernel(1.2**2) * RBF([0.3, 0.8]) + WhiteKernel(0.1**2)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
    likelihood, slopes = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    prior, pull = log_prior("dimension-scaled", 2).value_and_gradient(THETA)
    value, gradient = ours.log_marginal_likelihood(THETA, eval_gradient=True)
    assert value == ours.log_marginal_likelihood(THETA) == pytest.approx(likelihood + prior)
    # theirs is by the logarithms of variances: constant, lengthscales, white noise
    np.testing.assert_allclose(gradient - pull, [2 * slopes[0], 2 * slopes[3], slopes[1], slopes[2]], rtol=1e-7)


def test_what_fit_maximises_is_its_likelihood():
    """With another one in its place the kernel is fitted to that."""
    target = np.array([0.3, -1.0, 0.5, 0.7])

    class Bowl(MapRegressor):
        def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
            off = theta - target
            return (-(off @ off), -2 * off) if eval_gradient else -(off @ off)

    np.testing.assert_allclose(regressor(Bowl).fit(*trials()).kernel_.theta, target, atol=1e-3)


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_the_fitted_kernel_maximises_what_it_reports(kernel):
    """No step of theta in any direction reaches more than `log_marginal_likelihood()` says was reached."""
    model = regressor(kernel=kernel).fit(*trials())
    reached = model.log_marginal_likelihood()
    assert reached == pytest.approx(model.log_marginal_likelihood(model.kernel_.theta))
    for step in 0.05 * np.vstack([np.eye(4), -np.eye(4)]):
        assert model.log_marginal_likelihood(model.kernel_.theta + step) < reached


def test_a_covariance_that_does_not_factorise_is_never_the_best():
    """Minus infinity, without a slope, as scikit-learn's own likelihood says of it."""
    model = regressor().fit(*trials())
    model.X_train_, model.y_train_ = np.full((5, 2), 0.5), np.arange(5.0)
    value, gradient = model.log_marginal_likelihood(np.array([0.0, -40.0, 0.0, 0.0]), eval_gradient=True)
    assert value == -np.inf
    assert not gradient.any()
