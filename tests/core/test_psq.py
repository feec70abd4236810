from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.fourier import FantasyImprovement, SampledFunction
from rigctl.core.acquisition.outlook import outlook_of
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.surrogate import fit
from rigctl.core.policies.published.psq import EiPsq, TsPsq, UcbPsq, undominated
from tests.core.conftest import Priced, campaign, hill, make_history, make_space, proposals_of
from tests.core.plain import at_setting, make_case, slopes
from tests.core.set_moments import SetIntegrals

ALL = (UcbPsq(), TsPsq(features=64), EiPsq(fantasies=8))
PER_COST = tuple(replace(p, per_cost=True) for p in ALL)
SINGLES = (("a",), ("b",))


def some_history(seed=0, n=12, sets=3, costs=(0.1, 0.2, 1.0)):
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    return make_history([(t % sets, row, hill(row), costs[t % sets]) for t, row in enumerate(x)])


@pytest.fixture
def two(problem):
    return replace(problem, space=make_space(SINGLES), known_costs=(0.1, 0.2))


def outlook_and_rng(problem, history, seed=0):
    """What `propose` looks at from an empty state, and the generator as it is afterwards."""
    rng = trial_rng(seed, len(history) + 1)
    rng.integers(2**31)  # the seed of the Sobol points
    return outlook_of(problem, history, {}, rng), rng


def test_a_set_within_another_is_not_compared():
    """Only maximal sets are left, whatever their order."""
    space = make_space((("a",), ("a", "b"), ("b",)))
    assert undominated(space, [0, 1, 2]) == [1]
    assert undominated(space, [0, 2]) == [0, 2]


@pytest.mark.parametrize("policy", ALL)
def test_without_costs_the_set_of_all_variables_is_always_played(problem, policy):
    """As in the paper, until it no longer fits the budget; then the best of the others."""
    known = replace(problem, budget=to_micros(3.5), known_costs=(0.1, 0.1, 1.0))
    played = campaign(policy, known, known.known_costs)
    proposals = proposals_of(played)
    assert [p.control_set for p in proposals[:3]] == [2, 2, 2]
    assert {p.control_set for p in proposals[3:]} <= {0, 1}
    assert played.history.spent == known.budget


def test_ucb_plays_the_largest_upper_bound(two):
    """Of all sets and settings, here against a fine grid of exact bounds."""
    history = some_history(sets=2)
    proposal, _ = UcbPsq().propose({}, two, history, trial_rng(0, 13))
    outlook, _ = outlook_and_rng(two, history)
    best = {}
    grid = np.linspace(0, 1, 2001)[:, None]
    for i in (0, 1):
        exact = SetIntegrals.of(outlook.fitted.posterior, two.space, i)
        values = exact.mean(grid) + 2.0 * exact.sd(grid)
        best[i] = (values.max(), grid[values.argmax(), 0])
    chosen = max(best, key=lambda i: best[i][0])
    assert proposal.control_set == chosen
    assert proposal.setting[0] == pytest.approx(best[chosen][1], abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
def test_thompson_sampling_plays_the_best_of_the_drawn_function(two, seed):
    """The function drawn with the same generator has no better setting on a fine grid of both sets."""
    history = some_history(seed, sets=2)
    outlook, rng = outlook_and_rng(two, history, seed)
    again = np.random.default_rng()
    again.bit_generator.state = rng.bit_generator.state
    peaks = TsPsq(features=256)._scores(outlook, [0, 1], rng).peaks
    e = Expectations.of(outlook.fitted.posterior, two.space)
    function = SampledFunction.draw(e, two.space, [0, 1], 256, again)
    grid = np.repeat(np.linspace(0, 1, 2001)[:, None], 2, axis=1)
    for i in (0, 1):
        values = function.value(grid, np.full(len(grid), i))
        assert peaks[i].value == pytest.approx(values.max(), abs=1e-4)
        assert function.value(np.full((1, 2), peaks[i].setting[0]), np.array([i]))[0] >= values.max() - 1e-4


def test_thompson_sampling_tries_different_settings(problem):
    """The same history with another seed gives another draw and so another setting."""
    history = some_history()
    settings = {TsPsq().propose({}, problem, history, trial_rng(seed, 13))[0].setting for seed in range(4)}
    assert len(settings) == 4


@pytest.mark.slow
def test_the_expected_improvement_is_that_of_a_plain_simulation():
    """Against jointly drawn data points and values of settings, as the published code does it, with many draws."""
    case = make_case(2, 7, 0.5, [("a",), ("b",), ("a", "b")])
    case = replace(case, options=replace(case.options, noise_sd=0.5))
    plain = replace(case.plain, noise=0.5)
    posterior = fit(plain.x, plain.y, case.options)
    improvement = FantasyImprovement.draw(Expectations.of(posterior, case.space), 40_000, np.random.default_rng(0))
    points, sets = np.array([[0.2, 0.8], [0.9, 0.4], [0.6, 0.1]]), np.array([0, 1, 2])
    got = np.exp(improvement.value(points, sets))
    rng = np.random.default_rng(1)
    for row, i in enumerate(sets):
        indices = case.space.control_sets[i].indices
        nodes = at_setting(case.nodes[:512], indices, points[row, list(indices)])
        everywhere = np.concatenate([plain.x, nodes])
        mean, covariance = plain.mu(everywhere), plain.covariance(everywhere, everywhere)
        average = np.zeros((8, len(everywhere)))
        average[:7, :7], average[7, 7:] = np.eye(7), 1.0 / len(nodes)
        joint = rng.multivariate_normal(average @ mean, average @ covariance @ average.T, 200_000, method="svd")
        gains = np.maximum(joint[:, 7] - joint[:, :7].max(axis=1), 0.0)
        error = 4 * gains.std() * np.hypot(1 / np.sqrt(len(gains)), 1 / np.sqrt(40_000))
        assert gains.mean() > 4 * error
        assert got[row] == pytest.approx(gains.mean(), abs=error)


@pytest.mark.parametrize("kernel", ["squared-exponential", "matern-5/2"])
def test_gradients_of_the_improvement_are_those_of_its_value(kernel):
    """Central differences, also where the improvement is too small for a float."""
    case = make_case(3, 12, 0.6, [("a",), ("b", "c"), ("a", "b", "c")], kernel=kernel)
    posterior = fit(case.plain.x, case.plain.y, case.options)
    improvement = FantasyImprovement.draw(Expectations.of(posterior, case.space), 8, np.random.default_rng(0))
    points, sets = np.random.default_rng(3).random((9, 3)), np.repeat([0, 1, 2], 3)
    value, gradient = improvement.value_and_gradient(points, sets)
    np.testing.assert_allclose(value, improvement.value(points, sets), rtol=1e-9)
    found = slopes(lambda p: improvement.value(p, sets), points)
    np.testing.assert_allclose(gradient, found, rtol=1e-4, atol=1e-5 * np.abs(gradient).max())
    assert not gradient[:3, 1:].any()


def test_improvement_is_climbed_where_it_underflows(two):
    """A certain and poor set still has a best setting: the logarithm has a slope where the number is 0."""
    rng = np.random.default_rng(0)
    x = rng.random((60, 2))
    rows = [(t % 2, row, 5.0 * float(row[0] > 0.97 and row[1] > 0.97) + hill(row), 0.1) for t, row in enumerate(x)]
    rows.append((0, (0.99, 0.99), 60.0, 0.1))
    outlook, rng = outlook_and_rng(two, make_history(rows))
    peaks = EiPsq()._scores(outlook, [0, 1], rng).peaks
    assert all(-1e9 < p.value < -800 for p in peaks.values())


@pytest.mark.parametrize("policy", PER_COST)
def test_per_unit_cost_each_set_is_tried_once_first(problem, policy, golden):
    """Small sets first; nothing can be divided by a cost nobody has seen."""
    proposals = proposals_of(campaign(policy, problem, (0.1, 0.2, 0.4), most=4))
    assert sorted(p.control_set for p in proposals[:3]) == [0, 1, 2]
    assert proposals[2].control_set == 2
    golden(proposals[0].reason)


@pytest.mark.parametrize("policy", PER_COST)
def test_per_unit_cost_prefers_the_cheapest_by_far(problem, policy):
    """With one set a million times cheaper it is played, free ones included."""
    for costs in ((1.0, 1e-6, 1.0), (1.0, 0.0, 1.0)):
        known = replace(problem, known_costs=costs)
        proposal, _ = policy.propose({}, known, some_history(), trial_rng(0, 13))
        assert proposal.control_set == 1


@pytest.mark.parametrize("policy", [UcbPsq(), EiPsq()])
def test_per_unit_cost_divides_what_exceeds_the_floor(two, policy):
    """UCB: (u - floor) / c; EI: the larger of the ratios of the scores themselves, though they are logarithms."""
    history = some_history(3, sets=2)
    outlook, rng = outlook_and_rng(two, history)
    peaks = policy._scores(outlook, [0, 1], rng).peaks
    scores = [
        np.exp(p.value) if policy.name == "ei-psq" else outlook.upper[i] - outlook.floor for i, p in peaks.items()
    ]
    ratios = np.divide(scores, (0.1, 0.2))
    proposal, _ = replace(policy, per_cost=True).propose({}, two, history, trial_rng(0, 13))
    assert proposal.control_set == ratios.argmax()
    assert f"{ratios.max():.4g}" in proposal.technical
    dear = replace(two, known_costs=(100.0, 0.2), budget=to_micros(1000))
    assert replace(policy, per_cost=True).propose({}, dear, history, trial_rng(0, 13))[0].control_set == 1


@pytest.mark.parametrize("policy", PER_COST)
def test_per_unit_cost_takes_the_cost_at_the_setting(problem, policy):
    """With a known cost field nothing is metered first, and the score is divided by the cost where it is reached."""
    field = Priced(lambda i, at: np.full(len(at), 1e-3) if i == 1 else 1.0 + at.sum(axis=1))
    history = History.of(o for o in some_history().observations if o.control_set != 1)
    proposal, _ = policy.propose({}, replace(problem, known_cost_field=field), history, trial_rng(0, 13))
    assert (proposal.control_set, proposal.predicted_cost) == (1, pytest.approx(1e-3))


@pytest.mark.parametrize("policy", ALL)
def test_a_peak_too_dear_for_the_rest_is_not_played(two, policy):
    """Where high settings of a cost more than is left, what is proposed is predicted to fit all the same."""
    field = Priced(lambda i, at: np.where((i == 0) & (at[:, 0] > 0.35), 5.0, 0.1))
    history = some_history(sets=2, costs=(0.8, 0.8))
    priced = replace(two, known_costs=None, known_cost_field=field, budget=to_micros(10))
    for seed in range(4):
        proposal, _ = policy.propose({}, priced, history, trial_rng(seed, 13))
        assert proposal.predicted_cost <= 0.4
