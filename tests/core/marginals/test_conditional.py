"""Conditional marginals against simulation, closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from rigctl.core.experiment.kernels import Matern52, SquaredExponential
from rigctl.core.experiment.marginals.conditional import Stretched, conditional
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform

NORMAL = TruncatedNormal.from_moments(0.45, 0.15)
CUT = TruncatedNormal(0.1, 0.5)
SAMPLE = Empirical(tuple(np.random.default_rng(0).beta(2, 3, 150).tolist()))
ALL = [NORMAL, CUT, Uniform(), Uniform(0.2, 0.5), SAMPLE, Stretched(NORMAL, -0.5, 0.7)]


@pytest.mark.parametrize("marginal", ALL)
def test_a_reading_that_says_nothing_changes_nothing(marginal):
    """Nothing persists, or the error is infinite: the marginal itself."""
    assert conditional(marginal, 0.0, 0.0, 0.3) is marginal
    assert conditional(marginal, 1.0, np.inf, 0.3) is marginal


@pytest.mark.parametrize("marginal", ALL)
@pytest.mark.parametrize("reading", [-3.0, -0.1, 0.25, 0.4, 1.0, 7.0])
def test_an_exact_reading_of_what_persists_wholly_is_a_point(marginal, reading):
    """Every integral is then the kernel at the reading, and finite for readings nothing could have had."""
    here = conditional(marginal, 1.0, 0.0, reading)
    b = np.linspace(0.0, 1.0, 7)
    for kernel in (SquaredExponential(0.3), Matern52(0.3)):
        z = here.z(b, kernel)
        assert np.isfinite(z).all()
        assert here.zz(kernel) == pytest.approx(1.0, abs=1e-4)
        np.testing.assert_allclose(z, kernel.value(b - here.mean), atol=1e-4)
    if marginal.quantile(np.array(0.01)) < reading < marginal.quantile(np.array(0.99)):
        assert here.mean == pytest.approx(reading, abs=1e-3)


def test_of_a_normal_that_is_hardly_cut_it_is_the_closed_form():
    """N(m + rho k (r - m), s^2 (1 - rho^2 k)) on the range, as scipy has it."""
    m, s, rho, tau, r = NORMAL.loc, NORMAL.scale, 0.8, 0.06, 0.7
    k = s**2 / (s**2 + tau**2)
    loc, scale = m + rho * k * (r - m), s * np.sqrt(1 - rho**2 * k)
    expected = truncnorm(-loc / scale, (1 - loc) / scale, loc, scale)
    here = conditional(NORMAL, rho, tau, r)
    assert isinstance(here, TruncatedNormal)
    assert (here.loc, here.scale) == (pytest.approx(loc), pytest.approx(scale))
    p = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(here.quantile(p), expected.ppf(p), rtol=1e-9)


@pytest.mark.parametrize("marginal", ALL)
def test_averaged_over_readings_it_is_the_marginal(marginal):
    """So a rule's value, averaged over readings, is that of the marginal where readings are not used."""
    readings = marginal.quantile((np.arange(100) + 0.5) / 100)
    p = (np.arange(50) + 0.5) / 50
    x = np.concatenate([conditional(marginal, 0.8, 0.0, float(r)).quantile(p) for r in readings])
    q = np.linspace(0.05, 0.95, 10)
    span = marginal.quantile(np.array([0.05, 0.95]))
    np.testing.assert_allclose(np.quantile(x, q), marginal.quantile(q), atol=0.03 * float(np.diff(span)[0]))


def near(marginal, rho, tau, reading, wide):
    """Values during trials whose reading was near this one, of a million simulated copies of the marginal."""
    rng = np.random.default_rng(0)
    before, apart, error = rng.standard_normal((3, 1_000_000))
    seen = marginal.quantile(norm.cdf(before)) + tau * error
    taken = np.abs(seen - reading) < wide
    return marginal.quantile(norm.cdf(rho * before[taken] + np.sqrt(1 - rho**2) * apart[taken]))


@pytest.mark.parametrize(
    ("marginal", "rho", "tau", "reading"),
    [
        (Uniform(), 0.7, 0.0, 0.8),
        (Uniform(), 0.9, 0.1, 0.97),
        (Uniform(), 0.9, 0.1, 1.08),
        (CUT, 0.9, 0.1, 0.05),
        (SAMPLE, 0.8, 0.05, 0.3),
    ],
)
def test_it_is_the_gaussian_copula(marginal, rho, tau, reading):
    """As simulated, also for a reading whose error has led it out of the range.

    At the border an error makes the score before skew: of it only mean and variance are kept.
    """
    simulated = near(marginal, rho, tau, reading, 0.005)
    apart = SquaredExponential(0.2).value(simulated[:1000] - simulated[1000:2000])
    here = conditional(marginal, rho, tau, reading)
    p = np.array([0.05, 0.3, 0.5, 0.7, 0.95])
    np.testing.assert_allclose(here.quantile(p), np.quantile(simulated, p), atol=0.03 if tau else 0.015)
    assert here.mean == pytest.approx(simulated.mean(), abs=0.01)
    assert here.zz(SquaredExponential(0.2)) == pytest.approx(apart.mean(), abs=0.03)


def test_of_a_normal_it_is_that_of_a_normal_pair_within_the_range():
    """Both values cut to the range together, simulated: the closed form holds exactly then."""
    rng = np.random.default_rng(0)
    g, apart = rng.standard_normal((2, 1_000_000))
    parent = TruncatedNormal.from_moments(0.5, 0.2)
    before = parent.loc + parent.scale * g
    during = parent.loc + parent.scale * (0.7 * g + np.sqrt(1 - 0.49) * apart)
    taken = (np.abs(before - 0.85) < 0.005) & (during > 0) & (during < 1)
    p = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(
        conditional(parent, 0.7, 0.0, 0.85).quantile(p), np.quantile(during[taken], p), atol=0.015
    )


@pytest.mark.parametrize("marginal", [NORMAL, CUT, Uniform(0.2, 0.9), Stretched(CUT, -0.5, 0.7)])
@pytest.mark.parametrize("kernel", [SquaredExponential(0.15), Matern52(0.3)])
def test_kernel_integrals_agree_with_quantiles(marginal, kernel):
    """z, Z and zz against means over many quantiles, which know nothing of nodes and weights."""
    here = conditional(marginal, 0.8, 0.03, 0.55)
    x = here.quantile((np.arange(4000) + 0.5) / 4000)
    b = np.linspace(-0.2, 1.1, 6)
    at = kernel.value(b[:, None] - x)
    np.testing.assert_allclose(here.z(b, kernel), at.mean(axis=1), atol=2e-5)
    np.testing.assert_allclose(here.Z(b, b[:3], kernel), at @ at[:3].T / len(x), atol=2e-5)
    assert here.zz(kernel) == pytest.approx(here.z(x, kernel).mean(), abs=1e-4)
    assert here.mean == pytest.approx(x.mean(), abs=1e-5)


@pytest.mark.parametrize("given", [(1.2, 0.0, 0.5), (0.5, -1.0, 0.5), (0.5, 0.1, np.nan), (np.nan, 0.1, 0.5)])
def test_what_cannot_be_is_refused(given):
    """A persistence outside [0, 1], a negative error, no reading."""
    with pytest.raises(ValueError, match="conditional: got"):
        conditional(NORMAL, *given)
