"""When a campaign ends before its budget is spent."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.improvement import expected_improvement
from rigctl.core.acquisition.stopping import KEPT, STEADY, standing
from rigctl.core.bounds.expectations import Expectations
from rigctl.core.costs.fields import cost_field
from rigctl.core.experiment.history import History
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.policy import NotWorthIt
from rigctl.core.experiment.problem import ModelOptions, Problem, ReferenceTrials
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.ca_mobo import MoUcb
from rigctl.core.policies.published.gittins import ExpectedImprovementPerCost
from rigctl.core.policies.random_search import RandomSearch
from tests.core.conftest import FIXED, campaign, hill, make_history, make_space
from tests.profiles import slow_beyond

PRICES = (0.3, 0.5, 1.0)
ROWS = [
    (i, (u, v), hill((u, v)), PRICES[i]) for i, u, v in ((0, 0.1, 0.5), (1, 0.8, 0.3), (2, 0.4, 0.7), (2, 0.6, 0.1))
]


def best_gain_per_cost(problem, history):
    """The largest EI / c there is, by a dense search of the plain formula."""
    posterior = fit_history(problem, history).posterior
    e = Expectations.of(posterior, problem.space)
    field, rng = cost_field(problem, history), np.random.default_rng(1)
    played = np.array([o.control_set for o in history.observations])
    attained = e.values(history.x, played)[0].max()
    ratios = []
    for i, chosen in enumerate(problem.space.control_sets):
        points = rng.random((20_000, 2))
        mean, sd = e.values(points, np.full(len(points), i))
        cost = field.mean(i, points[:, list(chosen.indices)])
        ratios.append((expected_improvement(mean, sd, attained) / cost).max())
    return max(ratios)


@pytest.mark.parametrize("maximise", [True, False])
def test_the_rule_holds_below_the_largest_improvement_per_cost(maximise):
    """Just under what the most promising trial is worth it goes on, just above that it warns."""
    rows = [(i, x, y if maximise else -y, c) for i, x, y, c in ROWS]
    history = make_history(rows)
    problem = Problem(make_space(), to_micros(100), maximise=maximise, model=FIXED)
    breaks_even = 1 / best_gain_per_cost(problem, history)
    for worth, held in ((0.98 * breaks_even, 1), (1.02 * breaks_even, 0)):
        found = standing(replace(problem, stop_worth=worth), history, {})
        assert found.breaks_even == pytest.approx(breaks_even, rel=0.02)
        assert found.state["held"] == held
        assert bool(found.warning) == bool(held)


def test_it_ends_a_campaign_only_once_it_has_held_in_several_decisions_in_a_row():
    """One that finds a trial worth its cost begins the count anew."""
    problem = Problem(make_space(), to_micros(100), model=FIXED, stop_worth=1e-6)
    history, state = make_history(ROWS), {}
    for held in range(1, STEADY):
        state = {KEPT: standing(problem, history, state).state}
        assert state[KEPT]["held"] == held
    assert standing(replace(problem, stop_worth=1e6), history, state).state["held"] == 0
    with pytest.raises(NotWorthIt):
        standing(problem, history, state)


@pytest.mark.slow
@pytest.mark.parametrize("policy", slow_beyond(1, [RandomSearch(), LikelyMaximisers(), ExpectedImprovementPerCost()]))
def test_until_it_ends_the_campaign_every_policy_decides_as_without_it(policy):
    """The rule draws nothing; a policy that has no model is stopped, too, and the last decisions say so."""
    problem = Problem(make_space(), to_micros(30), floor=0.0)
    stopped = campaign(policy, replace(problem, stop_worth=10.0), PRICES)
    count = len(stopped.decisions)
    going_on = campaign(policy, problem, PRICES, most=count + 1)
    assert len(going_on.decisions) == count + 1
    played = [(d.proposal.control_set, d.proposal.setting) for d in stopped.decisions]
    assert played == [(d.proposal.control_set, d.proposal.setting) for d in going_on.decisions[:count]]
    assert [d.state[KEPT]["held"] for d in stopped.decisions[-2:]] == [1, 2]
    assert stopped.history.spent < problem.budget


@pytest.mark.slow
def test_more_worth_buys_more_trials():
    """The dearer a unit of outcome, the later the end; where no trial is worth its cost, after d + 3 trials."""
    problem = Problem(make_space(), to_micros(30), floor=0.0)
    worth = (1e-3, 3.0, 300.0)
    counts = [len(campaign(LikelyMaximisers(), replace(problem, stop_worth=w), PRICES).decisions) for w in worth]
    assert counts == sorted(counts)
    assert counts[0] == 3 + STEADY - 1
    assert counts[-1] > counts[0]


def test_a_trial_that_cannot_be_paid_any_more_counts_all_the_same():
    """What is left may pay others, which teach where that one is best played: so it speaks for going on."""
    problem = Problem(make_space(), to_micros(100), model=FIXED)
    history = make_history(ROWS)
    poor = replace(problem, budget=history.spent + to_micros(0.4))
    breaks_even = 1 / best_gain_per_cost(problem, history)
    for of in (problem, poor, replace(poor, unavailable={2: "broken"})):
        assert standing(replace(of, stop_worth=1.0), history, {}).breaks_even == pytest.approx(breaks_even, rel=0.02)


def test_it_says_nothing_before_there_is_a_model():
    """Nor where nothing is to end the campaign early; it is said in one outcome's unit, so several refuse it."""
    problem = Problem(make_space(), to_micros(100), model=ModelOptions(), stop_worth=1.0)
    assert standing(problem, make_history(ROWS[:2]), {}) is None
    assert standing(problem, make_history(ROWS), {}) is not None
    assert standing(replace(problem, stop_worth=None), make_history(ROWS), {}) is None
    assert standing(problem, History(), {}) is None
    problem = Problem(make_space(), to_micros(30), stop_worth=1.0)
    assert [key for key, _ in MoUcb().mistakes(problem)] == ["stop.worth"]


@pytest.mark.slow
def test_reference_trials_neither_hide_nor_reset_it():
    """A trial that repeats the reference is a decision like any other."""
    problem = Problem(make_space(), to_micros(30), floor=0.0, stop_worth=1e-3, reference=ReferenceTrials(4, 0, (0.5,)))
    played = campaign(LikelyMaximisers(), problem, PRICES)
    assert [d.proposal.phase for d in played.decisions].count("reference") == 1
    assert len(played.decisions) == 3 + STEADY - 1
