"""Conditional marginals against simulation, closed forms and quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, truncnorm

from rigctl.core.kernels import Matern52, SquaredExponential
from rigctl.core.marginals.conditional import conditional
from rigctl.core.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.marginals.stretched import Stretched

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


def test_of_a_uniform_it_is_the_gaussian_copula():
    """Against the conditional of two normal scores, simulated in full."""
    rng = np.random.default_rng(0)
    before, w = rng.standard_normal((2, 2_000_000))
    during = norm.cdf(0.7 * before + np.sqrt(1 - 0.49) * w)
    near = during[np.abs(norm.cdf(before) - 0.8) < 0.005]
    here = conditional(Uniform(), 0.7, 0.0, 0.8)
    p = np.array([0.05, 0.5, 0.95])
    np.testing.assert_allclose(here.quantile(p), np.quantile(near, p), atol=0.01)
    assert here.mean == pytest.approx(near.mean(), abs=0.005)
