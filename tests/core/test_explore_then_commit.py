"""Explore-then-commit, step by step, as a whole campaign, and at its boundaries."""

import math
from dataclasses import replace

import numpy as np
import pytest

from rigctl import ModelOptions, Observation
from rigctl.core.asking import trial_rng, validate
from rigctl.core.bounds.best import SetBounds
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.changeovers import Changeovers
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import Exploration, ExploreThenCommit, Intersection
from rigctl.policies import BudgetSpent, Outlook, outlook_of
from tests.core.conftest import FIXED, Slope, campaign, hill, make_history, proposals_of, unit_space

X = (0.5, 0.5)
NOTHING_SEEN = Intersection.of({}, 3)
EVEN = [(i, X, 1.0, 0.1) for i in (0, 1, 2)]


def bounds_of(upper, lower):
    bounds = []
    for i, (u, low) in enumerate(zip(upper, lower, strict=True)):
        at, middle, sd = np.full((1, 1, 2)[i], 0.25), (u + low) / 2, (u - low) / 4
        bounds.append(SetBounds(i, u, at, low, at, middle, sd, middle, at, sd))
    return tuple(bounds)


def outlook_with(problem, history, upper=(1, 1, 1), lower=(0, 0, 0)):
    costs = believe(problem, history, "hoeffding")
    fitted = fit_history(problem, history)
    believed = cost_field(problem, history), bounds_of(upper, lower), costs, problem.floor
    return Outlook(problem, history, fitted, *believed, Changeovers.of(problem, history))


def committed(outlook, seen):
    """The proposal of a commit trial with a tolerance of 0.1, and the intersections kept after it."""
    choice = ExploreThenCommit(tolerance=0.1)._commit(outlook, seen, 0)
    return outlook.proposal("etc", choice, 0), Intersection.of(choice.remembered, len(outlook.bounds))


@pytest.mark.parametrize(
    ("by", "costs", "chosen"),
    [
        ("plays", [(0, 0.1), (1, 0.1), (0, 0.1)], 2),
        ("plays", [(0, 0.1), (1, 0.1), (2, 0.1)], 0),
        ("spend", [(0, 0.1), (0, 0.1), (1, 0.5), (2, 0.5)], 0),
        ("spend", [(0, 0.1), (0, 0.1), (1, 0.2), (2, 0.2)], 1),
        ("spend", [(0, 0.1), (1, 0.1), (2, 0.1)], 0),
    ],
)
def test_the_set_with_the_fewest_plays_or_the_least_money_is_explored(problem, by, costs, chosen):
    """Line 4; of sets that have cost the same the less played, and of those the first."""
    outlook = outlook_with(problem, make_history([(i, X, 1.0, c) for i, c in costs]))
    choice = ExploreThenCommit(explore=Exploration(by=by))._explore(outlook, NOTHING_SEEN, 0)
    assert (choice.control_set, choice.phase) == (chosen, "explore")


def test_first_points_are_sobol_points_inside_the_cube(problem):
    """Before a model can be fitted the settings come from a low-discrepancy sequence, a new one each play."""
    policy = ExploreThenCommit()
    settings = set()
    for plays in range(3):
        history = make_history([(2, X, None, 0.1)] * plays + [(0, X, None, 0.1), (1, X, None, 0.1)] * 5)
        outlook = outlook_with(problem, history)
        proposal = outlook.proposal(policy.name, policy._explore(outlook, NOTHING_SEEN, 0), 7)
        assert proposal.control_set == 2
        assert validate(proposal, problem) == []
        settings.add(proposal.setting)
    assert len(settings) == 3


@pytest.mark.parametrize(
    ("plays", "share", "goes_on"), [(1, 0.5, False), (2, 0.5, True), (2, 0.15, False), (None, 0.16, True)]
)
def test_exploration_ends_by_plays_or_by_share(problem, plays, share, goes_on):
    """Tau plays of each set, or a share of the budget, whichever comes first."""
    outlook = outlook_with(problem, make_history([(i, X, 1.0, 0.5) for i in (0, 1, 2)]))
    assert ExploreThenCommit(explore=Exploration(plays, share))._exploring(outlook) == goes_on


def test_exploration_does_not_wait_for_a_set_that_no_longer_fits(problem):
    """A set too dear for what is left would keep it from ever committing; a cheaper good one is played."""
    rows = [(2, X, 1.0, 4.0), *[(i, X, 1.0, 0.5) for i in (0, 1) for _ in range(5)]]
    outlook = outlook_with(problem, make_history(rows))
    assert not outlook.fits(2)
    assert not ExploreThenCommit(explore=Exploration(plays=5, share=None))._exploring(outlook)
    assert ExploreThenCommit(explore=Exploration(plays=6, share=None))._exploring(outlook)
    rows = [(0, X, 1.0, 0.5), (1, X, 1.0, 0.7), (2, X, 1.0, 8.0)]
    outlook = outlook_with(problem, make_history(rows), (1.0, 0.9, 1.2), (0.2, 0.3, 0.4))
    assert outlook.fitting([0, 1, 2]) == [0, 1]
    assert committed(outlook, NOTHING_SEEN)[0].control_set == 0
    with pytest.raises(BudgetSpent, match=r"0\.8 is left"):
        outlook.fitting([2])


def test_a_free_set_does_not_take_every_turn(problem):
    """Balanced by spend, sets that have cost nothing yet take turns, and exploration ends."""
    policy = ExploreThenCommit(explore=Exploration(by="spend"))
    proposals = proposals_of(campaign(policy, replace(problem, budget=to_micros(6)), (0.0, 1.0, 2.0), most=39))
    assert [p.control_set for p in proposals[:3]] == [0, 1, 2]
    assert "commit" in {p.phase for p in proposals}


def test_commit_plays_the_cheapest_of_the_good_enough(problem):
    """Line 16 drops what cannot be good enough, lines 24 and 25 take the cheapest; of none the first of the best."""
    history = make_history([(i, X, 1.0, c) for i, c in enumerate((0.1, 0.5, 1.0)) for _ in range(9)])
    known = replace(problem, known_costs=(0.1, 0.5, 1.0), budget=to_micros(100))
    proposal, seen = committed(outlook_with(known, history, (0.5, 1.0, 1.2), (0.2, 0.7, 0.9)), NOTHING_SEEN)
    assert (proposal.control_set, seen.lcb, proposal.threshold) == (1, 0.9, pytest.approx(0.9 * 0.9))
    assert [r.eligible for r in proposal.sets] == [False, True, True]
    proposal = committed_to(problem, (1.0, 1.5, 1.5), (0.2, 1.5, 1.5), 0.0)
    assert proposal.control_set == 1
    assert [r.eligible for r in proposal.sets] == [False, True, False]


@pytest.mark.parametrize(
    ("upper", "seen", "good", "after"),
    [
        ((1.5, 1.0, 1.2), (0.9, (0.5, 2.0, 2.0)), (1, 2), (0.9, (0.5, 1.0, 1.2))),
        ((1.0, 1.1, 1.2), (0.9, (0.1, 0.1, 0.95)), (2,), (0.9, (0.1, 0.1, 0.95))),
        ((1.0, 1.1, 1.2), (5.0, (0.1, 0.1, 0.1)), (0, 1, 2), (0.4, (1.0, 1.1, 1.2))),
    ],
    ids=["the tightest are kept", "as long as a set is left", "else they start again"],
)
def test_bounds_of_the_past_count_until_they_leave_no_set(problem, upper, seen, good, after):
    """A set once shown to be bad stays out although today's bound is loose; lines 17 to 20 where they contradict."""
    outlook = outlook_with(problem, make_history(EVEN), upper, (0.2, 0.3, 0.4))
    proposal, kept = committed(outlook, Intersection(*seen))
    assert [i for i, r in enumerate(proposal.sets) if r.eligible] == list(good)
    assert (proposal.control_set, kept) == (2, Intersection(*after))


@pytest.mark.slow
def test_a_trial_that_costs_exactly_what_is_left_runs(problem):
    """Nineteen trials of 0.1 leave room for the twentieth in a budget of 2."""
    played = campaign(ExploreThenCommit(), replace(problem, budget=to_micros(2)), (0.1, 0.1, 0.1))
    assert (len(played.decisions), played.history.spent) == (20, to_micros(2))


@pytest.mark.slow
def test_the_campaign_finds_the_hill_and_goes_cheap(problem):
    """On a hill that needs only a, the later trials control only a, near the top."""
    wide = replace(problem, budget=to_micros(30))
    last = proposals_of(campaign(ExploreThenCommit(tolerance=0.2), wide, (0.3, 0.3, 1.0)))[-10:]
    assert {p.control_set for p in last} == {0}
    assert np.mean([p.setting[0] for p in last]) == pytest.approx(0.3, abs=0.05)


def test_a_fit_in_trouble_is_told(problem):
    """Fault 49: what the surrogate had to do instead stands in the proposal, and the campaign goes on."""
    same = make_history([(0, X, 1.0, 0.1)] * 8)
    noiseless = replace(problem, model=replace(problem.model, noise_sd=0.0))
    proposal, _ = ExploreThenCommit().propose({}, noiseless, same, trial_rng(0, 9))
    assert any("steadied" in note for note in proposal.notes)
    assert validate(proposal, noiseless) == []


@pytest.mark.slow
@pytest.mark.parametrize(("maximise", "floor"), [(True, 5.0), (False, 0.0)])
def test_a_floor_the_outcomes_fall_below_does_not_end_the_campaign(problem, maximise, floor):
    """A floor that was wrong (also: minimising with one of 0) leaves the best set eligible, and the money is spent."""
    wrong = replace(problem, maximise=maximise, floor=floor, budget=to_micros(2))
    played = campaign(ExploreThenCommit(), wrong, (0.1, 0.1, 0.1), lambda x: 1 + hill(x))
    assert played.history.spent == wrong.budget
    assert played.decisions[-1].proposal.phase == "commit"


def committed_to(problem, upper, lower, tolerance=0.1, *, costs=(0.1, 0.1, 0.1), seen=NOTHING_SEEN):
    outlook = outlook_with(replace(problem, known_costs=costs), make_history(EVEN), upper, lower)
    policy = ExploreThenCommit(tolerance=tolerance)
    return outlook.proposal(policy.name, policy._commit(outlook, seen, 0), 0)


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
    proposal = committed_to(problem, (upper, 0.1, 2.5), (0.0, 0.0, 2.0), tolerance)
    assert [r.eligible for r in proposal.sets] == [good, False, True]
    assert proposal.threshold == (1 - tolerance) * 2.0


@pytest.mark.parametrize(("upper", "good"), [(2.0, False), (2.25, True)])
def test_the_floor_is_what_shares_are_counted_from(problem, upper, good):
    """With a floor of 1 half of the best at 3 is 2."""
    proposal = committed_to(replace(problem, floor=1.0), (upper, 1.0, 3.5), (0.0, 0.0, 3.0), 0.5)
    assert ([r.eligible for r in proposal.sets], proposal.threshold) == ([good, False, True], 2.0)


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
    assert committed_to(problem, upper, (0.5, 0.5, 0.5), costs=costs).control_set == chosen


@pytest.mark.parametrize(
    ("model", "outcomes", "followed"),
    [(ModelOptions(), 2, False), (ModelOptions(), 3, True), (FIXED, 0, False), (FIXED, 1, True), (FIXED, 2, True)],
)
def test_exploration_follows_the_model_as_soon_as_there_is_one(problem, model, outcomes, followed):
    """Hyper-parameters are learned from d + 1 outcomes; fixed ones hold from the first outcome on, as in U."""
    history = make_history(EVEN[:outcomes] + [(0, X, None, 0.1)] * (3 - outcomes))
    outlook = outlook_with(replace(problem, model=model), history)
    proposal = outlook.proposal("etc", ExploreThenCommit()._explore(outlook, NOTHING_SEEN, 0), 0)
    assert ("upper-bound maximiser" in proposal.technical) == followed
    assert (proposal.setting == (0.25,) * len(proposal.setting)) == followed


def test_with_fixed_hyperparameters_a_campaign_begins_at_upper_bound_maximisers(problem):
    """U Algorithm 1, lines 4 and 5: from the second trial on, also while there are fewer outcomes than variables."""
    policy, history, state = ExploreThenCommit(), make_history([(0, X, 1.0, 0.1)]), {}
    for trial in (2, 3):
        proposal, after = policy.propose(state, problem, history, trial_rng(0, trial))
        outlook = outlook_of(problem, history, state, trial_rng_after_seed(trial))
        assert proposal.setting == outlook.bounds[proposal.control_set].upper_at
        x = np.full(2, 0.5)
        x[list(problem.space.control_sets[proposal.control_set].indices)] = proposal.setting
        history = history.append(Observation(trial, proposal.control_set, tuple(x), hill(x), to_micros(0.1)))
        state = after


def trial_rng_after_seed(trial):
    """The generator of a trial after the seed of first points was drawn from it."""
    rng = trial_rng(0, trial)
    rng.integers(2**31)
    return rng


@pytest.mark.parametrize(
    ("decay", "spent", "commits", "tolerance"),
    [
        *(("halving", 0.3, n, t) for n, t in enumerate((0.4, 0.4, 0.2, 0.2, 0.1))),
        ("constant", 0.3, 5, 0.4),
        ("budget", 3.0, 0, 0.28),
        ("budget", 12.0, 0, 0.0),
    ],
)
def test_tolerance_shrinks_as_asked(problem, decay, spent, commits, tolerance):
    """In two variables it is halved after the second and fourth commit trial; a budget overspent leaves none."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay=decay)
    outlook = outlook_with(problem, make_history([(0, X, 1.0, spent)]))
    assert policy._tolerance_now(outlook, commits) == pytest.approx(tolerance)


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
    """It says nothing; in one variable every commit trial halves. The Sobol seed, below 2^31, is drawn first."""
    policy = ExploreThenCommit(tolerance=0.4, tolerance_decay="halving")
    assert policy.initial_state(problem) == {}
    single = replace(problem, space=unit_space("a", [["a"]]), model=replace(problem.model, lengthscales=(0.3,)))
    outlook = outlook_of(single, make_history([]), {}, np.random.default_rng(0))
    assert [policy._tolerance_now(outlook, n) for n in (0, 1)] == [0.4, 0.2]
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


def test_a_commitment_says_why(problem, golden):
    """How many sets are good enough, which is the cheapest, and what it costs at least."""
    proposal = committed_to(problem, (1.0, 0.1, 1.2), (0.5, 0.0, 0.9), 0.125, costs=(0.25, 0.1, 1.0))
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
    outlook = replace(outlook_with(replace(problem, known_cost_field=Slope()), history), field=Slope())
    low = replace(outlook.bounds[1], upper_at=np.array([0.0]))
    outlook = replace(outlook, bounds=(outlook.bounds[0], low, outlook.bounds[2]))
    choice = ExploreThenCommit()._explore(outlook, NOTHING_SEEN, 0)
    proposal = outlook.proposal("etc", choice, 0)
    assert (proposal.control_set, where in proposal.technical) == (1, True)
    assert (proposal.setting == (0.0,)) == (left == 1.0)
