"""Functions drawn from the posterior, and the waves they are made of."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import truncnorm, uniform

from rigctl.core.acquisition.fourier import SampledFunction, characteristic, spectral_draw
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.kernels import ProductKernel
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.gp.surrogate import fit
from tests.core.plain import LOC, SCALE, make_case, slopes
from tests.core.set_moments import SetIntegrals
from tests.profiles import nightly_beyond

KERNELS = ("squared-exponential", "matern-5/2")
FREQUENCIES = np.array([0.0, 0.3, -2.0, 17.0, -60.0, 240.0])


def drawn(case, features=512, seed=0):
    posterior = fit(case.plain.x, case.plain.y, case.options)
    e = Expectations.of(posterior, case.space)
    among = range(len(case.space.control_sets))
    return posterior, SampledFunction.draw(e, case.space, among, features, np.random.default_rng(seed))


def density_of(marginal):
    """The same distribution in scipy."""
    if isinstance(marginal, Uniform):
        return uniform(marginal.low, marginal.high - marginal.low)
    loc, scale = marginal.loc, marginal.scale
    return truncnorm(-loc / scale, (1 - loc) / scale, loc, scale)


@pytest.mark.parametrize(
    "marginal", nightly_beyond(1, [TruncatedNormal(0.4, 0.15), Uniform(0.1, 0.8), TruncatedNormal(-3.0, 0.5)])
)
@pytest.mark.slow
def test_characteristic_functions_are_integrals_over_the_density(marginal):
    """As by adaptive quadrature, also for waves far shorter than the distribution is wide."""
    got = characteristic(marginal, FREQUENCIES)
    low, high = marginal.quantile(np.array([0.0, 1.0]))
    density = density_of(marginal).pdf
    for w, value in zip(FREQUENCIES, got, strict=True):
        parts = [
            quad(lambda x: density(x) * f(w * x), low, high, limit=800)[0]  # noqa: B023
            for f in (np.cos, np.sin)
        ]
        assert value == pytest.approx(complex(*parts), abs=1e-9)


def test_the_characteristic_function_of_readings_is_their_mean():
    """An empirical marginal, readings outside the range included."""
    readings = (-0.1, 0.2, 0.25, 1.05)
    expected = np.exp(1j * np.outer(FREQUENCIES, readings)).mean(axis=1)
    np.testing.assert_allclose(characteristic(Empirical(readings), FREQUENCIES), expected, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_waves_have_the_kernel_as_their_covariance(name):
    """The mean of cos(w'(x - x')) over drawn frequencies is the kernel, within four standard errors."""
    kernel, count = ProductKernel(name, np.array([0.2, 0.7, 0.9]), (0, 0, 5)), 200_000
    w = spectral_draw(kernel, count, np.random.default_rng(0))
    for delta in ([0.1, 0.0, 0.0], [0.0, 0.5, 0.25], [0.15, -0.4, 1.0], [0.5, 0.5, -0.75]):
        exact = kernel.matrix(np.array([delta]), np.zeros((1, 3)))[0, 0]
        assert np.cos(w @ delta).mean() == pytest.approx(exact, abs=4 / np.sqrt(2 * count))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", nightly_beyond(1, KERNELS))
def test_draws_have_the_posterior_mean_and_spread(kernel):
    """Over many draws the value of a setting has the exact mean and sd[F_i | D], for every kind of control set."""
    case = make_case(2, 6, 0.4, [("a",), ("b",), ("a", "b")], kernel=kernel)
    posterior = fit(case.plain.x, case.plain.y, replace(case.options, noise_sd=0.8))
    e, rng = Expectations.of(posterior, case.space), np.random.default_rng(1)
    points, sets = rng.random((6, 2)), np.array([0, 0, 1, 1, 2, 2])
    draws = 900
    samples = [SampledFunction.draw(e, case.space, range(3), 128, rng).value(points, sets) for _ in range(draws)]
    values = np.array(samples)
    for row, i in enumerate(sets):
        exact = SetIntegrals.of(posterior, case.space, int(i))
        setting = points[row : row + 1, list(case.space.control_sets[i].indices)]
        mean, sd = exact.mean(setting)[0], exact.sd(setting)[0]
        assert values[:, row].mean() == pytest.approx(mean, abs=4 * sd / np.sqrt(draws))
        assert values[:, row].std() == pytest.approx(sd, rel=4 / np.sqrt(2 * draws) + 0.02)


@pytest.mark.slow
def test_draws_of_different_settings_vary_together_as_the_posterior_says():
    """Covariances between points are those of the process, not only the variances."""
    case = make_case(2, 5, 0.5, [("a", "b")])
    posterior = fit(case.plain.x, case.plain.y, case.options)
    e, rng = Expectations.of(posterior, case.space), np.random.default_rng(2)
    points, sets = rng.random((4, 2)), np.zeros(4, dtype=int)
    values = [SampledFunction.draw(e, case.space, [0], 128, rng).value(points, sets) for _ in range(2000)]
    exact = case.plain.covariance(points, points)
    scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
    np.testing.assert_allclose(np.cov(np.array(values).T) / scale, exact / scale, atol=0.12)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_value_of_a_setting_is_the_integral_of_the_same_draw(kernel):
    """Averaging one drawn function over an uncontrolled variable gives what the set without it is said to be worth."""
    case = make_case(3, 20, 0.2, [("a",), ("a", "b", "c")], kernel=kernel)
    _, function = drawn(case)
    rule = TruncatedNormal(LOC, SCALE).rule(0.05)
    b, c = (g.ravel() for g in np.meshgrid(rule[0], rule[0], indexing="ij"))
    weights = np.outer(rule[1], rule[1]).ravel()
    for a in (0.1, 0.5, 0.93):
        full = np.column_stack([np.full(b.size, a), b, c])
        expected = weights @ function.value(full, np.ones(b.size, dtype=int))
        got = function.value(np.array([[a, 0.5, 0.5]]), np.array([0]))[0]
        assert got == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gradients_are_those_of_the_value(kernel):
    """Central differences, and nothing along uncontrolled variables."""
    case = make_case(3, 15, 0.4, [("a",), ("b", "c"), ("a", "b", "c")], kernel=kernel)
    _, function = drawn(case)
    points, sets = np.random.default_rng(3).random((9, 3)), np.repeat([0, 1, 2], 3)
    value, gradient = function.value_and_gradient(points, sets)
    np.testing.assert_allclose(value, function.value(points, sets), atol=1e-5)
    found = slopes(lambda p: function.value(p, sets), points, 2e-3)  # no tiny steps: waves are in single precision
    np.testing.assert_allclose(gradient, found, atol=2e-3 * np.abs(gradient).max())
    assert not gradient[:3, 1:].any()
    assert not gradient[3:6, 0].any()


def test_a_draw_runs_through_the_data():
    """Where there is hardly any noise, every drawn function takes the observed values."""
    case = make_case(2, 12, 0.5, [("a", "b")])
    posterior, function = drawn(case)
    h = posterior.hyperparameters
    values = h.y_shift + h.y_scale * function.value(case.plain.x, np.zeros(12, dtype=int))
    np.testing.assert_allclose(values, case.plain.y, atol=5 * 0.02)
