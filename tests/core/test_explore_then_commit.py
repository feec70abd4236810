"""Explore-then-commit, step by step and as a whole campaign."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.outlook import Outlook
from rigctl.core.asking import play, trial_rng, validate
from rigctl.core.bounds.best import SetBounds
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.history import Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import BudgetSpent
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit, Intersection
from tests.core.conftest import hill, make_history

X = (0.5, 0.5)
NOTHING_SEEN = Intersection.restarted(3)


def bounds_of(upper, lower):
    """Hand-made bounds: control sets a, b, a+b."""
    sizes = (1, 1, 2)
    return tuple(
        SetBounds(
            control_set=i,
            upper=u,
            upper_at=np.full(k, 0.25),
            lower=low,
            lower_at=np.full(k, 0.25),
            mean_at_upper=(u + low) / 2,
            sd_at_upper=(u - low) / 4,
            best_mean=(u + low) / 2,
            best_mean_at=np.full(k, 0.25),
            best_mean_sd=(u - low) / 4,
        )
        for i, (u, low, k) in enumerate(zip(upper, lower, sizes, strict=True))
    )


def outlook_of(problem, history, upper, lower):
    costs = believe(problem, history, "hoeffding")
    fitted = fit_history(problem, history)
    return Outlook(
        problem, history, fitted, cost_field(problem, history), bounds_of(upper, lower), costs, problem.floor
    )


def committed(outlook, seen):
    """The proposal of a commit trial with a tolerance of 0.1, and the intersections kept after it."""
    choice = ExploreThenCommit(tolerance=0.1)._commit(outlook, seen, 0)
    return outlook.proposal("etc", choice, 0), Intersection.of(choice.remembered, len(outlook.bounds))


def campaign(policy, problem, cost_of, outcome, seed=0, limit=500):
    """Play a policy until the budget is spent; returns proposals and history."""

    def observe(proposal):
        x = np.random.default_rng([seed, proposal.trial, 1]).random(problem.space.dimension)
        x[list(problem.space.control_sets[proposal.control_set].indices)] = proposal.setting
        cost = to_micros(cost_of[proposal.control_set])
        return Observation(proposal.trial, proposal.control_set, tuple(x), outcome(x), cost)

    played = play(policy, problem, observe, seed, most=limit - 1)
    return [decided.proposal for decided in played.decisions], played.history


def test_exploration_goes_round(problem):
    """Round robin: the set with the fewest plays is next, the first of them on a tie (line 4)."""
    history = make_history([(0, X, 1.0, 0.1), (1, X, 1.0, 0.1), (0, X, 1.0, 0.1)])
    outlook = outlook_of(problem, history, (1, 1, 1), (0, 0, 0))
    choice = ExploreThenCommit()._explore(outlook, NOTHING_SEEN, 0)
    assert choice.control_set == 2
    assert choice.phase == "explore"


def test_exploration_by_spend_evens_out_the_money(problem):
    """Balanced by spend, a cheap set is played until it has cost as much as a dear one."""
    history = make_history([(0, X, 1.0, 0.1), (0, X, 1.0, 0.1), (1, X, 1.0, 0.5), (2, X, 1.0, 0.5)])
    outlook = outlook_of(problem, history, (1, 1, 1), (0, 0, 0))
    policy = ExploreThenCommit(explore=Exploration(by="spend"))
    assert policy._explore(outlook, NOTHING_SEEN, 0).control_set == 0


def test_first_points_are_sobol_points_inside_the_cube(problem):
    """Before a model can be fitted the settings come from a low-discrepancy sequence, a new one each play."""
    policy = ExploreThenCommit()
    settings = set()
    for plays in range(3):
        history = make_history([(2, X, None, 0.1)] * plays + [(0, X, None, 0.1), (1, X, None, 0.1)] * 5)
        outlook = outlook_of(problem, history, (1, 1, 1), (0, 0, 0))
        proposal = outlook.proposal(policy.name, policy._explore(outlook, NOTHING_SEEN, 0), 7)
        assert proposal.control_set == 2
        assert validate(proposal, problem) == []
        settings.add(proposal.setting)
    assert len(settings) == 3


def test_exploration_ends_by_plays_or_by_share(problem):
    """Tau plays of each set, or a share of the budget, whichever comes first."""
    outlook = outlook_of(problem, make_history([(i, X, 1.0, 0.5) for i in (0, 1, 2)]), (1, 1, 1), (0, 0, 0))
    assert not ExploreThenCommit(explore=Exploration(plays=1))._exploring(outlook)
    assert ExploreThenCommit(explore=Exploration(plays=2))._exploring(outlook)
    assert not ExploreThenCommit(explore=Exploration(plays=2, share=0.15))._exploring(outlook)
    assert ExploreThenCommit(explore=Exploration(share=0.16))._exploring(outlook)


def test_exploration_does_not_wait_for_a_set_that_no_longer_fits(problem):
    """With plays alone, a set too dear for what is left would keep it from ever committing."""
    rows = [(2, X, 1.0, 4.0), *[(i, X, 1.0, 0.5) for i in (0, 1) for _ in range(5)]]
    outlook = outlook_of(problem, make_history(rows), (1, 1, 1), (0, 0, 0))
    assert not outlook.fits(2)
    assert not ExploreThenCommit(explore=Exploration(plays=5, share=None))._exploring(outlook)
    assert ExploreThenCommit(explore=Exploration(plays=6, share=None))._exploring(outlook)


def test_a_free_set_does_not_take_every_turn(problem):
    """Balanced by spend, sets that have cost nothing yet take turns, and exploration ends."""
    policy = ExploreThenCommit(explore=Exploration(by="spend"))
    proposals, _ = campaign(policy, replace(problem, budget=to_micros(6)), (0.0, 1.0, 2.0), hill, limit=40)
    assert [p.control_set for p in proposals[:3]] == [0, 1, 2]
    assert "commit" in {p.phase for p in proposals}


def test_commit_plays_the_cheapest_of_the_good_enough(problem):
    """Line 16 drops what cannot be good enough, lines 24 and 25 take the cheapest of the rest."""
    rows = [(i, X, 1.0, c) for i, c in ((0, 0.1), (1, 0.5), (2, 1.0)) for _ in range(9)]
    history = make_history(rows)
    known = replace(problem, known_costs=(0.1, 0.5, 1.0), budget=to_micros(100))
    outlook = outlook_of(known, history, (0.5, 1.0, 1.2), (0.2, 0.7, 0.9))
    proposal, seen = committed(outlook, NOTHING_SEEN)
    assert proposal.control_set == 1
    assert proposal.threshold == pytest.approx(0.9 * 0.9)
    assert [r.eligible for r in proposal.sets] == [False, True, True]
    assert seen.lcb == 0.9


def test_ties_in_cost_go_to_the_highest_bound(problem):
    """Line 26: among sets whose cost bounds tie, the most promising is played."""
    history = make_history([(i, X, 1.0, 0.1) for i in (0, 1, 2)])
    outlook = outlook_of(problem, history, (1.0, 1.3, 1.2), (0.2, 0.3, 0.4))
    assert committed(outlook, NOTHING_SEEN)[0].control_set == 1


def test_intersections_remember_the_tightest_bounds(problem):
    """A set once shown to be bad stays out although today's bound is loose."""
    history = make_history([(i, X, 1.0, 0.1) for i in (0, 1, 2)])
    outlook = outlook_of(problem, history, (1.5, 1.0, 1.2), (0.2, 0.3, 0.4))
    seen = Intersection(0.9, (0.5, 2.0, 2.0))
    proposal, after = committed(outlook, seen)
    assert not proposal.sets[0].eligible
    assert after.ucb == (0.5, 1.0, 1.2)
    assert after.lcb == 0.9


def test_an_empty_good_set_starts_the_intersections_again(problem):
    """Lines 17 to 20: contradictory memories are replaced by today's bounds."""
    history = make_history([(i, X, 1.0, 0.1) for i in (0, 1, 2)])
    outlook = outlook_of(problem, history, (1.0, 1.1, 1.2), (0.2, 0.3, 0.4))
    proposal, after = committed(outlook, Intersection(5.0, (0.1, 0.1, 0.1)))
    assert after == Intersection(0.4, (1.0, 1.1, 1.2))
    assert proposal.control_set == 2


def test_tolerance_decays_as_asked(problem):
    """With the budget left, or by halving after every d commit trials."""
    outlook = outlook_of(problem, make_history([(0, X, 1.0, 2.5)]), (1, 1, 1), (0, 0, 0))
    by_budget = ExploreThenCommit(tolerance=0.2, tolerance_decay="budget")
    halving = ExploreThenCommit(tolerance=0.2, tolerance_decay="halving")
    assert by_budget._tolerance_now(outlook, 0) == pytest.approx(0.15)
    assert halving._tolerance_now(outlook, 5) == pytest.approx(0.05)
    assert ExploreThenCommit(tolerance=0.2)._tolerance_now(outlook, 5) == 0.2


def test_a_trial_that_costs_exactly_what_is_left_runs(problem):
    """Nineteen trials of 0.1 leave room for the twentieth in a budget of 2."""
    small = replace(problem, budget=to_micros(2))
    proposals, history = campaign(ExploreThenCommit(), small, (0.1, 0.1, 0.1), hill)
    assert len(proposals) == 20
    assert history.spent == small.budget


def test_a_set_that_no_longer_fits_is_skipped(problem):
    """When the dear set does not fit any more, a cheaper good one is played."""
    rows = [(0, X, 1.0, 0.5), (1, X, 1.0, 0.7), (2, X, 1.0, 8.0)]
    outlook = outlook_of(problem, make_history(rows), (1.0, 0.9, 1.2), (0.2, 0.3, 0.4))
    assert outlook.fitting([0, 1, 2]) == [0, 1]
    assert committed(outlook, NOTHING_SEEN)[0].control_set == 0
    with pytest.raises(BudgetSpent, match=r"0\.8 left"):
        outlook.fitting([2])


def test_the_campaign_finds_the_hill_and_goes_cheap(problem):
    """On a hill that needs only a, the later trials control only a, near the top."""
    wide = replace(problem, budget=to_micros(30))
    proposals, _ = campaign(ExploreThenCommit(tolerance=0.2), wide, (0.3, 0.3, 1.0), hill)
    last = proposals[-10:]
    assert {p.control_set for p in last} == {0}
    assert np.mean([p.setting[0] for p in last]) == pytest.approx(0.3, abs=0.05)


def test_a_fit_in_trouble_is_told(problem):
    """Fault 49: what the surrogate had to do instead stands in the proposal, and the campaign goes on."""
    same = make_history([(0, X, 1.0, 0.1)] * 8)
    noiseless = replace(problem, model=replace(problem.model, noise_sd=0.0))
    proposal, _ = ExploreThenCommit().propose({}, noiseless, same, trial_rng(0, 9))
    assert any("jitter" in note or "positive definite" in note for note in proposal.notes)
    assert validate(proposal, noiseless) == []


@pytest.mark.parametrize(("maximise", "floor"), [(True, 5.0), (False, 0.0)])
def test_a_floor_the_outcomes_fall_below_does_not_end_the_campaign(problem, maximise, floor):
    """A floor that was wrong (also: minimising with one of 0) leaves the best set eligible, and the money is spent."""
    wrong = replace(problem, maximise=maximise, floor=floor, budget=to_micros(4))
    proposals, history = campaign(ExploreThenCommit(), wrong, (0.1, 0.1, 0.1), lambda x: 1 + hill(x))
    assert history.spent == wrong.budget
    assert proposals[-1].phase == "commit"
