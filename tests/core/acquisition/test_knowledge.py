"""What a trial teaches, against conditioning the model on what it would have seen."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from rigctl import ModelOptions, TruncatedNormal, Uniform
from rigctl.core.acquisition.knowledge import Knowledge
from rigctl.core.acquisition.valuing import Neighbourhood, join, peaks
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.space import Settings, Space, Variable
from rigctl.core.gp.hyperparameters import Hyperparameters
from rigctl.core.gp.surrogate import fit
from tests.core.set_moments import SetIntegrals


@pytest.fixture(params=["squared-exponential", "matern-5/2"])
def posterior(request):
    """Six outcomes in two dimensions."""
    x = np.random.default_rng(3).random((6, 2))
    h = Hyperparameters((0.3, 0.4), 1.2, 0.1, 0.3, kernel=request.param)
    return fit(x, np.sin(5 * x[:, 0]) + x[:, 1], ModelOptions(kernel=request.param), h, refit=False)


@pytest.fixture
def space():
    """Either variable, or both."""
    variables = [
        Variable("a", "", 0.0, 1.0, TruncatedNormal.from_moments(0.5, 0.2)),
        Variable("b", "", 0.0, 1.0, Uniform()),
    ]
    return Space.of(variables, [["a"], ["b"], ["a", "b"]])


@pytest.fixture
def alternatives():
    points = np.array([[0.2, 0.5], [0.7, 0.5], [0.5, 0.1], [0.5, 0.9], [0.3, 0.8], [0.9, 0.2]])
    return Settings(points, np.repeat([0, 1, 2], 2))


NODES = np.array([[0.2, 0.1], [0.5, 0.6], [0.8, 0.9], [0.45, 0.35]])


def knowledge(posterior, space, alternatives):
    return Knowledge(Expectations.of(posterior, space), [space], alternatives, NODES)


def moments(posterior, space, alternatives):
    """Mean and sd[F | D] of every alternative, outcome units."""
    out = []
    for point, i in zip(alternatives.points, alternatives.sets, strict=True):
        part = SetIntegrals.of(posterior, space, int(i))
        setting = point[list(space.control_sets[i].indices)][None]
        out.append((part.mean(setting)[0], part.sd(setting)[0]))
    return np.array(out).T


def observed_at(candidate, space):
    """The inputs a trial of the candidate may see: its setting, and the nodes elsewhere."""
    indices = list(space.control_sets[int(candidate.sets[0])].indices)
    z = NODES.copy()
    z[:, indices] = candidate.points[0, indices]
    return z if len(indices) < space.dimension else z[:1]


def again(posterior, z, outcome):
    """The posterior with one more outcome, by conditioning from scratch."""
    x = np.vstack([posterior.x, z])
    h = posterior.hyperparameters
    y = np.append(_outcomes(posterior), outcome)
    options = ModelOptions(hyperparameters="learned", kernel=h.kernel)
    return fit(x, y, options, h, refit=False)


def _outcomes(posterior):
    """What the posterior was conditioned on: K alpha, back in outcome units."""
    h = posterior.hyperparameters
    return h.y_shift + h.y_scale * (h.mean + posterior.L @ (posterior.L.T @ posterior.alpha))


CANDIDATES = [(0, (0.4, 0.5)), (1, (0.5, 0.7)), (2, (0.6, 0.6))]


@pytest.mark.parametrize(("control_set", "point"), CANDIDATES)
def test_gain_and_reduction_are_those_of_conditioning(posterior, space, alternatives, control_set, point):
    """Against two outcomes at each node, integrated over all; to the variance it makes no difference which."""
    candidate = Settings(np.array([point]), np.array([control_set]))
    rises = []
    best = moments(posterior, space, alternatives)[0].max()
    grid = np.linspace(-8, 8, 20_001)
    for z in observed_at(candidate, space):
        spread = np.hypot(posterior.sd(z[None])[0], 0.1)
        low, high = (
            moments(again(posterior, z, posterior.mean(z[None])[0] + spread * u), space, alternatives)[0]
            for u in (0.0, 1.0)
        )
        highest = (low[:, None] + (high - low)[:, None] * grid).max(axis=0)
        rises.append(np.trapezoid(highest * norm.pdf(grid), grid) - best)
    gain = knowledge(posterior, space, alternatives).gains(candidate)[0]
    assert gain == pytest.approx(np.mean(rises), rel=0.02, abs=1e-5)
    weights = np.array([0.1, 0.0, 0.2, 0.3, 0.0, 0.4])
    before = np.square(moments(posterior, space, alternatives)[1])
    falls = [
        weights @ (before - np.square(moments(again(posterior, z, 0.0), space, alternatives)[1]))
        for z in observed_at(candidate, space)
    ]
    fall = knowledge(posterior, space, alternatives).reductions(candidate, weights)[0]
    assert fall == pytest.approx(np.mean(falls), rel=1e-6)


def test_means_and_covariance_are_those_of_the_values(posterior, space, alternatives):
    """Diagonal against the exact spread of each value; the rest against averages over dense quantiles."""
    k = knowledge(posterior, space, alternatives)
    means, sds = moments(posterior, space, alternatives)
    np.testing.assert_allclose(k.means, means, rtol=1e-9)
    np.testing.assert_allclose(np.sqrt(k.covariance(np.arange(len(k.alternatives))).diagonal()), sds, rtol=1e-7)
    levels = (np.arange(400) + 0.5) / 400
    quantiles = np.stack([v.marginal.quantile(levels) for v in space.variables], axis=1)
    first, second = alternatives.of(np.array([0])), alternatives.of(np.array([2]))
    a, b = quantiles.copy(), quantiles.copy()
    a[:, 0], b[:, 1] = first.points[0, 0], second.points[0, 1]
    h = posterior.hyperparameters
    prior = h.signal_variance * h.product_kernel.matrix(a, b)
    white_a, white_b = posterior.whiten(posterior.covariance(a)), posterior.whiten(posterior.covariance(b))
    assert k.covariance(np.arange(len(k.alternatives)))[0, 2] == pytest.approx(
        (prior - white_a @ white_b.T).mean(), abs=1e-4
    )


def test_probabilities_are_those_of_the_joint_distribution(posterior, space):
    """Of two alternatives, against the normal distribution of their difference."""
    pair = Settings(np.array([[0.3, 0.8], [0.9, 0.2]]), np.array([2, 2]))
    k = knowledge(posterior, space, pair)
    spread = np.sqrt(np.array([1.0, -1.0]) @ k.covariance(np.arange(len(k.alternatives))) @ np.array([1.0, -1.0]))
    exact = norm.cdf((k.means[0] - k.means[1]) / spread)
    found = np.mean([k.probabilities(np.random.default_rng(seed)) for seed in range(40)], axis=0)
    assert found.sum() == pytest.approx(1.0)
    assert found[0] == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / (40 * 256)) + 1e-9)


def test_of_many_alternatives_those_are_drawn_that_can_be_the_best(posterior, space, monkeypatch):
    """Who cannot be the best never is; the others' probabilities are what they are among all."""
    rng = np.random.default_rng(4)
    many = Settings(rng.random((60, 2)), rng.integers(0, 3, 60))
    k = knowledge(posterior, space, many)

    def probable():
        return np.mean([k.probabilities(np.random.default_rng(seed)) for seed in range(40)], axis=0)

    among_all = probable()
    monkeypatch.setattr("rigctl.core.acquisition.knowledge.MOST_DRAWN", 40)
    among_few = probable()
    # 40 of 60 by number; by three spreads fewer still
    assert (among_few > 0).sum() < 40
    assert among_few.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(among_few, among_all, atol=0.02)


def test_equal_alternatives_do_no_harm(posterior, space, alternatives, monkeypatch):
    """A setting listed twice shares its probability and changes no gain; each gives in blocks what it gives alone."""
    twice = join(alternatives, alternatives)
    rng = np.random.default_rng(0)
    assert knowledge(posterior, space, twice).probabilities(rng).sum() == pytest.approx(1.0)
    candidate = Settings(np.array([[0.4, 0.5]]), np.array([0]))
    once = knowledge(posterior, space, alternatives).gains(candidate)
    np.testing.assert_allclose(knowledge(posterior, space, twice).gains(candidate), once, rtol=1e-12)
    rng = np.random.default_rng(1)
    many = Settings(rng.random((30, 2)), rng.integers(0, 3, 30))
    k = knowledge(posterior, space, alternatives)
    alone = [k.gains(many.of(np.array([i])))[0] for i in range(30)]
    monkeypatch.setattr("rigctl.core.acquisition.knowledge.MOST_VALUES", 100)
    np.testing.assert_allclose(k.gains(many), alone, rtol=1e-9, atol=1e-15)


def test_a_search_never_loses_the_best_it_has_seen(space):
    """Its best is no worse than where it began, better on a smooth hill; it begins at the settings of the bounds."""
    around = Neighbourhood(space, np.array([0.3, 0.3]), np.random.default_rng(2), np.full(2, np.nan))
    begun = around.everywhere(8)

    def score(settings):
        return -np.square(settings.points - 0.37).sum(axis=1)

    _, scores = around.best(score, begun, 0.5)
    assert scores.max() > score(begun).max()
    np.testing.assert_array_equal(scores[: len(begun)], score(begun))
    from rigctl.core.bounds.best import SetBounds

    bounds = [SetBounds(1, 1.0, (0.8,), 0.0, (0.1,), 0.5, 0.1, 0.6, (0.7,), 0.1)]
    found = peaks(bounds, space)
    np.testing.assert_array_equal(found.sets, [1, 1])
    np.testing.assert_array_equal(found.points[:, 1], [0.7, 0.8])
    assert space.setting(1, found.points[1]) == (0.8,)


def test_after_several_readings_what_a_trial_teaches_is_averaged(posterior, space, alternatives):
    """Of two spaces, other marginals in each: gains, reductions and probabilities are means of those of either."""
    narrow = [replace(v, marginal=TruncatedNormal(0.3, 0.05)) for v in space.variables]
    after = replace(space, variables=tuple(narrow))
    count = len(space.control_sets)
    both = Settings(
        np.concatenate([alternatives.points] * 2), np.concatenate([alternatives.sets, alternatives.sets + count])
    )
    joint = Knowledge(Expectations.over(posterior, [space, after]), [space, after], both, NODES)
    candidates = Settings(np.array([p for _, p in CANDIDATES]), np.array([i for i, _ in CANDIDATES]))
    one, other = (knowledge(posterior, s, alternatives) for s in (space, after))
    weights = np.array([0.1, 0.0, 0.2, 0.3, 0.0, 0.4])
    each = [k.reductions(candidates, weights) for k in (one, other)]
    np.testing.assert_allclose(joint.reductions(candidates, np.tile(weights, 2) / 2), np.mean(each, axis=0), rtol=1e-9)
    np.testing.assert_allclose(
        joint.gains(candidates), (one.gains(candidates) + other.gains(candidates)) / 2, rtol=1e-9
    )
    rng = np.random.default_rng(4)
    apart = np.concatenate([k.probabilities(rng) for k in (one, other)]) / 2
    np.testing.assert_allclose(joint.probabilities(np.random.default_rng(4)), apart)
