"""Which control sets count as equally dear."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rigctl.core.costs.groups import CostEstimate, cost_groups, estimated, estimates, size_groups
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import to_micros
from tests.core.conftest import make_history

X = (0.5, 0.5)
PUBLISHED = {
    "cheap": (0.01, 0.01, 0.01, 0.1, 0.1, 0.1, 1.0),
    "moderate": (0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 1.0),
    "expensive": (0.6, 0.6, 0.6, 0.8, 0.8, 0.8, 1.0),
}
metered = st.lists(st.lists(st.integers(1, 2_000_000), max_size=5), min_size=1, max_size=6)


def arrays(costs, factor=1.0):
    return [factor * np.array(c, dtype=float) / 1e6 for c in costs]


def members(costs):
    return [g.members for g in cost_groups(estimated(costs))]


def noisy(mean, rng):
    """A metered cost of Hoang et al.'s experiments."""
    return max(mean + (0.02 * rng.standard_normal() if mean >= 0.1 else 0.0), 1e-3)


@given(metered, st.randoms(use_true_random=False))
def test_the_order_of_the_sets_does_not_matter(costs, random):
    """Permuting the control sets permutes the groups' members and nothing else."""
    order = list(range(len(costs)))
    random.shuffle(order)
    plain = {frozenset(g) for g in members(arrays(costs))}
    moved = {frozenset(order[i] for i in g) for g in members(arrays([costs[i] for i in order]))}
    assert plain == moved


@given(metered, st.sampled_from([2.0**-7, 2.0**9, 1e-3, 3.7]))
def test_the_currency_does_not_matter(costs, factor):
    """Costs in another currency give the same groups, in the same order."""
    assert members(arrays(costs)) == members(arrays(costs, factor))


@given(metered)
def test_every_set_is_in_one_group_and_groups_rise(costs):
    """Groups are a partition: unknown costs first, one group each, then by rising cost."""
    groups = cost_groups(estimated(arrays(costs)))
    assert sorted(i for g in groups for i in g.members) == list(range(len(costs)))
    unknown = [g for g in groups if g.cost is None]
    assert list(groups[: len(unknown)]) == unknown
    assert [g.members for g in unknown] == [(i,) for i, c in enumerate(costs) if not c]
    known = [g.cost for g in groups[len(unknown) :]]
    assert known == sorted(known)


@pytest.mark.parametrize("costs", PUBLISHED.values())
def test_known_costs_group_where_they_are_equal(costs):
    """The published cost sets are three, three and one."""
    assert [g.members for g in cost_groups([CostEstimate(c) for c in costs])] == [(0, 1, 2), (3, 4, 5), (6,)]


def test_known_costs_that_differ_a_little_stay_apart(problem):
    """A known cost has no error; a set tried once is linked to a noisy one from which it differs by that noise."""
    known = replace(problem, known_costs=(0.1, 0.1001, 0.3 - 0.2))
    assert [g.members for g in cost_groups(estimates(known, History()))] == [(0, 2), (1,)]
    once = np.array([0.11])
    assert members([once, np.array([0.1, 0.1, 0.1])]) == [(1,), (0,)]
    assert members([once, np.array([0.08, 0.1, 0.12])]) == [(0, 1)]


def test_a_vague_cost_does_not_tie_two_groups_together():
    """A set tried once, between two sharp ones, joins the one it is more like; two vague ones join a sharp one."""
    low, high = CostEstimate(0.1, 0.005, count=20), CostEstimate(0.2, 0.005, count=20)
    for mean, expected in ((0.14, [(0, 2), (1,)]), (0.16, [(0,), (1, 2)])):
        groups = cost_groups([low, high, CostEstimate(mean, 0.03, count=1)])
        assert [g.members for g in groups] == expected
    groups = cost_groups([CostEstimate(1.0, 0.1), CostEstimate(1.2, 0.1), CostEstimate(1.1, 1e-6, count=50)])
    assert [g.members for g in groups] == [(0, 1, 2)]


@pytest.mark.parametrize("name", PUBLISHED)
def test_metered_costs_find_the_published_groups(name):
    """With the noise of Hoang et al. and ten trials a set, at least 19 of 20 campaigns have the true groups."""
    right = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        costs = [np.array([noisy(mean, rng) for _ in range(10)]) for mean in PUBLISHED[name]]
        right += members(costs) == [(0, 1, 2), (3, 4, 5), (6,)]
    assert right >= 19


def test_plays_of_a_group_are_those_of_its_members(problem):
    """From the history, without points known beforehand; its cost is the mean over all trials, not over members."""
    known = replace(problem, known_costs=(0.1, 0.1, 1.0))
    beforehand = Observation(0, -1, X, 1.0, 0)
    rows = [(0, X, 1.0, 0.1), (1, X, None, 0.1), (2, X, 1.0, 1.0)]
    history = History.of([beforehand, *make_history(rows).observations])
    low, high = cost_groups(estimates(known, history))
    assert (low.plays(history), high.plays(history)) == (2, 1)
    (group,) = cost_groups([CostEstimate(1.0, 1.0, count=3), CostEstimate(2.0, 1.0, count=1)])
    assert group.cost == pytest.approx(1.25)


def test_charges_stand_in_for_costs_that_could_not_be_metered(problem):
    """A set without a metered trial counts at what it was charged; by number of variables a cost may be unknown."""
    lost = Observation(1, 0, X, 1.0, to_micros(0.4), cost_known=False)
    first, second, _ = estimates(problem, History.of([lost]))
    assert first is not None
    assert first.mean == 0.4
    assert second is None
    groups = size_groups(problem, (None, CostEstimate(0.3), None))
    assert [(g.members, g.cost) for g in groups] == [((0, 1), 0.3), ((2,), None)]
