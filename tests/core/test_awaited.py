"""Trials whose outcome is still to come: they shrink the variance, move nothing else, and count as no outcome."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rigctl.core.acquisition.outlook import Context
from rigctl.core.advice.recommend import Outstanding, recommend
from rigctl.core.asking import trial_rng
from rigctl.core.costs.fields import cost_field
from rigctl.core.counterfactuals import Situation, outstanding
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import ModelOptions
from rigctl.core.experiment.space import Space
from rigctl.core.gp.model import fit_history
from rigctl.core.gp.surrogate import believing, fit
from rigctl.core.policies.likely_maximisers import ExplorationShare, LikelyMaximisers
from rigctl.core.policies.published.psq import UcbPsq

ALL_HARVEST = ExplorationShare(first=0.0, then=0.0)
OPTIONS = ModelOptions("fixed", lengthscales=(0.3, 0.6), signal_sd=2.0, noise_sd=0.1, mean=5.0)


def hill(x):
    return float(np.sin(5 * x[0]) + x[1])


def rows(n, seed=0, awaited=()):
    """Trials (n,) of the three sets in turn; those of `awaited` have given no outcome yet."""
    x = np.random.default_rng(seed).random((n, 2))
    return [
        Observation(t, t % 3, tuple(map(float, p)), None if t in awaited else hill(p), 10**6, awaited=t in awaited)
        for t, p in enumerate(x, start=1)
    ]


@pytest.mark.parametrize(("seen", "most"), [(20, 500), (0, 500), (90, 60)])
def test_the_variance_is_that_of_a_process_with_the_points_added(seen, most):
    """Against scikit-learn given the points with any values; the mean stays, exact or by inducing inputs."""
    rng = np.random.default_rng(3)
    x, late, at = rng.random((seen, 2)), rng.random((5, 2)), rng.random((40, 2))
    y = np.array([hill(p) for p in x])
    before = fit(x, y, replace(OPTIONS, max_points=most))
    after = believing(before, late)
    np.testing.assert_allclose(after.mean(at), before.mean(at), rtol=0, atol=1e-12)
    kernel = ConstantKernel(4.0) * RBF([0.3, 0.6])
    theirs = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(
        np.concatenate([x, late]), np.zeros(seen + 5)
    )
    _, sd = theirs.predict(at, return_std=True)
    np.testing.assert_allclose(after.sd(at), sd, rtol=1e-9 if seen < most else 0.02)
    assert (after.sd(at) <= before.sd(at) + 1e-12).all()
    assert (after.sd(late) < 0.9 * before.sd(late)).any()
    drawn = after.noise(rng.standard_normal((20_000, len(after.x))))
    covariance = after.covariance(after.x) + np.cov(drawn.T)
    np.testing.assert_allclose(covariance, after.L @ after.L.T, atol=0.05 * after.variance)


def test_noise_of_its_own_and_repeats_without_noise_can_be_awaited():
    """Among outcomes of different noise it has that of the model; a repeat without noise still factorises."""
    x, y = np.random.default_rng(1).random((6, 2)), np.arange(6.0)
    noise = np.array([[0.5, 1.0], *[[np.nan, 1.0]] * 5])
    own = believing(fit(x, y, OPTIONS, noise=noise), x[:1]).own_noise
    np.testing.assert_allclose(own, [0.25, *[0.01] * 6])
    exact = believing(fit(x, y, replace(OPTIONS, noise_sd=0.0)), np.concatenate([x[:1], x[:1]]))
    assert np.isfinite(exact.L).all()
    assert np.isfinite(exact.sd(x)).all()


def test_nothing_is_learned_from_what_is_awaited(problem):
    """Hyper-parameters and their schedule, and the mean, are those without the awaited trials."""
    problem = replace(problem, model=ModelOptions(kernel="squared-exponential"))
    late = History.of(rows(14, awaited=(12, 14)))
    known = History.of(o for o in late.observations if not o.awaited)
    ours, theirs = fit_history(problem, late), fit_history(problem, known)
    assert (ours.hyperparameters, ours.fitted_at) == (theirs.hyperparameters, theirs.fitted_at)
    at = np.random.default_rng(5).random((30, 2))
    np.testing.assert_allclose(ours.posterior.mean(at), theirs.posterior.mean(at), rtol=1e-12)
    assert (ours.posterior.sd(late.awaited) < theirs.posterior.sd(late.awaited)).all()
    still = fit_history(problem, late, under_way=False).posterior
    np.testing.assert_array_equal(still.sd(at), theirs.posterior.sd(at))


def test_what_is_recommended_counts_no_outcome_that_has_not_come(problem):
    """Only the costs of awaited trials are known: choice, expectation and interval are those without them."""
    late = History.of(rows(14, awaited=(12, 14)))
    known = History.of(o for o in late.observations if not o.awaited)
    found = [recommend(problem, h, trial_rng(1, 15), 0.05).choice for h in (late, known)]
    assert replace(found[0], trials=0) == replace(found[1], trials=0)


def test_the_next_trial_goes_elsewhere(problem):
    """A setting that is under way is not asked for again, as it is where nobody knows that it is under way."""
    problem, policy = replace(problem, budget=10**9, known_costs=(1.0, 1.0, 1.0)), UcbPsq()
    history = History.of(rows(9))

    def asked(history):
        return policy.propose(policy.initial_state(problem), problem, history, trial_rng(2, 10))[0]

    first = asked(history)
    x = np.full(2, 0.5)
    x[list(problem.space.control_sets[first.control_set].indices)] = first.setting
    failed = Observation(10, first.control_set, tuple(map(float, x)), None, 10**6)
    assert asked(history.append(failed)).setting == pytest.approx(first.setting, abs=1e-6)
    again = asked(history.append(replace(failed, awaited=True)))
    assert (again.control_set, np.abs(np.subtract(again.setting, first.setting)).max() > 0.02) == (
        first.control_set,
        True,
    )


def test_the_best_there_is_was_played_while_its_outcome_is_awaited(problem, golden):
    """Harvest does not play it again and again until that comes: what is under way is attained, as far as expected."""
    problem, policy = replace(problem, budget=10**9, known_costs=(1.0, 1.0, 1.0)), LikelyMaximisers(explore=ALL_HARVEST)
    history = History.of(rows(9))

    def asked(history):
        found = policy.propose(policy.initial_state(problem), problem, history, trial_rng(2, 10))[0]
        fitted = fit_history(problem, history)
        return found, Context(problem, history, fitted, cost_field(problem, history)).attained

    first, reached = asked(history)
    golden(first.technical)
    x = np.full(2, 0.5)
    x[list(problem.space.control_sets[first.control_set].indices)] = first.setting
    played = Observation(10, first.control_set, tuple(map(float, x)), None, 10**6, awaited=True)
    again, then = asked(history.append(played))
    assert then > reached
    golden(again.technical)
    assert (first.control_set, first.setting) != (again.control_set, again.setting)
    given_up = asked(history.append(replace(played, awaited=False)))
    assert (given_up[0].setting, given_up[1]) == (pytest.approx(first.setting), pytest.approx(reached))


def test_what_is_awaited_may_change_what_is_recommended(problem, golden):
    """What is sure changes nothing; what may tell against the choice names what would be chosen then; none, nothing."""
    x = np.linspace(0.1, 0.9, 12)
    known = [Observation(t, 0, (float(v), 0.5), 1.0, 10**6) for t, v in enumerate(x, start=1)]
    model = ModelOptions("fixed", lengthscales=(0.3, 0.3), signal_sd=1.0, noise_sd=0.05, mean=0.0)
    problem = replace(
        problem, model=model, known_costs=(1.0, 1.0), space=Space.of(problem.space.variables, [["a"], ["b"]])
    )
    tried = Observation(13, 1, (0.1, 0.9), 0.9, 10**6)
    late = Observation(14, 1, (0.1, 0.05), None, 10**6, awaited=True)
    sure = Observation(14, 0, (0.5, 0.5), None, 10**6, awaited=True)
    said = []
    for more in ((), (sure,), (late,)):
        history = History.of([*known, tried, *more])
        situation = Situation(UcbPsq(), {}, problem, history, 3, tolerance=0.0)
        found = recommend(problem, history, trial_rng(3, len(history) + 1), 0.0)
        assert found.choice.control_set == ("b",)  # at 0.5, where all outcomes of `a` were
        said.append(outstanding(situation, found))
    assert said[0] is None
    assert (said[1].count, said[1].sets) == (1, ())
    assert said[2] == Outstanding(1, ("a",), said[2].setting)
    golden(said[2].told())
