"""Conditional marginals against simulation, closed forms and quadrature."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm, truncnorm

from rigctl import Empirical, History, Observation, Space, TruncatedNormal, Uniform, Variable, variable
from rigctl.core.acquisition.fourier import characteristic
from rigctl.core.experiment.kernels import Matern52, SquaredExponential
from rigctl.core.experiment.marginals.conditional import Stretched, conditional, natural_marginal
from rigctl.core.experiment.natural import Learned, present
from rigctl.core.gp.model import fit_history
from rigctl.flaws import flaw_of
from rigctl.policies import policy_names
from tests.core.setpoints import POLICIES, SETPOINTS, TAP, WATER, problem_of

B = np.array([-0.3, 0.0, 0.4, 1.0, 2.3, 2.9])


def variables(natural=WATER):
    others = [Variable(n, "mM", 0.0, 4.0, TruncatedNormal(0.5, 0.2)) for n in ("b", "c")]
    return (Variable("a", "pH", *SETPOINTS, natural), *others)


def density(u):
    """Of the water, on the unit cube of setpoints."""
    inner = WATER.marginal
    at = (u - WATER.low) / (WATER.high - WATER.low)
    mass = quad(lambda v: np.exp(-0.5 * ((v - inner.loc) / inner.scale) ** 2), 0, 1, epsabs=1e-14)[0]
    return np.exp(-0.5 * ((at - inner.loc) / inner.scale) ** 2) / mass / (WATER.high - WATER.low)


def integral(f):
    middle = float(WATER.mean)
    parts = [(WATER.low, middle), (middle, WATER.high)]
    return sum(quad(lambda u: density(u) * f(u), *ends, epsabs=1e-13, epsrel=1e-11, limit=200)[0] for ends in parts)


@pytest.mark.parametrize("kernel", [SquaredExponential(0.7), SquaredExponential(6.0), Matern52(1.1)], ids=repr)
def test_integrals_run_over_the_natural_range(kernel):
    """All three kernel integrals are those of adaptive quadrature over [7.2, 8.4], not over the setpoints."""
    one = np.array([[integral(lambda u, b=b: float(kernel.value(np.array(u - b)))) for b in B]])[0]
    np.testing.assert_allclose(WATER.z(B, kernel), one, rtol=1e-7, atol=1e-12)
    pair = integral(lambda u: float(kernel.value(np.array(u - B[1])) * kernel.value(np.array(u - B[4]))))
    assert WATER.Z(B, B, kernel)[1, 4] == pytest.approx(pair, rel=1e-7)
    both = integral(lambda u: float(WATER.z(np.array([u]), kernel)[0]))
    assert WATER.zz(kernel) == pytest.approx(both, rel=1e-6)


def test_moments_and_quantiles_are_the_operators():
    """Mean and spread as declared, within the natural range; Thompson's waves meet its characteristic function."""
    p = (np.arange(20_000) + 0.5) / 20_000
    drawn = SETPOINTS[0] + (SETPOINTS[1] - SETPOINTS[0]) * WATER.quantile(p)
    assert (drawn.mean(), drawn.std()) == (pytest.approx(7.8, abs=1e-3), pytest.approx(0.2, abs=1e-3))
    assert WATER.mean == pytest.approx(2.3)
    ends = WATER.quantile(np.array([0.0, 1.0]))
    assert WATER.low <= ends[0] <= ends[1] <= WATER.high
    waves = np.array([0.3, -2.0, 9.0])
    real = [integral(lambda u, w=w: np.cos(w * u)) for w in waves]
    imaginary = [integral(lambda u, w=w: np.sin(w * u)) for w in waves]
    found = characteristic(WATER, waves)
    np.testing.assert_allclose(found.real, real, atol=1e-9)
    np.testing.assert_allclose(found.imag, imaginary, atol=1e-9)


@given(st.floats(-3, 3), st.floats(0.1, 5))
def test_the_same_range_twice_is_no_other_distribution(low, span):
    """A natural range that is the range of setpoints gives the very marginal that no natural range gives."""
    ends, params = (low, low + span), {"loc": low + 0.3 * span, "scale": 0.2 * span}
    plain = natural_marginal("truncated_normal", params, ends)
    assert natural_marginal("truncated_normal", params, ends, ends) == plain
    assert natural_marginal("uniform", {}, ends, ends) == Uniform()


def test_a_natural_range_is_given_by_its_ends(golden):
    """Measured values need no range; reversed ends are refused; `rigctl.variable` takes one in engineering units."""
    assert natural_marginal("empirical", [7.5, 8.5], SETPOINTS, TAP) == Empirical((2.0, 3.0))
    for make in (lambda: Stretched(Uniform(), 2.0, 2.0), lambda: Learned(low=3.0, high=1.0)):
        with pytest.raises(ValueError) as refused:
            make()
        golden(refused.value)
    declared = variable("ph", 5.5, 6.5, "pH", natural=(7.8, 0.2), natural_range=TAP)
    assert declared.marginal == WATER
    learned = variable("ph", 5.5, 6.5, "pH", natural_range=TAP).marginal
    assert (learned.low, learned.high) == (WATER.low, WATER.high)
    assert learned.prior == Stretched(Uniform(), WATER.low, WATER.high)
    assert variable("ph", 5.5, 6.5) == Variable("ph", "", 5.5, 6.5, Learned())


def learned_from(readings, low=1.7, high=2.9):
    space = Space.of(variables(Learned(low=low, high=high)), [["b", "c"]])
    problem = replace(problem_of(variables(), "ucb-cvs"), space=space)
    rows = [Observation(i + 1, 0, (r, 0.5, 0.5), 1.0, 1) for i, r in enumerate(readings)]
    return present(problem, History.of(rows))[0].space.variables[0].marginal


def test_a_supply_far_from_the_setpoints_is_learned_where_it_is():
    """Forty readings around pH 7.8 become a truncated normal there; nothing is pushed to the nearest setpoint."""
    readings = 2.3 + 0.2 * np.random.default_rng(5).standard_normal(40)
    found = learned_from(readings)
    assert isinstance(found, Stretched)
    assert isinstance(found.marginal, TruncatedNormal)
    assert found.mean == pytest.approx(readings.mean(), abs=0.01)
    spread = found.quantile((np.arange(4000) + 0.5) / 4000).std()
    assert spread == pytest.approx(readings.std(), rel=0.05)


def test_the_model_takes_readings_elsewhere_as_evidence():
    """An outcome measured at pH 7.8 is put there: the model knows it there, and hardly in the range of setpoints."""
    problem = problem_of(variables(), "ucb-cvs")
    rows = [Observation(i + 1, 1, (2.3, 0.5, 0.5), 5.0 + 0.01 * (-1) ** i, 1) for i in range(8)]
    rows += [Observation(i + 9, 0, (0.1 * i, 0.5, 0.5), 1.0 + 0.01 * i, 1) for i in range(8)]
    fitted = fit_history(problem, History.of(rows))
    assert fitted.posterior.x[:8, 0] == pytest.approx(2.3)
    told = fitted.posterior.mean(np.array([[2.3, 0.5, 0.5], [0.3, 0.5, 0.5]]))
    assert told[0] == pytest.approx(5.0, abs=0.3)
    assert told[1] == pytest.approx(1.03, abs=0.3)


def test_these_are_all_the_policies():
    """A policy that is added has to be added here."""
    assert sorted(POLICIES) == list(policy_names())


NORMAL = TruncatedNormal.from_moments(0.45, 0.15)
CUT = TruncatedNormal(0.1, 0.5)
SAMPLE = Empirical(tuple(np.random.default_rng(0).beta(2, 3, 150).tolist()))
ALL = [NORMAL, CUT, Uniform(), Uniform(0.2, 0.5), SAMPLE, Stretched(NORMAL, -0.5, 0.7)]


@pytest.mark.parametrize("marginal", ALL)
def test_a_reading_that_says_nothing_changes_nothing(marginal):
    """Nothing persists, or the error is infinite: the marginal itself; so it is averaged over readings."""
    assert conditional(marginal, 0.0, 0.0, 0.3) is marginal
    assert conditional(marginal, 1.0, np.inf, 0.3) is marginal
    readings = marginal.quantile((np.arange(100) + 0.5) / 100)
    p = (np.arange(50) + 0.5) / 50
    x = np.concatenate([conditional(marginal, 0.8, 0.0, float(r)).quantile(p) for r in readings])
    q = np.linspace(0.05, 0.95, 10)
    span = marginal.quantile(np.array([0.05, 0.95]))
    np.testing.assert_allclose(np.quantile(x, q), marginal.quantile(q), atol=0.03 * float(np.diff(span)[0]))


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
    """N(m + rho k (r - m), s^2 (1 - rho^2 k)) on the range, as scipy has it, and as simulated, both values cut."""
    m, s, rho, tau, r = NORMAL.loc, NORMAL.scale, 0.8, 0.06, 0.7
    k = s**2 / (s**2 + tau**2)
    loc, scale = m + rho * k * (r - m), s * np.sqrt(1 - rho**2 * k)
    expected = truncnorm(-loc / scale, (1 - loc) / scale, loc, scale)
    here = conditional(NORMAL, rho, tau, r)
    assert isinstance(here, TruncatedNormal)
    assert (here.loc, here.scale) == (pytest.approx(loc), pytest.approx(scale))
    p = np.array([0.01, 0.3, 0.9])
    np.testing.assert_allclose(here.quantile(p), expected.ppf(p), rtol=1e-9)
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
    with pytest.raises(ValueError) as refused:
        conditional(NORMAL, *given)
    assert flaw_of(refused.value).where == "conditional"
