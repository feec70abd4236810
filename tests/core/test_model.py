"""From a history to a posterior, as one trial follows the other."""

from dataclasses import replace

import numpy as np
import pytest

from rigctl.core.asking import trial_rng
from rigctl.core.experiment.history import History, Observation
from rigctl.core.experiment.problem import ModelOptions, sign, value_floor, values
from rigctl.core.gp import model as surrogate_model
from rigctl.core.gp.model import fit_history
from rigctl.core.policies.explore_then_commit import ExploreThenCommit
from tests.core.conftest import make_history
from tests.profiles import slow_beyond


def outcome(x):
    return float(np.sin(5 * x[0]) + x[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    slow_beyond(
        1,
        [
            ModelOptions(max_points=50, kernel="squared-exponential"),
            ModelOptions(max_points=50, bounds="pointwise", nodes=8, kernel="squared-exponential"),
        ],
    ),
)
def test_a_decision_depends_on_the_history_and_not_on_how_it_came(problem, model):
    """A campaign of 80 trials decides every time, bit for bit, as a process that has just read the journal."""
    problem = replace(problem, model=model, budget=10**12)
    policy = ExploreThenCommit()
    rng = np.random.default_rng(0)
    known = rng.random((40, 2))
    history = History.of(Observation(t, t % 3, tuple(x), outcome(x), 10**6) for t, x in enumerate(known, start=1))
    state = policy.initial_state(problem)
    for t in range(41, 81):
        decided = policy.propose(state, problem, history, trial_rng(3, t))
        fresh = policy.propose(state, problem, History.of(history.observations), trial_rng(3, t))
        assert decided == fresh
        proposal, state = decided
        x = rng.random(2)
        x[list(problem.space.control_sets[proposal.control_set].indices)] = proposal.setting
        history = history.append(Observation(t, proposal.control_set, tuple(x), outcome(x), 10**6))


def test_what_is_kept_between_trials_is_used(problem):
    """The second look takes over the factor of the first; fixed hyper-parameters are not remembered as if fitted."""
    rows = [Observation(t, 0, tuple(x), outcome(x), 1) for t, x in enumerate(np.random.default_rng(1).random((9, 2)))]
    history = History.of(rows)
    first = fit_history(problem, history)
    assert fit_history(problem, history).posterior.L is first.posterior.L
    other = replace(problem, model=replace(problem.model, noise_sd=0.3))
    assert fit_history(other, history).posterior.L is not first.posterior.L
    assert fit_history(problem, history).posterior.L is first.posterior.L
    first = fit_history(problem, grown(4))
    later = fit_history(problem, grown(30), first.hyperparameters, first.fitted_at)
    assert (first.fitted_at, later.fitted_at, first.refitted, later.refitted) == (0, 0, False, False)


LEARNED = ModelOptions(hyperparameters="learned", kernel="squared-exponential")


def grown(n):
    points = np.random.default_rng(2).random((40, 2))[:n]
    return History.of(Observation(t, 0, tuple(x), outcome(x), 1) for t, x in enumerate(points, start=1))


@pytest.mark.parametrize(
    ("fitted_at", "n", "due"),
    [(4, 4, False), (4, 5, True), (8, 9, False), (8, 10, True), (20, 24, False), (20, 25, True)],
)
def test_hyper_parameters_are_learned_again_when_the_data_have_grown_by_a_quarter(problem, fitted_at, n, due):
    """At a quarter more, not one trial sooner; how many there were is remembered then, and that bounds have moved."""
    problem = replace(problem, model=LEARNED)
    first = fit_history(problem, grown(fitted_at))
    assert (first.fitted_at, first.refitted) == (fitted_at, False)
    then = fit_history(problem, grown(n), first.hyperparameters, first.fitted_at)
    assert then.fitted_at == (n if due else fitted_at)
    assert then.refitted == due == (then.hyperparameters != first.hyperparameters)


def test_the_first_trial_of_all_is_a_quarter_more_than_none(problem):
    """Hyper-parameters from before any trial know no scale, so they are fitted again with the first outcome."""
    problem = replace(problem, model=LEARNED)
    nothing = fit_history(problem, History())
    assert nothing.fitted_at == 0
    assert fit_history(problem, History(), nothing.hyperparameters, 0).fitted_at == 0
    first = fit_history(problem, grown(1), nothing.hyperparameters, 0)
    assert first.fitted_at == 1
    assert first.hyperparameters.y_shift == grown(1).complete[0].y
    assert fit_history(problem, grown(2), first.hyperparameters, 1).fitted_at == 2


def needle(n):
    """So many trials: forty on a plain that hardly rises, all others on a peak that nothing foretold."""
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(0.0, 0.8, (40, 2)), rng.uniform(0.9, 1.0, (20, 2))])[:n]
    y = 0.02 * x[:, 0] + 0.005 * rng.standard_normal(n) + 4.0 * np.exp(-np.square(x - 0.95).sum(axis=1) / 0.005)
    return History.of(
        Observation(t, 0, tuple(row), float(v), 1) for t, (row, v) in enumerate(zip(x, y, strict=True), start=1)
    )


def fitted_after(problem, trials):
    """After which trials hyper-parameters are fitted, as a campaign would."""
    then, when = fit_history(problem, needle(trials[0])), []
    for n in trials[1:]:
        then = fit_history(problem, needle(n), then.hyperparameters, then.fitted_at)
        when += [n] if then.fitted_at == n else []
    return when, then


@pytest.mark.slow
@pytest.mark.parametrize(("few", "first"), [(40, 44), (41, 41)])
def test_hyper_parameters_that_call_an_outcome_impossible_are_learned_again_at_once(problem, monkeypatch, few, first):
    """Of few outcomes with the first that they contradict, of more as soon as three others were no change."""
    monkeypatch.setattr(surrogate_model, "FEW", few)
    problem = replace(problem, model=LEARNED)
    when, then = fitted_after(problem, range(40, 49))
    assert when[0] == first
    assert then.hyperparameters.y_scale > 10 * fit_history(problem, needle(40)).hyperparameters.y_scale


@pytest.mark.slow
def test_one_strange_outcome_after_another_puts_no_fit_off_for_ever(problem):
    """It is due with the fiftieth; a response that is nothing but new to the model has it fitted sooner, not later."""
    climbing = [Observation(t, 0, (t / 61, 0.5), 2.0 ** max(0, t - 40) + t % 3, 1) for t in range(1, 61)]
    problem = replace(problem, model=LEARNED)
    then, when = fit_history(problem, History.of(climbing[:40])), []
    for n in range(41, 61):
        then = fit_history(problem, History.of(climbing[:n]), then.hyperparameters, then.fitted_at)
        when += [n] if then.fitted_at == n else []
    assert when[0] <= 46
    assert np.diff(when).max() <= 8


def test_what_is_minimised_is_turned_and_so_are_its_mean_and_its_floor(problem):
    """A value is the outcome with its sign turned: the model of -y has the mean -m, and its worst is the largest y."""
    turned = replace(problem, maximise=False, floor=None, model=replace(problem.model, mean=5.0))
    history = make_history([(0, (0.1, 0.1), 3.0, 0.1), (0, (0.9, 0.9), 7.0, 0.1)])
    assert (sign(problem), sign(turned)) == (1.0, -1.0)
    assert values(turned, history).tolist() == [-3.0, -7.0]
    far = fit_history(turned, history).posterior.mean(np.array([[50.0, 50.0]]))[0]
    assert far == pytest.approx(-5.0)
    upright = replace(problem, model=replace(problem.model, mean=5.0))
    assert fit_history(upright, history).posterior.mean(np.array([[50.0, 50.0]]))[0] == pytest.approx(5.0)
    assert value_floor(turned, history) == -7.0


@pytest.mark.parametrize(
    ("maximise", "floor", "outcomes", "worst"),
    [
        (True, 2.0, (3.0, 7.0), 2.0),
        (True, 4.0, (3.0, 7.0), 3.0),
        (False, 9.0, (3.0, 7.0), -9.0),
        (False, 5.0, (3.0, 7.0), -7.0),
        (True, None, (3.0, 7.0), 3.0),
        (True, None, (), 0.0),
        (True, -2.0, (), -2.0),
        (False, None, (), 0.0),
    ],
)
def test_the_floor_is_the_worst_that_was_configured_or_seen(problem, maximise, floor, outcomes, worst):
    """A configured one holds until an outcome lies below it; with nothing seen and nothing configured it is zero."""
    problem = replace(problem, maximise=maximise, floor=floor)
    assert value_floor(problem, make_history([(0, (0.5, 0.5), y, 0.1) for y in outcomes])) == worst
