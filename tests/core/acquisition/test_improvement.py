"""Expected improvement against numerical integration, and its logarithm where nothing else has digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from rigctl.core.acquisition.improvement import (
    expected_improvement,
    log_expected_improvement,
    log_height,
    log_improvement_per_cost,
)

CASES = [(0.3, 1.0, 0.0), (-2.0, 0.5, 0.5), (5.0, 2.0, 1.0), (1.0, 1e-3, 1.001), (0.0, 3.0, 10.0)]


@pytest.mark.parametrize(("mean", "sd", "best"), CASES)
def test_improvement_equals_its_integral(mean, sd, best):
    """E[max(F - best, 0)], F normal, by adaptive quadrature of the definition (eq. 3)."""
    from scipy.integrate import quad
    from scipy.stats import norm

    low, high = max(best, mean - 12 * sd), max(best, mean) + 12 * sd
    exact, _ = quad(lambda x: (x - best) * norm.pdf(x, mean, sd), low, high, epsabs=0)
    found = expected_improvement(np.array([mean]), np.array([sd]), best)[0]
    assert found == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("v", [-1e4, -200.0, -50.1, -49.9, -37.0, -8.0, -1.0, -1e-9, 0.0, 0.5, 3.0, 40.0, 1e4])
def test_the_logarithm_and_its_slopes_hold_where_the_improvement_underflows(v):
    """The logarithm of h, phi/h and Phi/h against 60 digits, on both sides of where the series takes over."""
    with mpmath.workdps(60):
        z = mpmath.mpf(v)
        # 1 - Phi as erfc, since 60 digits of Phi near 0 or 1 would not do for v = 1e4
        phi, cap = mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi), mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        with mpmath.workdps(120):
            h = phi + z * cap
        found = log_height(np.array([v]))
        assert found.log_h[0] == pytest.approx(float(mpmath.log(h)), rel=1e-14, abs=1e-14)
        assert found.phi_share[0] == pytest.approx(float(phi / h), rel=1e-11)
        assert found.Phi_share[0] == pytest.approx(float(cap / h), rel=1e-11)


def test_slopes_are_those_of_the_logarithm():
    """By mean, by sd and by cost, against central differences."""
    mean, sd, cost = np.array([-3.0, 0.2, 2.0]), np.array([0.3, 1.0, 0.5]), np.array([0.1, 1.0, 20.0])
    at = log_improvement_per_cost(mean, sd, 0.5, cost)
    h = 1e-6
    for k, slope in enumerate((at.by_mean, at.by_sd, at.by_cost)):
        up, down = [mean, sd, cost], [mean, sd, cost]
        up[k], down[k] = up[k] * (1 + h), down[k] * (1 - h)
        value = [log_improvement_per_cost(m, s, 0.5, c).value for m, s, c in (up, down)]
        np.testing.assert_allclose((value[0] - value[1]) / (up[k] - down[k]), slope, rtol=1e-5)


def test_per_unit_cost_is_the_improvement_divided_by_the_cost():
    """EIPC = EI / c (eq. 3), and with c = 1 it is EI."""
    mean, sd, cost = np.array([0.0, 1.0]), np.array([1.0, 0.1]), np.array([4.0, 0.25])
    improvement = expected_improvement(mean, sd, 0.7)
    np.testing.assert_allclose(np.exp(log_improvement_per_cost(mean, sd, 0.7, cost).value), improvement / cost)
    plain = log_expected_improvement(mean, sd, 0.7).value
    np.testing.assert_allclose(np.exp(plain), improvement)


def test_without_spread_the_improvement_is_the_difference():
    """Where sd is 0: what the mean exceeds the best by, else nothing, whose logarithm is -inf; no warning."""
    mean, sd = np.array([1.0, 0.5, 0.0]), np.zeros(3)
    np.testing.assert_array_equal(expected_improvement(mean, sd, 0.5), [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(log_expected_improvement(mean, sd, 0.5).value, [np.log(0.5), -np.inf, -np.inf])
