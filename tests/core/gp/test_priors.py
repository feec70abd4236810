"""Hyper-parameters: their priors, what is learned of them by scikit-learn's process, and what is left open."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gamma, lognorm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from rigctl import History, ModelOptions, Problem
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import errors
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.learning import MapRegressor, ProductCovariance
from rigctl.core.gp.model import MOST_ROWS, fit_history, with_plausible
from rigctl.core.gp.noticing import OutcomeRecord
from rigctl.core.gp.plausible import plausible
from rigctl.core.gp.priors import LogLikelihood, log_prior
from rigctl.core.gp.surrogate import fit
from tests.core.conftest import FIXED, make_history, unit_space
from tests.core.plain import slopes
from tests.profiles import share

NAMES = ["dimension-scaled", "gamma"]
THETA = np.log([1.2, 0.1, 0.3, 0.8])


def trials(n, d, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    return x, np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(n)


def regressor(kind=MapRegressor):
    return kind(ProductCovariance(np.exp(THETA), "squared-exponential"), log_prior("dimension-scaled", 2))


def log_gamma(signal, noise, lengthscales):
    """As its documentation says, but with scipy's densities; of noise the density of the logarithm."""
    variance = gamma.logpdf(signal**2, 2.0, scale=1 / 0.15)
    scales = gamma.logpdf(lengthscales, 3.0, scale=1 / 6.0).sum()
    return variance + scales + lognorm.logpdf(noise, 1.5, scale=0.01) + np.log(noise)


def log_dimension_scaled(signal, noise, lengthscales):
    """As documented."""
    logs = np.log(lengthscales)
    scales = -((logs - np.sqrt(2) - np.log(len(logs)) / 2) ** 2) / 6 - logs
    return scales.sum() - 2 * np.log(signal) ** 2 - 0.5 * (np.log(noise / 0.05) / 1.5) ** 2


DENSITIES = {"dimension-scaled": log_dimension_scaled, "gamma": log_gamma}


@share(0.3)
@given(st.sampled_from(NAMES), st.floats(-3, 2), st.floats(-8, 1), st.lists(st.floats(-4, 2), min_size=1, max_size=6))
def test_gradients_are_those_of_the_values(name, log_signal, log_noise, log_lengthscales):
    """Central differences agree, for any number of variables."""
    theta = np.array([log_signal, log_noise, *log_lengthscales])
    judge = log_prior(name, len(log_lengthscales)).value_and_gradient
    found = slopes(lambda rows: np.array([judge(row)[0] for row in rows]), theta[None], 1e-5)[0]
    np.testing.assert_allclose(judge(theta)[1], found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_a_prior_is_what_its_densities_say(name):
    """Up to one constant its value is the sum of log-densities; gamma's are scipy's."""
    judge, offsets = log_prior(name, 3), []
    for theta in np.random.default_rng(0).uniform(-2, 1, (5, 5)):
        signal, noise, *lengthscales = np.exp(theta)
        offsets.append(judge.value_and_gradient(theta)[0] - DENSITIES[name](signal, noise, np.array(lengthscales)))
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


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learned_maximises_likelihood_times_prior(name):
    """No small change of a learned hyper-parameter improves that, as computed from the definitions."""
    x, y = trials(30, 2)
    standardised = (y - y.mean()) / y.std()
    h = fit(x, y, ModelOptions(prior=name, kernel="squared-exponential")).hyperparameters

    def log_posterior(signal, noise, *lengthscales):
        scaled = ((x[:, None] - x) / np.array(lengthscales)) ** 2
        K = signal**2 * np.exp(-0.5 * scaled.sum(axis=2)) + noise**2 * np.eye(len(y))
        likelihood = -0.5 * (standardised @ np.linalg.solve(K, standardised) + np.linalg.slogdet(K)[1])
        return likelihood + DENSITIES[name](signal, noise, np.array(lengthscales))

    learned = np.array([h.signal_sd, h.noise_sd, *h.lengthscales])
    for factor in np.concatenate([1 - 0.1 * np.eye(4), 1 + 0.1 * np.eye(4)]):
        assert log_posterior(*(learned * factor)) < log_posterior(*learned)


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
    h = fit(*trials(30, 2), ModelOptions(kernel=kernel, prior=prior)).hyperparameters
    assert [h.signal_sd, h.noise_sd, *h.lengthscales] == pytest.approx(learned, rel=1e-6)


def test_the_likelihood_that_is_climbed_is_scikit_learns_plus_the_prior():
    """Against scikit-learn's own kernels for the same covariance: a constant times RBF, and white noise."""
    x, y = trials(30, 2)
    ours = regressor().fit(x, y)
    kernel = ConstantKernel(1.2**2) * RBF([0.3, 0.8]) + WhiteKernel(0.1**2)
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(x, y)
    likelihood, slope = theirs.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    prior, pull = log_prior("dimension-scaled", 2).value_and_gradient(THETA)
    value, gradient = ours.log_marginal_likelihood(THETA, eval_gradient=True)
    assert value == ours.log_marginal_likelihood(THETA) == pytest.approx(likelihood + prior)
    assert ours.log_marginal_likelihood() == pytest.approx(ours.log_marginal_likelihood(ours.kernel_.theta))
    # theirs is by the logarithms of variances: constant, lengthscales, white noise
    np.testing.assert_allclose(gradient - pull, [2 * slope[0], 2 * slope[3], slope[1], slope[2]], rtol=1e-7)


def test_what_fit_maximises_is_its_likelihood():
    """With another one in its place the kernel is fitted to that."""
    target = np.array([0.3, -1.0, 0.5, 0.7])

    class Bowl(MapRegressor):
        def log_marginal_likelihood(self, theta=None, eval_gradient=False, clone_kernel=True):
            off = theta - target
            return (-(off @ off), -2 * off) if eval_gradient else -(off @ off)

    np.testing.assert_allclose(regressor(Bowl).fit(*trials(30, 2)).kernel_.theta, target, atol=1e-3)


def test_a_covariance_that_does_not_factorise_is_never_the_best():
    """Minus infinity, without a slope, as scikit-learn's own likelihood says of it."""
    model = regressor().fit(*trials(30, 2))
    model.X_train_, model.y_train_ = np.full((5, 2), 0.5), np.arange(5.0)
    value, gradient = model.log_marginal_likelihood(np.array([0.0, -40.0, 0.0, 0.0]), eval_gradient=True)
    assert value == -np.inf
    assert not gradient.any()


OPTIONS = ModelOptions(kernel="matern-5/2")


def record_of(n, d=1, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    y = np.sin(6 * x[:, 0]) + noise * rng.standard_normal(n)
    return OutcomeRecord(x, y, np.arange(1.0, n + 1), float(n))


def logs(drawn):
    return np.log([[h.signal_sd, h.noise_sd, *h.lengthscales] for h in drawn])


def problem_of(model=OPTIONS):
    return Problem(unit_space(sets=[["a"], ["a", "b"]]), to_micros(50), model=model)


def test_the_same_draws_come_of_the_same_state():
    """Bit for bit, and not all one; of many outcomes narrower in every direction, in the widest less than half."""
    record = record_of(12)
    mode = fit(record.x, record.y, OPTIONS).hyperparameters
    one, other = (plausible(record, mode, "dimension-scaled", np.random.default_rng(3)) for _ in range(2))
    assert one == other
    assert len(set(one)) > len(one) // 2
    few, many = (
        logs(plausible(r, fit(r.x, r.y, OPTIONS).hyperparameters, "dimension-scaled", np.random.default_rng(0))).std(0)
        for r in (record_of(5), record_of(120))
    )
    assert (many < few).all()
    assert many.max() < 0.5 * few.max()


@pytest.mark.slow
@pytest.mark.parametrize("prior", ["dimension-scaled", "gamma"])
def test_draws_are_those_of_the_posterior_on_a_grid(prior):
    """Means and spreads of all draws of some campaigns against sums over a grid of theta."""
    record = record_of(9)
    options = ModelOptions(kernel="matern-5/2", prior=prior)
    mode = fit(record.x, record.y, options).hyperparameters
    y = (record.y - mode.y_shift) / mode.y_scale
    likelihood, density = LogLikelihood(record.x, y, mode.kernel), log_prior(prior, 1)
    axes = [np.linspace(-2.5, 4, 21), np.linspace(-8, 1.5, 21), np.linspace(-5, 4, 25)]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
    height = [likelihood.value_and_gradient(t)[0] + density.value_and_gradient(t)[0] for t in theta]
    weight = np.exp(np.array(height) - max(height))
    weight /= weight.sum()
    mean = weight @ theta
    sd = np.sqrt(weight @ np.square(theta - mean))
    drawn = np.concatenate([logs(plausible(record, mode, prior, np.random.default_rng(k))) for k in range(20)])
    assert (np.abs(drawn.mean(axis=0) - mean) < 0.5 * sd).all()
    assert drawn.std(axis=0) == pytest.approx(sd, rel=0.4)


def test_given_hyperparameters_leave_nothing_open():
    """Who gives them knows them."""
    history = make_history([(1, x, float(x[0]), 1.0) for x in np.random.default_rng(0).random((8, 2))])
    posterior = fit_history(problem_of(FIXED), history).posterior
    assert with_plausible(problem_of(FIXED), history, posterior) == (posterior,)


@pytest.mark.slow
def test_so_many_outcomes_are_taken_to_leave_nothing_open():
    """Their draws would cost more than they tell."""
    x = np.random.default_rng(0).random((MOST_ROWS + 1, 2))
    history = make_history([(1, at, float(at[0]), 1.0) for at in x])
    posterior = fit_history(problem_of(), history, Hyperparameters((0.5, 0.5), 1.0, 0.1)).posterior
    assert len(with_plausible(problem_of(), history, posterior)) == 1


def test_errors_are_those_of_the_first_means():
    """A mixture's mean products about one point, by plain draws."""
    rng = np.random.default_rng(1)
    means = [rng.normal(size=2) for _ in range(3)]
    roots = [rng.normal(size=(2, 2)) for _ in range(3)]
    draws = np.concatenate([m + rng.standard_normal((200_000, 2)) @ r.T for m, r in zip(means, roots, strict=True)])
    off = draws - means[0]
    assert errors(means, [r @ r.T for r in roots]) == pytest.approx(off.T @ off / len(off), rel=0.02, abs=0.02)


@pytest.mark.slow
def test_few_outcomes_tell_of_a_wide_interval():
    """The model takes four outcomes on a line for all there is, though they may as well be four of a ripple."""
    problem = problem_of()
    x = np.array([[0.1, 0.5], [0.4, 0.5], [0.6, 0.5], [0.9, 0.5]])
    history = make_history([(1, at, float(at[0]), 1.0) for at in x])
    found = recommend(problem, history, trial_rng(0, 1), 0.0).choice
    alone = fit_history(problem, history, under_way=False).posterior
    assert isinstance(history, History)
    at = np.array([[found.setpoints["a"], found.setpoints.get("b", 0.5)]])
    assert found.high - found.low > 4 * 1.96 * float(alone.sd(at)[0])
