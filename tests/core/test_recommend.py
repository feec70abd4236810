from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions
from rigctl.errors import PolicyError
from tests.core.conftest import make_history


def hill(x):
    return float(np.exp(-8 * (x[0] - 0.3) ** 2))


def tried(sets, costs, n=36):
    x = np.random.default_rng(0).random((n, 2))
    return make_history([(sets[t % len(sets)], x[t], hill(x[t]), costs[sets[t % len(sets)]]) for t in range(n)])


def test_the_cheapest_good_enough_set_is_recommended(problem):
    """Both a and a+b reach the top; a costs less, and its best setting is found."""
    found = recommend(problem, tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.1)
    assert found.choice.control_set == ("a",)
    assert found.choice.setpoints["a"] == pytest.approx(3.0, abs=0.2)
    assert found.choice.low <= found.choice.expected <= found.choice.high
    assert found.choice.expected == pytest.approx(1.0, abs=0.03)


def test_without_a_tolerance_the_best_is_recommended(problem):
    """Whatever it costs."""
    found = recommend(problem, tried((0, 1), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.0)
    assert found.choice.control_set == ("a",)


def test_what_was_never_played_is_not_recommended(problem):
    """A rough function is taken for a smooth and noisy one, which promises most where nothing was played.

    Twelve settings of a+b on a slope with ripples, one of them good: its neighbours say that it was luck, the model's
    slope goes on to the corner, and the corner is bad.
    """
    x = np.column_stack([np.linspace(0.05, 0.8, 12), np.full(12, 0.5)])
    y = 10 * x[:, 0] + 3 * np.cos(40 * x[:, 0])
    history = make_history([(2, at, value, 1.0) for at, value in zip(x, y.tolist(), strict=True)])
    found = recommend(
        replace(problem, model=ModelOptions(kernel="squared-exponential"), floor=None),
        history,
        trial_rng(0, 1),
        tolerance=0.0,
    )
    played = [problem.space.setpoints(2, at) for at in x.tolist()]
    assert found.choice.setpoints in played


def test_what_a_trial_measured_counts_whatever_it_controlled(problem):
    """The set of both was played once, and badly; where both happened to be right it is recommended all the same."""
    grid = np.stack(np.meshgrid([0.1, 0.4, 0.7, 1.0], [0.1, 0.4, 0.7, 1.0]), axis=-1).reshape(-1, 2)
    rows = [(0, at, 2.0 - 4 * np.abs(at - 0.7).sum(), 0.3) for at in grid]
    history = make_history([*rows, (2, (0.1, 0.1), -2.8, 1.0)])
    found = recommend(problem, history, trial_rng(0, 1), tolerance=0.0)
    assert found.choice.control_set == ("a", "b")
    assert found.choice.setpoints == pytest.approx(problem.space.setpoints(2, (0.7, 0.7)), abs=0.1)
    only = recommend(problem, make_history(rows), trial_rng(0, 1), tolerance=0.0)
    assert only.choice.control_set == ("a",)  # what was never tried is not run, but tried next
    alone = only.promising
    assert (alone.control_set, alone.trials, alone.cost_per_trial) == (("a", "b"), 0, None)


def test_where_no_trial_was_the_model_is_believed_only_if_it_promises_more(problem):
    """Between two slopes it recommends a setting that no trial was at, and says so; at a trial's own top it stays."""
    rows = [(0, (a, b), 1.0 - 2 * abs(a - 0.5), 0.3) for a in (0.1, 0.25, 0.75, 0.9) for b in (0.2, 0.5, 0.8)]
    steep = replace(
        problem, model=ModelOptions("fixed", lengthscales=(0.5, 1.0), signal_sd=1.0, noise_sd=0.02, mean=0.0)
    )
    between = recommend(steep, make_history(rows), trial_rng(0, 1), tolerance=0.0).choice
    assert 3.5 < between.setpoints["a"] < 6.5
    assert not between.tried
    at_the_top = [*rows, *((0, (0.5, b), 1.0, 0.3) for b in (0.2, 0.5, 0.8))]
    found = recommend(steep, make_history(at_the_top), trial_rng(0, 1), tolerance=0.0).choice
    assert (found.setpoints["a"], found.tried) == (pytest.approx(5.0), True)


def test_a_lucky_trial_is_not_the_best_supported(problem):
    """Of two settings with the same mean outcome the one played more often is recommended."""
    rows = [(0, (0.2, b), 1.0 + e, 0.3) for b, e in zip(np.linspace(0.1, 0.9, 8), [0.3, -0.3] * 4, strict=True)]
    rows += [(0, (0.9, 0.5), 1.02, 0.3), (0, (0.55, 0.2), 0.1, 0.3), (0, (0.55, 0.8), -0.1, 0.3)]
    found = recommend(problem, make_history(rows), trial_rng(0, 1), tolerance=0.0)
    assert found.choice.setpoints["a"] == pytest.approx(2.0, abs=0.1)


def test_alternatives_stand_beside_best_first(problem):
    """Beside the recommendation stand the other sets with what they cost."""
    found = recommend(problem, tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.1)
    both, only_b = found.alternatives
    assert [both.control_set, only_b.control_set] == [("a", "b"), ("b",)]
    assert (both.cost_per_trial, only_b.cost_per_trial) == (pytest.approx(1.0), pytest.approx(0.2))
    assert found.choice.expected - only_b.expected > 0.2


def test_minimising_turns_outcomes_around(problem):
    """With the outcome negated and minimised, the same is recommended, in the outcome's own units."""
    history = tried((0, 1, 2), (0.3, 0.2, 1.0))
    turned = History.of(replace(o, y=None if o.y is None else -o.y) for o in history.observations)
    up = recommend(problem, history, trial_rng(0, 1), tolerance=0.1)
    down = recommend(replace(problem, maximise=False, floor=-0.0), turned, trial_rng(0, 1), tolerance=0.1)
    assert down.choice.control_set == up.choice.control_set
    assert down.choice.expected == pytest.approx(-up.choice.expected)
    assert down.alternatives[1].expected == pytest.approx(-up.alternatives[1].expected)


def test_a_set_without_an_outcome_is_never_recommended(problem):
    """Failed trials and sets never tried tell nothing, however cheap they look."""
    history = tried((1, 2), (0.0, 0.2, 1.0))
    for trial in range(4):
        history = history.append(Observation(100 + trial, 0, None, None, to_micros(0.01)))
    found = recommend(problem, history, trial_rng(0, 1), tolerance=0.9)
    assert found.choice.control_set == ("b",)
    assert {o.control_set: o.trials for o in found.alternatives} == {("a", "b"): 18, ("a",): 4}


def test_estimated_costs_count_where_none_is_known(problem):
    """A set whose every cost was estimated is compared by what was charged, not as if it were free."""
    history = tried((0, 2), (0.3, 0.0, 1.0))
    estimated = History.of(replace(o, cost_known=o.control_set == 0) for o in history.observations)
    found = recommend(problem, estimated, trial_rng(0, 1), tolerance=0.3)
    assert found.choice.control_set == ("a",)
    assert found.alternatives[0].cost_per_trial == pytest.approx(1.0)


def test_outcomes_below_the_floor_are_no_reason_to_fail(problem):
    """A floor above everything seen still leaves the best set."""
    found = recommend(replace(problem, floor=50.0), tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.1)
    assert found.choice.control_set in {("a",), ("a", "b")}


def test_without_an_outcome_there_is_nothing_to_recommend(problem, golden):
    """An empty history is told, with the remedy."""
    with golden.raises(PolicyError):
        recommend(problem, History(), trial_rng(0, 1), tolerance=0.1)


def test_where_costs_depend_on_the_setting_the_recommended_one_is_priced(problem):
    """Not the mean of what was explored: a was tried where it is cheap, and is best where it is dear."""
    tried_at = [*np.linspace(0.05, 0.65, 14).tolist(), 0.97]
    rows = [(0, (v, 0.5), v, 0.2 + 5 * v**2) for v in tried_at]
    rows += [(1, (0.95, v), 0.95, 2.0) for v in np.linspace(0, 1, 8).tolist()]
    history = make_history(rows)
    per_setting = replace(problem, cost_model="per-setting", budget=to_micros(100))
    found = recommend(per_setting, history, trial_rng(0, 1), tolerance=0.0)
    options = {o.control_set: o for o in (found.choice, *found.alternatives)}
    price = options[("a",)].cost_per_trial
    at = options[("a",)].setpoints["a"] / 10.0
    assert price == pytest.approx(0.2 + 5 * at**2, rel=0.15)
    assert price > 1.5 * np.mean([o.cost / 1e6 for o in history.observations if o.control_set == 0])


def test_the_mean_cost_of_every_option_has_an_interval(problem):
    """It narrows as trials are added, has no width where costs never vary, and there is none without a trial."""
    rng, widths = np.random.default_rng(0), []
    for n in (6, 60):
        drawn = zip(rng.random(n).tolist(), rng.normal(1, 0.1, n).tolist(), strict=True)
        rows = [(0, (u, 0.5), hill((u,)), c) for u, c in drawn]
        rows += [(1, (0.5, 0.5), 0.1, 0.2)] * 4
        found = recommend(problem, make_history(rows), trial_rng(0, 1), tolerance=0.1)
        told = {o.control_set: (o.cost_low, o.cost_high) for o in (found.choice, *found.alternatives)}
        low, high = told[("a",)]
        assert low < 1.0 < high
        widths.append(high - low)
        assert told[("b",)] == (pytest.approx(0.2), pytest.approx(0.2))
        assert told[("a", "b")] == (None, None)
    assert widths[1] < 0.5 * widths[0]


def test_where_costs_depend_on_the_setting_so_does_their_interval(problem):
    """Where many trials were it is narrower than at a setting far from them."""
    rng = np.random.default_rng(1)
    x = np.append(rng.uniform(0.2, 0.4, 19), 0.95)
    rows = [(0, (u, 0.5), hill((u,)), 0.5 + u + 0.05 * float(rng.normal())) for u in x.tolist()]
    prices = Prices.of(replace(problem, cost_model="per-setting"), make_history(rows))
    (near, far) = (prices.interval(0, np.array([[u]]), 0.95) for u in (0.3, 0.7))
    assert near[0] < 0.8 < near[1]
    assert near[1] - near[0] < far[1] - far[0]
