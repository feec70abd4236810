"""What is learned maximises scikit-learn's likelihood plus the prior, from every start."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.hyperparameters import FitFailed
from rigctl.core.gp.learning import LogPosterior
from rigctl.core.gp.priors import LogLikelihood, log_prior
from rigctl.core.gp.surrogate import fit
from tests.core.gp.sloped import ProductCovariance

THETA = np.log([1.2, 0.1, 0.3, 0.8])


def trials(n=30, d=2):
    rng = np.random.default_rng(0)
    x = rng.random((n, d))
    return x, np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(n)


def posterior_of(x, y, kernel="squared-exponential"):
    return LogPosterior(LogLikelihood(x, y, kernel), log_prior("dimension-scaled", 2))


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
    kernel = ConstantKernel(1.2**2) * RBF([0.3, 0.8]) + WhiteKernel(0.1**2)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
    likelihood, slopes = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    prior, pull = log_prior("dimension-scaled", 2).value_and_gradient(THETA)
    value, gradient = posterior_of(x, y).value_and_gradient(THETA)
    assert value == pytest.approx(likelihood + prior)
    # theirs is by the logarithms of variances: constant, lengthscales, white noise
    np.testing.assert_allclose(gradient - pull, [2 * slopes[0], 2 * slopes[3], slopes[1], slopes[2]], rtol=1e-7)


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_no_step_from_what_is_learned_leads_higher(kernel):
    """In any direction, from wherever the search begins."""
    x, y = trials()
    judge = posterior_of(x, y, kernel)
    theta = judge.maximum([THETA, THETA - 1.0])
    reached, _ = judge.value_and_gradient(theta)
    for step in 0.05 * np.vstack([np.eye(4), -np.eye(4)]):
        assert judge.value_and_gradient(theta + step)[0] < reached


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_the_posterior_is_what_scikit_learn_predicts(kernel):
    """With the learned kernel scikit-learn predicts what our posterior says."""
    x, y = trials()
    posterior = fit(x, y, ModelOptions(kernel=kernel))
    h = posterior.hyperparameters
    values = np.array([h.signal_sd, h.noise_sd, *h.lengthscales])
    model = GaussianProcessRegressor(ProductCovariance(values, kernel), alpha=0.0, optimizer=None)
    model.fit(x, (y - h.y_shift) / h.y_scale)
    at = np.random.default_rng(1).random((40, 2))
    mean, sd = model.predict(at, return_std=True)
    np.testing.assert_allclose(posterior.mean(at), h.y_shift + h.y_scale * mean, rtol=1e-8)
    # theirs is of an outcome, noise included
    np.testing.assert_allclose(np.hypot(posterior.sd(at), h.y_scale * h.noise_sd), h.y_scale * sd, rtol=1e-8)


def test_a_covariance_that_does_not_factorise_is_never_the_best():
    """Minus infinity, without a slope, as scikit-learn's own likelihood says of it; alone it is no optimum."""
    judge = posterior_of(np.full((5, 2), 0.5), np.arange(5.0))
    singular = np.array([0.0, -40.0, 0.0, 0.0])
    value, gradient = judge.value_and_gradient(singular)
    assert value == -np.inf
    assert not gradient.any()
    with pytest.raises(FitFailed):
        posterior_of(np.full((5, 2), 0.5), np.full(5, np.nan)).maximum([THETA])
