"""The priors of hyper-parameters: what densities they are, where their modes lie, and what they do to a fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gamma, lognorm

from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.priors import log_prior
from rigctl.core.gp.surrogate import fit
from tests.profiles import share

NAMES = ["dimension-scaled", "gamma"]


def trials(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    return x, np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(n)


def log_gamma(signal, noise, lengthscales):
    """As its documentation says, but with scipy's densities; of noise the density of the logarithm."""
    variance = gamma.logpdf(signal**2, 2.0, scale=1 / 0.15)
    scales = gamma.logpdf(lengthscales, 3.0, scale=1 / 6.0).sum()
    return variance + scales + lognorm.logpdf(noise, 1.5, scale=0.01) + np.log(noise)


@share(0.3)
@given(
    st.sampled_from(NAMES),
    st.floats(-3, 2),
    st.floats(-8, 1),
    st.lists(st.floats(-4, 2), min_size=1, max_size=6),
)
def test_gradients_are_those_of_the_values(name, log_signal, log_noise, log_lengthscales):
    """Central differences agree, for any number of variables."""
    theta, step = np.array([log_signal, log_noise, *log_lengthscales]), 1e-5
    prior = log_prior(name, len(log_lengthscales))
    shifts = step * np.eye(len(theta))
    slopes = [
        (prior.value_and_gradient(theta + s)[0] - prior.value_and_gradient(theta - s)[0]) / (2 * step) for s in shifts
    ]
    np.testing.assert_allclose(prior.value_and_gradient(theta)[1], slopes, rtol=1e-5, atol=1e-5)


def test_gamma_is_gamma():
    """Up to one constant its value is the sum of scipy's log-densities."""
    rng = np.random.default_rng(0)
    offsets = []
    for theta in rng.uniform(-2, 1, (5, 5)):
        parameters = np.exp(theta)
        theirs = log_gamma(parameters[0], parameters[1], parameters[2:])
        offsets.append(log_prior("gamma", 3).value_and_gradient(theta)[0] - theirs)
    np.testing.assert_allclose(offsets, offsets[0], atol=1e-10)


@pytest.mark.parametrize("d", [1, 4, 16])
@pytest.mark.parametrize("name", NAMES)
def test_modes_are_modes(name, d):
    """The density is level there in every direction, and lower a little away."""
    prior = log_prior(name, d)
    theta = np.log(prior.modes)
    value, gradient = prior.value_and_gradient(theta)
    np.testing.assert_allclose(gradient, 0.0, atol=1e-12)
    for shift in 0.1 * np.vstack([np.eye(d + 2), -np.eye(d + 2)]):
        assert prior.value_and_gradient(theta + shift)[0] < value


def test_one_prior_knows_the_dimension_and_the_other_does_not():
    """Lengthscales expected beforehand: four times as long with sixteen times the variables, or 1/3 always."""
    first = {(name, d): log_prior(name, d).modes[2] for name in NAMES for d in (1, 16)}
    assert first["dimension-scaled", 16] == pytest.approx(4 * first["dimension-scaled", 1])
    assert first["gamma", 1] == first["gamma", 16] == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", NAMES)
def test_before_anything_is_learned_the_modes_are_used(name):
    """Two outcomes teach nothing."""
    x, y = trials(2, 4)
    h = fit(x, y, ModelOptions(prior=name, kernel="squared-exponential")).hyperparameters
    assert [h.signal_sd, h.noise_sd, *h.lengthscales] == list(log_prior(name, 4).modes)


def test_gamma_is_what_gamma_maximises():
    """No small change of a learned hyper-parameter improves likelihood times scipy's densities."""
    x, y = trials(30, 2)
    standardised = (y - y.mean()) / y.std()
    h = fit(x, y, ModelOptions(prior="gamma", kernel="squared-exponential")).hyperparameters

    def log_posterior(signal, noise, *lengthscales):
        scaled = ((x[:, None] - x) / np.array(lengthscales)) ** 2
        K = signal**2 * np.exp(-0.5 * scaled.sum(axis=2)) + noise**2 * np.eye(len(y))
        likelihood = -0.5 * (standardised @ np.linalg.solve(K, standardised) + np.linalg.slogdet(K)[1])
        return likelihood + log_gamma(signal, noise, np.array(lengthscales))

    learned = np.array([h.signal_sd, h.noise_sd, *h.lengthscales])
    best = log_posterior(*learned)
    for i in range(4):
        for factor in (0.9, 1.1):
            changed = learned.copy()
            changed[i] *= factor
            assert log_posterior(*changed) < best


def test_gamma_keeps_the_lengthscales_of_idle_variables_short():
    """The variable that matters is learned alike; the others are all but ignored by default, and not by gamma."""
    x, y = trials(40, 8)
    idle, used = {}, {}
    for name in NAMES:
        h = fit(x, y, ModelOptions(prior=name, kernel="squared-exponential")).hyperparameters
        used[name], idle[name] = h.lengthscales[0], np.median(h.lengthscales[1:])
    assert idle["gamma"] < 1.5 < idle["dimension-scaled"]
    assert used["gamma"] == pytest.approx(used["dimension-scaled"], rel=0.5)


def test_fixed_hyperparameters_have_no_prior():
    """What is given is used as it is."""
    x, y = trials(10, 1)
    given_ones = {"lengthscales": (0.3,), "signal_sd": 2.0, "noise_sd": 0.1, "mean": 0.0}
    posteriors = [fit(x, y, ModelOptions("fixed", prior=name, **given_ones)) for name in NAMES]
    assert posteriors[0].hyperparameters == posteriors[1].hyperparameters
