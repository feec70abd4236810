"""Policies that are told before a trial what variables read, and those whose last outcomes are still to come."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from rigctl import ModelOptions, Problem, Space, TruncatedNormal
from rigctl.core.acquisition.outlook import Context
from rigctl.core.acquisition.valuing import after_readings_to_come, told
from rigctl.core.advice.recommend import Outstanding, recommend
from rigctl.core.asking import play, trial_rng
from rigctl.core.costs.fields import cost_field
from rigctl.core.counterfactuals import Situation, outstanding
from rigctl.core.experiment.history import History, Look, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.natural import present
from rigctl.core.gp.model import fit_history
from rigctl.core.gp.surrogate import believing, fit
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LATE, ExplorationShare, LikelyMaximisers
from rigctl.core.policies.published.arm_per_scope import ArmPerScope, arms_of
from rigctl.core.policies.published.gittins import ExpectedImprovement, ExpectedImprovementPerCost, GittinsIndex
from rigctl.core.policies.published.psq import EiPsq, TsPsq, UcbPsq
from rigctl.core.policies.published.ucb_cvs import CostGroupEtc, UcbCvs
from rigctl.core.policies.value_per_cost import ValuePerCost
from tests.core.conftest import unit_space
from tests.profiles import slow_beyond

NATURAL = TruncatedNormal.from_moments(0.5, 0.2)
COSTS = (0.1, 0.1, 1.0)
FIXED = ModelOptions("fixed", lengthscales=(0.4, 0.4), signal_sd=1.0, noise_sd=0.05, mean=0.0)
POLICIES = (
    *(LikelyMaximisers(), ValuePerCost(explore=0.2), ExploreThenCommit(), UcbCvs(), CostGroupEtc()),
    *(CostGroupEtc(plays=2), UcbPsq(), TsPsq(features=64), EiPsq(), GittinsIndex(), ExpectedImprovement()),
    *(ExpectedImprovementPerCost(), ArmPerScope()),
)


def ridge(x):
    """Best where the two variables are equal: what to set depends on what the other one is."""
    return -4.0 * np.square(x[0] - x[1])


def campaign(policy, rho, *, looks=True, budget=2.0, model=FIXED, **known):
    """Both variables are read before every trial, exactly, and keep their value (rho 1) or get another (0)."""
    space = unit_space(marginal=NATURAL)
    problem = Problem(space, to_micros(budget), model=model, **known)
    streams = [np.random.default_rng([7, k]) for k in range(2)]
    now = {}

    def look():
        now["read"] = NATURAL.quantile(streams[0].random(2))
        return Look(tuple(now["read"].tolist()), (0.0, 0.0))

    def observe(proposal):
        x = NATURAL.quantile(streams[1].random(2))
        if rho == 1.0 and looks:
            x = now["read"].copy()
        x[list(space.control_sets[proposal.control_set].indices)] = proposal.setting
        cost = to_micros(COSTS[proposal.control_set])
        return Observation(proposal.trial, proposal.control_set, tuple(x.tolist()), float(ridge(x)), cost)

    return play(policy, problem, observe, 3, look=look if looks else None, most=24)


@pytest.mark.parametrize("policy", slow_beyond(2, POLICIES), ids=lambda p: f"{p.name}-{getattr(p, 'plays', '')}")
def test_every_policy_plays_by_a_reading_that_changes(policy):
    """It goes on to the end, every trial keeps its look, and nothing believed at another reading rules a set out."""
    played = campaign(policy, 1.0, budget=1.5)
    assert played.decisions
    assert all(o.look is not None for o in played.history.observations)
    for decided in played.decisions:
        for report in decided.proposal.sets:
            assert "earlier look" not in report.ruled_out


@pytest.mark.parametrize(
    "policy", slow_beyond(1, [LikelyMaximisers(), ValuePerCost(explore=0.2), UcbCvs()]), ids=lambda p: p.name
)
def test_a_reading_that_tells_nothing_changes_no_decision(policy):
    """With rho 0 a campaign is, bit for bit, the one that was never told a reading."""
    seeing, blind = (
        campaign(policy, 0.0, budget=1.5, **options) for options in ({"persistence": (0.0, 0.0)}, {"looks": False})
    )
    told_of = [(d.proposal.control_set, d.proposal.setting, d.proposal.reason) for d in seeing.decisions]
    assert told_of == [(d.proposal.control_set, d.proposal.setting, d.proposal.reason) for d in blind.decisions]


@pytest.mark.slow
@pytest.mark.parametrize("costs", [None, (0.05, 0.05, 0.2)])
def test_readings_that_persist_leave_harvest_and_confirmation_nothing(costs):
    """A rule plays settings that no trial has played, so the money goes where most is learned.

    But each control set that is best on a day is tried once, late: a rule only chooses among those.
    """
    known = campaign(LikelyMaximisers(), 1.0, budget=1.4, persistence=(1.0, 1.0), known_costs=costs)
    played = [(d.proposal.control_set, d.proposal.phase) for d in known.decisions]
    spent = np.cumsum([o.cost for o in known.history.observations if o.trial > 0])
    harvests = [n for n, (_, phase) in enumerate(played) if phase == "harvest"]
    assert harvests
    for n in harvests:
        assert played[n][0] not in [control_set for control_set, _ in played[:n]]
        assert spent[n - 1] > LATE * known.problem.budget
    unknown = campaign(LikelyMaximisers(), 1.0, budget=1.4, looks=False)
    assert {d.proposal.phase for d in unknown.decisions} >= {"explore", "harvest"}


def test_what_readings_tell_is_counted_in_variance():
    """None without a look; else rho squared, less what of the reading is error."""
    problem = Problem(unit_space(sets=[["a"], ["b"]], marginal=NATURAL), to_micros(1.0), persistence=(0.6, 1.0))
    rng = np.random.default_rng(0)
    assert told(problem) == 0.0
    assert after_readings_to_come(problem, 4, rng) == ()
    exact = present(replace(problem, look=Look((0.3, 0.8), (0.0, 0.0))), History())[0]
    assert told(exact) == pytest.approx((0.36 + 1.0) / 2)
    rough = present(replace(problem, look=Look((0.3, 0.8), (NATURAL.scale, 0.0))), History())[0]
    assert told(rough) == pytest.approx((0.18 + 1.0) / 2)
    spaces = after_readings_to_come(exact, 32, rng)
    means = np.array([[v.marginal.mean for v in s.variables] for s in spaces])
    assert means.mean(axis=0) == pytest.approx([0.5, 0.5], abs=0.05)
    assert means.std(axis=0) == pytest.approx([0.6 * 0.2, 0.2], rel=0.2)


@pytest.mark.slow
def test_an_arm_per_scope_plays_the_arm_that_looks_where_looking_helps():
    """On the ridge it sets one variable to what the other one reads; the arms of a set are its own."""
    played = campaign(ArmPerScope(), 1.0)
    arms = arms_of(replace(played.problem, look=played.history.observations[-1].look), 0)
    assert [arm.looked_at for arm in arms] == [(), (1,)]
    late = [d.proposal for d in played.decisions[9:]]
    seeing = [p for p in late if "read" in p.reason]
    assert len(seeing) >= len(late) / 2
    blind = campaign(ArmPerScope(), 1.0, looks=False)
    assert all("read" not in d.proposal.reason for d in blind.decisions)


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
    """Hyper-parameters and their schedule, the mean, and what is recommended are those without the awaited trials."""
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
