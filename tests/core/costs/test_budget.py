"""What trials cost at most, what is left of the budget, and what changes cost, by simulation and by hand."""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import exp

import numpy as np
import pytest

from rigctl import History, Observation, Problem
from rigctl.core.asking import next_proposal, play, trial_rng
from rigctl.core.bounds.best import best_bounds
from rigctl.core.costs.beliefs import CostSpread, believe, left_for_a_trial, spreads
from rigctl.core.costs.changeovers import SHARE, Changeovers, without
from rigctl.core.costs.feasibility import margin, nothing_fits, within
from rigctl.core.costs.fields import Prices, cost_process
from rigctl.core.experiment.arrays import FloatArray
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import ExploreThenCommit, Intersection
from rigctl.core.policies.fallback import fallback
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.gittins import GittinsIndex
from rigctl.core.policies.published.psq import UcbPsq
from rigctl.core.policies.published.ucb_cvs import UcbCvs
from rigctl.core.policies.value_per_cost import ValuePerCost
from rigctl.policies import BudgetSpent, outlook_of
from tests.core.conftest import FIXED, Slope, hill, make_history, make_space, unit_space
from tests.profiles import slow_beyond

X = (0.5, 0.5)
Law = tuple[Callable[[np.random.Generator, int], FloatArray], float]
"""How a trial's cost varies, relative to its set; its mean."""
LAWS: Mapping[str, Law] = {
    "normal, sd 20 %": (lambda rng, n: np.maximum(1 + 0.2 * rng.normal(size=n), 0.01), 1.0),
    "log-normal, sd 0.5": (lambda rng, n: np.exp(0.5 * rng.normal(size=n)), exp(0.125)),
    "log-normal, sd 1": (lambda rng, n: np.exp(rng.normal(size=n)), exp(0.5)),
    "Student t of 3, 10 %": (lambda rng, n: np.maximum(1 + 0.1 * rng.standard_t(3, size=n), 0.01), 1.0),
}
NEXT = 20
"""Trials that every prediction is held against."""


def measured(law: Law, sets: int, count: int, campaigns: int) -> tuple[float, float, float]:
    """Return the share of trials above "at most", of mean costs within their interval, and the mean's relative bias."""
    (draw, mean), rng = law, np.random.default_rng([0, sets, count])
    names = [f"v{i}" for i in range(sets)]
    problem = Problem(unit_space(names, [[name] for name in names]), to_micros(1e6))
    scale, above, within, bias = np.arange(1.0, sets + 1), 0.0, 0.0, 0.0
    for _ in range(campaigns):
        costs = scale[:, None] * draw(rng, sets * count).reshape(sets, count)
        history = make_history((i, (0.5,) * sets, 0.0, float(c)) for i, row in enumerate(costs) for c in row)
        beliefs = believe(problem, history, "empirical-bernstein")
        then = scale[:, None] * draw(rng, sets * NEXT).reshape(sets, NEXT)
        above += float((then > np.array([to_units(b.upper) for b in beliefs])[:, None]).mean())
        true = scale * mean
        ends = [b.spread.interval(b.mean, 0.95) for b in beliefs if b.spread is not None and b.mean is not None]
        within += float(np.mean([low <= t <= high for (low, high), t in zip(ends, true, strict=True)])) if ends else 0.0
        bias += float(np.mean([b.mean or 0.0 for b in beliefs] / true)) - 1
    return above / campaigns, within / campaigns, bias / campaigns


def above_by_setting(law: Law, count: int, campaigns: int) -> float:
    """Return the share of trials above "at most" where costs depend on the setting."""
    (draw, _), rng, above = law, np.random.default_rng([0, count]), 0.0
    for _ in range(campaigns):
        x, at = rng.random((count, 1)), rng.random((NEXT, 1))
        process = cost_process(x, (0.5 + x[:, 0]) * draw(rng, count))
        if process is not None:
            above += float(((0.5 + at[:, 0]) * draw(rng, NEXT) > process.upper(at)).mean())
    return above / campaigns


def never_tried(campaigns: int, spread: float, tried: int) -> tuple[float, float]:
    """Return the share of sets never tried above "at most", and the median factor of that over the cost.

    Four variables whose parts are log-normal of this sd, and a part that every trial costs; all 15 control sets, of
    which so many were tried, twice each.
    """
    rng, names = np.random.default_rng([0, tried]), [f"v{i}" for i in range(4)]
    members = [[n for i, n in enumerate(names) if k >> i & 1] for k in range(1, 16)]
    problem, above, factors = Problem(unit_space(names, members), to_micros(1e6)), 0, []
    for _ in range(campaigns):
        base, *parts = np.exp(spread * rng.normal(size=5))
        true = [base + sum(parts[names.index(n)] for n in m) for m in members]
        order = rng.permutation(15)
        rows = [Observation(0, int(i), (0.5,) * 4, 0.0, to_micros(float(true[i]))) for i in order[:tried] for _ in "ab"]
        beliefs = believe(problem, History.of(rows), "empirical-bernstein")
        for i in order[tried:]:
            above += true[i] > to_units(beliefs[i].upper)
            factors.append(to_units(beliefs[i].upper) / true[i])
    return above / len(factors), float(np.median(factors))


@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.parametrize("law", ["normal, sd 20 %", "log-normal, sd 0.5", "log-normal, sd 1", "Student t of 3, 10 %"])
def test_trials_are_seldom_dearer_than_at_most(law, count):
    """One in 44 is promised; of few and skewed costs it is twice as many at the very most, and the mean is known."""
    above, within, bias = measured(LAWS[law], 7, count, 60)
    assert 0.008 < above < 0.055 if count == 3 else 0.01 < above < 0.035
    assert within > 0.85
    assert abs(bias) < 0.1


@pytest.mark.slow
def test_trials_are_seldom_dearer_than_at_most_at_their_setting():
    """Where costs depend on the setting, a process of ten trials is not surer of itself than its own errors let it."""
    assert above_by_setting(LAWS["normal, sd 20 %"], 10, 60) < 0.05
    assert above_by_setting(LAWS["log-normal, sd 0.5"], 10, 60) < 0.05


def test_bounds_of_costs_are_sane():
    """Bounds are those of any currency; four equal costs have no spread; free trials leave every bound finite."""
    rng = np.random.default_rng(3)
    costs = [np.exp(rng.normal(size=n)) for n in (2, 5, 9)]
    for here, there in zip(spreads(costs), spreads([150.0 * c for c in costs]), strict=True):
        assert there.most == pytest.approx(150.0 * here.most)
        assert there.error == pytest.approx(here.error)
    steady, varying = spreads([np.full(4, 2.0), np.array([1.0, 1.3, 0.8])])
    assert steady == CostSpread(2.0)
    assert steady.interval(2.0, 0.95) == (2.0, 2.0)
    low, high = varying.interval(1.03, 0.95)
    assert low < 1.03 < high < varying.most
    for costs in ([np.zeros(3)], [np.array([0.0, 0.0, 5.0]), np.zeros(2)], [np.array([0.0, 1e-6])]):
        for c, found in zip(costs, spreads(costs), strict=True):
            assert np.isfinite(found.most)
            assert c.max() * 0.99 <= found.most <= 4.001 * c.max()


@pytest.mark.parametrize("count", slow_beyond(1, [2, 4, 8]))
def test_the_cost_at_a_setting_is_told_no_surer_than_trials_let_it(count):
    """Whether costs scatter or rise with the setting, the interval where one was played holds the truth."""
    problem = Problem(unit_space("a", [["a"]]), to_micros(100), cost_model="per-setting")
    rng, held = np.random.default_rng(count), []
    for _ in range(60):
        slope, at = rng.choice([0.0, 0.5]), rng.random(count)
        costs = np.exp(slope * at + 0.2 * rng.normal(size=count) - 0.02)
        rows = [(0, (u,), 0.0, float(c)) for u, c in zip(at, costs, strict=True)]
        low, high = Prices.of(problem, make_history(rows)).interval(0, at[None, :1], 0.95)
        held.append(low <= np.exp(slope * at[0]) <= high)
    assert np.mean(held) > 0.85


def test_sets_never_tried_cost_less_than_assumed_at_most():
    """Variables whose parts differ twofold: hardly any set is dearer, and after a few sets the guess is not wild."""
    for tried, farthest in ((1, 5.0), (8, 2.5)):
        above, factor = never_tried(100, 0.7, tried)
        assert above < 0.04
        assert factor < farthest


def test_a_forecast_says_how_costs_compare_and_the_meters_what_they_amount_to(problem):
    """A forecast, then in proportion to the meters; a proposal of a set never tried says that its cost is assumed."""
    told = replace(problem, forecast_costs=(1.0, 3.0, 4.0))
    assert [b.assumed for b in believe(told, History(), "hoeffding")] == [1.0, 3.0, 4.0]
    after = believe(told, make_history([(0, X, 1.0, 2.0)]), "hoeffding")
    assert [b.assumed for b in after] == [None, pytest.approx(6.0, rel=0.02), pytest.approx(8.0, rel=0.02)]
    first, state = next_proposal(UcbCvs(), None, problem, History(), trial_rng(0, 1))
    assert (first.cost_known, first.assumed_cost, first.predicted_cost) == (False, None, None)
    limited = replace(problem, cost_ceiling=2.0)
    assert next_proposal(UcbCvs(), None, limited, History(), trial_rng(0, 1))[0].predicted_cost == 2.0
    history = make_history([(first.control_set, X, 0.2, 0.2)])
    second, _ = next_proposal(UcbCvs(), state, problem, history, trial_rng(0, 2))
    assert second.control_set != first.control_set
    assert not second.cost_known
    assert 0.1 < second.assumed_cost < second.predicted_cost
    told = next_proposal(UcbCvs(), None, replace(problem, known_costs=(1.0, 1.0, 2.0)), History(), trial_rng(0, 1))[0]
    assert (told.cost_known, told.assumed_cost) == (True, None)


@pytest.mark.parametrize(("ceiling", "left"), [(None, 3), (2.0, 2), (5.0, 3)])
def test_a_trial_may_cost_the_ceiling_or_what_is_left(problem, ceiling, left):
    """Whichever is less."""
    history = make_history([(0, X, 1.0, 7.0)])
    assert left_for_a_trial(replace(problem, cost_ceiling=ceiling), history) == to_micros(left)


@pytest.mark.parametrize(
    "policy", [LikelyMaximisers(), ExploreThenCommit(), GittinsIndex(), UcbCvs()], ids=lambda p: p.name
)
def test_a_set_that_may_cost_more_than_a_trial_may_is_not_played(policy, problem):
    """It was dearer once, or its variables are elsewhere; all money goes to the others."""
    limited = replace(problem, cost_ceiling=1.0, budget=to_micros(12))
    history = make_history([(0, X, 0.2, 0.4), (1, X, 0.3, 0.5), (2, X, 0.9, 1.5), (0, (0.1, 0.3), 0.5, 0.4)])
    state = None
    for _ in range(4):
        proposal, state = next_proposal(policy, state, limited, history, trial_rng(0, len(history) + 1))
        assert proposal.control_set != 2
        assert proposal.predicted_cost <= 1.0
        history = history.append(Observation(proposal.trial, proposal.control_set, X, 0.5, to_micros(0.45)))
    with pytest.raises(BudgetSpent):
        next_proposal(policy, None, replace(limited, cost_ceiling=0.3), history, trial_rng(0, 9))
    with pytest.raises(BudgetSpent):
        fallback(replace(limited, cost_ceiling=0.3), history, trial_rng(0, 9), "")


def test_a_set_whose_trial_was_broken_off_for_its_cost_is_not_played_again(problem):
    """What it had cost by then teaches no mean, but the next may cost as much; so may both variables together."""
    limited = replace(problem, cost_ceiling=1.0)
    rows = make_history([(0, X, 0.5, 0.2)] * 4).observations
    broken_off = Observation(5, 0, None, None, to_micros(1.1), cost_known=False)
    once = believe(limited, History.of([*rows, broken_off]), "hoeffding")[0]
    assert once.mean == pytest.approx(0.2)
    assert once.upper > to_micros(1.1)
    voided = replace(broken_off, cost=to_micros(0.1))
    assert believe(limited, History.of([*rows, voided]), "hoeffding")[0].upper == to_micros(0.2)
    often = believe(limited, History.of([*rows * 40, broken_off]), "hoeffding")[0]
    assert often.upper < to_micros(1.0)
    history = make_history([(0, X, 0.2, 0.2), (0, X, 0.2, 0.2), (1, X, 0.3, 3.0)])
    for budget, begun in ((7.4, False), (30, True)):
        asked = replace(problem, budget=to_micros(budget))
        proposal, _ = next_proposal(UcbCvs(), None, asked, history, trial_rng(0, 4))
        assert (proposal.control_set == 2) == begun


@pytest.fixture
def known(problem):
    """A posterior that rises with the first variable, and the bounds it gives."""
    x = np.random.default_rng(1).random((25, 2))
    posterior = fit_history(problem, make_history([(2, row, row[0], 1.0) for row in x])).posterior
    return posterior, best_bounds(posterior, problem.space, problem.model, np.random.default_rng(2))


def test_maximisers_move_to_what_is_affordable(problem, known):
    """To the best setting well within what is left, with the posterior's values; with enough money nothing moves."""
    posterior, bounds = known
    moved = within(4.0, problem, posterior, bounds, Slope(), rng=np.random.default_rng(3))
    dearest = (margin(problem) * 4.0 - 1.0) / 4.0
    for before, after in zip(bounds[::2], moved[::2], strict=True):
        assert before.best_mean_at[0] > dearest
        assert after.upper_at[0] <= dearest
        assert dearest - 0.05 < after.best_mean_at[0] <= dearest
        assert after.upper == pytest.approx(after.mean_at_upper + problem.model.beta * after.sd_at_upper)
        assert after.best_mean == pytest.approx(after.best_mean_at[0], abs=0.05)
        assert after.upper <= before.upper
        assert after.lower == before.lower
    assert dearest - 0.05 < moved[0].upper_at[0]
    for left in (5.0, 0.9):
        assert within(left, problem, posterior, bounds, Slope(), rng=np.random.default_rng(3)) == bounds


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"budget": 5.0}, []),
        ({"budget": 4.999}, ["0.999", "a", "1"]),
        ({"budget": 5.0, "unavailable": {0: "its pump is empty", 2: "so is its tank"}}, []),
        ({"budget": 4.0}, ["0", "a", "1"]),
    ],
)
def test_nothing_fits_if_the_cheapest_setting_of_the_cheapest_set_does_not(problem, changes, says):
    """Exactly what is left still fits, else what is left, the cheapest set and its cost are said."""
    history = make_history([(2, (0.5, 0.5), 1.0, 2.0)] * 2)
    short = replace(problem, known_cost_field=Slope(), **{**changes, "budget": to_micros(changes["budget"])})
    assert re.findall(r"\d[\d.]*|\ba\b(?=,)", nothing_fits(short, history)) == says


def test_bounds_of_what_is_affordable_now_are_not_kept(problem):
    """They would exclude a set later, when more is known of its cost and its best setting is within reach again."""
    x = np.random.default_rng(1).random((25, 2))
    short = replace(problem, known_cost_field=Slope(), budget=to_micros(29))
    history = make_history([(2, row, row[0], 1.0) for row in x])
    outlook = outlook_of(short, history, {}, np.random.default_rng(2), "hoeffding")
    assert {0, 2} <= outlook.moved
    choice = ExploreThenCommit()._commit(outlook, Intersection.of({}, 3), 0)
    seen = Intersection.of(choice.remembered, 3)
    assert [seen.ucb[i] == np.inf for i in (0, 2)] == [True, True]
    rich = outlook_of(replace(short, budget=to_micros(99)), history, {}, np.random.default_rng(2), "hoeffding")
    assert rich.moved == frozenset()


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", [LikelyMaximisers(), ValuePerCost(), ExploreThenCommit(), GittinsIndex(), UcbPsq()], ids=lambda p: p.name
)
def test_a_campaign_uses_its_budget(policy, problem):
    """Dear settings are out of reach at first, being unknown, and at the end: cheap ones are played then."""
    learning = replace(problem, space=make_space((("a",),)), cost_model="per-setting", budget=to_micros(30))

    def observe(proposal):
        (a,) = proposal.setting
        return Observation(proposal.trial, 0, (a, 0.5), a, to_micros(0.2 + 5.0 * a**2))

    history = play(policy, learning, observe, 0, most=79).history
    left = to_units(learning.budget - history.spent)
    assert 0 <= left < 1.5


BASE, CHANGE = (0.4, 0.2, 0.6), 3.0


def trials(settings, lets_go=1):
    rows, oven = [], None
    for control_set, a, b in settings:
        held = a if control_set != lets_go else None
        cost = BASE[control_set] + (CHANGE if held is not None and held != oven else 0.0)
        rows.append((control_set, (a, b), hill((a, b)), cost))
        oven = held
    return make_history(rows)


SEEN = [
    (0, 0.2, 0.5),
    (0, 0.2, 0.1),
    (1, 0.7, 0.3),
    (2, 0.8, 0.3),
    (2, 0.8, 0.9),
    (0, 0.5, 0.4),
    (1, 0.1, 0.9),
    (2, 0.4, 0.6),
]


@pytest.fixture
def oven():
    return Problem(make_space(), to_micros(60), floor=0.0, model=FIXED, changeovers=(0,))


def test_parts_and_sets_are_learned_apart(oven):
    """One cost for each set and one for a change explain all trials."""
    history = trials(SEEN)
    found = Changeovers.of(oven, history)
    assert found.parts == pytest.approx([CHANGE, 0.0], rel=0.05)
    believed = [b.mean for b in believe(oven, history, "empirical-bernstein")]
    assert believed == pytest.approx(BASE, abs=0.04 * CHANGE)
    assert to_units(history.spent) == pytest.approx(sum(BASE[s] for s, *_ in SEEN) + 4 * CHANGE)


def test_the_regression_is_that_of_least_squares_where_trials_are_many(oven):
    """Ordinary least squares with a column for each set and one for changes, by numpy."""
    rng = np.random.default_rng(3)
    history = trials(
        [(int(rng.integers(3)), float(rng.choice([0.1, 0.5, 0.9])), float(rng.random())) for _ in range(60)]
    )
    noisy = replace(
        history,
        observations=tuple(
            replace(o, cost=o.cost + to_micros(0.1 * abs(float(rng.standard_normal())))) for o in history.observations
        ),
    )
    rows, before = [], None
    for o in noisy.observations:
        held = o.x[0] if o.control_set != 1 else None
        rows.append([*(o.control_set == i for i in range(3)), held is not None and held != before])
        before = held
    y = [to_units(o.cost) for o in noisy.observations]
    expected = np.linalg.lstsq(np.array(rows, dtype=float), y, rcond=None)[0]
    assert Changeovers.of(oven, noisy).parts[0] == pytest.approx(expected[3], rel=0.01)


def test_what_changes_cost_is_guessed_and_saved(oven):
    """So the next trial that keeps it tells; what was let go changes again, what is near and dear to change is kept."""
    found = Changeovers.of(oven, trials([(0, 0.1 * i, 0.5) for i in range(6)]))
    assert found.parts[0] == pytest.approx(SHARE * (BASE[0] + CHANGE), rel=0.5)
    let_go = Changeovers.of(oven, trials([*SEEN, (1, 0.4, 0.2)]))
    assert np.isnan(let_go.left_at[0])
    assert let_go.costs((0, 1), np.array([[0.4, 0.6]])) == pytest.approx([CHANGE], rel=0.05)
    failed = make_history([(2, (0.4, 0.6), 1.0, 3.6), (2, None, None, 0.5)])
    assert np.isnan(Changeovers.of(oven, failed).left_at).all()
    found = Changeovers.of(oven, trials(SEEN))
    assert found.costs((0, 1), np.array([[0.41, 0.0], [0.45, 0.6]])) == pytest.approx([0.0, CHANGE], rel=0.05)
    assert found.kept((0, 1), (0.9, 0.1)) == pytest.approx((0.4, 0.1))


def test_nothing_changes_where_nothing_is_said(problem, oven):
    """Beliefs are the history's to the bit; else a trial that keeps the oven fits where a change does not."""
    history = trials(SEEN)
    assert not Changeovers.of(problem, history).parts.any()
    assert without(problem, history) is history
    poor = replace(oven, budget=history.spent + to_micros(2.0))
    outlook = outlook_of(poor, history, {}, trial_rng(1, 9))
    assert outlook.fits(2, (0.4, 0.1))
    assert not outlook.fits(2, (0.9, 0.1))
    assert outlook.cost_at(2, (0.9, 0.1)) == pytest.approx(outlook.cost_at(2, (0.4, 0.1)))


def campaign(problem):
    """Play the default on the hill where every control set holds the oven."""
    policy, settings, state = LikelyMaximisers(tolerance=0.0), [(0, 0.2, 0.5), (1, 0.7, 0.3), (0, 0.8, 0.3)], {}
    for _ in range(20):
        history = trials(settings, None)
        proposal, state = policy.propose(state, problem, history, trial_rng(1, len(history) + 1))
        at = dict(zip(problem.space.control_sets[proposal.control_set].indices, proposal.setting, strict=True))
        settings.append((proposal.control_set, at[0], at.get(1, 0.6)))
    return trials(settings, None)


@pytest.mark.slow
def test_the_default_changes_the_oven_seldom(oven):
    """Told that a change costs it pays for fewer than half as many, and plays as near to the best."""
    always = replace(oven, space=make_space((("a",), ("a", "b"))), budget=to_micros(200))
    told, blind = campaign(always), campaign(replace(always, changeovers=()))
    changes = [sum(to_units(o.cost) > CHANGE for o in h.observations) for h in (told, blind)]
    assert 2 * changes[0] <= changes[1]
    assert max(told.y) >= max(blind.y) - 0.02
