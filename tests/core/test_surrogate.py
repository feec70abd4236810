"""The surrogate against scikit-learn's own predictions, and in every corner a campaign can reach."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.gp import learning, searching
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.learning import ProductCovariance
from rigctl.core.gp.surrogate import fit
from tests.core.claims import unreadable

FIXED = ModelOptions(hyperparameters="fixed", lengthscales=(0.3, 0.6), signal_sd=2.0, noise_sd=0.1, mean=5.0)
LEARNED = ModelOptions(kernel="squared-exponential")


def trials(n, seed=0, d=2):
    """Noisy trials (n, d), (n,) of a smooth function in which the last variable has no effect."""
    rng = np.random.default_rng(seed)
    x = rng.random((n, d))
    return x, 10 + 3 * np.sin(5 * x[:, 0]) + 0.1 * rng.standard_normal(n)


@pytest.mark.parametrize(
    ("d", "name", "kernel", "lengthscales"),
    [(2, "squared-exponential", RBF([0.3, 0.6]), (0.3, 0.6)), (1, "matern-5/2", Matern(0.3, nu=2.5), (0.3,))],
)
def test_fixed_posterior_is_scikit_learns(d, name, kernel, lengthscales):
    """In the outcome's own units; in one dimension the product of Matern kernels is scikit-learn's Matern-5/2."""
    x, y = trials(25, d=d)
    theirs = GaussianProcessRegressor(ConstantKernel(4.0) * kernel, alpha=0.01, optimizer=None).fit(x, y - 5.0)
    at = np.random.default_rng(1).random((50, d))
    mean, sd = theirs.predict(at, return_std=True)
    posterior = fit(x, y, replace(FIXED, kernel=name, lengthscales=lengthscales))
    np.testing.assert_allclose(posterior.mean(at), mean + 5.0, atol=1e-9)
    np.testing.assert_allclose(posterior.sd(at), sd, atol=1e-9)


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_learned_posterior_is_scikit_learns_with_the_learned_kernel(kernel):
    """Standardisation and its undoing are those of scikit-learn's normalize_y."""
    x, y = trials(30)
    posterior = fit(x, y, ModelOptions(kernel=kernel))
    h = posterior.hyperparameters
    covariance = ProductCovariance(np.array([h.signal_sd, 1e-9, *h.lengthscales]), kernel)
    theirs = GaussianProcessRegressor(covariance, alpha=h.noise_sd**2, optimizer=None, normalize_y=True).fit(x, y)
    at = np.random.default_rng(1).random((50, 2))
    mean, sd = theirs.predict(at, return_std=True)
    np.testing.assert_allclose(posterior.mean(at), mean, rtol=1e-8)
    np.testing.assert_allclose(posterior.sd(at), sd, rtol=1e-5)


def test_the_inverse_is_the_inverse():
    """K_inv undoes the covariance with its noise; clone, diagonal and cross-covariance are as the regressor assumes."""
    x, y = trials(15)
    posterior = fit(x, y, FIXED)
    full = 4.0 * np.exp(-0.5 * (((x[:, None] - x) / [0.3, 0.6]) ** 2).sum(axis=2)) + 0.01 * np.eye(15)
    np.testing.assert_allclose(posterior.K_inv @ full, np.eye(15), atol=1e-9)
    x, _ = trials(6)
    kernel = ProductCovariance(np.array([1.3, 0.2, 0.4, 0.8]))
    again = kernel.clone_with_theta(kernel.theta)
    np.testing.assert_allclose(again(x), kernel(x))
    np.testing.assert_allclose(kernel.diag(x), np.diag(kernel(x)))
    np.testing.assert_allclose(kernel(x, x) + 0.04 * np.eye(6), kernel(x))
    assert kernel.is_stationary()


def test_learning_finds_what_matters_and_how_noisy_it_is():
    """The idle variable gets a long lengthscale, the other a short one, and the noise is about the true 0.1."""
    x, y = trials(60)
    h = fit(x, y, LEARNED).hyperparameters
    assert h.lengthscales[0] < 1.0
    assert h.lengthscales[1] > 3.0
    assert h.noise_sd * h.y_scale == pytest.approx(0.1, rel=0.4)
    assert h.y_shift == pytest.approx(y.mean())


def test_previous_hyperparameters_are_used_exactly_unless_a_refit_is_due():
    """Between refits only the factorisation changes; standardisation too stays as it was."""
    x, y = trials(20)
    previous = fit(x[:10], y[:10], LEARNED).hyperparameters
    assert fit(x, y, LEARNED, previous, refit=False).hyperparameters == previous
    assert fit(x, y, LEARNED, previous, refit=True).hyperparameters != previous


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(finite, min_size=1, max_size=5), finite, finite, finite, finite, finite)
def test_hyperparameters_survive_json_exactly(lengthscales, signal, noise, mean, shift, scale):
    """Written to JSON text and read back they are equal, whatever the floats."""
    h = Hyperparameters(tuple(lengthscales), signal, noise, mean, shift, scale, "matern-5/2")
    assert Hyperparameters.from_json(json.loads(json.dumps(h.to_json()))) == h


def test_incomplete_json_is_refused(golden):
    """A state with a missing or unknown key is an error, not a default."""
    stored = Hyperparameters((0.1,), 1.0, 0.1).to_json()
    for wrong in ({**stored, "nugget": 1.0}, {key: value for key, value in stored.items() if key != "mean"}):
        with golden.raises(ValueError):
            Hyperparameters.from_json(wrong)


@pytest.mark.parametrize("n", [0, 1, 2, 3])
@pytest.mark.parametrize("options", [FIXED, LEARNED])
def test_few_trials_are_enough(n, options):
    """With no, one, two or three trials there is a posterior; with none it is the prior."""
    x, y = trials(3)
    posterior = fit(x[:n], y[:n], options)
    at = np.array([[0.2, 0.8], *x[:n]])
    assert np.isfinite(posterior.mean(at)).all()
    assert (posterior.sd(at) > 0).all()
    if n == 0:
        h = posterior.hyperparameters
        np.testing.assert_allclose(posterior.mean(at), h.y_shift + h.y_scale * h.mean)
        np.testing.assert_allclose(posterior.sd(at), h.y_scale * h.signal_sd)
    elif options is FIXED:
        np.testing.assert_allclose(posterior.mean(x[:n]), y[:n], atol=0.1)


@pytest.mark.parametrize("scale", [1e-300, 1e-12, 1.0, 1e12, 1e200])
def test_the_outcomes_scale_does_not_matter(scale):
    """Outcomes in other units give the same model in those units, from 1e-300 to 1e200."""
    x, y = trials(20)
    plain, scaled = fit(x, y, LEARNED), fit(x, y * scale, LEARNED)
    np.testing.assert_allclose(scaled.mean(x) / scale, plain.mean(x), rtol=1e-3)
    np.testing.assert_allclose(scaled.sd(x) / scale, plain.sd(x), rtol=5e-2)


@pytest.mark.parametrize("constant", [0.0, 7.0, 1e300])
def test_constant_outcomes_do_not_make_the_model_certain(constant):
    """Equal outcomes teach nothing about the spread, which stays of the outcome's own size."""
    x, _ = trials(8)
    posterior = fit(x, np.full(8, constant), LEARNED)
    away = np.array([[5.0, 5.0]])
    assert posterior.mean(x) == pytest.approx(np.full(8, constant))
    assert posterior.sd(away)[0] == pytest.approx(constant or 1.0)


def test_repeated_rows_are_an_ordinary_history():
    """The same setting measured again and again is averaged, without jitter or notes when there is noise."""
    x, y = np.full((30, 2), 0.5), np.tile([1.0, 2.0], 15)
    posterior = fit(x, y, ModelOptions("fixed", lengthscales=(0.3, 0.3), signal_sd=1.0, noise_sd=0.5, mean=0.0))
    assert posterior.mean(x[:1])[0] == pytest.approx(45 * 1.0 / (30 + 0.25))
    assert (posterior.jitter, posterior.notes) == (0.0, ())
    learned = fit(x, y, LEARNED)
    assert learned.mean(x[:1])[0] == pytest.approx(1.5, abs=0.01)


def test_fault_49_what_is_singular_or_does_not_converge_is_noted(golden, monkeypatch):
    """Repeated rows without noise are factorised all the same; an optimiser stopped early changes only notes."""
    options = ModelOptions("fixed", lengthscales=(0.3, 0.3), signal_sd=2.0, noise_sd=0.0, mean=0.0)
    x = np.array([[0.5, 0.5]] * 3 + [[0.1, 0.9]])
    posterior = fit(x, np.array([1.0, 1.0, 1.0, -1.0]), options)
    assert posterior.jitter > 0
    golden(posterior.notes[0])
    assert not unreadable(posterior.notes[0])
    np.testing.assert_allclose(posterior.mean(x), [1.0, 1.0, 1.0, -1.0], atol=1e-3)
    assert posterior.hyperparameters.noise_sd == 0.0
    x, y = trials(20)
    previous = fit(x[:10], y[:10], LEARNED).hyperparameters
    monkeypatch.setattr(searching, "MOST_ITERATIONS", 1)
    kept = fit(x, y, LEARNED, previous, refit=True)
    assert kept.hyperparameters == previous
    golden(kept.notes[0])
    assert not unreadable(kept.notes[0])
    first = fit(x, y, LEARNED)
    assert first.hyperparameters.lengthscales == (np.exp(np.sqrt(2) + np.log(2) / 2 - 3),) * 2
    golden(first.notes[0])


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_advice_learns_the_same_to_the_bit_without_scikit_learn(monkeypatch, kernel):
    """With and without a fit before; scikit-learn, whose loading takes longer than learning, is not asked."""
    (x, y), options = trials(40), ModelOptions(hyperparameters="learned", kernel=kernel)
    previous = fit(x[:25], y[:25], options).hyperparameters
    decided = [fit(x, y, options, before) for before in (None, previous)]
    monkeypatch.setattr(learning, "fitted", None)
    for before, other in zip((None, previous), decided, strict=True):
        advised = fit(x, y, options, before, light=True)
        assert advised.hyperparameters == other.hyperparameters
        assert advised.alpha.tobytes() == other.alpha.tobytes()


def test_many_trials_are_thinned_for_learning_only(monkeypatch):
    """Beyond the limit hyper-parameters come from rows spread over the campaign; the posterior uses all rows."""
    x, y = trials(60)
    monkeypatch.setattr(searching, "MOST_ROWS", 20)
    posterior = fit(x, y, LEARNED)
    rows = np.linspace(0, 59, 20).round().astype(int)
    start = fit(x[rows], y[rows], LEARNED).hyperparameters
    assert len(posterior.alpha) == 60
    assert posterior.hyperparameters.lengthscales == pytest.approx(start.lengthscales, rel=0.2)


@pytest.mark.parametrize(
    ("x", "y", "options", "says"),
    [
        (np.zeros((2, 2)), np.zeros(3), LEARNED, "need"),
        (np.zeros((0, 0)), np.zeros(0), LEARNED, r"\(0, d\)"),
        (np.array([[np.nan, 0.0]]), np.zeros(1), LEARNED, "finite"),
        (np.zeros((1, 2)), np.array([np.inf]), LEARNED, "finite"),
        (np.zeros((1, 2)), np.zeros(1), ModelOptions("fixed"), "need lengthscales"),
        (np.zeros((1, 3)), np.zeros(1), FIXED, "3 lengthscales"),
    ],
)
def test_wrong_arguments_say_what_is_needed(x, y, options, says):
    """Shapes, finiteness and missing hyper-parameters are checked at the door; so is a state of another space."""
    with pytest.raises(ValueError, match=says):
        fit(x, y, options)
    with pytest.raises(ValueError, match="d = 2"):
        fit(*trials(5), LEARNED, Hyperparameters((0.1,), 1.0, 0.1), refit=False)
