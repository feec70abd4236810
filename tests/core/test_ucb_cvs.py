"""UCB-CVS and its explore-then-commit variants, rule by rule and as whole campaigns."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl import History, Observation, Problem
from rigctl.core.asking import trial_rng, validate
from rigctl.core.bounds.best import SetBounds
from rigctl.core.costs.beliefs import believe
from rigctl.core.costs.changeovers import Changeovers
from rigctl.core.costs.fields import cost_field
from rigctl.core.costs.groups import cost_groups, estimates, size_groups
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.published.ucb_cvs import CostGroupEtc, Epsilon, UcbCvs, relaxed_choice
from rigctl.policies import BudgetSpent, Outlook
from tests.core.conftest import FIXED, Priced, make_history, make_space, unit_space
from tests.golden import Golden

X = (0.5, 0.5)
SEVEN = (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c"))
MODERATE = (0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0)


@pytest.fixture
def known(problem):
    """Costs 0.1, 0.1 and 1 of a, b and a+b."""
    return replace(problem, known_costs=(0.1, 0.1, 1.0))


def outlook_of(problem, history, upper):
    """With hand-made upper bounds, at the middle of each set's settings."""
    bounds = []
    for i, (u, chosen) in enumerate(zip(upper, problem.space.control_sets, strict=True)):
        at = (0.5,) * len(chosen.indices)
        bounds.append(SetBounds(i, u, at, 0.0, at, 0.0, 0.0, 0.0, at, 0.0))
    believed = cost_field(problem, history), tuple(bounds), believe(problem, history, "empirical-bernstein"), 0.0
    return Outlook(problem, history, fit_history(problem, history), *believed, Changeovers.of(problem, history))


@pytest.mark.parametrize(
    ("epsilon", "spread", "now"),
    [
        (Epsilon("constant", 0.5, "outcome"), 3.0, 0.5),
        (Epsilon("constant", 0.5, "spread"), 3.0, 1.5),
        (Epsilon("linear", 2.0, "outcome"), 1.0, 1.2),
        (Epsilon("linear", 2.0, "outcome", trials=5), 1.0, 0.4),
        (Epsilon("linear", 2.0, "outcome", trials=3), 1.0, 0.0),
        (Epsilon("list", unit="outcome", values=(5.0, 4.0, 3.0, 2.0, 1.0)), 1.0, 1.0),
        (Epsilon("list", unit="outcome", values=(5.0, 4.0, 3.0, 2.0)), 1.0, 0.0),
    ],
)
def test_epsilon_is_as_scheduled(problem, epsilon, spread, now):
    """After four trials of 1: constant, as far as the budget or the trials go, or one of a list after the other.

    In outcome units, or in spreads times the spread; points known beforehand are no trials.
    """
    beforehand = Observation(0, -1, X, 1.0, 0)
    history = History.of([beforehand, *make_history([(0, X, 1.0, 1.0)] * 4).observations])
    assert epsilon.now(problem, history, spread) == pytest.approx(now)


def brute(upper, costs, epsilon):
    """Algorithm 1, lines 3 to 6, word by word."""
    g = max(upper)
    s1 = [i for i in range(len(upper)) if upper[i] + epsilon >= g]
    s2 = [i for i in s1 if costs[i] == min(costs[j] for j in s1)]
    return next(i for i in s2 if upper[i] == max(upper[j] for j in s2)), s1


def test_costs_that_depend_on_the_setting_are_compared_where_they_would_be_played(problem):
    """With a known cost field nothing has to be metered, and the cheapest is so at its own upper maximiser."""
    field = Priced(lambda i, at: np.abs(at - (0.5, 0.0, 0.0)[i]).sum(axis=1) + 0.1)
    priced = replace(problem, known_cost_field=field)
    outlook = outlook_of(priced, make_history([(0, X, 1.0, 5.0)]), (1.0, 1.1, 1.2))
    assert relaxed_choice(outlook, 1.0).control_set == 0
    assert relaxed_choice(outlook, 0.1).control_set == 1


@given(
    upper=st.tuples(*[st.integers(0, 12)] * 3),
    costs=st.tuples(*[st.sampled_from([0.1, 0.2, 1.0])] * 3),
    epsilon=st.sampled_from([0.0, 0.25, 1.0, 3.0]),
)
def test_with_known_costs_it_is_algorithm_1(upper, costs, epsilon):
    """The chosen set, S1 and the threshold are those of the paper's lines, ties in bound and cost included."""
    problem = Problem(make_space(), to_micros(10), floor=0.0, model=FIXED, known_costs=costs)
    bounds = tuple(u / 4 for u in upper)
    choice = relaxed_choice(outlook_of(problem, make_history([(0, X, 1.0, 0.1)]), bounds), epsilon)
    chosen, s1 = brute(bounds, costs, epsilon)
    assert choice.control_set == chosen
    assert list(choice.eligible) == s1
    assert choice.threshold == max(bounds) - epsilon


def test_with_metered_costs_a_tie_is_a_group(problem, golden):
    """Of metered costs that scatter around one mean the more promising is played; of sets never tried the smallest."""
    rows = [(0, X, 1.0, 0.1), (0, X, 1.0, 0.12), (1, X, 1.0, 0.11), (1, X, 1.0, 0.13), (2, X, 1.0, 1.0)]
    outlook = outlook_of(problem, make_history(rows), (1.0, 1.2, 1.5))
    assert relaxed_choice(outlook, 1.0).control_set == 1
    assert relaxed_choice(outlook, 0.1).control_set == 2
    one = outlook_of(problem, make_history([(0, X, 1.0, 0.1)]), (1.0, 0.9, 1.5))
    assert relaxed_choice(one, 1.0).control_set == 1
    golden(relaxed_choice(one, 1.0).reason)
    assert relaxed_choice(one, 0.5).control_set == 2


def test_sets_that_do_not_fit_the_budget_are_left_out(known):
    """The rule goes on among those that fit, its best bound included; and ends when nothing fits."""
    rows = [(0, X, 1.0, 9.5)]
    outlook = outlook_of(known, make_history(rows), (0.5, 0.4, 1.5))
    choice = relaxed_choice(outlook, 0.0)
    assert choice.control_set == 0
    assert choice.threshold == 0.5
    with pytest.raises(BudgetSpent):
        relaxed_choice(outlook_of(known, make_history([(0, X, 1.0, 9.95)]), (1, 1, 1)), 0.0)


def test_the_proposal_says_what_it_takes_to_stay_in_play(known, golden: Golden):
    """Reports, threshold, phase and reason of a decision, in outcome units, also when minimising."""
    history = make_history([(0, (0.3, 0.2), 1.0, 0.1), (2, (0.8, 0.7), 0.2, 1.0), (1, (0.1, 0.9), 0.5, 0.1)])
    policy = UcbCvs(Epsilon("constant", 0.3, "outcome"))
    proposal, _ = policy.propose({}, known, history, trial_rng(0, 4))
    best = max(r.upper for r in proposal.sets)
    assert proposal.threshold == pytest.approx(best - 0.3)
    assert [r.eligible for r in proposal.sets] == [r.upper + 0.3 >= best for r in proposal.sets]
    assert proposal.phase == "explore"
    golden(proposal.technical)
    assert validate(proposal, known) == []
    turned = History.of(replace(o, y=-o.y) for o in history.observations)
    down, _ = policy.propose({}, replace(known, maximise=False, floor=-0.0), turned, trial_rng(0, 4))
    assert (down.control_set, down.setting, down.threshold) == (
        proposal.control_set,
        proposal.setting,
        -proposal.threshold,
    )


def three_variables(**options):
    model = replace(FIXED, lengthscales=(0.3, 0.3, 1.0))
    return Problem(unit_space("abc", SEVEN), **{"budget": to_micros(20), "floor": 0.0, "model": model, **options})


@pytest.mark.parametrize(
    ("costs", "plays", "expected"),
    [
        ((0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 1.0), "adaptive", (400, 40)),
        (MODERATE, "adaptive", (40, 20)),
        ((0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0), "adaptive", (6, 5)),
        (tuple(7 * c for c in MODERATE), "adaptive", (40, 20)),
        (MODERATE, 50, (50, 50)),
    ],
)
def test_plays_of_the_published_variants(costs, plays, expected):
    """ETC-Ada: 4 / c_j with the dearest at 1, rounded down, in any currency; ETC-50: 50 of each group."""
    policy = CostGroupEtc(plays=plays)
    groups = cost_groups(estimates(three_variables(known_costs=costs), History()))
    assert tuple(policy._due(g, groups[-1]) for g in groups[:-1]) == expected


def decided(problem, policy, counts, upper, cost):
    rows = [(i, (0.5, 0.5, 0.5), 1.0, cost[i]) for i, n in enumerate(counts) for _ in range(n)]
    outlook = outlook_of(problem, make_history(rows), upper)
    return policy.choose(outlook, {}, RNG)


RNG = np.random.default_rng(0)
UPPER = (1.0, 1.5, 1.2, 2.0, 2.5, 2.2, 3.0)


@pytest.mark.parametrize(
    ("counts", "expected", "phase"),
    [
        ((0, 0, 0, 0, 0, 0, 0), 1, "explore"),
        ((2, 0, 2, 0, 0, 0, 0), 1, "explore"),
        ((2, 1, 2, 0, 0, 0, 0), 4, "explore"),
        ((2, 1, 2, 5, 0, 0, 9), 6, "commit"),
        ((0, 0, 0, 5, 0, 0, 9), 1, "explore"),
    ],
)
def test_groups_are_played_cheapest_first_then_the_best_of_all(counts, expected, phase):
    """Five plays a group, whichever members had them; within a group the largest upper bound."""
    problem = three_variables(known_costs=MODERATE, budget=to_micros(100))
    choice = decided(problem, CostGroupEtc(plays=5), counts, UPPER, MODERATE)
    assert (choice.control_set, choice.phase) == (expected, phase)


@pytest.mark.parametrize(
    ("costs", "budget", "played", "expected"),
    [(MODERATE, 1.15, (1, 0, 0, 0, 0, 0, 0), 1), ((1.0,) * 7, 20.0, (0,) * 7, 6)],
    ids=["a group too dear for the rest is passed over", "equal costs leave nothing to explore"],
)
def test_where_no_group_is_left_it_commits(costs, budget, played, expected):
    """With 0.15 left the group of 0.2 cannot be played; if no group is below the dearest, it is UCB-PSQ at once."""
    problem = three_variables(known_costs=costs, budget=to_micros(budget))
    choice = decided(problem, CostGroupEtc(plays=1), played, UPPER, (1.0,) * 7)
    assert (choice.control_set, choice.phase) == (expected, "commit")


def test_unknown_costs_are_metered_first_small_sets_first():
    """Each set once, by number of variables and then by promise; trials whose cost was only estimated are tries too."""
    problem = three_variables()
    order, counts = [], [0] * 7
    for _ in range(7):
        choice = decided(problem, CostGroupEtc(), counts, UPPER, MODERATE)
        assert choice.technical.startswith("metering")
        order.append(choice.control_set)
        counts[choice.control_set] += 1
    assert order == [1, 2, 0, 4, 5, 3, 6]
    assert not decided(problem, CostGroupEtc(), counts, UPPER, MODERATE).technical.startswith("metering")
    rows = [Observation(t, t % 7, (0.5,) * 3, 1.0, to_micros(0.1), cost_known=False) for t in range(7)]
    choice = CostGroupEtc().choose(outlook_of(problem, History.of(rows), UPPER), {}, RNG)
    assert not choice.technical.startswith("metering")


@pytest.mark.parametrize(
    ("played", "expected"), [((0, 0, 0, 0, 0, 0, 0), 1), ((0, 2, 0, 0, 0, 0, 0), 4), ((1, 1, 0, 0, 1, 1, 0), 6)]
)
def test_groups_by_size_need_no_metering(played, expected):
    """Fifty plays per number of variables, as Hoang et al. run it: straight to the small sets."""
    policy, problem = CostGroupEtc(plays=2, groups="size"), three_variables(budget=to_micros(50))
    assert decided(problem, policy, played, UPPER, (0.3, 0.1, 0.2, 0.05, 0.1, 0.4, 0.7)).control_set == expected


def test_adaptive_groups_by_size_use_their_mean_cost():
    """A size that costs a quarter of the largest on average gets 16 plays."""
    problem = three_variables()
    rows = [(i, (0.5,) * 3, 1.0, 0.25 if i < 6 else 1.0) for i in range(7)]
    groups = size_groups(problem, estimates(problem, make_history(rows)))
    assert [CostGroupEtc(groups="size")._due(g, groups[-1]) for g in groups[:-1]] == [16, 16]


@pytest.mark.slow
@pytest.mark.parametrize("leader", ["changing", "the same"])
@pytest.mark.parametrize("seed", range(2))
def test_noisy_metered_costs_give_each_group_its_plays(seed, leader):
    """With the noise of Hoang et al. the true groups have about 40 and 20 plays, whichever members lead them."""
    problem = three_variables()
    rng, history, explored = np.random.default_rng(seed), History(), Counter()
    for trial in range(1, 200):
        upper = rng.random(7) if leader == "changing" else UPPER
        try:
            choice = CostGroupEtc().choose(outlook_of(problem, history, upper), {}, RNG)
        except BudgetSpent:
            break
        i = choice.control_set
        explored[MODERATE[i]] += choice.phase == "explore"
        cost = to_micros(round(max(MODERATE[i] + 0.02 * rng.standard_normal(), 0.001), 6))
        history = history.append(Observation(trial, i, (0.5, 0.5, 0.5), 1.0, cost))
    assert explored[0.1] == pytest.approx(40, abs=6)
    assert explored[0.2] == pytest.approx(20, abs=4)
    assert explored[1.0] == 1
