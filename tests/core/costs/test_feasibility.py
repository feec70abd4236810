"""What is left of the budget, where costs depend on the setting."""

import re
from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.acquisition.outlook import outlook_of
from rigctl.core.asking import play
from rigctl.core.bounds.best import best_bounds
from rigctl.core.costs.feasibility import margin, nothing_fits, within
from rigctl.core.experiment.history import Observation
from rigctl.core.experiment.money import to_micros, to_units
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import ExploreThenCommit, Intersection
from rigctl.core.policies.likely_maximisers import LikelyMaximisers
from rigctl.core.policies.published.gittins import GittinsIndex
from rigctl.core.policies.published.psq import UcbPsq
from rigctl.core.policies.value_per_cost import ValuePerCost
from tests.core.conftest import Slope, make_history, make_space


@pytest.fixture
def known(problem):
    """A posterior that rises with the first variable, and the bounds it gives."""
    x = np.random.default_rng(1).random((25, 2))
    posterior = fit_history(problem, make_history([(2, row, row[0], 1.0) for row in x])).posterior
    return posterior, best_bounds(posterior, problem.space, problem.model, np.random.default_rng(2))


def test_maximisers_move_to_what_is_affordable(problem, known):
    """To the best setting of those well within what is left; values are those of the posterior there."""
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


def test_what_fits_or_cannot_be_made_to_fit_stays(problem, known):
    """With money enough nothing moves, bit for bit; with too little for any setting neither."""
    posterior, bounds = known
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
