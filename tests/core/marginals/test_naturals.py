"""Marginals learned from readings: what is believed, from which readings, and who gets to see it."""

import re
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import kstest, truncnorm

from rigctl import (
    Empirical,
    History,
    Observation,
    PolicyError,
    Problem,
    Proposal,
    Space,
    TruncatedNormal,
    Uniform,
    Variable,
)
from rigctl.campaign.decide import Question, decide
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import first_state, next_proposal, trial_rng
from rigctl.core.experiment.kernels import SquaredExponential
from rigctl.core.experiment.natural import Learned, distance, fingerprint, fitted, present
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.gittins import GittinsIndex
from tests.core.conftest import FIXED, make_space
from tests.profiles import share

A, B, BOTH = 0, 1, 2
"""The control sets of the fixture `problem`."""
NORMAL = TruncatedNormal.from_moments(0.4, 0.12)
PROBLEM = Problem(make_space(), 10_000_000, floor=0.0, model=FIXED)


def drawn(marginal, count, seed=0):
    return marginal.quantile(np.random.default_rng(seed).random(count))


def learning(problem, **of_b):
    a, b = problem.space.variables
    return replace(problem, space=replace(problem.space, variables=(a, replace(b, marginal=Learned(**of_b)))))


def observed(readings, control_set=A, first=1):
    return History.of(Observation(t, control_set, (0.5, float(r)), 1.0, 10) for t, r in enumerate(readings, first))


def believed(problem, history):
    return present(problem, history)[0].space.variables[1].marginal


@pytest.mark.parametrize(
    "truth",
    [NORMAL, TruncatedNormal(0.95, 0.1), TruncatedNormal(-0.5, 0.4), TruncatedNormal(0.3, 0.004)],
    ids=["inside", "cut", "tail", "narrow"],
)
def test_the_fit_is_the_most_likely_one(truth):
    """No other parent is more likely to scipy, and a search from there goes nowhere."""
    sample = drawn(truth, 150)
    found = fitted(sample)
    assert isinstance(found, TruncatedNormal)

    def unlikely(parameters):
        loc, scale = parameters[0], np.exp(parameters[1])
        return -truncnorm.logpdf(sample, -loc / scale, (1 - loc) / scale, loc, scale).sum()

    ours = np.array([found.loc, np.log(found.scale)])
    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}
    best = minimize(unlikely, ours + 0.05, method="Nelder-Mead", options=options)
    assert unlikely(ours) <= best.fun + 1e-4


def test_the_distance_is_kolmogorovs():
    """As scipy computes it for its own truncated normal."""
    for truth in (NORMAL, TruncatedNormal(-3.0, 0.5), TruncatedNormal(0.2, 50.0)):
        sample = np.sort(np.round(drawn(Uniform(), 60), 2))
        a, b = -truth.loc / truth.scale, (1 - truth.loc) / truth.scale
        reference = kstest(sample, truncnorm(a, b, truth.loc, truth.scale).cdf).statistic
        assert distance(truth, sample) == pytest.approx(reference, abs=1e-9)


@pytest.mark.slow
def test_a_fit_that_holds_is_rarely_refused():
    """The test has about the level it says, 5 %, for few readings and many, in the middle and at the border."""
    for truth in (NORMAL, TruncatedNormal(-0.3, 0.4)):
        for count in (8, 100):
            fits = [fitted(drawn(truth, count, seed)) for seed in range(100)]
            assert sum(isinstance(f, Empirical) for f in fits) <= 12


def test_readings_that_are_no_bell_count_as_they_are():
    """A supply that does not vary is one value; a bimodal one has no mode in the middle."""
    assert fitted(np.full(20, 0.3)) == Empirical((0.3,) * 20)
    assert fitted(np.zeros(9)).mean == 0.0
    tanks = np.append(drawn(TruncatedNormal(0.2, 0.02), 30), drawn(TruncatedNormal(0.8, 0.02), 30))
    found = fitted(tanks)
    assert isinstance(found, Empirical)
    between = found.z(np.array([0.5]), SquaredExponential(0.05))[0]
    assert between < 1e-3


@pytest.mark.parametrize("count", [8, 40])
def test_an_outlier_weighs_as_much_as_one_reading(count):
    """It does not stretch what is believed of the others."""
    steady = drawn(TruncatedNormal(0.3, 0.02), count - 1)
    found = fitted(np.append(steady, 0.98))
    kernel, at = SquaredExponential(0.05), np.array([0.3])
    whole = Empirical(tuple(steady)).z(at, kernel)[0]
    assert found.z(at, kernel)[0] == pytest.approx((count - 1) / count * whole, rel=1e-9)


def test_readings_a_little_outside_are_at_the_border_and_many_count_as_they_are():
    """A setpoint's range says nothing of where a supply may be."""
    assert isinstance(fitted(np.append(drawn(TruncatedNormal(0.95, 0.05), 59), 1.003)), TruncatedNormal)
    many = drawn(NORMAL, 60) + 0.5
    found = fitted(many)
    assert (type(found), found.mean) == (Empirical, pytest.approx(many.mean()))


def test_many_readings_are_kept_as_quantiles():
    """Thousands cost no more than 200; expectations are those of the distribution they came from."""
    tanks = np.append(drawn(TruncatedNormal(0.2, 0.05), 3000), drawn(TruncatedNormal(0.8, 0.1), 2000))
    found = fitted(tanks)
    assert isinstance(found, Empirical)
    assert len(found.sample) == 200
    at, kernel = np.linspace(-0.1, 1.1, 13), SquaredExponential(0.1)
    np.testing.assert_allclose(found.z(at, kernel), Empirical(tuple(tanks)).z(at, kernel), atol=1e-3)
    at, kernel = np.linspace(0, 1, 7), SquaredExponential(0.2)
    for truth in (NORMAL, Uniform(0.2, 0.6), Empirical((0.1, 0.15, 0.9))):
        np.testing.assert_allclose(fitted(drawn(truth, 4000)).z(at, kernel), truth.z(at, kernel), atol=0.02)


@given(st.lists(st.floats(-0.2, 1.2) | st.sampled_from([0.0, 0.5, 1.0, 1e-12, 0.5 + 1e-9]), min_size=1, max_size=30))
def test_any_readings_make_a_marginal_whatever_their_order(readings):
    """Finite, a correlation, bit for bit the same from the other end, and about where the readings are."""
    found = fitted(np.array(readings))
    assert fitted(np.array(readings[::-1])) == found
    z = found.z(np.array([0.0, 0.5, 1.0]), SquaredExponential(0.2))
    assert np.all((z >= 0) & (z <= 1 + 1e-9))
    assert 0 <= found.zz(SquaredExponential(0.2)) <= 1 + 1e-9
    assert found.mean == pytest.approx(np.mean(readings), abs=0.2)


@pytest.mark.parametrize("readings", [[], [0.1, np.nan]])
def test_no_reading_is_no_marginal(readings, golden):
    """Nothing, or what is not a number, is refused by name."""
    with golden.raises(ValueError):
        fitted(np.array(readings))


def test_readings_while_controlled_never_count(problem):
    """Neither of the set itself nor of larger ones; nor points known beforehand; nor trials that measured nothing.

    But those of a failed trial do: a reading needs no outcome.
    """
    problem = learning(problem)
    rows = [*observed([0.9] * 50, B).observations, *observed([0.8] * 50, BOTH).observations]
    known = observed([0.7] * 50, -1).observations
    unmeasured = [Observation(200, A, None, None, 10)] * 50
    assert believed(problem, History.of([*known, *rows, *unmeasured])) == Uniform()
    failed = [replace(o, y=None) for o in observed([0.4] * 40).observations]
    assert believed(problem, History.of(failed)).mean == pytest.approx(0.4)


def test_the_prior_is_believed_until_there_are_enough(problem):
    """The declared prior, uniform if none is; without anything to learn the problem is the same object."""
    prior = TruncatedNormal(0.7, 0.1)
    short, enough = observed(drawn(NORMAL, 9)), observed(drawn(NORMAL, 10))
    assert believed(learning(problem, prior=prior, at_least=10), short) is prior
    assert believed(learning(problem, at_least=10), short) == Uniform()
    assert believed(learning(problem, prior=prior, at_least=10), enough) == fitted(drawn(NORMAL, 10))
    assert present(problem, observed([0.5] * 20)) == (problem, ())
    assert present(problem, observed([0.5] * 20))[0] is problem
    presented, notes = present(learning(problem), observed(drawn(NORMAL, 20)))
    assert presented.space.variables[0] is problem.space.variables[0]
    assert presented.space.control_sets == problem.space.control_sets
    assert notes == ()


def test_a_change_of_supply_is_said_and_what_came_before_forgotten(problem, golden):
    """First the prior again, then what readings since say; trials without a reading are counted, too."""
    problem = learning(problem, at_least=20)
    before, after = drawn(TruncatedNormal(0.2, 0.03), 40), drawn(TruncatedNormal(0.7, 0.03), 40, seed=1)
    first = observed(np.append(before, after[:10]))
    presented, notes = present(problem, first)
    assert presented.space.variables[1].marginal == Uniform()
    assert len(notes) == 1
    golden(notes[0])
    presented, notes = present(problem, observed(np.append(before, after)))
    assert presented.space.variables[1].marginal.mean == pytest.approx(0.7, abs=0.02)
    golden(notes[0])
    same = present(problem, observed(np.append(before[::-1], after)))[0]
    assert same == presented
    readings = np.append(drawn(TruncatedNormal(0.2, 0.03), 30), drawn(TruncatedNormal(0.7, 0.03), 30))
    rows = []
    for number, reading in enumerate(readings):
        rows.append(Observation(2 * number + 1, A, (0.5, float(reading)), 1.0, 10))
        rows.append(Observation(2 * number + 2, B, (0.5, 0.5), 1.0, 10) if number % 2 else replace(rows[-1], x=None))
    _, (note,) = present(learning(problem), History.of(rows))
    assert re.search(r"\b61\b", note)
    golden(note)


@pytest.mark.slow
def test_beliefs_change_seldom(problem):
    """A decision can build on the last one: in 400 trials there are as many beliefs as quarter steps."""
    problem, history, seen = learning(problem), History(), []
    for observation in observed(drawn(NORMAL, 400)).observations:
        history = history.append(observation)
        seen.append(believed(problem, history))
    steps = [after for before, after in pairwise(seen) if after != before]
    prints = {fingerprint(Space((Variable("b", "", 0, 1, marginal),))) for marginal in seen}
    assert len(prints) == len(steps) + 1
    assert 15 <= len(steps) <= 20
    assert seen[6] == Uniform()
    assert seen[7] != Uniform()


@share(0.12)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.floats(0, 0.6))
def test_a_history_that_grew_tells_what_a_new_one_does(readings, jump):
    """What is carried along from one decision to the next decides nothing, whoever else used it meanwhile."""
    problem = learning(PROBLEM)
    readings = [*readings, *(r + jump for r in readings)]
    grown = History()
    for observation in observed(readings).observations:
        grown = grown.append(observation)
        latest = present(problem, grown)
    other = observed([0.1] * 30, first=100)
    present(problem, replace(other, memo=grown.memo))
    assert present(problem, grown) == latest == present(problem, observed(readings))


@share(0.25)
@given(st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 99))
def test_units_do_not_matter(span, low, seed):
    """The same supply, read in other units on another range, is believed alike."""
    readings = low + span * drawn(NORMAL, 40, seed)
    space = Space.of([Variable("b", "u", low, low + span, Learned()), Variable("a", "u", 0, 1, Uniform())], [["a"]])
    unit = space.to_unit(np.stack([readings, np.full(40, 0.5)], axis=1))
    history = History.of(Observation(t, 0, tuple(x), 1.0, 10) for t, x in enumerate(unit.tolist(), start=1))
    found = present(replace(PROBLEM, space=space), history)[0].space.variables[0].marginal
    expected = believed(learning(PROBLEM), observed(drawn(NORMAL, 40, seed)))
    assert type(found) is type(expected)
    assert found.mean == pytest.approx(expected.mean, abs=1e-9 * (1 + abs(low) / span))


@pytest.mark.parametrize("policy", [ExploreThenCommit(), LikelyMaximisers(), GittinsIndex()], ids=lambda p: p.name)
def test_nothing_is_decided_by_a_marginal_that_is_not_concrete(policy, problem, golden):
    """A policy that is asked behind the back of `next_proposal` refuses, instead of believing the prior silently."""
    problem, history = learning(problem), observed(drawn(NORMAL, 20))
    with golden.raises(PolicyError):
        policy.propose({}, problem, history, trial_rng(0, 21))
    proposal, _ = next_proposal(policy, None, problem, history, trial_rng(0, 21))
    assert proposal.trial == 21


def test_before_it_is_presented_it_has_the_range_of_its_prior_and_no_integrals(golden):
    """A configuration is inspected by that range; one reading is not enough to know a spread."""
    learned, at, kernel = Learned(NORMAL), np.array([0.1, 0.6]), SquaredExponential(0.3)
    assert learned.mean == NORMAL.mean
    np.testing.assert_array_equal(learned.quantile(at), NORMAL.quantile(at))
    for integral in (lambda: learned.z(at, kernel), lambda: learned.Z(at, at, kernel), lambda: learned.zz(kernel)):
        with golden.raises(PolicyError):
            integral()
    with golden.raises(ValueError):
        Learned(at_least=1)


@dataclass(frozen=True)
class Onlooker:
    """A third party's policy: remembers what it was shown."""

    name: str = "onlooker"

    def initial_state(self, problem):
        return {"shown": [type(v.marginal).__name__ for v in problem.space.variables]}

    def propose(self, state, problem, history, rng):
        shown = [type(v.marginal).__name__ for v in problem.space.variables]
        return Proposal(len(history) + 1, self.name, "look", 0, (0.5,), "why not", notes=("its own",)), {"shown": shown}


def test_policies_see_only_concrete_marginals(problem):
    """At the start and in every decision, by whichever way they are asked."""
    problem, policy = learning(problem), Onlooker()
    assert first_state(policy, problem) == {"shown": ["Uniform", "Uniform"]}
    history = observed(drawn(NORMAL, 30))
    decision = decide(Question(policy, problem, 7, history, None))
    assert decision.policy_state == {"shown": ["Uniform", "TruncatedNormal"]}
    proposal, state = next_proposal(policy, {}, problem, history, trial_rng(7, 31))
    assert (proposal.notes, state) == (("its own",), decision.policy_state)


def test_a_recommendation_knows_the_supply(problem):
    """It is that of the problem as presented, not that of the prior."""
    problem = learning(problem)
    rng, rows = np.random.default_rng(3), []
    for trial, reading in enumerate(drawn(TruncatedNormal(0.8, 0.03), 25), start=1):
        a = float(rng.random())
        rows.append(Observation(trial, A, (a, float(reading)), 2 - 4 * (a - reading) ** 2, 10))
    history = History.of(rows)
    found = recommend(problem, history, trial_rng(0, 1), tolerance=0.1)
    assert found == recommend(present(problem, history)[0], history, trial_rng(0, 1), tolerance=0.1)
    assert found.choice.setpoints["a"] == pytest.approx(8.0, abs=0.3)
    from_the_prior = recommend(present(problem, History())[0], history, trial_rng(0, 1), tolerance=0.1)
    assert from_the_prior.choice.setpoints != found.choice.setpoints
