"""Outcomes that are noisier than the others, or whose noise is known, against scikit-learn with an `alpha` per row."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rigctl.core.experiment.history import History, Memo, Observation
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.priors import LogLikelihood
from rigctl.core.gp.surrogate import fit
from tests.core.plain import slopes

H = Hyperparameters((0.3, 0.5), signal_sd=1.3, noise_sd=0.1, mean=0.1, y_shift=3.0, y_scale=2.0)
ALL, FEW = (
    ModelOptions(max_points=10_000, kernel="squared-exponential"),
    ModelOptions(max_points=60, kernel="squared-exponential"),
)


def trials(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return x, 3 + 2 * np.sin(5 * x[:, 0]) * x[:, 1] + 0.2 * rng.standard_normal(n)


def own_noise(n):
    """By turns: sd known, twice the model's, the model's own."""
    noise = np.tile([np.nan, 1.0], (n, 1))
    noise[::3, 0], noise[1::3, 1] = 0.7, 2.0
    return noise


def alpha_of(noise, h=H):
    """The same as scikit-learn takes it: a variance per row, standardised."""
    return np.array([(k / h.y_scale) ** 2 if np.isfinite(k) else (f * h.noise_sd) ** 2 for k, f in noise])


def theirs(x, y, noise, h=H):
    kernel = ConstantKernel(h.signal_sd**2, "fixed") * RBF(h.lengthscales, "fixed")
    model = GaussianProcessRegressor(kernel, alpha=alpha_of(noise, h), optimizer=None)
    return model.fit(x, (y - h.y_shift) / h.y_scale - h.mean)


@pytest.mark.parametrize("n", [1, 5, 150])
def test_the_posterior_is_scikit_learns_with_an_alpha_per_row(n):
    """Mean and sd, in own units, over more than one block of the factor."""
    x, y = trials(n)
    noise, at = own_noise(n), np.random.default_rng(1).random((50, 2))
    ours, model = fit(x, y, ALL, H, refit=False, noise=noise), theirs(x, y, noise)
    mean, sd = model.predict(at, return_std=True)
    np.testing.assert_allclose(ours.mean(at), H.y_shift + H.y_scale * (H.mean + mean), rtol=1e-9)
    np.testing.assert_allclose(ours.sd(at), H.y_scale * sd, rtol=1e-6)
    if n > 1:
        assert not np.allclose(ours.sd(at), fit(x, y, ALL, H, refit=False).sd(at), rtol=1e-3)


def test_the_likelihood_is_scikit_learns_and_its_slopes_are_its_own():
    """Value with an alpha per row; the gradient by differences, that of the noise too."""
    x, y = trials(40)
    noise, y = own_noise(40), (y - H.y_shift) / H.y_scale - H.mean
    noise[:, 0] /= H.y_scale
    theta = np.log([H.signal_sd, H.noise_sd, *H.lengthscales])
    judge = LogLikelihood(x, y, "squared-exponential", noise)
    value, gradient = judge.value_and_gradient(theta)
    model = theirs(x, y * H.y_scale + H.y_shift + H.y_scale * H.mean, own_noise(40))
    assert value == pytest.approx(model.log_marginal_likelihood_value_, rel=1e-10)
    found = slopes(lambda rows: np.array([judge.value_and_gradient(row)[0] for row in rows]), theta[None], 1e-5)[0]
    np.testing.assert_allclose(gradient, found, rtol=1e-5, atol=1e-6)


def test_rows_that_are_all_alike_are_what_they_are_without_saying_so():
    """A factor of 1 for every row changes no more than rounding, learned or not."""
    x, y = trials(30)
    alike, at = np.tile([np.nan, 1.0], (30, 1)), np.random.default_rng(1).random((20, 2))
    for options in (ALL, ModelOptions(max_points=20, kernel="squared-exponential")):
        said, unsaid = fit(x, y, options, noise=alike), fit(x, y, options)
        np.testing.assert_allclose(said.mean(at), unsaid.mean(at), rtol=1e-9)
        np.testing.assert_allclose(said.sd(at), unsaid.sd(at), rtol=1e-7)


def test_what_is_said_of_old_trials_is_not_learned_of_new_ones():
    """Told that half of the outcomes are ten times as noisy, learning finds the others' noise; untold, a mixture."""
    rng = np.random.default_rng(4)
    x = rng.random((120, 2))
    sd = np.where(np.arange(120) < 60, 1.0, 0.1)
    y = 3 * np.sin(5 * x[:, 0]) + sd * rng.standard_normal(120)
    known = np.tile([np.nan, 1.0], (120, 1))
    known[:60, 0] = 1.0
    factor = np.tile([np.nan, 1.0], (120, 1))
    factor[:60, 1] = 10.0

    def learned(noise):
        h = fit(x, y, ALL, noise=noise).hyperparameters
        return h.noise_sd * h.y_scale

    assert learned(known) == pytest.approx(0.1, rel=0.3)
    assert learned(factor) == pytest.approx(0.1, rel=0.3)
    assert learned(None) > 0.4


def test_a_factor_grown_row_by_row_is_the_one_computed_afresh():
    """Bit for bit; and one of other noise is not taken for it."""
    x, y = trials(140)
    noise, memo = own_noise(140), Memo()
    for n in (70, 100, 139, 140):
        grown = fit(x[:n], y[:n], ALL, H, refit=False, memo=memo, noise=noise[:n])
        fresh = fit(x[:n], y[:n], ALL, H, refit=False, noise=noise[:n])
        assert np.array_equal(grown.L, fresh.L)
    for other in (None, np.where(np.isnan(noise), noise, 0.5)):
        again, fresh = (fit(x, y, ALL, H, refit=False, memo=m, noise=other) for m in (memo, None))
        assert np.array_equal(again.L, fresh.L)


def test_inducing_inputs_weigh_each_trial_by_its_noise():
    """Where few inputs explain all, mean and sd are those of the exact process; grown too, and not with other noise."""
    x, y = trials(600)
    noise, at, memo = own_noise(600), np.random.default_rng(1).random((100, 2)), Memo()
    for n in (580, 590, 600):
        exact = fit(x[:n], y[:n], ALL, H, refit=False, noise=noise[:n])
        few = fit(x[:n], y[:n], FEW, H, refit=False, memo=memo, noise=noise[:n])
        assert len(few.x) <= 60 < len(exact.x)
        np.testing.assert_allclose(few.mean(at), exact.mean(at), atol=0.1 * float(exact.sd(at).min()))
        np.testing.assert_allclose(few.sd(at), exact.sd(at), rtol=0.1)
    alike = fit(x, y, FEW, H, refit=False, memo=memo)
    assert np.array_equal(alike.L, fit(x, y, FEW, H, refit=False).L)


@pytest.mark.parametrize("options", [ALL, FEW], ids=["exact", "inducing"])
def test_drawn_noise_has_the_covariance_that_the_factor_was_made_of(options):
    """A draw of prior plus noise at the data has covariance L L'."""
    x, y = trials(90)
    posterior = fit(x, y, options, H, refit=False, noise=own_noise(90))
    n = len(posterior.x)
    columns = posterior.noise(np.eye(n))
    prior = H.signal_variance * H.product_kernel.matrix(posterior.x, posterior.x)
    np.testing.assert_allclose(prior + columns.T @ columns, posterior.L @ posterior.L.T, atol=1e-8)


def test_a_history_says_whose_noise_is_its_own():
    """None while all are alike; the rows of trials that gave no outcome are not among them."""
    plain = [Observation(n, 0, (0.5,), 1.0, 0) for n in range(1, 3)]
    assert History.of(plain).noise is None
    past = [Observation(3, 0, (0.5,), 1.0, 7, charged=False, noise_sd=0.5), Observation(4, 0, None, None, 1)]
    longer = History.of(plain)
    for o in (*past, Observation(5, 0, (0.5,), 1.0, 0, charged=False, noise_factor=2.0)):
        longer = longer.append(o)
    np.testing.assert_array_equal(longer.noise, [[np.nan, 1], [np.nan, 1], [0.5, 1], [np.nan, 2]])
    np.testing.assert_array_equal(longer.noise, History.of(longer.observations).noise)
    assert (longer.spent, longer.uncharged, list(longer.costs(0))) == (1, 2, [0, 0, 7e-6, 1e-6, 0])
