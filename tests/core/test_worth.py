"""What control is worth, against averages over draws of what occurs by itself."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.advice.answer import answer_of
from rigctl.core.advice.answer_words import AnswerWords, advise
from rigctl.core.advice.recommend import recommend
from rigctl.core.asking import trial_rng
from rigctl.core.bounds.expectations import Expectations, difference, jointly, natural_nodes
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.marginals.families import Empirical, TruncatedNormal, Uniform
from rigctl.core.experiment.money import to_micros
from rigctl.core.experiment.problem import ModelOptions, Problem
from rigctl.core.experiment.space import Space, Variable
from rigctl.core.gp.model import fit_history
from tests.core.claims import unreadable

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
    """Two matter and one does not; of sets that differ by one variable alone its own cost is known."""
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


def test_a_variable_costs_what_it_does_beside_the_recommended_set():
    """What it costs beside other variables is an average only where it was not metered beside these."""
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
