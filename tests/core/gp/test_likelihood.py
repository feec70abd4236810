"""The likelihood against scikit-learn's own."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor

from rigctl.core.gp.priors import LogLikelihood
from tests.core.gp.sloped import SlopedCovariance
from tests.profiles import share

KERNELS = ["squared-exponential", "matern-5/2"]


def trials(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    return x, np.sin(4 * x[:, 0]) + 0.1 * rng.standard_normal(n)


@share(0.3)
@given(
    st.sampled_from(KERNELS),
    st.integers(1, 25),
    st.floats(-2, 2),
    st.floats(-4, 1),
    st.lists(st.floats(-4, 5), min_size=1, max_size=4),
)
def test_value_and_gradient_are_scikit_learns(kernel, n, log_signal, log_noise, log_lengthscales):
    """What its regressor says of the same kernel with the same parameters, for any number of trials and variables."""
    x, y = trials(n, len(log_lengthscales))
    theta = np.array([log_signal, log_noise, *log_lengthscales])
    covariance = SlopedCovariance(np.exp(theta), kernel)
    theirs = GaussianProcessRegressor(covariance, alpha=0.0, optimizer=None).fit(x, y)
    value, gradient = theirs.log_marginal_likelihood(theta, eval_gradient=True)
    found = LogLikelihood(x, y, kernel).value_and_gradient(theta)
    assert found is not None
    # both lose digits where signal outweighs noise
    lost = 1e-12 * np.exp(2 * max(log_signal - log_noise, 0)) * n
    assert found[0] == pytest.approx(value, rel=1e-9 + lost, abs=1e-9 + lost)
    np.testing.assert_allclose(
        found[1], gradient, rtol=1e-7 + lost, atol=(1e-8 + lost) * max(1.0, np.abs(gradient).max())
    )


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_singular_covariance_has_no_likelihood(kernel):
    """Equal rows and noise far below rounding: None, for the search to turn back."""
    x = np.full((5, 2), 0.5)
    assert LogLikelihood(x, np.arange(5.0), kernel).value_and_gradient(np.array([0.0, -40.0, 0.0, 0.0])) is None
