"""Integrals over the uncontrolled variables against dense quasi-Monte-Carlo of the plain formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl import Empirical, ModelOptions, Space, TruncatedNormal, Uniform, Variable
from rigctl.core.bounds.expectations import Expectations, natural_nodes
from rigctl.core.bounds.grid import sobol
from rigctl.core.gp.surrogate import fit
from tests.core.plain import NAMES, at_setting, make_case, slopes
from tests.core.set_moments import SetIntegrals

SETS = {3: (("b",), ("a", "c"), ("a", "b", "c")), 5: (("c",), ("a", "e"), ("b", "c", "d", "e"))}


@pytest.fixture(scope="module", params=[3, 5])
def case(request):
    """Three or five variables, thirty trials."""
    return make_case(request.param, 30, 0.4, SETS[request.param])


def integrals_of(case):
    posterior = fit(case.plain.x, case.plain.y, case.options)
    return [SetIntegrals.of(posterior, case.space, i) for i in range(len(case.space.control_sets))]


def settings_of(case, count=3):
    rng = np.random.default_rng(5)
    return [rng.random((count, len(c.indices))) for c in case.space.control_sets]


@pytest.mark.slow
def test_every_moment_is_that_of_the_plain_formulas(case):
    """Mean, sd of the value, mean squared and mean sigma, covariance: each within sampling error of brute force."""
    z = np.random.default_rng(6).random((4, case.space.dimension))
    nodes = natural_nodes(case.space, 1024, np.random.default_rng(1))
    for one, chosen, settings_ in zip(integrals_of(case), case.space.control_sets, settings_of(case), strict=True):
        for setting in settings_:
            points = at_setting(case.nodes, chosen.indices, setting)
            sigma = np.sqrt(case.plain.variance(points))
            few = points[:1024]
            assert one.mean(setting)[0] == pytest.approx(case.plain.mu(points).mean(), abs=1e-3)
            assert one.sd(setting)[0] == pytest.approx(np.sqrt(case.plain.covariance(few, few).mean()), abs=2e-3)
            assert one.mean_square_sd(setting)[0] == pytest.approx(np.sqrt((sigma**2).mean()), abs=1e-3)
            assert one.expected_sd(setting, nodes)[0] == pytest.approx(sigma.mean(), abs=2e-3)
            assert one.cov(setting, z)[0] == pytest.approx(case.plain.covariance(points, z).mean(axis=0), abs=2e-3)
            assert one.weights(setting)[0] == pytest.approx(case.plain.k(points, case.plain.x).mean(axis=0), abs=2e-3)


def test_a_set_that_controls_everything_has_the_posterior_itself(case):
    """With nothing left to average, all spreads are the posterior's own sd."""
    space = Space.of(case.space.variables, [NAMES[: case.space.dimension]])
    posterior = fit(case.plain.x, case.plain.y, case.options)
    one = SetIntegrals.of(posterior, space, 0)
    x = np.random.default_rng(2).random((5, case.space.dimension))
    nodes = natural_nodes(space, 16, np.random.default_rng(1))
    np.testing.assert_allclose(one.mean(x), posterior.mean(x), rtol=1e-10)
    for sd in (one.sd(x), one.mean_square_sd(x), one.expected_sd(x, nodes)):
        np.testing.assert_allclose(sd, posterior.sd(x), rtol=1e-7)


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
@pytest.mark.parametrize("width", [2.0, -2.0, 0.0])
def test_gradients_agree_with_finite_differences(case, kernel, width):
    """The bounds that are maximised come with their true slopes, for every kind of spread."""
    options = ModelOptions("fixed", kernel, case.options.lengthscales, 2.0, 0.02, 3.0)
    posterior = fit(case.plain.x, case.plain.y, options)
    nodes = natural_nodes(case.space, 16, np.random.default_rng(1))
    for i, chosen in enumerate(case.space.control_sets):
        one = SetIntegrals.of(posterior, case.space, i)
        setting = np.random.default_rng(i).random((3, len(chosen.indices)))
        for spread in (None, one.mean_square_spread(), one.pointwise_spread(nodes)):
            found = slopes(lambda s, one=one, spread=spread: one.bound(s, width, spread)[0], setting)
            np.testing.assert_allclose(one.bound(setting, width, spread)[1], found, rtol=1e-4, atol=1e-5)


def test_matern_moments_are_those_of_sampling():
    """The quadrature behind Matern-5/2 gives the average of its own posterior over the marginals."""
    case = make_case(3, 20, 0.4, SETS[3])
    posterior = fit(case.plain.x, case.plain.y, ModelOptions("fixed", "matern-5/2", (0.4,) * 3, 2.0, 0.02, 3.0))
    for i, chosen in enumerate(case.space.control_sets):
        one = SetIntegrals.of(posterior, case.space, i)
        setting = np.full(len(chosen.indices), 0.3)
        points = at_setting(case.nodes, chosen.indices, setting)
        assert one.mean(setting)[0] == pytest.approx(posterior.mean(points).mean(), abs=1e-3)
        assert one.mean_square_sd(setting)[0] == pytest.approx(np.sqrt((posterior.sd(points) ** 2).mean()), abs=1e-3)


@st.composite
def small_problems(draw):
    """Random data, kernel widths and marginals of three variables, and a control set."""
    marginal = st.one_of(
        st.just(Uniform()),
        st.builds(TruncatedNormal, st.floats(-1, 2), st.floats(0.02, 2)),
        st.lists(st.floats(0, 1), min_size=1, max_size=5).map(lambda v: Empirical(tuple(v))),
    )
    variables = [Variable(name, "", 0.0, 1.0, draw(marginal)) for name in "abc"]
    controlled = draw(st.sampled_from([("a",), ("b", "c"), ("a", "c"), ("a", "b", "c")]))
    lengthscales = tuple(draw(st.floats(0.05, 5)) for _ in "abc")
    n, seed = draw(st.integers(0, 25)), draw(st.integers(0, 1000))
    return variables, controlled, lengthscales, n, seed


def posterior_of(lengthscales, n, seed, noise=0.05):
    rng = np.random.default_rng(seed)
    x = rng.random((n, len(lengthscales)))
    options = ModelOptions("fixed", lengthscales=lengthscales, signal_sd=1.0, noise_sd=noise, mean=0.0)
    return fit(x, rng.standard_normal(n), options)


@given(small_problems())
def test_spreads_are_ordered(problem):
    """The value's sd <= E[sigma] <= sqrt(E[sigma^2]) <= the prior's sd: integrated intervals lie inside pointwise."""
    variables, controlled, lengthscales, n, seed = problem
    space = Space.of(variables, [controlled])
    one = SetIntegrals.of(posterior_of(lengthscales, n, seed), space, 0)
    setting = np.random.default_rng(seed).random((4, len(controlled)))
    value, root = one.sd(setting), one.mean_square_sd(setting)
    sigma = one.expected_sd(setting, natural_nodes(space, 256, np.random.default_rng(0)))
    assert (sigma <= root + 1e-9).all()
    assert (value <= root + 1e-6).all()
    assert (value <= sigma + 0.02).all()  # the nodes' sampling error
    assert (root <= 1.0 + 1e-9).all()


def test_without_noise_the_expected_sd_stays_sane():
    """Where almost no noise costs the closed form its digits, the average over nodes steps in."""
    case = make_case(3, 40, 0.8, SETS[3], nodes=1024)
    options = ModelOptions("fixed", lengthscales=(0.8,) * 3, signal_sd=2.0, noise_sd=1e-7, mean=3.0)
    posterior = fit(case.plain.x, case.plain.y, options)
    for i, chosen in enumerate(case.space.control_sets):
        one = SetIntegrals.of(posterior, case.space, i)
        setting = np.full(len(chosen.indices), 0.6)
        points = at_setting(case.nodes, chosen.indices, setting)
        got = one.expected_sd(setting, natural_nodes(case.space, 256, np.random.default_rng(1)))[0]
        assert got == pytest.approx(posterior.sd(points).mean(), rel=0.1, abs=1e-3)


def test_several_control_sets_in_one_batch_are_each_as_alone(case):
    """Rows of different control sets do not disturb each other."""
    together = Expectations.of(fit(case.plain.x, case.plain.y, case.options), case.space)
    alone = integrals_of(case)
    points = np.random.default_rng(8).random((len(alone), case.space.dimension))
    sets = np.arange(len(alone))
    means = together.mean(together.inner(points, sets), sets)
    for i, (one, chosen) in enumerate(zip(alone, case.space.control_sets, strict=True)):
        assert means[i] == pytest.approx(one.mean(points[i, list(chosen.indices)])[0], rel=1e-12)


def test_nodes_follow_the_marginals():
    """Quasi-Monte-Carlo nodes have the moments of the variables left alone, and any count is allowed."""
    variables = [Variable("a", "", 0.0, 1.0, TruncatedNormal(0.2, 0.1)), Variable("b", "", 0.0, 1.0, Uniform())]
    nodes = natural_nodes(Space.of(variables, [("a",)]), 1000, np.random.default_rng(0))
    assert nodes.shape == (1000, 2)
    np.testing.assert_allclose(nodes.mean(axis=0), [variables[0].marginal.mean, 0.5], atol=2e-3)
    assert sobol(3, 0, np.random.default_rng(0)).shape == (0, 3)
    assert sobol(3, 1, np.random.default_rng(0)).shape == (1, 3)
