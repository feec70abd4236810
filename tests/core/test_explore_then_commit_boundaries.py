"""Explore-then-commit at its boundaries: what is just good enough, who wins a tie, when exploration just ends."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.outlook import look
from rigctl.core.costs.beliefs import believe
from rigctl.core.experiment.marginals.families import Uniform
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit, Intersection
from tests.core.conftest import Slope, make_history
from tests.core.test_explore_then_commit import NOTHING_SEEN, X, outlook_of
from tests.golden import Golden

EVEN = [(i, X, 1.0, 0.1) for i in (0, 1, 2)]


def committed(problem, upper, lower, tolerance=0.1, *, costs=(0.1, 0.1, 0.1), seen=NOTHING_SEEN):
    """What is committed to with these bounds and these known costs."""
    outlook = outlook_of(replace(problem, known_costs=costs), make_history(EVEN), upper, lower)
    policy = ExploreThenCommit(tolerance=tolerance)
    return outlook.proposal(policy.name, policy._commit(outlook, seen, 0), 0)


def explored(outlook, policy=None, sobol_seed=0):
    """What is explored with."""
    policy = policy or ExploreThenCommit()
    return outlook.proposal(policy.name, policy._explore(outlook, NOTHING_SEEN, 0), sobol_seed)


def tolerance_at(policy, problem, history, commit_trials=0):
    """The tolerance after so many commit trials."""
    return policy._tolerance_now(outlook_of(problem, history, (1, 1, 1), (0, 0, 0)), commit_trials)


@pytest.mark.parametrize(
    ("tolerance", "upper", "good"),
    [
        (0.5, 1.0, False),
        (0.5, math.nextafter(1.0, 2.0), True),
        (0.25, 1.5, False),
        (0.25, math.nextafter(1.5, 2.0), True),
        (0.0, 2.0, False),
        (0.0, math.nextafter(2.0, 3.0), True),
    ],
)
def test_a_set_that_only_reaches_the_threshold_is_not_good_enough(problem, tolerance, upper, good):
    """Line 16 has a strict >: an upper bound of (1 - alpha) of the best lower bound promises nothing."""
    proposal = committed(problem, (upper, 0.1, 2.5), (0.0, 0.0, 2.0), tolerance)
    assert [r.eligible for r in proposal.sets] == [good, False, True]
    assert proposal.threshold == (1 - tolerance) * 2.0


def test_the_floor_is_what_shares_are_counted_from(problem):
    """With a floor of 1 half of the best at 3 is 2."""
    for upper, good in ((2.0, False), (2.25, True)):
        proposal = committed(replace(problem, floor=1.0), (upper, 1.0, 3.5), (0.0, 0.0, 3.0), 0.5)
        assert [r.eligible for r in proposal.sets] == [good, False, True]
        assert proposal.threshold == 2.0


@pytest.mark.parametrize(
    ("costs", "upper", "chosen"),
    [
        ((0.1, 0.1, 0.1), (1.0, 1.0, 1.0), 0),
        ((0.2, 0.1, 0.1), (1.0, 1.0, 1.0), 1),
        ((0.1, 0.1, 0.1), (1.0, 1.1, 1.1), 1),
        ((0.1, 0.1, 0.1 + 1e-14), (1.0, 1.0, 1.1), 2),
        ((0.1 + 1e-11, 0.1, 0.2), (1.1, 1.0, 1.1), 1),
        ((1e-13, 0.0, 1.0), (1.1, 1.0, 1.1), 0),
        ((1e-9, 0.0, 1.0), (1.1, 1.0, 1.1), 1),
    ],
)
def test_of_sets_that_cost_the_same_the_most_promising_wins_and_of_those_the_first(problem, costs, upper, chosen):
    """Line 26: costs that differ by rounding only tie, the least real difference does not."""
    assert committed(problem, upper, (0.5, 0.5, 0.5), costs=costs).control_set == chosen


def test_where_nothing_is_good_enough_the_first_of_the_best_is(problem):
    """Without tolerance and without doubt no bound exceeds the best: that is played all the same, of two the first."""
    proposal = committed(problem, (1.0, 1.5, 1.5), (0.2, 1.5, 1.5), 0.0)
    assert proposal.control_set == 1
    assert [r.eligible for r in proposal.sets] == [False, True, False]


def test_a_memory_that_still_holds_is_not_started_again(problem):
    """Intersections are given up only where they leave no set at all."""
    outlook = outlook_of(problem, make_history(EVEN), (1.0, 1.1, 1.2), (0.2, 0.3, 0.4))
    choice = ExploreThenCommit()._commit(outlook, Intersection(0.9, (0.1, 0.1, 0.95)), 0)
    assert Intersection.of(choice.remembered, 3) == Intersection(0.9, (0.1, 0.1, 0.95))


def test_of_sets_that_have_cost_the_same_the_less_played_is_explored_and_of_those_the_first(problem):
    """By spend, two trials of 0.1 weigh as much as one of 0.2."""
    policy = ExploreThenCommit(explore=Exploration(by="spend"))
    rows = [(0, X, 1.0, 0.1), (0, X, 1.0, 0.1), (1, X, 1.0, 0.2), (2, X, 1.0, 0.2)]
    outlook = outlook_of(problem, make_history(rows), (1, 1, 1), (0, 0, 0))
    assert policy._explore(outlook, NOTHING_SEEN, 0).control_set == 1
    even = outlook_of(problem, make_history(EVEN), (1, 1, 1), (0, 0, 0))
    for either in (ExploreThenCommit(), policy):
        assert either._explore(even, NOTHING_SEEN, 0).control_set == 0


def test_a_model_is_followed_from_one_outcome_more_than_there_are_variables(problem):
    """Two outcomes in two variables: a Sobol point; three: the maximiser of the upper bound."""
    for outcomes, where in ((2, "Sobol point"), (3, "upper-bound maximiser")):
        history = make_history(EVEN[:outcomes] + [(0, X, None, 0.1)] * (3 - outcomes))
        outlook = outlook_of(problem, history, (1, 1, 1), (0, 0, 0))
        proposal = explored(outlook)
        assert where in proposal.technical
        assert (proposal.setting == (0.25,) * len(proposal.setting)) == (outcomes == 3)


def test_tolerance_is_halved_with_every_d_th_commit_trial(problem):
    """In two variables after the second and the fourth, not after the first."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay="halving")
    halved = [tolerance_at(policy, problem, make_history(EVEN), n) for n in range(5)]
    assert halved == [0.4, 0.4, 0.2, 0.2, 0.1]


def test_tolerance_by_budget_ends_at_nothing(problem):
    """A budget that is overspent leaves no tolerance, not a negative one."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay="budget")
    assert tolerance_at(policy, problem, make_history([(0, X, 1.0, 12.0)])) == 0.0


def test_only_commit_trials_are_counted(problem):
    """Halving starts with the commitment, and none of it is forgotten on the way through the state."""
    rng_of = np.random.default_rng
    policy = ExploreThenCommit(explore=Exploration(plays=1, share=None))
    wide = replace(problem, budget=10**9)
    _, exploring = policy.propose({}, wide, make_history(EVEN[:2]), rng_of(0))
    assert exploring["commit_trials"] == 0
    _, first = policy.propose(exploring, wide, make_history(EVEN), rng_of(1))
    _, second = policy.propose(first, wide, make_history([*EVEN, EVEN[0]]), rng_of(2))
    assert (first["commit_trials"], second["commit_trials"]) == (1, 2)
    assert first["sobol_seed"] == second["sobol_seed"] == exploring["sobol_seed"]


def test_the_first_state_says_that_nothing_was_committed(problem):
    """And one without that word counts as such; in a single variable every commit trial halves."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay="halving")
    assert policy.initial_state(problem) == {"commit_trials": 0}
    space = Space.of([Variable("a", "mM", 0.0, 1.0, Uniform())], [["a"]])
    single = replace(problem, space=space, model=replace(problem.model, lengthscales=(0.3,)))
    outlook = look(single, make_history([]), {}, np.random.default_rng(0))
    assert [policy._tolerance_now(outlook, n) for n in (0, 1)] == [0.4, 0.2]


def test_the_sobol_seed_is_the_generator_s_first_number(problem):
    """Below 2^31, drawn before anything else, so that the same seed gives the same points."""
    _, state = ExploreThenCommit().propose({}, problem, make_history([]), np.random.default_rng(5))
    assert state["sobol_seed"] == int(np.random.default_rng(5).integers(2_147_483_648))


@pytest.mark.parametrize("bound", ["hoeffding", "empirical-bernstein"])
def test_costs_are_bounded_as_asked(problem, bound):
    """What is told of each set's cost comes from the bound that the option names."""
    history = make_history([(i, X, 1.0, 0.1 + 0.001 * (t % 2)) for t in range(8) for i in (0, 1, 2)])
    proposal, _ = ExploreThenCommit(cost_bound=bound).propose({}, problem, history, np.random.default_rng(0))
    told = [r.cost_lcb for r in proposal.sets]
    assert told == [b.lcb for b in believe(problem, history, bound)]
    assert (max(told) > 0.05) == (bound == "empirical-bernstein")


@pytest.mark.parametrize(("changed", "exploration"), [(c, e) for c in (False, True) for e in (1, 9)])
def test_bounds_are_remembered_until_the_model_changes(problem, changed, exploration):
    """Exploring or committing: intersections go on, unless what varies freely is believed to vary otherwise now."""
    policy = ExploreThenCommit(
        tolerance=0.4, tolerance_decay="halving", explore=Exploration(plays=exploration, share=None)
    )
    _, state = policy.propose({}, problem, make_history(EVEN), np.random.default_rng(0))
    remembered = {**state, "lcb": state["lcb"] + 0.25, "ucb": {str(i): 99.0 for i in range(3)}}
    remembered |= {"naturals": "of another supply"} if changed else {}
    proposal, after = policy.propose(remembered, problem, make_history(EVEN), np.random.default_rng(0))
    assert proposal.phase == ("commit" if exploration == 1 else "explore")
    assert after["lcb"] == state["lcb"] + (0.0 if changed else 0.25)
    assert after["naturals"] == state["naturals"]


def test_a_commitment_says_why(problem, golden: Golden):
    """How many sets are good enough, which is the cheapest, and what it costs at least."""
    proposal = committed(problem, (1.0, 0.1, 1.2), (0.5, 0.0, 0.9), 0.125, costs=(0.25, 0.1, 1.0))
    assert (proposal.policy, proposal.phase) == ("explore-then-commit", "commit")
    golden(proposal.reason)
    golden(proposal.technical)


def test_tolerance_that_shrinks_with_the_budget_is_that_of_the_decision(problem):
    """At three tenths spent a tolerance of 0.4 is 0.28: state, budget and history all reach it."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay="budget", explore=Exploration(plays=1, share=None))
    history = make_history([(i, X, 1.0, 1.0) for i in (0, 1, 2)])
    proposal, state = policy.propose({}, problem, history, np.random.default_rng(0))
    assert proposal.threshold == pytest.approx((1 - 0.28) * state["lcb"])


@pytest.mark.parametrize(("left", "where"), [(9.0, "Sobol point"), (1.0, "setting that fits")])
def test_a_first_point_that_is_too_dear_gives_way_to_a_setting_that_fits(problem, left, where):
    """Where costs depend on the setting: the point itself is priced, and not its control set."""
    history = make_history([(0, None, None, 10.0 - left)])
    outlook = replace(
        outlook_of(replace(problem, known_cost_field=Slope()), history, (1, 1, 1), (0, 0, 0)),
        field=Slope(),
    )
    low = replace(outlook.bounds[1], upper_at=np.array([0.0]))
    outlook = replace(outlook, bounds=(outlook.bounds[0], low, outlook.bounds[2]))
    proposal = explored(outlook)
    assert (proposal.control_set, where in proposal.technical) == (1, True)
    assert (proposal.setting == (0.0,)) == (left == 1.0)
