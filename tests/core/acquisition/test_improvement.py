"""Expected improvement against numerical integration, and its logarithm where nothing else has digits."""

import mpmath
import numpy as np
import pytest

from rigctl.core.acquisition.improvement import (
    expected_improvement,
    gittins_index,
    inverse_height,
    log_expected_improvement,
    log_height,
    log_improvement_per_cost,
)
from tests.profiles import slow_beyond

DIGITS = 60
ONES = np.ones(1)


def exact_v(q: mpmath.mpf, near: float) -> mpmath.mpf:
    """The root of phi(v) + v Phi(v) = q, by bisection in 60 digits, from no formula of the project's."""
    low, high = mpmath.mpf(near) - 1, mpmath.mpf(near) + 1
    for _ in range(4 * DIGITS):
        middle = (low + high) / 2
        above = mpmath.npdf(middle) + middle * mpmath.ncdf(middle) > q
        low, high = (low, middle) if above else (middle, high)
    return low


@pytest.mark.parametrize(
    "exponent", slow_beyond(5, [-300, -20, -4, 0, 3, -150, -60, -30, -16, -12, -9, -6, -2, -1, 1, 2])
)
def test_the_index_equals_root_finding_over_many_orders_of_magnitude(exponent):
    """For lambda c / s from 1e-300 to 1e3 v has 13 right digits (relative; absolute where it passes through 0)."""
    with mpmath.workdps(DIGITS):
        for mantissa in (1.0, 2.5, 3.9894, 7.7):
            q = mantissa * 10.0**exponent
            v = float(inverse_height(np.log(np.array([q])))[0])
            exact = exact_v(mpmath.mpf(q), v)
            assert abs(v - exact) <= 1e-13 * max(1, abs(exact))


def test_the_index_is_what_makes_the_improvement_equal_its_price():
    """EI(mu, s; g) = lambda c, by integration (eq. 5); it is above the best if and only if EI(best) > lambda c."""
    from scipy.integrate import quad
    from scipy.stats import norm

    for mean, sd, price in [(0.3, 1.0, 1e-4), (-2.0, 0.5, 0.01), (5.0, 2.0, 3.0), (0.0, 1e-3, 1e-5), (1.0, 1.0, 50.0)]:
        g = gittins_index(mean * ONES, sd * ONES, price * ONES).value[0]
        low, high = max(g, mean - 12 * sd), mean + 12 * sd
        gain, _ = quad(lambda x, g=g, mean=mean, sd=sd: (x - g) * norm.pdf(x, mean, sd), low, high, epsabs=0)
        assert gain == pytest.approx(price, rel=1e-8)
    rng = np.random.default_rng(1)
    mean, sd, price = rng.normal(size=500), rng.gamma(2.0, 0.3, 500), rng.gamma(1.0, 0.05, 500)
    worth = expected_improvement(mean, sd, 0.5) > price
    np.testing.assert_array_equal(gittins_index(mean, sd, price).value > 0.5, worth)
    assert 50 < worth.sum() < 450


def test_where_nothing_is_uncertain_the_index_is_the_mean_less_the_price():
    """As s goes to 0 g goes to mu - lambda c, and EI to what the mean exceeds the best by, without a warning."""
    sd = np.array([1e-2, 1e-4, 1e-8, 1e-200, 0.0])
    index = gittins_index(np.full(5, 2.0), sd, np.full(5, 0.5))
    np.testing.assert_allclose(index.value, 1.5, rtol=1e-15)
    assert np.isfinite(index.by_sd).all()
    np.testing.assert_allclose(index.by_cost, -1.0, rtol=1e-12)
    mean, sd = np.array([1.0, 0.5, 0.0]), np.zeros(3)
    np.testing.assert_array_equal(expected_improvement(mean, sd, 0.5), [0.5, 0.0, 0.0])
    np.testing.assert_array_equal(log_expected_improvement(mean, sd, 0.5).value, [np.log(0.5), -np.inf, -np.inf])


@pytest.mark.slow
def test_the_gradient_is_that_of_the_index():
    """Eq. 8, against central differences in 60 digits, for prices from 1e-10 to 10."""
    with mpmath.workdps(DIGITS):
        for price in (1e-10, 1e-4, 0.1, 1.0, 10.0):
            at = gittins_index(np.array([0.4]), np.array([0.7]), np.array([price]), rate=2.0)

            def exact(mean, sd, price, near):
                return mean - sd * exact_v(price / sd, near)

            near, h = (0.4 - at.value[0]) / 0.7, mpmath.mpf("1e-15")
            args = [mpmath.mpf("0.4"), mpmath.mpf("0.7"), mpmath.mpf(price)]
            slopes = []
            for k in range(3):
                step = h * args[k]
                up, down = ([*args[:k], args[k] + s, *args[k + 1 :]] for s in (step, -step))
                slopes.append(float((exact(*up, near) - exact(*down, near)) / (2 * step)))
            found = [at.by_mean[0], at.by_sd[0], at.by_cost[0] / 2.0]
            np.testing.assert_allclose(found, slopes, rtol=1e-9, atol=1e-30)


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


def test_per_unit_cost_is_the_improvement_divided_by_the_cost():
    """EIPC = EI / c (eq. 3), with c = 1 it is EI; slopes by mean, sd and cost are those of central differences."""
    mean, sd, cost = np.array([0.0, 1.0]), np.array([1.0, 0.1]), np.array([4.0, 0.25])
    improvement = expected_improvement(mean, sd, 0.7)
    np.testing.assert_allclose(np.exp(log_improvement_per_cost(mean, sd, 0.7, cost).value), improvement / cost)
    plain = log_expected_improvement(mean, sd, 0.7).value
    np.testing.assert_allclose(np.exp(plain), improvement)
    mean, sd, cost = np.array([-3.0, 0.2, 2.0]), np.array([0.3, 1.0, 0.5]), np.array([0.1, 1.0, 20.0])
    at = log_improvement_per_cost(mean, sd, 0.5, cost)
    h = 1e-6
    for k, slope in enumerate((at.by_mean, at.by_sd, at.by_cost)):
        up, down = [mean, sd, cost], [mean, sd, cost]
        up[k], down[k] = up[k] * (1 + h), down[k] * (1 - h)
        value = [log_improvement_per_cost(m, s, 0.5, c).value for m, s, c in (up, down)]
        np.testing.assert_allclose((value[0] - value[1]) / (up[k] - down[k]), slope, rtol=1e-5)
