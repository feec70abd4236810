"""Marginals and their one-dimensional integrals, against scipy's distributions and adaptive quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from rigctl.core.experiment.kernels import Matern52, SquaredExponential
from rigctl.core.experiment.marginals.conditional import natural_marginal
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.experiment.marginals.gaussian import gauss_legendre, largest_sd, log_integral
from tests.profiles import nightly_beyond

B = np.array([-0.1, 0.0, 0.31, 0.5, 0.98, 1.2])
TRUNCATED = {
    "wide": TruncatedNormal(0.5, 0.2),
    "narrow": TruncatedNormal(0.4, 1e-3),
    "parent far below": TruncatedNormal(-3.0, 0.5),
    "parent far above": TruncatedNormal(4.0, 0.3),
    "nearly flat": TruncatedNormal(0.2, 50.0),
    "at the edge": TruncatedNormal(1.02, 0.005),
}
PRECISE = {"squared-exponential": 1e-11, "matern-5/2": 1e-8}


def reference(marginal):
    """The same distribution in scipy: of the same variable."""
    loc, scale = marginal.loc, marginal.scale
    return truncnorm(-loc / scale, (1 - loc) / scale, loc, scale)


def sd_of(marginal):
    """The standard deviation of the variable itself, by the marginal's own quadrature."""
    nodes, weights = marginal.rule(marginal.scale)
    return np.sqrt(weights @ np.square(nodes - weights @ nodes))


def expected(density, f, breaks):
    """Adaptive quadrature over [0, 1], split where something sharp may happen."""
    edges = sorted({0.0, 1.0, *np.clip(breaks, 0.0, 1.0).tolist()})
    options = {"epsabs": 1e-14, "epsrel": 1e-11, "limit": 200}
    return sum(quad(lambda x: density(x) * f(x), a, b, **options)[0] for a, b in pairwise(edges))


def kernel_of(name, lengthscale):
    return SquaredExponential(lengthscale) if name == "squared-exponential" else Matern52(lengthscale)


@pytest.mark.parametrize("case", TRUNCATED)
def test_truncated_normal_is_scipys(case):
    """Quantiles, mean and spread agree with scipy's truncnorm, also far in a tail."""
    marginal, scipys = TRUNCATED[case], reference(TRUNCATED[case])
    p = np.array([1e-9, 1e-3, 0.1, 0.5, 0.9, 0.999, 1 - 1e-9])
    at = scipys.ppf(p)
    np.testing.assert_allclose(marginal.quantile(p), at, atol=1e-11)
    assert marginal.mean == pytest.approx(scipys.mean(), abs=1e-11)
    assert sd_of(marginal) == pytest.approx(scipys.std(), rel=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("lengthscale", nightly_beyond(1, [0.3, 0.01, 50.0]))
@pytest.mark.parametrize("name", PRECISE)
@pytest.mark.parametrize("case", TRUNCATED)
def test_truncated_normal_integrals_are_those_of_quadrature(case, name, lengthscale):
    """Both z and Z agree with adaptive quadrature of scipy's density, whatever is sharp: kernel or distribution."""
    marginal, kernel = TRUNCATED[case], kernel_of(name, lengthscale)
    density = reference(marginal).pdf
    peaks = marginal.loc + marginal.scale * np.array([-8, -3, 0, 3, 8])
    few = B[[0, 2, 4]]
    around = lengthscale * np.array([-1, 0, 1])
    z = [expected(density, lambda x, b=b: kernel.value(x - b), [*peaks, *(b + around)]) for b in few]
    np.testing.assert_allclose(marginal.z(few, kernel), z, atol=PRECISE[name])
    Z = expected(density, lambda x: kernel.value(x - 0.31) * kernel.value(x - 0.35), [*peaks, 0.31, 0.35])
    assert marginal.Z(np.array([0.31]), np.array([0.35]), kernel)[0, 0] == pytest.approx(Z, abs=PRECISE[name])


@pytest.mark.parametrize("marginal", [Uniform(), Uniform(0.25, 0.5)])
@pytest.mark.parametrize("name", PRECISE)
@pytest.mark.parametrize("lengthscale", [0.02, 0.3, 5.0])
def test_uniform_integrals_are_those_of_quadrature(marginal, name, lengthscale):
    """The integrals z, Z and zz of a uniform variable agree with adaptive quadrature."""
    kernel, width = kernel_of(name, lengthscale), marginal.high - marginal.low
    density = lambda x: (marginal.low <= x <= marginal.high) / width  # noqa: E731
    edges = [marginal.low, marginal.high]
    around = [0.31, 0.31 - 3 * lengthscale, 0.31 + 3 * lengthscale]
    z = expected(density, lambda x: kernel.value(x - 0.31), [*edges, *around])
    Z = expected(density, lambda x: kernel.value(x - 0.31) * kernel.value(x - 0.4), [*edges, *around, 0.4])
    # X - X' has a triangular density on [-width, width]
    triangle = lambda t: 2 * (width - t) / width**2 * kernel.value(np.array(t))  # noqa: E731
    zz = quad(triangle, 0, width, epsabs=1e-13, points=[0.05])[0]
    one = np.array([0.31])
    assert marginal.z(one, kernel)[0] == pytest.approx(z, abs=PRECISE[name])
    assert marginal.Z(one, np.array([0.4]), kernel)[0, 0] == pytest.approx(Z, abs=PRECISE[name])
    assert marginal.zz(kernel) == pytest.approx(zz, abs=PRECISE[name])


@pytest.mark.parametrize("name", PRECISE)
@pytest.mark.parametrize("case", TRUNCATED)
def test_two_independent_readings_correlate_as_quadrature_says(case, name):
    """Its zz is the expectation of z over scipy's density."""
    marginal, kernel = TRUNCATED[case], kernel_of(name, 0.2)
    peaks = marginal.loc + marginal.scale * np.array([-8, -3, 0, 3, 8])
    zz = expected(reference(marginal).pdf, lambda x: marginal.z(np.array([x]), kernel)[0], [*peaks, 0.5])
    assert marginal.zz(kernel) == pytest.approx(zz, abs=1e-8)


def test_empirical_integrals_are_means_over_the_sample():
    """The integrals z, Z and zz of a stored sample are plain averages, and quantiles are its own readings."""
    sample, kernel = (0.1, 0.4, 0.45, 1.05), SquaredExponential(0.3)
    k = lambda a, b: np.exp(-((a - b) ** 2) / 0.18)  # noqa: E731
    marginal = Empirical(sample)
    assert marginal.z(np.array([0.2]), kernel)[0] == pytest.approx(np.mean([k(s, 0.2) for s in sample]))
    pairs = np.mean([k(s, 0.2) * k(s, 0.7) for s in sample])
    assert marginal.Z(np.array([0.2]), np.array([0.7]), kernel)[0, 0] == pytest.approx(pairs)
    assert marginal.zz(kernel) == pytest.approx(np.mean([k(s, t) for s in sample for t in sample]))
    assert set(marginal.quantile(np.linspace(0.01, 0.99, 50))) == set(sample)
    assert marginal.mean == pytest.approx(0.5)


def test_pairs_are_the_same_by_quadrature_and_in_closed_form():
    """Where a very short lengthscale switches to the closed form, Z does not jump."""
    for marginal in (Uniform(), TruncatedNormal(0.5, 0.3)):
        below, above = (marginal.Z(B, B, SquaredExponential(v)) for v in (0.0099999, 0.0100001))
        np.testing.assert_allclose(below, above, rtol=1e-4, atol=1e-9)


@given(b=st.floats(-0.5, 1.5), loc=st.floats(-50, 50), scale=st.floats(1e-4, 1e4), lengthscale=st.floats(1e-3, 1e3))
def test_integrals_are_correlations(b, loc, scale, lengthscale):
    """All integrals are finite, within [0, 1], and obey Z(b, b) >= z(b)^2, for every distribution and kernel."""
    marginal, kernel, at = TruncatedNormal(loc, scale), SquaredExponential(lengthscale), np.array([b])
    z, Z, zz = marginal.z(at, kernel)[0], marginal.Z(at, at, kernel)[0, 0], marginal.zz(kernel)
    assert 0 <= z <= 1 + 1e-9
    assert z**2 - 1e-9 <= Z <= z + 1e-9
    assert 0 <= zz <= 1 + 1e-9


@given(mean=st.floats(0.001, 0.999), share=st.floats(1e-3, 0.999))
def test_moments_are_met(mean, share):
    """A truncated normal declared by its own mean and sd has them."""
    sd = share * largest_sd(mean)
    marginal = TruncatedNormal.from_moments(mean, sd)
    assert marginal.mean == pytest.approx(mean, abs=1e-9)
    assert sd_of(marginal) == pytest.approx(sd, rel=1e-6)


def test_engineering_units_are_turned_into_the_unit_cube():
    """A pH of 6.1 +- 0.3 on [5.2, 6.8] means the same after the change of units."""
    by_moments = natural_marginal("truncated_normal", {"mean": 6.1, "sd": 0.3}, (5.2, 6.8))
    assert 5.2 + 1.6 * by_moments.mean == pytest.approx(6.1)
    assert 1.6 * sd_of(by_moments) == pytest.approx(0.3)
    by_parent = natural_marginal("truncated_normal", {"loc": 6.1, "scale": 0.3}, (5.2, 6.8))
    assert 5.2 + 1.6 * by_parent.quantile(np.array([0.5]))[0] == pytest.approx(
        truncnorm(-3.0, 7 / 3, 6.1, 0.3).ppf(0.5)
    )
    assert natural_marginal("uniform", {}, (5.2, 6.8)) == Uniform()
    part = natural_marginal("uniform", {"low": 5.6, "high": 6.0}, (5.2, 6.8))
    assert (part.low, part.high) == pytest.approx((0.25, 0.5))
    assert natural_marginal("empirical", [5.2, 6.0], (5.2, 6.8)).sample == pytest.approx((0.0, 0.5))


REFUSED = (
    *(lambda v=v: TruncatedNormal.from_moments(*v) for v in ((0.5, 0.29), (0.1, 0.2), (0.5, 0.0), (1.2, 0.1))),
    *(lambda v=v: TruncatedNormal(*v) for v in ((0.5, 0.0), (float("nan"), 1.0))),
    *(lambda v=v: Uniform(*v) for v in ((0.5, 0.5), (-0.1, 0.5))),
    *(lambda v=v: Empirical(v) for v in ((), (0.1, float("inf")))),
    *(
        lambda v=v: natural_marginal(*v, (5.2, 6.8))
        for v in (
            ("truncated_normal", {"mean": 6.1}),
            ("uniform", {"mean": 6.1}),
            ("lognormal", {"mean": 6.1, "sd": 1}),
            ("truncated_normal", {"mean": 6.1, "sd": 3.0}),
            ("truncated_normal", {"mean": 7.1, "sd": 0.1}),
            ("empirical", []),
        )
    ),
)


def test_a_wrong_marginal_says_what_is_allowed(golden):
    """A pair no truncated normal has, what is no distribution, and, in their units, what an operator wrote wrongly."""
    for make in REFUSED:
        with golden.raises(ValueError):
            make()


def test_the_stored_quadrature_is_gauss_legendre():
    """Nodes and weights are those numpy computes; where both distribution functions round to 1 logarithms are right."""
    nodes, weights = gauss_legendre()
    np.testing.assert_allclose((nodes, weights), np.polynomial.legendre.leggauss(16), atol=1e-15)
    # the integral of exp(-t^2/2) over [20, 21] is sqrt(2 pi) (sf(20) - sf(21))
    log_difference = norm.logsf(20) + np.log1p(-np.exp(norm.logsf(21) - norm.logsf(20)))
    got = log_integral(0.0, 1.0, np.array([20.0, -21.0]), np.array([21.0, -20.0]))
    np.testing.assert_allclose(got, 0.5 * np.log(2 * np.pi) + log_difference, rtol=1e-13)
