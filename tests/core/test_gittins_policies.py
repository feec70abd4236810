"""PBGI, PBGI-D, EI and EIPC: that they maximise what they say, weigh costs, stop, and end within the budget."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from rigctl import History, Observation, Problem, TruncatedNormal, Uniform
from rigctl.core.acquisition.improvement import expected_improvement, gittins_index
from rigctl.core.asking import trial_rng
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.published.gittins import (
    DecayingGittinsIndex,
    ExpectedImprovement,
    ExpectedImprovementPerCost,
    GittinsIndex,
)
from rigctl.policies import BudgetSpent, NotWorthIt
from tests.core.conftest import FIXED, Slope, campaign, hill, proposals_of, unit_space
from tests.core.plain import slopes
from tests.core.set_moments import SetIntegrals


def test_ei_goes_on_while_any_setting_is_worth_its_cost():
    """Its own choice, dear and the most promising, is not worth it; a cheap one elsewhere is. Once none is, it ends."""
    problem = make_problem((("a",), ("b",)), budget=1000.0, known_costs=(5.0, 0.01), marginal=Uniform())
    short = replace(FIXED, lengthscales=(0.1, 0.5))
    rng = np.random.default_rng(0)
    points = [tuple(map(float, rng.random(2))) for _ in range(4)]
    history = History.of(
        Observation(t, t % 2, x, float(0.1 * np.sin(9 * sum(x))), to_micros(1)) for t, x in enumerate(points, start=1)
    )
    policy = ExpectedImprovement(
        cost_weight=1.0, cost_unit=1.0, outcome_unit=1.0, stopping="cost-per-sample", initial=0
    )
    proposal, _ = policy.propose({}, replace(problem, model=short), history, trial_rng(1, 1))
    assert proposal.control_set == 0
    dear = replace(problem, model=short, known_costs=(5.0, 4.0))
    with pytest.raises(NotWorthIt):
        policy.propose({}, dear, history, trial_rng(1, 1))


POLICIES = (GittinsIndex(), DecayingGittinsIndex(), ExpectedImprovement(), ExpectedImprovementPerCost())
IDS = [policy.name for policy in POLICIES]
SETS = (("a",), ("b",), ("a", "b"))
COSTS = (0.2, 0.3, 1.0)


def make_problem(sets=SETS, budget=100.0, marginal=None, **changes):
    marginal = marginal or TruncatedNormal(0.5, 0.2)
    return Problem(unit_space("ab", sets, marginal), to_micros(budget), model=changes.pop("model", FIXED), **changes)


def make_past(problem, count=12, seed=0, scale=1.0, currency=1.0):
    rng = np.random.default_rng(seed)
    sets = len(problem.space.control_sets)
    rows = []
    for trial in range(1, count + 1):
        x, i = rng.random(2), (trial - 1) % sets
        rows.append(Observation(trial, i, tuple(x), scale * hill(x), to_micros(round(currency * COSTS[i], 6))))
    return History.of(rows)


def ask(policy, problem, history, state=None, seed=0):
    start = policy.initial_state(problem) if state is None else state
    return policy.propose(start, problem, history, trial_rng(seed, len(history) + 1))


def dense(problem, history, field, score):
    posterior = fit_history(problem, history).posterior
    line = np.linspace(0, 1, 101)
    best = []
    for i, chosen in enumerate(problem.space.control_sets):
        k = len(chosen.indices)
        grid = np.stack([g.ravel() for g in np.meshgrid(*[line] * k)], axis=1)
        integrals = SetIntegrals.of(posterior, problem.space, i)
        best.append(score(integrals.mean(grid), integrals.sd(grid), field.mean(i, grid)).max())
    return best


def played_best(problem, history):
    posterior = fit_history(problem, history).posterior
    means = []
    for o in history.observations:
        indices = list(problem.space.control_sets[o.control_set].indices)
        means.append(SetIntegrals.of(posterior, problem.space, o.control_set).mean(np.array([o.x])[:, indices])[0])
    return max(means)


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
@pytest.mark.parametrize("sets", [SETS, (("a", "b"),)], ids=["control sets", "full control"])
def test_the_proposal_maximises_its_own_criterion(policy, sets):
    """At least as good as a dense grid over every set, by the definitions: index, EI, EI / c of the exact moments."""
    field = Slope(0.1, 1.0)
    problem = make_problem(sets, known_cost_field=field)
    history = make_past(problem)
    policy = replace(policy, cost_unit=1.0, outcome_unit=1.0)
    best = played_best(problem, history)
    criteria = {
        "pbgi": lambda m, s, c: gittins_index(m, s, policy.cost_weight * c).value,
        "ei": lambda m, s, c: expected_improvement(m, s, best),
        "eipc": lambda m, s, c: expected_improvement(m, s, best) / c,
    }
    score = criteria[policy.name.removesuffix("-d")]
    proposal, _ = ask(policy, problem, history)
    posterior = fit_history(problem, history).posterior
    integrals = SetIntegrals.of(posterior, problem.space, proposal.control_set)
    at = np.array([proposal.setting])
    reached = score(integrals.mean(at), integrals.sd(at), field.mean(proposal.control_set, at))[0]
    assert reached >= max(dense(problem, history, field, score)) - 1e-6
    assert proposal.phase == "search"


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_the_gradient_of_every_score_is_exact(policy):
    """By settings of every set, through mean, sd and cost, against central differences."""
    from rigctl.core.acquisition import maximisers
    from rigctl.core.bounds.expectations import Expectations, ValueSpread

    problem = make_problem(known_cost_field=Slope(0.1, 1.0))
    history = make_past(problem)
    view = policy._view({}, problem, history)
    expectations = Expectations.of(view.fitted.posterior, problem.space)
    search = maximisers._Scored(expectations, ValueSpread(expectations), problem.space, view.field, policy._score(view))
    points, sets = np.random.default_rng(3).random((30, 2)), np.arange(30) % 3
    _, gradient = search.value_and_gradient(points, sets)
    found = slopes(lambda p: search.value_and_gradient(p, sets)[0], points)
    np.testing.assert_allclose(gradient, found, rtol=1e-4, atol=1e-4)


def test_a_set_that_was_never_metered_counts_as_the_cheapest():
    """Its cost is not reported as known, and does not keep it from being tried."""
    problem = make_problem()
    history = History.of(o for o in make_past(problem, 20).observations if o.control_set < 2)
    proposal, _ = ask(ExpectedImprovementPerCost(), problem, history)
    assert [r.cost_mean for r in proposal.sets] == [pytest.approx(0.2), pytest.approx(0.3), None]
    assert [r.cost_lcb for r in proposal.sets] == pytest.approx([0.2, 0.3, 0.0])
    assert proposal.control_set == 2


@pytest.mark.slow
def test_lambda_halves_exactly_when_the_rule_fires(golden):
    """The trial of that decision is still chosen by the old lambda; the new one is in the state and in the reason."""
    problem = make_problem()
    history, policy = make_past(problem, 30), DecayingGittinsIndex(cost_weight=1.0)
    proposal, state = ask(policy, problem, history)
    assert state["cost_weight"] == 0.5
    assert "lambda = 1; " in proposal.technical
    assert "falls" in proposal.technical
    golden(proposal.reason)
    assert not any(r.eligible for r in proposal.sets)
    weights = [0.5]
    for _ in range(20):
        _, state = ask(policy, problem, history, state)
        weights.append(state["cost_weight"])
    steps = {after / before for before, after in pairwise(weights)}
    assert steps == {0.5, 1.0}  # it fell, and came to rest where a trial is worth its cost
    assert weights[-1] == weights[-2]
    calm, _ = ask(policy, problem, history, state)
    assert "falls" not in calm.technical
    golden(calm.reason)
    assert any(r.eligible for r in calm.sets)


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_cost_per_sample_ends_the_campaign_where_a_budget_does_not(policy, golden):
    """The same lambda: with `budget` it goes on, with `cost-per-sample` it says why it ends, in the outcome's units."""
    problem, history = make_problem(), make_past(make_problem(), 30)
    costly = replace(policy, cost_weight=10.0, **({"last_weight": 10.0} if policy.name == "pbgi-d" else {}))
    assert ask(costly, problem, history)[0].control_set in range(3)
    with golden.raises(NotWorthIt):
        ask(replace(costly, stopping="cost-per-sample"), problem, history)
    cheap = replace(policy, cost_weight=1e-9, stopping="cost-per-sample")
    assert ask(cheap, problem, history)[0].control_set in range(3)


@pytest.mark.slow
def test_a_campaign_that_pays_per_sample_ends_before_its_budget():
    """It learns until no trial is worth its cost, and stops with most of a generous budget unspent."""
    problem = make_problem(budget=1000.0)
    policy = GittinsIndex(cost_weight=0.02, stopping="cost-per-sample", cost_unit=1.0, outcome_unit=1.0)
    played = campaign(policy, problem, COSTS, most=199)
    assert 3 < len(played.decisions) < 60
    assert played.history.spent < to_micros(60)
    with pytest.raises(NotWorthIt):
        ask(policy, problem, played.history, played.decisions[-1].state)


@pytest.mark.parametrize("policy", POLICIES, ids=IDS)
def test_at_the_end_it_plays_settings_that_still_fit(policy):
    """Where the cost depends on the setting, the budget is never overspent and the last trials are cheap ones."""
    field = Slope(0.2, 3.0)
    problem = make_problem((("a", "b"),), budget=12.0, known_cost_field=field)
    played = campaign(policy, problem, lambda p: field.mean(0, np.array([p.setting]))[0], most=199)
    assert len(played.decisions) < 199
    assert to_micros(11) < played.history.spent <= problem.budget


@pytest.mark.slow
def test_full_control_starts_from_the_papers_sobol_points():
    """2(d+1) of them, all different, from one sequence; points known beforehand count; then the model decides."""
    problem = make_problem((("a", "b"),), budget=8.0)
    proposals = proposals_of(campaign(GittinsIndex(), problem, (0.5,)))
    assert [p.phase for p in proposals[:8]] == ["initial"] * 6 + ["search"] * 2
    assert len({p.setting for p in proposals[:6]}) == 6
    known = History.of(Observation(0, -1, x.x, x.y, 0) for x in make_past(problem, 6).observations)
    assert ask(GittinsIndex(), problem, known)[0].phase == "search"
    assert ask(GittinsIndex(initial=7), problem, known)[0].phase == "initial"


def test_nothing_that_fits_is_said_before_and_after_the_first_model(golden):
    """BudgetSpent names what is left and what the cheapest trial may cost."""
    problem = make_problem(budget=0.5, known_costs=(0.7, 0.8, 0.9))
    with golden.raises(BudgetSpent):
        ask(GittinsIndex(), problem, History())
    with golden.raises(BudgetSpent):
        ask(GittinsIndex(initial=0), problem, History())


def test_a_score_is_maximised_where_one_setting_fits_the_budget():
    """If the best settings are too dear, the best of the affordable ones is found, not merely the cheapest."""
    problem = make_problem((("a",),), known_cost_field=Slope(0.0, 1.0), marginal=Uniform())
    history = make_past(problem)
    view = GittinsIndex()._view({}, problem, history)
    best = view.best(
        lambda m, s, c: gittins_index(c, 0 * s, 1e-9 + 0 * c, 0.0), trial_rng(0, 1), {}, fits=lambda cost: cost <= 0.4
    )
    assert best[0].fits
    assert 0.35 < best[0].setting[0] <= 0.4
