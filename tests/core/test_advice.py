"""What is recommended, what control is worth, and what came of a trial; against Monte Carlo."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl import (
    Empirical,
    History,
    ModelOptions,
    Observation,
    PolicyError,
    Problem,
    Space,
    TruncatedNormal,
    Uniform,
    Variable,
    answer_of,
)
from rigctl.core.advice.aftermath import CameOf, Prediction, came_of, forecast, forecast_cost, told
from rigctl.core.advice.answer_words import AnswerWords, advise
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import Expectations, difference, jointly, natural_nodes
from rigctl.core.costs.fields import Prices
from rigctl.core.experiment.money import to_micros
from rigctl.core.gp.model import fit_history
from tests.core.claims import unreadable
from tests.core.conftest import make_history


def hill(x):
    return float(np.exp(-8 * (x[0] - 0.3) ** 2))


def tried(sets, costs, n=36):
    x = np.random.default_rng(0).random((n, 2))
    return make_history([(sets[t % len(sets)], x[t], hill(x[t]), costs[sets[t % len(sets)]]) for t in range(n)])


@pytest.mark.parametrize(("sets", "tolerance"), [((0, 1, 2), 0.1), ((0, 1), 0.0)])
def test_the_cheapest_good_enough_set_is_recommended(problem, sets, tolerance):
    """Both a and a+b reach the top, a costs less, and its best setting is found; without a tolerance it is the best."""
    found = recommend(problem, tried(sets, (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance)
    assert found.choice.control_set == ("a",)
    assert found.choice.setpoints["a"] == pytest.approx(3.0, abs=0.2)
    assert found.choice.low <= found.choice.expected <= found.choice.high
    assert found.choice.expected == pytest.approx(1.0, abs=0.03)


def test_what_was_never_played_is_not_recommended(problem):
    """A rough function is taken for a smooth and noisy one, which promises most where nothing was played.

    Twelve settings of a+b on a slope with ripples, one of them good: its neighbours say that it was luck, the model's
    slope goes on to the corner, and the corner is bad.
    """
    x = np.column_stack([np.linspace(0.05, 0.8, 12), np.full(12, 0.5)])
    y = 10 * x[:, 0] + 3 * np.cos(40 * x[:, 0])
    history = make_history([(2, at, value, 1.0) for at, value in zip(x, y.tolist(), strict=True)])
    rough = replace(problem, model=ModelOptions(kernel="squared-exponential"), floor=None)
    found = recommend(rough, history, trial_rng(0, 1), tolerance=0.0)
    played = [problem.space.setpoints(2, at) for at in x.tolist()]
    assert found.choice.setpoints in played


def test_what_a_trial_measured_counts_whatever_it_controlled(problem):
    """A set played once, and badly, is recommended where both were right; of equal means the one played more often."""
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
    rows = [(0, (0.2, b), 1.0 + e, 0.3) for b, e in zip(np.linspace(0.1, 0.9, 8), [0.3, -0.3] * 4, strict=True)]
    rows += [(0, (0.9, 0.5), 1.02, 0.3), (0, (0.55, 0.2), 0.1, 0.3), (0, (0.55, 0.8), -0.1, 0.3)]
    found = recommend(problem, make_history(rows), trial_rng(0, 1), tolerance=0.0)
    assert found.choice.setpoints["a"] == pytest.approx(2.0, abs=0.1)


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


def test_alternatives_stand_beside_best_first(problem):
    """The other sets with what they cost, also below the floor; minimised the same, in the outcome's own units."""
    found = recommend(problem, tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.1)
    both, only_b = found.alternatives
    assert [both.control_set, only_b.control_set] == [("a", "b"), ("b",)]
    assert (both.cost_per_trial, only_b.cost_per_trial) == (pytest.approx(1.0), pytest.approx(0.2))
    assert found.choice.expected - only_b.expected > 0.2
    found = recommend(replace(problem, floor=50.0), tried((0, 1, 2), (0.3, 0.2, 1.0)), trial_rng(0, 1), tolerance=0.1)
    assert found.choice.control_set in {("a",), ("a", "b")}
    history = tried((0, 1, 2), (0.3, 0.2, 1.0))
    turned = History.of(replace(o, y=None if o.y is None else -o.y) for o in history.observations)
    up = recommend(problem, history, trial_rng(0, 1), tolerance=0.1)
    down = recommend(replace(problem, maximise=False, floor=-0.0), turned, trial_rng(0, 1), tolerance=0.1)
    assert down.choice.control_set == up.choice.control_set
    assert down.choice.expected == pytest.approx(-up.choice.expected)
    assert down.alternatives[1].expected == pytest.approx(-up.alternatives[1].expected)


def test_a_set_without_an_outcome_is_never_recommended(problem):
    """Failed trials and sets never tried tell nothing; what was charged counts where every cost was estimated."""
    history = tried((1, 2), (0.0, 0.2, 1.0))
    for trial in range(4):
        history = history.append(Observation(100 + trial, 0, None, None, to_micros(0.01)))
    found = recommend(problem, history, trial_rng(0, 1), tolerance=0.9)
    assert found.choice.control_set == ("b",)
    assert {o.control_set: o.trials for o in found.alternatives} == {("a", "b"): 18, ("a",): 4}
    history = tried((0, 2), (0.3, 0.0, 1.0))
    estimated = History.of(replace(o, cost_known=o.control_set == 0) for o in history.observations)
    found = recommend(problem, estimated, trial_rng(0, 1), tolerance=0.3)
    assert found.choice.control_set == ("a",)
    assert found.alternatives[0].cost_per_trial == pytest.approx(1.0)


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
    """It narrows as trials are added, has no width where costs never vary, and is narrower where many trials were."""
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
    rng = np.random.default_rng(1)
    x = np.append(rng.uniform(0.2, 0.4, 19), 0.95)
    rows = [(0, (u, 0.5), hill((u,)), 0.5 + u + 0.05 * float(rng.normal())) for u in x.tolist()]
    prices = Prices.of(replace(problem, cost_model="per-setting"), make_history(rows))
    (near, far) = (prices.interval(0, np.array([[u]]), 0.95) for u in (0.3, 0.7))
    assert near[0] < 0.8 < near[1]
    assert near[1] - near[0] < far[1] - far[0]


MODEL = ModelOptions("fixed", lengthscales=(0.35, 0.5, 0.7), signal_sd=2.0, noise_sd=0.1, mean=5.0)
MATERN = replace(MODEL, kernel="matern-5/2")
SETS = (("a",), ("c",), ("a", "b"), ("a", "b", "c"))
COSTS = (0.4, 0.3, 0.7, 1.5)


def advised(found):
    say = AnswerWords(answer_of(found), "growth", "cm2", "EUR", {})
    return [line for one in advise(found, say) for line in (one.head, *one.more)]


def problem_of(model=MODEL, *, maximise=True, sets=SETS):
    marginals = {"a": Uniform(), "b": TruncatedNormal(0.4, 0.2), "c": Empirical((0.1, 0.25, 0.3, 0.8))}
    space = Space.of([Variable(n, "mM", 0.0, 10.0, m) for n, m in marginals.items()], sets)
    return Problem(space, to_micros(60), model=model, floor=0.0 if maximise else None, maximise=maximise)


def truth(x):
    return 4 + 3 * np.exp(-((x[..., 0] - 0.7) ** 2) / 0.1) + 1.5 * np.exp(-((x[..., 1] - 0.8) ** 2) / 0.2)


def history_of(problem, n=40, seed=0, sets=4):
    rng = np.random.default_rng(seed)
    x = natural_nodes(problem.space, n, rng)
    rows = []
    for t in range(n):
        members = list(problem.space.control_sets[t % sets].indices)
        x[t, members] = rng.random(len(members))
        y = float(truth(x[t])) + 0.1 * float(rng.standard_normal())
        at = tuple(float(v) for v in x[t])
        rows.append(Observation(t + 1, t % sets, at, y if problem.maximise else -y, to_micros(COSTS[t % sets])))
    return History.of(rows)


def averaged(posterior, nodes, one, other):
    """Mean of one way, and covariance of two, by averaging the process over pairs of draws."""
    first, second = nodes.copy(), nodes[np.random.default_rng(1).permutation(len(nodes))]
    first[:, list(one)] = list(one.values())
    second = second.copy()
    second[:, list(other)] = list(other.values())
    h = posterior.hyperparameters
    prior = h.signal_variance * np.mean([h.product_kernel.to(second).matrix(r[None]).mean() for r in first[:1500]])
    white = [posterior.whiten(posterior.covariance(side).mean(axis=0)[None])[0] for side in (first, second)]
    return float(posterior.mean(first).mean()), float(h.y_scale**2 * (prior - white[0] @ white[1]))


@pytest.mark.slow
@pytest.mark.parametrize("model", [MODEL, MATERN], ids=["se", "matern"])
@pytest.mark.parametrize(
    ("one", "other"), [({}, {}), ({}, {0: 0.7}), ({0: 0.7}, {1: 0.2, 2: 0.3}), ({1: 0.9}, {1: 0.4})]
)
def test_the_joint_posterior_is_that_of_averages_over_nature(model, one, other):
    """Of nothing held, one variable, several: mean and covariance agree with Monte Carlo to a hundredth of the sd."""
    problem = problem_of(model)
    posterior = fit_history(problem, history_of(problem)).posterior
    mean, covariance = jointly(posterior, problem.space, [one, other])
    nodes = natural_nodes(problem.space, 4096, np.random.default_rng(3))
    expected, crossed = averaged(posterior, nodes, one, other)
    assert mean[0] == pytest.approx(expected, abs=0.02)
    assert covariance[0, 1] == pytest.approx(crossed, abs=0.01 * model.signal_sd**2)
    assert np.linalg.eigvalsh(covariance).min() > -1e-9


def test_for_allowed_control_sets_it_is_what_decisions_are_made_by():
    """Means and spreads are those of the expectations that policies use; so is a difference with itself."""
    problem = problem_of()
    posterior = fit_history(problem, history_of(problem)).posterior
    ways = [{0: 0.3}, {2: 0.6}, {0: 0.5, 1: 0.1}, {0: 0.2, 1: 0.9, 2: 0.4}]
    mean, covariance = jointly(posterior, problem.space, ways)
    points = np.full((4, 3), 0.5)
    for row, way in enumerate(ways):
        points[row, list(way)] = list(way.values())
    told = Expectations.of(posterior, problem.space).values(points, np.arange(4))
    assert mean == pytest.approx(told[0], rel=1e-9)
    assert np.sqrt(covariance.diagonal()) == pytest.approx(told[1], rel=1e-6)
    assert difference(mean, covariance, 2, 2) == pytest.approx((0.0, 0.0), abs=1e-6)


@pytest.mark.parametrize("maximise", [True, False])
def test_every_recommendation_stands_beside_leaving_everything_alone(maximise):
    """Expected under what occurs by itself, though never played and no allowed set; and against all, and today."""
    problem = problem_of(replace(MODEL, mean=5.0 if maximise else -5.0), maximise=maximise)
    history = history_of(problem, 60)
    found = recommend(problem, history, trial_rng(0, 1), 0.2, today={"b": 2.0}, floor_cost=0.1)
    nothing, everything, today = found.worth.references
    assert [r.what for r in found.worth.references] == ["nothing", "everything", "today"]
    nodes = natural_nodes(problem.space, 4096, np.random.default_rng(3))
    sign = 1 if maximise else -1
    at = {"nothing": {}, "today": {1: 0.2}}
    for reference in (nothing, today):
        posterior = fit_history(problem, history).posterior
        held = nodes.copy()
        held[:, list(at[reference.what])] = list(at[reference.what].values())
        assert reference.expected == pytest.approx(sign * posterior.mean(held).mean(), abs=0.01)
        assert reference.low <= sign * truth(held).mean() <= reference.high
        assert reference.trials == 0
        assert (reference.cost_per_trial, reference.cost_at_least) == (None, 0.1)
        assert reference.gain.expected == pytest.approx(sign * (found.choice.expected - reference.expected))
    assert everything.trials == 15
    assert everything.trials
    assert everything.cost_per_trial == pytest.approx(1.5)
    assert everything.setpoints == {o.control_set: o for o in found.alternatives}[("a", "b", "c")].setpoints
    assert today.setpoints == pytest.approx({"b": 2.0})


def test_a_dearer_way_pays_from_its_price_per_outcome_on(golden):
    """1.20 EUR a trial that buys 18 cm2/day is worth it from 0.067 EUR a cm2/day on; a cheaper way pays below that."""
    problem = problem_of()
    found = recommend(problem, history_of(problem, 60), trial_rng(0, 1), 0.2, floor_cost=0.1)
    answer = answer_of(found)
    assert answer.run.control_set == ("a",)
    ways = {way.control_set: way for way in answer.ways}
    both, nothing = ways[("a", "b")], ways[()]
    for way in (both, nothing):
        dearer, cheaper = sorted((way, answer.run), key=lambda w: -w.cost)
        assert way.pays_at == pytest.approx((dearer.cost - cheaper.cost) / (dearer.expected - cheaper.expected))
    assert both.pays_at == pytest.approx(0.3 / (both.expected - answer.run.expected))
    golden(advised(found))  # "metered" would be wrong at a bench by hand


def test_each_variable_is_told_whether_controlling_it_does_something():
    """Two matter and one does not; of sets that differ by one variable alone its own cost is known, else an average."""
    problem = problem_of()
    found = recommend(problem, history_of(problem, 80), trial_rng(0, 1), 0.2)
    a, b, c = found.worth.lessons
    assert (a.effect, b.effect, c.effect) == ("better", "better", "unclear")
    assert (a.controlled, b.controlled, c.controlled) == (True, False, False)
    assert (a.extra_cost, b.extra_cost, c.extra_cost) == (None, pytest.approx(0.3), pytest.approx(0.8))
    nodes = natural_nodes(problem.space, 4096, np.random.default_rng(3))
    held = nodes.copy()
    held[:, 0] = found.choice.setpoints["a"] / 10
    assert a.gain.low <= truth(held).mean() - truth(nodes).mean() <= a.gain.high
    problem = problem_of(sets=(("a",), ("a", "b"), ("c",), ("b", "c")))
    found = recommend(problem, history_of(problem, 80), trial_rng(0, 1), 0.2)  # at 0.4, 0.3, 0.7 and 1.5
    lessons = {lesson.variable: lesson.extra_cost for lesson in found.worth.lessons}
    assert "a" in found.choice.control_set
    assert lessons["b"] == pytest.approx(-0.1)
    assert lessons["a"] is None


@pytest.mark.parametrize("seed", range(6))
def test_everybody_can_read_a_recommendation(seed):
    """Whatever is recommended, with and without costs: no sentence of more than 20 words, no term of the trade."""
    problem = problem_of(maximise=bool(seed % 2))
    history = history_of(problem, 12 + 8 * seed, seed, sets=4 - seed % 2)
    found = recommend(problem, history, trial_rng(0, 1), 0.1 * seed, today={} if seed % 3 else {"c": 3.0})
    for line in advised(found):
        assert not unreadable(line), line


def test_little_seen_is_called_a_guess(golden):
    """Where trials have told little of what occurs by itself, the reference says so."""
    problem = problem_of(replace(MODEL, lengthscales=(0.05, 0.05, 0.05)))
    found = recommend(problem, history_of(problem, 6), trial_rng(0, 1), 0.2)
    assert found.worth.references[0].seen < 0.5
    lines = advised(found)
    golden(lines)


NATURE = TruncatedNormal(0.4, 0.2)


def left_alone(problem):
    """The problem with a second variable that varies by a truncated normal."""
    a, b = problem.space.variables
    space = replace(problem.space, variables=(a, replace(b, marginal=NATURE)))
    return replace(problem, space=space, model=replace(problem.model, noise_sd=0.1))


def drawn_history(problem, rng, n):
    """Trials, and the outcome of one more, of a function drawn from the model's own prior."""
    x = rng.random((n + 1, 2))
    x[:, 1] = NATURE.quantile(rng.random(n + 1))
    h = fit_history(problem, History()).hyperparameters
    covariance = h.signal_variance * h.product_kernel.to(x).matrix(x) + h.noise_sd**2 * np.eye(n + 1)
    y = np.linalg.cholesky(covariance) @ rng.standard_normal(n + 1)
    return make_history([(0, x[t], float(y[t]), 0.3) for t in range(n)]), float(x[n, 0]), float(y[n])


@pytest.mark.slow
def test_nineteen_of_twenty_trials_come_within_what_was_expected(problem):
    """Functions drawn from the model, one variable left alone, noise: the range holds 95 %, and z is standard."""
    problem, rng, z = left_alone(problem), np.random.default_rng(0), []
    within = 0
    for _ in range(600):
        history, at, y = drawn_history(problem, rng, 6)
        expected = forecast(problem, history, None, 0, (at,))
        within += expected.verdict(y) == "within"
        z.append((y - expected.mean) / expected.sd)
    assert within / 600 == pytest.approx(0.95, abs=0.025)
    assert np.std(z) == pytest.approx(1.0, abs=0.1)
    assert np.mean(z) == pytest.approx(0.0, abs=0.1)


def test_the_spread_of_one_trial_is_more_than_that_of_its_mean(problem):
    """What is left alone and noise belong to it: Monte Carlo over both agrees."""
    problem = left_alone(problem)
    history, at, _ = drawn_history(problem, np.random.default_rng(1), 12)
    expected = forecast(problem, history, None, 0, (at,))
    posterior, rng = fit_history(problem, history).posterior, np.random.default_rng(2)
    x = np.column_stack([np.full(20_000, at), NATURE.quantile(rng.random(20_000))])
    y = posterior.mean(x) + posterior.sd(x) * rng.standard_normal(len(x)) + 0.1 * rng.standard_normal(len(x))
    assert expected.mean == pytest.approx(y.mean(), abs=0.02)
    assert expected.sd == pytest.approx(y.std(), rel=0.03)
    down = replace(problem, maximise=False)
    turned = History.of(replace(o, y=-o.y) for o in history.observations)
    assert forecast(down, turned, None, 0, (at,)).mean == pytest.approx(-expected.mean)


def test_nothing_is_expected_before_anything_is_known(problem, golden):
    """Of outcome or cost while there is none; then the mean, and the most that the budget counts with."""
    learned = replace(problem, model=replace(problem.model, hyperparameters="learned"))
    assert forecast(learned, History(), None, 0, (0.5,)) is None
    assert forecast_cost(learned, History(), 0, (0.5,)) is None
    found = came_of(learned, History(), None, 0, (0.5,), outcome=3.0, cost=0.5)
    lines = told(found, outcome="growth", unit="cm2", currency="EUR")
    golden(lines)
    history = make_history([(0, (0.5, 0.5), 1.0, cost) for cost in (0.3, 0.32, 0.28, 0.3)])
    expected = forecast_cost(problem, history, 0, (0.5,))
    assert expected.mean == pytest.approx(0.3)
    assert 2 < (expected.high - 0.3) / np.std([0.3, 0.32, 0.28, 0.3], ddof=1) < 4.5
    assert [expected.verdict(c) for c in (0.2, 0.31, 0.4)] == ["below", "within", "above"]


@pytest.mark.parametrize(
    ("outcome", "cost", "lines"),
    [
        (13.4, 0.69, ("growth was 13.40 cm2: within the 12.80 to 14.00 expected of one trial.",
                      "It cost 0.69 EUR, as expected (0.65, at most 0.82).")),
        (11.0, 0.9, ("growth was 11.00 cm2: below the 12.80 to 14.00 expected of one trial.",
                     "It cost 0.9 EUR, more than expected (0.65, at most 0.82).")),
        (None, 0.1, ("It gave no outcome.", "It cost 0.1 EUR, less than expected (0.65, at most 0.82).")),
    ],
)  # fmt: skip
def test_what_came_of_it_is_told_plainly(outcome, cost, lines):
    """Above, below or within, for outcome and cost."""
    found = CameOf(outcome, Prediction(13.4, 0.306, 12.8, 14.0), cost, Prediction(0.65, 0.085, 0.48, 0.82))
    said = told(found, outcome="growth", unit="cm2", currency="EUR")
    assert said == lines
    assert not any(unreadable(line) for line in said)
