"""The default policy: where its money goes, and why."""

import numpy as np
import pytest

from rigctl import History, Observation, Problem, TruncatedNormal
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.policies.likely_maximisers import EXPLOIT_FROM, ExplorationShare, LikelyMaximisers
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.policies import BudgetSpent
from tests.core import conftest
from tests.core.conftest import Slope, proposals_of, unit_space

NAMES = ("a", "b", "c")
SETS = (("a",), ("b",), ("a", "b"), ("a", "b", "c"))
COSTS = (0.1, 0.1, 0.2, 1.0)


def problem_of(budget=12.0, **changes):
    return Problem(unit_space(NAMES, SETS, TruncatedNormal.from_moments(0.5, 0.2)), to_micros(budget), **changes)


def hill(x):
    return float(np.exp(-8 * (x[0] - 0.3) ** 2 - 8 * (x[1] - 0.7) ** 2))


def campaign(policy, problem, costs=COSTS, most=400):
    noise = np.random.default_rng(0)
    played = conftest.campaign(
        policy,
        problem,
        costs,
        lambda x: hill(x) + 0.01 * noise.standard_normal(),
        most=most,
        nature=lambda rng, d: rng.normal(0.5, 0.2, d).clip(0, 1),
    )
    return proposals_of(played), played.history


@pytest.fixture(scope="module")
def played():
    return campaign(LikelyMaximisers(), problem_of())


def money(proposals, history, phase, until=np.inf):
    total, of_phase = 0.0, 0.0
    for proposal, observation in zip(proposals, history.observations, strict=True):
        total += to_units(observation.cost)
        if total <= until and proposal.phase == phase:
            of_phase += to_units(observation.cost)
    return of_phase


@pytest.mark.slow
def test_harvest_never_has_more_than_its_share():
    """It has at most a quarter of what is spent, until what is good enough has a share of its own."""
    proposals, history = campaign(LikelyMaximisers(), problem_of(known_costs=COSTS))
    share, spent, harvested = ExplorationShare(), 0.0, 0.0
    for trials, (proposal, observation) in enumerate(zip(proposals, history.observations, strict=True)):
        cost = to_units(observation.cost)
        money = min(12.0, 40 * spent / trials) if spent else 12.0
        spent, harvested = spent + cost, harvested + cost * (proposal.phase == "harvest")
        if proposal.phase == "harvest" and spent <= EXPLOIT_FROM * money:  # later it shares with what is good enough
            assert harvested <= share.harvest(spent / money) * money + 1e-5
    assert 0.5 * spent < harvested < 0.85 * spent


@pytest.mark.slow
def test_exploration_leaves_dear_sets_to_harvest(played):
    """Nothing that costs more than half of the dearest is explored with, but in its turn, and that comes early."""
    proposals, _ = played
    assert {p.control_set for p in proposals[:20]} == {0, 1, 2, 3}
    in_turn = {p.trial for p in proposals if p.technical.startswith("exploring widely")}
    assert {p.control_set for p in proposals if p.phase == "explore" and p.trial not in in_turn} <= {0, 1, 2}
    assert {p.phase for p in proposals} == {"explore", "harvest", "confirm"}


@pytest.mark.slow
def test_the_best_setting_is_found_and_played(played):
    """Harvest ends at the top of the hill, with the cheap set of those that reach it, once that is known."""
    proposals, history = played
    spent = np.cumsum([to_units(o.cost) for o in history.observations])
    last = [p for p, so_far in zip(proposals, spent, strict=True) if p.phase == "harvest" and so_far < 11.0][-3:]
    assert all(p.control_set in (2, 3) for p in last)
    assert all(abs(p.setting[0] - 0.3) < 0.08 and abs(p.setting[1] - 0.7) < 0.08 for p in last)
    assert money(proposals, history, "harvest", 12.0) > 0
    confirmed = [p.control_set for p in proposals if p.phase == "confirm"]
    assert set(confirmed[1:]) == {2}
    before = proposals[: next(n for n, p in enumerate(proposals) if p.phase == "confirm")]
    assert [p.control_set for p in before if p.phase == "harvest"][-1] == 2
    exploited = [p for p in proposals if p.technical.startswith("exploiting")]
    assert len(exploited) > 10
    assert {p.control_set for p in exploited[-10:]} == {2}
    assert all(abs(p.setting[0] - 0.3) < 0.05 and abs(p.setting[1] - 0.7) < 0.05 for p in exploited[-10:])
    assert money(proposals, history, "harvest") > 20 * COSTS[2]


@pytest.mark.slow
def test_a_budget_that_does_not_bind_changes_nothing():
    """Shares are counted of what learning is expected to take, and the dearest set has its turn early."""
    few, most = (
        [(p.control_set, p.setting) for p in campaign(LikelyMaximisers(), problem_of(budget), most=20)[0]]
        for budget in (20.0, 200.0)
    )
    assert few == most
    assert 3 in {control_set for control_set, _ in few}


@pytest.mark.slow
@pytest.mark.parametrize("cost", [0.0, 0.2])
def test_where_all_sets_cost_the_same_all_are_explored_with(cost):
    """With nothing to save, exploration is free to use the set that teaches most."""
    proposals, _ = campaign(LikelyMaximisers(), problem_of(12.0), costs=(cost,) * 4, most=20)
    assert {p.control_set for p in proposals} == {0, 1, 2, 3}
    assert 3 in {p.control_set for p in proposals if p.phase == "explore"}


@pytest.mark.slow
def test_the_end_of_the_budget_plays_what_would_be_recommended(played):
    """The best expected setting once, and that again, until the rest pays for a cheaper set, then for no trial."""
    proposals, history = played
    assert 12.0 - to_units(history.spent) < 0.1 + 1e-9
    first = next(n for n, p in enumerate(proposals) if p.phase == "confirm")
    confirming = [p for p in proposals[first:] if p.phase == "confirm"]
    assert proposals[first:][: len(confirming)] == confirming
    assert len(confirming) >= 2
    last, indices = confirming[-1], problem_of().space.control_sets[confirming[-1].control_set].indices
    rest = 12.0 - sum(to_units(o.cost) for o in history.observations[: first + len(confirming)])
    assert rest < COSTS[last.control_set]
    before = [
        o.x for o in history.observations[: last.trial - 1] if o.control_set == last.control_set and o.x is not None
    ]
    assert any(np.allclose([x[i] for i in indices], last.setting, atol=1e-12) for x in before)


@pytest.mark.slow
def test_a_failed_trial_costs_harvest_what_it_cost(played):
    """A harvest that failed has been paid for all the same."""
    problem, policy = problem_of(), LikelyMaximisers()
    proposals, history = played
    first = next(i for i, p in enumerate(proposals) if p.phase == "harvest")
    cost = history.observations[first].cost
    failed = Observation(first + 1, proposals[first].control_set, None, None, cost)
    before = History.of(history.observations[:first])
    state = policy.initial_state(problem)
    for trial in range(1, first + 2):
        past = History.of(history.observations[: trial - 1])
        _, state = policy.propose(state, problem, past, trial_rng(0, trial))
    assert state["harvesting"] == first
    _, after = policy.propose(state, problem, before.append(failed), trial_rng(0, first + 2))
    assert after["harvested"] == cost


@pytest.mark.slow
def test_known_costs_are_heeded_from_the_first_trial():
    """Nothing has to be metered to know what is cheap."""
    proposals, _ = campaign(LikelyMaximisers(), problem_of(4.0, known_costs=COSTS))
    assert all(p.control_set != 3 for p in proposals if p.phase == "explore")


@pytest.mark.slow
def test_value_per_cost_explores_evenly_and_then_weighs():
    """First every set gets the same money; after that trials are chosen by what they are worth."""
    proposals, history = campaign(ValuePerCost(explore=0.4), problem_of(8.0))
    explored = [p for p in proposals if p.phase == "explore"]
    spent = [
        sum(
            to_units(o.cost)
            for p, o in zip(proposals, history.observations, strict=False)
            if p.phase == "explore" and p.control_set == i
        )
        for i in range(4)
    ]
    assert max(spent) - min(spent) <= 1.0
    assert len(explored) < len(proposals)
    assert proposals[-1].phase == "value"
    assert {p.control_set for p in proposals if p.phase == "value"} != {3}


@pytest.mark.slow
@pytest.mark.parametrize("policy", [LikelyMaximisers(), ValuePerCost(explore=0.0)], ids=lambda p: p.name)
def test_no_setting_is_played_that_does_not_fit_the_budget(policy):
    """Where costs depend on the setting, a set that fits at one setting may not fit at another."""
    field = Slope(0.2, 4.0, -1)
    problem = problem_of(known_cost_field=field)
    nature = np.random.default_rng(4)
    for budget in (1.0, 2.0, 3.0):
        history, state = History(), policy.initial_state(problem)
        tight = problem_of(budget, known_cost_field=field)
        for trial in range(1, 60):
            try:
                proposal, state = policy.propose(state, tight, history, trial_rng(1, trial))
            except BudgetSpent:
                break
            cost = to_micros(float(field.mean(0, np.array([proposal.setting]))[0]))
            assert history.spent + cost <= tight.budget
            x = nature.random(3)
            x[list(tight.space.control_sets[proposal.control_set].indices)] = proposal.setting
            y = float(x[-1] + hill(x))
            history = history.append(Observation(trial, proposal.control_set, tuple(map(float, x)), y, cost))
        assert len(history)


@pytest.mark.slow
def test_a_free_set_does_not_take_all_trials():
    """What costs nothing is explored with first, but harvest has its turn all the same."""
    proposals, history = campaign(LikelyMaximisers(), problem_of(budget=6.0), costs=(0.0, 0.1, 0.2, 1.0), most=60)
    harvested = [p for p in proposals if p.phase == "harvest"]
    assert harvested
    assert to_units(history.spent) > 0.5
